"""Where in a topic words mean, and what a partition has of it."""

import pytest

from actors.client.operations.group_offsets import places
from actors.client.operations.group_offsets.places import PlaceInPartitions, Span

NOW_MS = 1_795_900_000_000


@pytest.mark.parametrize(
    ("text", "ms"), [("15m", NOW_MS - 900_000), ("2h", NOW_MS - 7_200_000), ("1970-01-01", 0), ("1969-01-01", 0)]
)
def test_a_time_is_counted_from_now_or_from_1970(text: str, ms: int) -> None:
    assert places.place(text, NOW_MS) == PlaceInPartitions("time", ms)


@pytest.mark.parametrize("text", ["", "tomorrow", "9" * 19 + "d", "--5", "5 "])
def test_words_that_mean_nothing_are_told_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is no place in a topic: write beginning, end, an offset"):
        places.place(text, NOW_MS)


KNOWN = {("t", 0): Span(10, 20), ("t", 1): Span(0, 3)}


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (PlaceInPartitions("beginning"), (10, 0)),
        (PlaceInPartitions("end"), (20, 3)),
        (PlaceInPartitions("last", 5), (15, 0)),
        (PlaceInPartitions("offset", 12), (12, 3)),
    ],
)
def test_a_place_stays_within_what_a_partition_has(place: PlaceInPartitions, wanted: tuple[int, int]) -> None:
    steps = places.offsets(place, KNOWN)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert tuple(end.value.value.values()) == wanted
