"""Histories made by hand: a correct one, and one for each kind of problem, which must be reported as that and as no
other."""

import copy
from collections.abc import Callable

import pytest

from tests.integration.faults.checker import check
from tests.integration.faults.history import History, Origin, Seen, Told, origin, value

A, B = "a", "b"


def right() -> History:
    """Two producers, two partitions. Records 3 and 4 of producer a have an end unknown to the client; 3 is in the log,
    4 is not."""
    log = [
        Seen(0, 0, value(A, 0, 0)),
        Seen(0, 1, value(B, 0, 0)),
        Seen(0, 2, value(A, 2, 0)),
        Seen(0, 4, value(A, 3, 0)),
        Seen(1, 0, value(A, 1, 1)),
        Seen(1, 1, value(B, 1, 1)),
    ]
    history = History(sent={value(p, n, part): part for p, n, part in
                            ((A, 0, 0), (A, 1, 1), (A, 2, 0), (A, 3, 0), (A, 4, 1), (B, 0, 0), (B, 1, 1))})  # fmt: skip
    history.acknowledged = [seen for seen in log if seen.value != value(A, 3, 0)]
    history.unknown = {value(A, 3, 0): "timed out", value(A, 4, 1): "timed out"}
    history.read["one"] = log[:3] + log[4:]
    history.read["two"] = list(log)
    history.consumed = [*log, log[0], log[4]]
    history.committed, history.committed_at_end = {0: 3, 1: 2}, {0: 5, 1: 2}
    history.told = [Told(0, -1001, -1), Told(0, 3, 3), Told(1, 2, -1)]
    history.created, history.deleted, history.topics_at_end = {"kept"}, {"gone"}, {"kept", "perhaps"}
    history.final = log
    return history


def test_a_right_history_is_clean() -> None:
    verdict = check(right())
    assert verdict.clean, str(verdict)
    assert (verdict.sent, verdict.acknowledged, verdict.recovered, verdict.final) == (7, 5, 1, 6)
    assert "nothing lost" in str(verdict)


def lose_everywhere(h: History) -> None:
    gone = h.final[5]
    h.final = h.final[:5]
    h.consumed.remove(gone)
    for records in h.read.values():
        records.remove(gone)


def read_half(h: History) -> None:
    del h.read["two"][4:]


def read_nothing(h: History) -> None:
    h.read["two"].clear()


def consume_nothing(h: History) -> None:
    h.consumed.clear()


def lose_after_it_was_seen(h: History) -> None:
    """A record without acknowledgement that a reader has got, so it was committed."""
    gone = h.final[3]
    h.final = h.final[:3] + h.final[4:]
    h.consumed.remove(gone)


def twice(h: History) -> None:
    copied = Seen(1, 2, value(B, 1, 1))
    h.final.append(copied)
    h.consumed.append(copied)


def swap(h: History) -> None:
    """Two records of one producer change places before any reader has got them or learned an offset."""
    h.final[0], h.final[2] = Seen(0, 0, value(A, 2, 0)), Seen(0, 2, value(A, 0, 0))
    h.acknowledged = [seen._replace(offset=-1) for seen in h.acknowledged]
    h.consumed, h.read = list(h.final), {"two": list(h.final)}


def invent(h: History) -> None:
    ghost = Seen(1, 2, value("c", 0, 1))
    h.final.append(ghost)
    h.consumed.append(ghost)


def stray(h: History) -> None:
    """A record was sent to partition 1, was not acknowledged there, and appears in partition 0."""
    ghost = Seen(0, 5, value(A, 4, 1))
    h.final.insert(4, ghost)
    h.consumed.append(ghost)


def damage(h: History) -> None:
    bad = Seen(1, 2, value(A, 4, 1).replace(b"a/4", b"a/5"))
    h.final.append(bad)
    h.consumed.append(bad)
    h.sent[bad.value] = 1


def move(h: History) -> None:
    h.acknowledged[4] = h.acknowledged[4]._replace(offset=7)


def replace(h: History) -> None:
    """Two readers got two different records at one offset: one of them was not committed."""
    h.read["one"].append(Seen(0, 4, value(A, 4, 1)))
    h.sent[value(A, 4, 1)] = 0


def again(h: History) -> None:
    h.read["one"].append(h.read["one"][-1])


def jump(h: History) -> None:
    del h.read["two"][1]


def overlook(h: History) -> None:
    h.consumed = [seen for seen in h.consumed if seen.value != value(B, 0, 0)]


def forget(h: History) -> None:
    h.committed_at_end[0] = 2


def forget_all(h: History) -> None:
    del h.committed_at_end[1]


def fall_and_rise(h: History) -> None:
    h.told += [Told(0, 2, 3), Told(1, -1001, 0)]


def run_ahead(h: History) -> None:
    h.committed_at_end[1] = 3


def rest(h: History) -> None:
    h.committed, h.committed_at_end, h.created, h.topics_at_end = {}, {}, set(), set()


def vanish(h: History) -> None:
    h.topics_at_end.discard("kept")


def come_back(h: History) -> None:
    h.topics_at_end.add("gone")


def give_up(h: History) -> None:
    h.broken.append("a: fatal error")


@pytest.mark.parametrize(
    ("spoil", "kinds"),
    [
        (lose_everywhere, {"lost"}),
        (lose_after_it_was_seen, {"unstable"}),
        (twice, {"duplicated"}),
        (swap, {"reordered"}),
        (invent, {"phantom"}),
        (stray, {"phantom"}),
        (damage, {"damaged"}),
        (move, {"misplaced"}),
        (replace, {"unstable"}),
        (again, {"backward"}),
        (jump, {"skipped"}),
        (read_half, {"unread"}),
        (read_nothing, {"unread"}),
        (overlook, {"unconsumed"}),
        (consume_nothing, {"unconsumed"}),
        (forget, {"forgotten"}),
        (forget_all, {"forgotten"}),
        (fall_and_rise, {"fallen"}),
        (run_ahead, {"ahead"}),
        (rest, {"idle"}),
        (vanish, {"vanished"}),
        (come_back, {"returned"}),
        (give_up, {"broken client"}),
    ],
    ids=lambda x: x.__name__ if callable(x) else "",
)
def test_each_wrong_is_flagged_as_what_it_is(spoil: Callable[[History], None], kinds: set[str]) -> None:
    history = copy.deepcopy(right())
    spoil(history)
    verdict = check(history)
    assert {kind for kind, cases in verdict.wrong.items() if cases} == kinds, str(verdict)
    assert not verdict.clean


def test_many_cases_are_shown_in_short() -> None:
    history = right()
    history.broken = [f"client {n}" for n in range(9)]
    assert str(check(history)).endswith("and 4 more")


def test_values_know_where_they_come_from() -> None:
    assert origin(value("name", 12, 3, padding=40)) == Origin("name", 12, 3)
    for damaged in (b"", b"name/12/3", b"name/12/3/00000000", value("name", 12, 3)[:-1], b"\xff/1/2/deadbeef"):
        assert origin(damaged) is None
