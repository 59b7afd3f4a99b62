"""Objects that live long are set aside when looking at them has taken long."""

import gc
import subprocess
import sys

from actors.host.work.garbage import LONG_NS, LongLooks


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def look(looks: LongLooks, clock: Clock, generation: int, took_ns: int) -> None:
    looks("start", {"generation": generation})
    clock.now_ns += took_ns
    looks("stop", {"generation": generation})


def test_only_a_long_look_at_the_oldest_sets_aside_what_it_leaves() -> None:
    clock, frozen = Clock(), list[int]()
    looks = LongLooks(clock, lambda: frozen.append(clock.now_ns))
    look(looks, clock, 2, LONG_NS - 1)
    look(looks, clock, 1, LONG_NS)
    look(looks, clock, 0, LONG_NS)
    assert not frozen
    look(looks, clock, 2, LONG_NS)
    assert len(frozen) == 1
    look(looks, clock, 2, LONG_NS - 1)
    assert len(frozen) == 1, "each look counts for itself"


GROWS = """
import gc, time
from actors.host.work import garbage
garbage.set_aside(); garbage.set_aside()
assert sum(isinstance(one, garbage.LongLooks) for one in gc.callbacks) == 1
begun = gc.get_freeze_count()
gc.disable()
kept = [[number] for number in range(1_500_000)]
gc.collect()
now = gc.get_freeze_count()
assert now >= begun + 1_400_000, (begun, now)
gc.collect()
assert gc.get_freeze_count() == now, "nothing has come, so a look is short"
del kept
"""


def test_what_a_process_grows_by_is_looked_at_once() -> None:
    subprocess.run([sys.executable, "-c", GROWS], check=True, timeout=120)
    assert not any(isinstance(one, LongLooks) for one in gc.callbacks), "a process of tests is left as it is"
