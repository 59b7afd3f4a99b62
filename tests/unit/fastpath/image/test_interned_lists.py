"""Lists of int32 and uuids that are kept once and named by a number, in any generation."""

import random

import pytest

from fastpath.image.interned_lists import Lists, Uuids

SLAB, LONGEST = 65_536, 4096


def test_a_list_is_kept_once_and_found_again() -> None:
    lists = Lists()
    assert lists.number([]) == 0 and lists.values(0) == ()
    first = lists.number([1, 2, 3])
    assert lists.number((1, 2, 3)) == first and lists.values(first) == (1, 2, 3)
    others = {lists.number(one) for one in ([3, 2, 1], [1, 2], [1, 2, 3, 0], [-1, 2, 3])}
    assert len(others | {first, 0}) == 6 and lists.count == 6


def test_many_lists_over_several_slabs_are_those_that_were_put() -> None:
    chance = random.Random(5)
    lists = Lists()
    known: dict[tuple[int, ...], int] = {}
    for _ in range(20_000):
        values = tuple(chance.randint(-(1 << 31), (1 << 31) - 1) for _ in range(chance.randrange(12)))
        number = lists.number(values)
        assert known.setdefault(values, number) == number
    assert lists.end > SLAB and lists.count == len(known.keys() | {()})
    assert all(lists.values(number) == values for values, number in known.items())


def test_a_list_never_crosses_the_end_of_a_slab() -> None:
    lists = Lists()
    long = {lists.number(values): values for n in range(40) if (values := tuple(range(n, n + LONGEST - n)))}
    assert len(long) == 40 and lists.end > 2 * SLAB
    for number, values in long.items():
        assert number // SLAB == (number + len(values)) // SLAB
        assert lists.values(number) == values


def test_a_list_that_is_too_long_is_refused_and_leaves_nothing() -> None:
    lists = Lists()
    with pytest.raises(ValueError, match="a list of 4097 values; at most 4096 are possible"):
        lists.number([1] * (LONGEST + 1))
    assert lists.count == 1 and lists.values(lists.number([4])) == (4,)


def test_a_frozen_pool_keeps_what_it_had_while_the_owner_goes_on() -> None:
    lists = Lists()
    old = lists.number([1, 2])
    frozen = lists.frozen()
    new = lists.number([5, 6])
    assert frozen.values(old) == (1, 2) and lists.values(new) == (5, 6)
    assert frozen.count < lists.count
    thawed = frozen.thawed()
    assert thawed.number([1, 2]) == old
    other = thawed.number([7])
    assert thawed.values(other) == (7,) and lists.values(new) == (5, 6)


def test_uuids_are_kept_once_and_found_in_each_generation() -> None:
    chance = random.Random(9)
    pool = Uuids()
    ids = [chance.randbytes(16) for _ in range(5000)]
    numbers = [pool.number(id) for id in ids]
    assert [pool.number(id) for id in ids] == numbers and len(set(numbers)) == len(ids)
    frozen = pool.frozen()
    pool.number(bytes(range(16)))
    assert all(frozen.value(number) == id for number, id in zip(numbers, ids, strict=True))
    assert len(pool) == len(frozen) + 1
    thawed = frozen.thawed()
    assert thawed.number(ids[17]) == numbers[17]
