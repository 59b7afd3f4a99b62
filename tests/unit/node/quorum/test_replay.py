"""A role that has enough for a turn gets the rest of the log in the next ones, in order and each batch once."""

from types import SimpleNamespace
from typing import Any

from actors.node.quorum.replay import Replay
from actors.ports import Batch

BATCHES = [Batch(2 * number, 2 * number + 1, 1, b"x" * 100) for number in range(10)]


class Role:
    """A role that takes so many batches in a turn."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.seen: list[int] = []
        self.told: list[int] = []
        self.of_turn = 0

    @property
    def full(self) -> bool:
        return self.of_turn >= self.most

    def replay(self, batch: Batch) -> None:
        self.seen.append(batch.base_offset)
        self.of_turn += 1

    def committed(self, high_watermark: int) -> None:
        self.told.append(high_watermark)


def replayed(
    roles: list[Role], high_watermark: int, batches: list[Batch] = BATCHES, at_once: int = 3
) -> tuple[Any, list[bool]]:
    """Turns until nothing is left; whether each left something. `at_once`: how many batches a read gives."""
    log = SimpleNamespace(read=lambda start, size: [one for one in batches if one.base_offset >= start][:at_once])
    woken: list[int] = []
    replay: Any = Replay(SimpleNamespace(waiting=SimpleNamespace(committed=woken.append)), SimpleNamespace(log=log))  # type: ignore[arg-type]
    replay.roles = roles
    behind = []
    while True:
        for role in roles:
            role.of_turn = 0
        replay.run(high_watermark)
        behind.append(replay.behind)
        if not replay.behind:
            assert woken == roles[0].told, "who waits for an offset hears of each step"
            return replay, behind


def test_a_turn_ends_with_the_batch_that_makes_a_role_full() -> None:
    role, other = Role(4), Role(99)
    replay, behind = replayed([other, role], 20)
    assert role.seen == other.seen == [one.base_offset for one in BATCHES]
    assert role.told == other.told == [8, 16, 20]
    assert behind == [True, True, False] and replay.applied == 20


def test_a_batch_that_is_too_much_by_itself_is_replayed_all_the_same() -> None:
    role = Role(0)
    _, behind = replayed([role], 6)
    assert role.seen == [0, 2, 4] and behind == [True, True, False]


def test_a_role_that_is_full_with_the_last_batch_leaves_nothing() -> None:
    role = Role(3)
    _, behind = replayed([role], 6)
    assert role.seen == [0, 2, 4] and behind == [False]


def test_a_turn_ends_where_others_have_waited_long_enough() -> None:
    """A record of metadata has some 30 bytes: half a megabyte of them takes ten milliseconds."""
    each = 1 << 18
    batches = [Batch(2 * number, 2 * number + 1, 1, bytes(each)) for number in range(9)]
    role = Role(99)
    _, behind = replayed([role], 18, batches, at_once=1)
    assert role.told == [4, 8, 12, 16, 18] and behind == [True] * 4 + [False]
