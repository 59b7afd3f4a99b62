"""Moments and conditions as typed, over a small table."""

import datetime
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import pyarrow as pa

from actors.replay import where
from actors.replay.where import OFFSET_MAX, Where, as_of, bound

END = datetime.datetime(2026, 11, 29, 14, 2, 30, tzinfo=datetime.UTC)
ROWS = pa.table({
    "n": pa.array([1, 2, None, 4], pa.int32()),
    "name": ["a", "b and c", None, "it's"],
    "isr": pa.array([[1, 2], [], None, [12]], pa.list_(pa.int32())),
    "time": pa.array([END, END - datetime.timedelta(days=1), None, END], pa.timestamp("us", "UTC")),
    "led": [True, False, None, True],
    "raw": pa.array([b"a", b"\xff", None, b"ab"], pa.binary()),
})  # fmt: skip


def at(*words: int) -> datetime.datetime:
    return datetime.datetime(*words, tzinfo=datetime.UTC)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0", 0), ("1998182", 1_998_182), ("14:02", at(2026, 11, 29, 14, 2)), ("14:02:30", END),
        ("14:02:31", at(2026, 11, 28, 14, 2, 31)), ("23:59z", at(2026, 11, 28, 23, 59)),
        ("2026-11-21", at(2026, 11, 21)), ("2026-11-21T14:02+01:00", at(2026, 11, 21, 13, 2)),
    ],
)  # fmt: skip
def test_a_moment_and_a_time_of_day_is_the_last_one_before_the_end(text: str, moment: Any) -> None:
    assert as_of(text, END) == moment == bound(text, END)
    assert where.as_of_is_clock(text) == (":" in text and "T" not in text)


@pytest.mark.parametrize(
    "text", ["", "soon", "24:00", "14:60", "-5", "2026-13-01", "0001-01-01T00:00+14:00", "1.5", "9" * 5000]
)
def test_what_is_no_moment_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="is no moment: write an offset, a time of day"):
        as_of(text, END)


def test_no_log_has_an_offset_beyond_the_highest() -> None:
    assert bound(str(OFFSET_MAX)) == OFFSET_MAX
    with pytest.raises(ValueError, match="beyond the highest offset"):
        bound(str(OFFSET_MAX + 1))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [0, 1, 2, 3]), ("n = 2", [1]), ("n == 2", [1]), ("n != 2", [0, 3]), ("n<=2", [0, 1]), ("n > 1 AND n < 4", [1]),
        ("n is null", [2]), ("n is not null", [0, 1, 3]), ("name = 'b and c'", [1]), ('name = "it\'s"', [3]),
        ("name contains ' and ' and n = 2", [1]), ("isr contains 1", [0]), ("isr contains 12 and led", [3]),
        ("not led", [1]), ("raw = a", [0]), ("raw contains a", [0, 3]), ("time >= 14:02:30", [0, 3]),
        ("time = '2026-11-28 14:02:30'", [1]),
    ],
)  # fmt: skip
def test_the_rows_for_which_conditions_hold(text: str, found: list[int]) -> None:
    numbered = ROWS.append_column("row", pa.array(range(4)))
    assert Where(text, lambda: END)(numbered)["row"].to_pylist() == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n = 2 or n = 3", "is no value: .* more than that is SQL"), ("n =", "is no condition"), ("= 2", "is no condition"),
        ("n = 'a", "is no value"), ("x = 1", "there is no column 'x', only n, name"),
        ("n = a", "'a' does not compare with n"),
        ("isr = 1", "isr is a list: write isr contains 1"), ("n contains 1", "n is no list and no text"),
        ("n", "n is not true or false"), ("isr contains x", "does not compare"), ("n = 99999999999", "does not compare"),
    ],
)  # fmt: skip
def test_what_is_no_condition_is_told(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Where(text, lambda: END)(ROWS)
