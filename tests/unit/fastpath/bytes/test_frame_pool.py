"""Pooled buffers: never shared by two holders, used again when free, bounded when spare."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.bytes.frame_pool import Pool

BLOCK = 1 << 16


def test_a_block_comes_back_when_its_last_slice_is_gone() -> None:
    pool = Pool(1 << 20)
    whole = pool.take(40_000)
    assert len(whole) == 40_000 and not whole.readonly and whole.format == "B"
    part = whole[10:20]
    del whole
    assert (pool.bytes_lent, pool.bytes_kept) == (BLOCK, 0)
    del part
    assert (pool.bytes_lent, pool.bytes_kept) == (0, BLOCK)
    again = pool.take(BLOCK)
    assert (pool.bytes_lent, pool.bytes_kept) == (BLOCK, 0)
    assert len(again) == BLOCK


def test_a_numpy_array_keeps_its_block() -> None:
    pool = Pool(1 << 20)
    array = np.frombuffer(pool.take(BLOCK), dtype=np.int64)
    assert pool.bytes_lent == BLOCK
    del array
    assert pool.bytes_lent == 0


def test_spare_blocks_are_bounded() -> None:
    pool = Pool(2 * BLOCK)
    held = [pool.take(BLOCK) for _ in range(5)]
    held.clear()
    assert (pool.bytes_lent, pool.bytes_kept) == (0, 2 * BLOCK)
    large = pool.take(4 * BLOCK)
    del large
    assert pool.bytes_kept == 2 * BLOCK


def test_another_bound_frees_the_largest_spare_blocks_and_holds_from_then_on() -> None:
    pool = Pool(8 * BLOCK)
    held = [pool.take(BLOCK), pool.take(2 * BLOCK), pool.take(BLOCK), lent := pool.take(4 * BLOCK)]
    del held
    assert pool.bytes_kept == 4 * BLOCK
    pool.keep(2 * BLOCK)
    assert (pool.bytes_kept, pool.bytes_kept_max) == (2 * BLOCK, 2 * BLOCK)
    del lent
    assert (pool.bytes_lent, pool.bytes_kept) == (0, 2 * BLOCK)
    one, other = pool.take(BLOCK), pool.take(BLOCK)
    assert pool.bytes_kept == 0, "the small ones were kept"
    pool.keep(0)
    del one, other
    assert (pool.bytes_lent, pool.bytes_kept) == (0, 0)


def test_views_outlive_the_name_of_their_pool() -> None:
    view = Pool(1 << 20).take(BLOCK)
    view[:5] = b"12345"
    assert view[:5].tobytes() == b"12345"


def test_small_ones_are_writable_and_no_blocks() -> None:
    pool = Pool(1 << 20)
    view = pool.take(5)
    view[:] = b"12345"
    assert (view.tobytes(), pool.bytes_lent) == (b"12345", 0)


@given(st.lists(st.one_of(st.integers(0, 300_000), st.none()), max_size=40), st.randoms(use_true_random=False))
def test_no_two_holders_share_a_byte(steps, random) -> None:
    pool, held = Pool(1 << 20), []
    for number, size in enumerate(steps):
        if size is None and held:
            held.pop(random.randrange(len(held)))
        elif size is not None:
            view = pool.take(size)
            assert len(view) == size
            view[:] = bytes([number]) * size
            held.append((number, view))
        assert pool.bytes_kept <= pool.bytes_kept_max
    for number, view in held:
        assert view.tobytes() == bytes([number]) * len(view)


@pytest.mark.parametrize("size", [-1, (1 << 31) + 1])
def test_impossible_sizes_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="0 to 2 GiB"):
        Pool(0).take(size)
