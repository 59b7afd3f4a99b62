"""Worlds of parametrized tests, run on all cores before their tests ask for them.

A module gives its worlds with `in_processes`: for each test function, the function that simulates its world. The first test
that runs starts the worlds of all selected tests of the module, each in a worker process, and each test waits for its own.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

import pytest

from tests.simulator.many import alone_in, workers
from tests.simulator.simulation import Result

World = Callable[..., Result]
Ahead = Callable[[], Result]


def in_processes(worlds: Mapping[str, World]) -> Callable[..., Iterator[Ahead]]:
    """A fixture, which gives a test a function that returns the result of the test's world.

    `worlds`: name of a test function -> what simulates its world, a function of the module that takes the test's parameters.
    """
    futures: dict[str, Future[Result]] = {}
    """Id of a test -> its world. Empty until the first test of the module runs."""

    @pytest.fixture
    def ahead(request: pytest.FixtureRequest) -> Iterator[Ahead]:
        if not futures:
            pool = workers()
            request.session.config.add_cleanup(lambda: pool.shutdown(cancel_futures=True))
            for item in request.session.items:
                if isinstance(item, pytest.Function) and item.module is request.module and item.originalname in worlds:
                    futures[item.nodeid] = pool.submit(alone_in, worlds[item.originalname], **item.callspec.params)
        yield futures[request.node.nodeid].result

    return ahead
