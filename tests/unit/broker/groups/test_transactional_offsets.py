"""Offsets in open transactions: when they become visible, in the order of the log, and which keys are unstable meanwhile."""

import pytest

from actors.broker.groups.records import CommittedOffset
from actors.broker.groups.transactional_offsets import TransactionalOffsets

KEY, OTHER = ("t", 0), ("t", 1)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0)


def wrote(held: TransactionalOffsets, producer: int, offset: int, key: tuple[str, int] = KEY) -> int:
    order = held.next()
    held.wrote(producer, "g", key, order, at(offset))
    held.check()
    return order


def taken(held: TransactionalOffsets, most: int = 100) -> list[int]:
    """The offsets that become visible, in order; all that has ended is taken in."""
    found = []
    while held.ending:
        _, visible = held.take_in(most)
        for group, key, order, committed in visible:
            held.set(group, key, order)
            found.append(committed.offset)
        held.check()
    return found


@pytest.mark.parametrize(("commit", "visible"), [(True, [5]), (False, [])])
def test_an_offset_is_visible_once_its_transaction_is_committed(commit: bool, visible: list[int]) -> None:
    held = TransactionalOffsets()
    wrote(held, 1, 4)
    wrote(held, 1, 5)
    assert set(held.unstable("g")) == {KEY} and list(held.groups()) == ["g"] and not held.ending
    held.ended(1, commit, held.next())
    assert set(held.unstable("g")) == {KEY}, "until it is taken in"
    assert taken(held) == visible and not held.unstable("g") and not held.groups()


def test_what_is_older_than_the_visible_value_never_replaces_it() -> None:
    held = TransactionalOffsets()
    wrote(held, 1, 5)
    held.set("g", KEY, held.next())
    held.ended(1, True, held.next())
    assert taken(held) == []
    held.set("g", KEY, held.next())
    wrote(held, 1, 6)
    held.ended(1, True, held.next())
    assert taken(held) == [6], "what is newer does"


def test_a_write_that_failed_keeps_its_key_unstable_and_is_never_visible() -> None:
    held = TransactionalOffsets()
    first = wrote(held, 1, 5)
    held.failed(1, "g", KEY, first + 7)
    held.failed(1, "g", KEY, first)
    assert set(held.unstable("g")) == {KEY}
    held.ended(1, True, held.next())
    assert taken(held) == []
    first = wrote(held, 1, 6)
    wrote(held, 1, 7)
    held.failed(1, "g", KEY, first)
    held.ended(1, True, held.next())
    assert taken(held) == [7], "the later write of the key has not failed"


def test_what_stands_behind_the_marker_belongs_to_the_next_transaction() -> None:
    """The end is told late, after the producer has written again."""
    held = TransactionalOffsets()
    wrote(held, 1, 5)
    marker = held.next()
    wrote(held, 1, 6, OTHER)
    held.ended(1, True, marker)
    assert taken(held) == [5] and set(held.unstable("g")) == {OTHER}
    held.ended(1, False, held.next())
    assert taken(held) == [] and not held.unstable("g")


def test_two_ends_of_a_producer_are_taken_in_in_their_order() -> None:
    held = TransactionalOffsets()
    wrote(held, 1, 5)
    marker = held.next()
    held.ended(1, True, marker)
    wrote(held, 1, 6)
    held.ended(1, True, held.next())
    assert held.unstable("g") == {KEY: 2}
    assert taken(held) == [5, 6] and not held.unstable("g")
    held.ended(1, True, held.next())
    assert not held.ending, "a transaction without offsets"


def test_a_long_transaction_is_taken_in_by_portions() -> None:
    held = TransactionalOffsets()
    for number in range(10):
        wrote(held, 1, number, ("t", number))
    held.ended(1, True, held.next())
    looked_at, visible = held.take_in(4)
    assert looked_at == len(visible) == 4 and len(held.unstable("g")) == 6 and held.ending
    assert len(taken(held, 4)) == 6


def test_other_producers_of_a_key_keep_it_unstable() -> None:
    held = TransactionalOffsets()
    wrote(held, 1, 5)
    wrote(held, 2, 6)
    held.ended(1, True, held.next())
    assert taken(held) == [5] and held.unstable("g") == {KEY: 1}
    held.ended(2, True, held.next())
    assert taken(held) == [6]


def test_a_group_that_was_deleted_gets_nothing_of_what_was_open() -> None:
    held = TransactionalOffsets()
    wrote(held, 1, 5)
    held.forget_group("g")
    assert held.unstable("g"), "the log may hold it until the transaction ends"
    held.ended(1, True, held.next())
    assert taken(held) == [] and not held.unstable("g")
