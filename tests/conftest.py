"""Options of the whole suite, and which tests run beside each other (`make test` has a pytest-xdist worker more than cores).

Rules:

1. Tests of real nodes are two groups: a worker runs those of a group one after the other. They wait more than they compute,
   so that two groups and a worker that computes fill two cores.
2. Any other file is a group too, so that its fixtures are made once; but a test of the simulator runs where there is time,
   and all tests of the replay run on one worker, as they share a session of Spark.
3. A step of a handler that goes on behind the end of its slice fails the test in which it does.
4. A worker that computes yields to nodes and clients, which would otherwise look slow to each other.
5. A test leaves no thread behind: what it still did would be measured as the doing of the tests after it.
6. What a run has started ends with it, also where it is killed (`leavings.py`).
7. The garbage collector goes through what tests make, and not through all that was there before the first one. A test leaves
   it as it was: what it calls back, and how it is set, would be another test's.
"""

import gc
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings

from tests import leavings

NODES = "tests/integration/"
FIRST_NODES = re.compile(r"tests/integration/[a-i]\w*/")
"""The folders of the first group of tests of real nodes; the others are the second, which takes about as long."""
WORLDS = "tests/simulator/"
REPLAY = "tests/unit/replay/"
NICENESS = 19
QUICK_EXAMPLES = 25
THREADS_END_S = 10
"""How long the threads of a test may need to end."""

settings.register_profile("rayft", deadline=None)  # a busy machine is no failure
settings.register_profile("quick", deadline=None, max_examples=QUICK_EXAMPLES)  # of `make check`
settings.load_profile("rayft")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="put the present output into the transcripts")


def pytest_configure() -> None:
    leavings.watch()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests stay to the end. Each full collection would take half a second for them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def group(nodeid: str) -> str:
    """The name of a test's group."""
    if nodeid.startswith(NODES):
        return f"{NODES} {1 if FIRST_NODES.match(nodeid) else 2}"
    if nodeid.startswith(REPLAY):
        return REPLAY
    return nodeid if nodeid.startswith(WORLDS) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """As many workers as cores and one: tests of real nodes wait most of their time."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    config.option.loadscopereorder = False  # nodes come first
    return Groups(config, log)


@pytest.fixture(autouse=True)
def no_step_overruns() -> Iterator[None]:
    """No step of a handler goes on behind the end of its slice, by what it counts, in whatever test it runs."""
    yield
    steps = sys.modules.get("actors.node.runtime.steps")
    if steps is not None and steps.COUNTED.overruns:
        found = dict(steps.COUNTED.overruns)
        steps.COUNTED.overruns.clear()
        pytest.fail(f"steps counted more than a slice before they gave it up: {found}")


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """The threads that a test has started end with it."""
    before = set(threading.enumerate())
    yield
    end = time.monotonic() + THREADS_END_S
    while left := [one for one in threading.enumerate() if one not in before]:
        if time.monotonic() > end:
            pytest.fail(f"threads go on after their test: {', '.join(map(str, left))}")
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def collector_as_it_was() -> Iterator[None]:
    """The garbage collector of this process is nobody's own."""

    def state() -> tuple[Any, ...]:
        ours = [one for one in gc.callbacks if type(one).__module__.startswith("actors.")]
        return ours, gc.isenabled(), gc.get_debug(), gc.get_threshold()

    before = state()
    yield
    if (after := state()) != before:
        for one in after[0][len(before[0]) :]:
            gc.callbacks.remove(one)
        gc.enable()
        gc.set_debug(before[2])
        gc.set_threshold(*before[3])
        pytest.fail(f"the garbage collector is left with {after}, and had {before}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and not item.nodeid.startswith(NODES):
        _yield_to_others()


def _yield_to_others() -> None:
    """For good: no worker gets tests of nodes after others, as their groups are given out first."""
    if os.nice(0) == NICENESS:
        return
    os.nice(NICENESS)
    with suppress(OSError):
        os.setsid()  # Linux compares sessions first
        with open("/proc/self/autogroup", "w") as file:
            file.write(str(NICENESS))


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be rewritten."""
    return bool(request.config.getoption("--rewrite"))
