"""Leader epochs: where one began, where it ended, what a cut leaves of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.log.directories.checkpoints import CorruptCheckpoint, encode_offsets, parse_offsets
from actors.broker.log.leader_epochs import EpochCache, EpochEnd


def cache(*pairs: tuple[int, int]) -> EpochCache:
    made = EpochCache()
    for epoch, start in pairs:
        made.assign(epoch, start)
    made.check()
    return made


def pairs(made: EpochCache) -> list[tuple[int, int]]:
    return list(zip(made.epochs, made.starts, strict=True))


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(-1, (-1, -1)), (0, (0, 5)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 35)), (5, (5, 99)), (6, (-1, -1))],
)
def test_where_an_epoch_ended(epoch: int, answer: tuple[int, int]) -> None:
    """KIP-101 with the floor of KIP-279: an epoch that is not known is answered by the newest below it."""
    known = cache((1, 5), (2, 10), (4, 20), (5, 35))
    assert known.end_offset(epoch, 99) == EpochEnd(*answer)


def test_no_epoch_is_known() -> None:
    assert cache().end_offset(0, 7) == EpochEnd(-1, -1)
    assert cache().epoch_at(0) == -1


def test_the_epoch_of_an_offset() -> None:
    known = cache((1, 5), (3, 10))
    assert [known.epoch_at(offset) for offset in (0, 4, 5, 9, 10, 500)] == [-1, -1, 1, 1, 3, 3]


def test_a_new_epoch_removes_what_is_in_its_way() -> None:
    assert pairs(cache((1, 0), (2, 10), (3, 20), (2, 15))) == [(1, 0), (2, 15)]
    assert pairs(cache((1, 0), (2, 10), (3, 10))) == [(1, 0), (3, 10)]
    assert pairs(cache((1, 0), (5, 10), (3, 8))) == [(1, 0), (3, 8)]
    assert pairs(cache((1, 0), (1, 10))) == [(1, 0)]
    assert pairs(cache((-1, 0))) == []


def test_cuts_at_both_ends() -> None:
    known = cache((1, 0), (2, 10), (4, 20))
    known.dirty = False
    known.truncate_end(21)
    known.truncate_start(0)
    assert not known.dirty
    known.truncate_end(20)
    assert pairs(known) == [(1, 0), (2, 10)] and known.dirty and known.latest == 2
    known.truncate_start(5)
    assert pairs(known) == [(1, 5), (2, 10)]
    known.truncate_start(15)
    assert pairs(known) == [(2, 15)]
    known.truncate_end(0)
    assert pairs(known) == [] and known.latest == -1


def test_the_file_is_kafkas() -> None:
    known = cache((0, 0), (3, 17))
    assert known.encode() == b"0\n2\n0 0\n3 17\n"
    again = EpochCache.parse(known.encode())
    assert pairs(again) == pairs(known) and not again.dirty
    assert pairs(EpochCache.parse(b"0\n0\n")) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"0", b"1\n0\n", b"0\nx\n", b"0\n2\n0 0\n", b"0\n1\n0\n", b"0\n1\n0 0 0\n", b"0\n1\na b\n", b"0\n2\n1 5\n1 6\n",
     b"0\n2\n1 5\n2 5\n", b"\xff\xfe", b"0\n-1\n"],
)  # fmt: skip
def test_a_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        EpochCache.parse(data)


@pytest.mark.parametrize("data", [b"0\n1\nt 0\n", b"0\n1\nt x 5\n", b"0\n2\nt 0 5\n", b"5\n1\nt 0 5\n"])
def test_damaged_offsets_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        parse_offsets(data)


@given(st.dictionaries(st.tuples(st.text("ab-._", min_size=1), st.integers(0, 99)), st.integers(0, 1 << 60)))
def test_offsets_come_back(offsets: dict[tuple[str, int], int]) -> None:
    assert parse_offsets(encode_offsets(offsets)) == offsets


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 30)), max_size=12), st.integers(-1, 9))
def test_the_slow_way_to_an_epochs_end(steps: list[tuple[int, int]], asked: int) -> None:
    """The twin: the epoch of every offset in a list, as the assigned pairs say."""
    known = cache(*steps)
    known.check()
    end = 40
    table = [max((e for e, s in pairs(known) if s <= offset), default=-1) for offset in range(end)]
    answer = known.end_offset(asked, end)
    if asked < 0 or asked > max(table, default=-1):
        assert answer == EpochEnd(-1, -1)
    else:
        assert answer.end_offset == next((o for o in range(end) if table[o] > asked), end)
        assert answer.epoch == max((e for e in table if 0 <= e <= asked), default=asked)
