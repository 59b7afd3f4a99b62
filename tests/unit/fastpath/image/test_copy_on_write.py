"""Lists and maps of which earlier generations are read while their owner writes on."""

import random

import pytest

from fastpath.image.copy_on_write import Generations, PagedList, PagedMap

PAGE = 4096


def test_a_frozen_list_keeps_what_it_had() -> None:
    generations = Generations()
    values = PagedList(generations)
    for number in range(2 * PAGE + 3):
        assert values.append(number) == number
    taken = generations.take()
    frozen = values.frozen()
    values.put(5, "new")
    values.append("last")
    assert (values.get(5), frozen.get(5), len(values), len(frozen)) == ("new", 5, 2 * PAGE + 4, 2 * PAGE + 3)
    assert values.differing(frozen) == 2, "the page of 5, and the page at the end"
    with pytest.raises(IndexError):
        frozen.get(2 * PAGE + 3)
    generations.release(taken)


def test_a_page_is_copied_once_for_a_generation_and_not_when_nobody_reads() -> None:
    generations = Generations()
    values = PagedList(generations)
    for number in range(3 * PAGE):
        values.append(number)
    older = values.frozen()
    values.put(0, "in place")
    assert values.differing(older) == 0 and older.get(0) == "in place", "no generation was taken"
    taken = generations.take()
    frozen = values.frozen()
    values.put(1, "copied")
    values.put(2, "in the copy")
    assert values.differing(frozen) == 1
    generations.release(taken)
    last = values.frozen()
    values.put(3, "in place again")
    assert values.differing(last) == 0


def test_the_oldest_reader_does_not_hold_back_what_the_newest_has_seen() -> None:
    generations = Generations()
    first, second = generations.take(), generations.take()
    assert (generations.pinned, generations.current) == (second, second + 1)
    generations.release(second)
    assert generations.pinned == first
    generations.release(first)
    assert generations.pinned == -1
    with pytest.raises(ValueError):
        generations.release(first)


def test_a_thawed_list_leaves_its_source_alone() -> None:
    generations = Generations()
    values = PagedList(generations)
    for number in range(10):
        values.append(number)
    generations.take()
    frozen = values.frozen()
    others = Generations()
    others.take()
    thawed = frozen.thawed(others)
    thawed.put(3, "thawed")
    thawed.append("more")
    assert (frozen.get(3), values.get(3), thawed.get(3), len(frozen)) == (3, 3, "thawed", 10)


@pytest.mark.parametrize("index", [-1, 0, 1 << 62])
def test_nothing_outside_a_list_is_read_or_written(index: int) -> None:
    values = PagedList(Generations())
    with pytest.raises(IndexError):
        values.get(index)
    with pytest.raises(IndexError):
        values.put(index, "x")


def test_maps_are_dictionaries_of_which_each_generation_stays() -> None:
    chance = random.Random(3)
    generations = Generations()
    values = PagedMap(generations)
    plain: dict[int, int] = {}
    kept: list[tuple[int, PagedMap, dict[int, int]]] = []
    for _ in range(6000):
        key, value = chance.randrange(300), chance.randrange(5) or None
        values.put(key, value)
        if value is None:
            plain.pop(key, None)
        else:
            plain[key] = value
        if not chance.randrange(400):
            kept.append((generations.take(), values.frozen(), dict(plain)))
        if kept and not chance.randrange(700):
            generations.release(kept.pop(chance.randrange(len(kept)))[0])
    assert dict(values.items()) == plain and len(values) == len(plain) and kept
    for _, frozen, then in kept:
        assert dict(frozen.items()) == then and len(frozen) == len(then)
        assert [frozen.get(key) for key in range(300)] == [then.get(key) for key in range(300)]


def test_only_shards_that_were_written_differ() -> None:
    generations = Generations()
    values = PagedMap(generations)
    for key in range(5000):
        values.put(key, key)
    generations.take()
    frozen = values.frozen()
    values.put(7, "new")
    values.put("nobody", None)
    assert 0 < values.differing(frozen) < 20 and frozen.get(7) == 7
