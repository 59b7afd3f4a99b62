"""Chains of extents against their slow twin: topics with none, one and several, and as earlier generations had them."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.image.chains import Chains
from fastpath.image.copy_on_write import Generations
from tests.reference.chains import SlowChains

PAGE = 4096
EXTENT = st.tuples(st.integers(0, 5), st.integers(0, 2**31 - 100), st.integers(1, 9))


def chain(extents):
    """The bytes of extents whose first number is the distance from the end of the one before."""
    packed, end = b"", 0
    for skipped, row, count in extents:
        packed += struct.pack("3i", end + skipped, row, count)
        end += skipped + count
    return packed


CHAINS = st.none() | st.lists(EXTENT, max_size=3).map(chain)


@given(st.lists(st.tuples(st.integers(0, 4), CHAINS), max_size=40))
def test_chains_are_those_of_the_twin_after_every_change(changes):
    chains, slow = Chains(Generations()), SlowChains()
    for index, given_ in changes:
        if index >= len(chains):
            assert chains.append(given_) == slow.append(given_)
        else:
            chains.put(index, given_)
            slow.put(index, given_)
        assert [chains.get(one) for one in range(len(chains))] == slow.chains


@pytest.mark.parametrize("seed", range(4))
def test_a_pinned_generation_stays_as_it_was(seed):
    dice, generations = random.Random(seed), Generations()
    chains, slow, pins = Chains(generations), SlowChains(), []
    drawn = [
        None,
        b"",
        chain([(0, 7, 3)]),
        chain([(2, 9, 1)]),
        chain([(0, 1, 2), (0, 9, 4)]),
        chain([(1, 1, 1), (3, 5, 2)]),
    ]
    for _ in range(2 * PAGE + 5):
        one = dice.choice(drawn)
        assert chains.append(one) == slow.append(one)
    for step in range(3000):
        index, one = dice.randrange(len(chains)), dice.choice(drawn)
        chains.put(index, one)
        slow.put(index, one)
        if step % 600 == 599:
            pins.append((generations.take(), chains.frozen(), list(slow.chains)))
    for taken, frozen, then in pins:
        assert [frozen.get(index) for index in range(len(frozen))] == then
        assert 0 < chains.differing(frozen) <= 3 if frozen is not pins[-1][1] else chains.differing(frozen) <= 3
        generations.release(taken)
    last = Generations()
    last.take()
    again = pins[0][1].thawed(last)
    again.put(3, b"")
    assert again.get(3) == b"" and [pins[0][1].get(index) for index in range(len(again))] == pins[0][2]


def test_what_is_not_there_and_what_is_no_chain():
    chains = Chains(Generations())
    assert chains.append(None) == 0 and chains.get(0) is None and len(chains) == 1
    for index in (-1, 1):
        with pytest.raises(IndexError):
            chains.get(index)
        with pytest.raises(IndexError):
            chains.put(index, b"")
    with pytest.raises(ValueError, match="a chain of 13 bytes; an extent has 12"):
        chains.put(0, bytes(13))
    assert chains.get(0) is None
