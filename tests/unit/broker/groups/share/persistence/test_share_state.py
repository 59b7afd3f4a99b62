"""What a record makes of a share partition: batches as Apache Kafka combines them, and as an obvious twin does."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from actors.broker.groups.share.persistence.share_state import (
    NO_OFFSET,
    Batch,
    ShareState,
    Update,
    check,
    combine,
    initial,
    replayed,
    snapshot,
)
from actors.ports import Now
from tests.rows import rows

GOLDEN = Path(__file__).parents[5] / "golden" / "kafka-4.3.1" / "share_group_state" / "combined.txt"
ROWS = [line.split() for line in GOLDEN.read_text().splitlines()]
BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: Batch(first, first + length, state, count),
        st.integers(0, 40),
        st.integers(0, 9),
        st.sampled_from((0, 2, 4)),
        st.integers(1, 3),
    ),
    max_size=8,
)
STATE = ShareState(7, 3, 12, 10, 4, 1, 2, (Batch(10, 14, 0, 1), Batch(15, 15, 2, 2)))


def batches(text: str) -> list[Batch]:
    return [] if text == "-" else [Batch(*map(int, one.split(":"))) for one in text.split(",")]


def by_offset(found: list[Batch] | tuple[Batch, ...], start: int = NO_OFFSET) -> dict[int, tuple[int, int]]:
    """The twin: what is known of each offset, the delivery count first."""
    known: dict[int, tuple[int, int]] = {}
    for first, last, state, count in found:
        for offset in range(max(first, start), last + 1):
            known[offset] = max(known.get(offset, (-1, -1)), (count, state))
    return known


def sound(found: tuple[Batch, ...], start: int) -> None:
    check(ShareState(0, 0, 0, start, 0, 0, 0, found))


@rows(((row,) for row in ROWS), ids=lambda row: " ".join(row[:3]))
def test_apache_kafka_combines_to_the_same(row: list[str]) -> None:
    start, known, added, result = int(row[0]), batches(row[1]), batches(row[2]), batches(row[3])
    found = combine(known, added, start)
    assert by_offset(found) == by_offset(result)
    assert len(found) <= len(result)
    sound(found, start)


@given(BATCHES, BATCHES, st.integers(-1, 45))
def test_an_obvious_twin_combines_to_the_same(known: list[Batch], added: list[Batch], start: int) -> None:
    before = combine((), known, NO_OFFSET)
    sound(before, NO_OFFSET)
    found = combine(before, added, start)
    sound(found, start)
    assert by_offset(found) == by_offset([*known, *added], start)


def test_a_late_release_takes_no_acknowledgement_back() -> None:
    known = (Batch(0, 9, 2, 2),)
    assert combine(known, [Batch(3, 5, 0, 1)], 0) == known
    assert combine(known, [Batch(3, 5, 0, 2)], 0) == known
    assert combine(known, [Batch(3, 5, 4, 2)], 0) == (Batch(0, 2, 2, 2), Batch(3, 5, 4, 2), Batch(6, 9, 2, 2))
    assert combine(known, [Batch(3, 5, 0, 3)], 0)[1] == Batch(3, 5, 0, 3), "it was delivered once more since"


def test_neighbours_that_say_the_same_are_one_on_both_sides() -> None:
    known = (Batch(0, 4, 2, 1), Batch(10, 14, 2, 1))
    assert combine(known, [Batch(5, 9, 2, 1)], 0) == (Batch(0, 14, 2, 1),)
    assert combine(known, [Batch(5, 9, 2, 2)], 0) == (known[0], Batch(5, 9, 2, 2), known[1])


def test_an_update_changes_what_it_names() -> None:
    update = Update(7, 13, NO_OFFSET, 5, (Batch(16, 16, 4, 1),))
    found = replayed(STATE, update)
    assert found == STATE._replace(leader_epoch=13, complete_count=5, batches=(*STATE.batches, Batch(16, 16, 4, 1)))
    moved = replayed(STATE, Update(7, -1, 12, 6, ()))
    assert moved is not None and moved.leader_epoch == 12 and moved.start_offset == 12
    assert moved.batches == (Batch(12, 14, 0, 1), Batch(15, 15, 2, 2)), "nothing is remembered below the start offset"


def test_a_snapshot_replaces_everything_and_a_removal_leaves_nothing() -> None:
    fresh = initial(STATE, 4, 100, Now(5, 9))
    assert fresh == ShareState(8, 4, 0, 100, 0, 9, 9, ())
    assert initial(None, 1, NO_OFFSET, Now(5, 9)) == ShareState(0, 1, 0, NO_OFFSET, -1, 9, 9, ())
    assert replayed(STATE, fresh) == fresh
    assert replayed(STATE, None) is None


def test_an_update_whose_snapshot_is_gone_is_what_is_known() -> None:
    assert replayed(None, Update(7, 2, 3, 1, (Batch(3, 3, 2, 1),))) == ShareState(
        7, 0, 2, 3, 1, 0, 0, (Batch(3, 3, 2, 1),)
    )


def test_a_snapshot_says_what_the_update_would_have_made() -> None:
    update = Update(7, 12, 12, 5, (Batch(20, 22, 0, 1),))
    found, same = snapshot(STATE, update, Now(1, 50)), replayed(STATE, update)
    assert same is not None
    assert found == same._replace(snapshot_epoch=8, created_ms=50, written_ms=50)
