"""What takes minutes of computing is begun before the first test, and done while other tests wait for nodes and clients.

`@pytest.mark.early(function, arguments)`: the fixture `begun` of that test has a future for each argument, in their order.
"""

from concurrent.futures import Future
from typing import Any

import pytest

from tests.simulator.many import workers

BEGUN = pytest.StashKey[list[Future[Any]]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    marks = [(item, mark) for item in session.items if (mark := item.get_closest_marker("early")) is not None]
    if not marks or session.config.option.collectonly:
        return
    pool = workers(yielding=True)
    session.config.add_cleanup(lambda: pool.shutdown(cancel_futures=True))
    for item, mark in marks:
        function, arguments = mark.args
        item.stash[BEGUN] = [pool.submit(function, argument) for argument in arguments]


@pytest.fixture
def begun(request: pytest.FixtureRequest) -> list[Future[Any]]:
    found: list[Future[Any]] = request.node.stash[BEGUN]
    return found
