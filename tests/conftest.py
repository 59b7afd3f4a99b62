"""Options of the whole suite, and which tests run beside each other (`make test` has a pytest-xdist worker for each core).

Rules:

1. Tests of real nodes are one group: a worker runs them one after the other, as their clusters need a core by themselves.
2. Any other file is a group too, so that its fixtures are made once; but a test of the simulator runs where there is time.
3. A worker that computes yields to nodes and clients, which would otherwise look slow to each other.
"""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
NODES = "nodes"
NICENESS = 19

settings.register_profile("rayft", deadline=None)  # a busy machine is no failure
settings.load_profile("rayft")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="put the present output into the transcripts")


def pytest_itemcollected(item: pytest.Item) -> None:
    place = item.path.relative_to(TESTS)
    if place.parts[0] != "simulator":
        group = NODES if place.parts[0] == "integration" else str(place)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    group = item.get_closest_marker("xdist_group")
    if "PYTEST_XDIST_WORKER" in os.environ and (group is None or group.args[0] != NODES):
        _yield_to_others()


def _yield_to_others() -> None:
    """For good: no worker gets tests of nodes after others, as their group is given out first."""
    if os.nice(0) == NICENESS:
        return
    os.nice(NICENESS)
    with suppress(OSError):
        os.setsid()  # Linux compares sessions first
        with open("/proc/self/autogroup", "w") as group:
            group.write(str(NICENESS))


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be rewritten."""
    return bool(request.config.getoption("--rewrite"))
