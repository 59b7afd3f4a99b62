"""The transactional ids of a sink: which ones a process takes, and whose an id is."""

import pytest

from actors.pipeline.sink.names import Ids, base_of, driver_id, task_id
from actors.pipeline.sink.values import Grant, SinkFailed

GRANT = Grant("s", 7, 40, "q", "r", 3, cluster="one")


def test_ids_are_counted_anew_with_each_opening_of_a_sink() -> None:
    ids = Ids("w")
    taken = [ids.take(GRANT, "r"), ids.take(GRANT, "r"), ids.take(GRANT._replace(sink="t"), "r")]
    assert taken == [task_id("s", 3, "w", 0), task_id("s", 3, "w", 1), task_id("t", 3, "w", 0)]
    assert ids.take(GRANT._replace(opening=8), "r") == taken[0]
    assert ids.take(GRANT._replace(opening=8), "other") == task_id("s", 8, "w", 1)
    assert Ids("v").take(GRANT, "r") != taken[0], "processes have names of their own"


def test_an_attempt_of_an_older_opening_gets_no_id() -> None:
    """Its id might be one whose transaction the newer opening has left open: taking it would abort that."""
    ids = Ids("w")
    ids.take(GRANT, "r")
    newer = [ids.take(GRANT._replace(opening=8), "r") for _ in range(2)]
    with pytest.raises(SinkFailed, match=r"sink s: a task attempt of opening 7 comes when .* for opening 8"):
        ids.take(GRANT, "r")
    assert ids.take(GRANT._replace(opening=8), "r") not in newer


@pytest.mark.parametrize("other", [{"cluster": "two"}, {"ledger": "l"}, {"sink": "t"}], ids=str)
def test_sinks_of_two_clusters_or_ledgers_are_counted_apart(other: dict[str, str]) -> None:
    ids = Ids("w")
    first = ids.take(GRANT, "r")
    for opening in (2, 8):
        taken = [ids.take(GRANT._replace(opening=opening, **other), "r") for _ in range(3)]
        assert len(set(taken)) == 3
    second = ids.take(GRANT, "r")
    assert (first, second) == (task_id("s", 3, "w", 0), task_id("s", 3, "w", 1)), "its own count goes on"


def test_sinks_of_two_ledgers_have_different_ids() -> None:
    assert driver_id("s") == "rayft-sink/s" != driver_id("s", "l")
    assert base_of(task_id("s", 3, "w", 0, "l"), "s") is None
    assert base_of(task_id("s", 3, "w", 0), "s", "l") is None
    assert base_of(task_id("s", 3, "w", 0, "l"), "s", "l") == 3


@pytest.mark.parametrize(
    ("id", "base"),
    [
        (task_id("s", 12, "w", 0), 12), ("rayft-sink/s", None), ("rayft-sink/st/1/w/0", None),
        ("x-rayft-sink/s/1/w/0", None),
        ("rayft-sink/s/w/0", None), ("rayft-sink/s//w/0", None), (f"rayft-sink/s/{'9' * 40}/w/0", None), ("", None),
    ],
)  # fmt: skip
def test_ids_of_others_are_none_of_a_sinks(id: str, base: int | None) -> None:
    assert base_of(id, "s") == base
