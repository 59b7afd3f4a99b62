"""Rows by name or id against their slow twin: keys that want the same place, that come, change and go."""

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.image.row_table import RowTable
from tests.reference.row_table import SlowTable

ROW_MAX = 2**31 - 1


class Key:
    """A key whose hash says where it wants to lie."""

    def __init__(self, name, place):
        self.name, self.place = name, place

    def __hash__(self):
        return self.place

    def __eq__(self, other):
        return self.name == other.name


KEYS = [Key(name, place) for name, place in enumerate((0, 6, 7, 15, 2**40 + 7) * 5)]


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.just(-1) | st.integers(0, ROW_MAX)), max_size=80))
def test_a_table_has_what_its_twin_has_after_every_change(changes):
    table, slow = RowTable(), SlowTable()
    for key, row in changes:
        table.put(key, row)
        slow.put(key, row)
        assert len(table) == len(slow.rows)
        for other in KEYS:
            assert table.get(other) == slow.get(other) and table.get(other, 5) == slow.get(other, 5)
            assert (other in table) == (slow.get(other) >= 0)


@pytest.mark.parametrize("seed", range(6))
def test_keys_that_want_the_same_places_come_and_go(seed):
    """Six places around the end of the slots for up to forty keys: each chain goes over the end and begins anew."""
    dice = random.Random(seed)
    keys = [Key(number, dice.choice((0, 1, 62, 63, 64 + 63, 2**32 + 62))) for number in range(40)]
    table, known = RowTable(), {}
    for step in range(4000):
        key = dice.choice(keys)
        if dice.random() < 0.5:
            table.put(key, step)
            known[key] = step
        else:
            table.put(key, -1)
            known.pop(key, None)
        if step % 7 == 0:
            assert [table.get(one) for one in keys] == [known.get(one, -1) for one in keys]
            assert len(table) == len(known)
    assert table.has_any(keys) == bool(known) and not table.has_any([Key(99, 63), Key(98, 1)])


@pytest.mark.parametrize("make", [lambda n: f"topic-{n}", lambda n: n.to_bytes(16, "big")])
def test_many_names_and_ids(make):
    table = RowTable()
    for number in range(20_000):
        table.put(make(number), number)
    assert len(table) == 20_000 and all(table.get(make(number)) == number for number in range(20_000))
    for number in range(0, 20_000, 3):
        table.put(make(number), -1)
    assert [table.get(make(number)) for number in range(20_000)] == [n if n % 3 else -1 for n in range(20_000)]
    assert make(3) not in table and make(4) in table and table.get(None) == -1


def test_keys_are_held_as_long_as_they_are_there():
    key, table = "".join(["a", "key"]), RowTable()
    before = sys.getrefcount(key)
    table.put(key, 1)
    table.put(key, 2)
    assert sys.getrefcount(key) == before + 1
    table.put("akey", -1)
    table.put(key, -1)
    assert sys.getrefcount(key) == before
    table.put(key, 3)
    del table
    assert sys.getrefcount(key) == before


def test_what_is_no_row_is_refused():
    table = RowTable()
    with pytest.raises(ValueError, match="row -2 of 'a'; a row is 0 or more"):
        table.put("a", -2)
    with pytest.raises(OverflowError):
        table.put("a", ROW_MAX + 1)
    with pytest.raises(TypeError):
        table.put([], 1)
    assert len(table) == 0 and "a" not in table


@given(st.lists(st.integers(0, 40) | st.tuples(st.sampled_from(KEYS), st.just(-1) | st.integers(0, 9)), max_size=60))
def test_a_table_that_grows_in_slices_has_what_its_twin_has(changes):
    """Numbers are slots that are looked at; a change amid them gives the larger table up."""
    table, slow = RowTable(), SlowTable()
    for change in changes:
        if isinstance(change, int):
            table.make_room(len(KEYS), change)
        else:
            table.put(*change)
            slow.put(*change)
        assert len(table) == len(slow.rows) and all(table.get(key) == slow.get(key) for key in KEYS)


def test_room_is_made_in_slices_until_there_is_enough():
    table = RowTable()
    for number in range(1000):
        table.put(str(number), number)
    slices = 0
    while table.make_room(5000, 256):
        slices += 1
    assert slices == 2048 // 256 + 4096 // 256 and not table.make_room(5000, 256)
    for number in range(1000, 6000):
        table.put(str(number), number)
    assert not table.make_room(0, 1) and [table.get(str(number)) for number in range(6000)] == list(range(6000))
