"""Names in order against their slow twin, where pages are divided and dropped, and as earlier generations had them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.image.copy_on_write import Generations
from fastpath.image.name_order import NameOrder
from tests.reference.name_order import SlowOrder

PAGE = 1024
NAMES = st.text("ab.\u00e9\u20ac\U0001f600", max_size=4)


@given(
    st.lists(st.tuples(NAMES, st.one_of(st.none(), st.integers(0, 2**31 - 1))), max_size=60), NAMES, st.integers(0, 9)
)
def test_the_order_is_that_of_its_twin_after_every_change(changes, first, most):
    order, slow = NameOrder(Generations()), SlowOrder()
    for name, row in changes:
        order.put(name, row)
        slow.put(name, row)
        order.check()
        assert order.get(name) == slow.rows.get(name)
    assert len(order) == len(slow.rows)
    for behind in (False, True):
        assert order.following(first, most, behind) == slow.following(first, most, behind)


@pytest.mark.parametrize("seed", range(4))
def test_pages_are_divided_and_dropped(seed):
    order, slow, dice = NameOrder(Generations()), SlowOrder(), random.Random(seed)
    names = [f"{number:05}" for number in range(4 * PAGE + 1)]
    for coming in (True, False):
        (sorted if seed == 0 else dice.shuffle)(names)
        for count, name in enumerate(names):
            row = count if coming else None
            order.put(name, row)
            slow.put(name, row)
            if count % 997 == 0 or count < 3:
                order.check()
                first = dice.choice(names)
                assert order.following(first, 2 * PAGE) == slow.following(first, 2 * PAGE)
        order.check()
        assert order.following("", 9 * PAGE) == slow.following("", 9 * PAGE)
    assert len(order) == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_pinned_generation_stays_as_it_was(seed):
    generations, dice = Generations(), random.Random(seed)
    order, slow, pins = NameOrder(generations), SlowOrder(), []
    for step in range(3000):
        name, row = f"{dice.randrange(2500):04}", dice.choice([None, step, step])
        order.put(name, row)
        slow.put(name, row)
        if step % 400 == 399:
            pins.append((generations.take(), order.frozen(), slow.following("", 5000)))
        if len(pins) > 3:
            taken, frozen, then = pins.pop(dice.randrange(3))
            assert frozen.following("", 5000) == then
            generations.release(taken)
    for taken, frozen, then in pins:
        assert frozen.following("", 5000) == then
        mine = Generations()
        mine.take()
        thawed = frozen.thawed(mine)
        for name, _ in then[::7]:
            thawed.put(name, None)
        thawed.check()
        assert frozen.following("", 5000) == then and len(thawed) == len(then) - len(then[::7])
        generations.release(taken)
    assert order.following("", 5000) == slow.following("", 5000)


def test_a_row_that_is_no_row_is_refused_and_changes_nothing():
    order = NameOrder(Generations())
    order.put("a", 1)
    for row in (2**31, "1"):
        with pytest.raises((OverflowError, TypeError)):
            order.put("b", row)
    with pytest.raises(TypeError):
        order.put(b"b", 1)
    assert order.following("", 9) == [("a", 1)]
