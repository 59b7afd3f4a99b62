"""The syntax of the command line for offsets and times, and for conditions on columns.

    WHEN    1998182 | 14:02[:30] | 2026-11-21 | 2026-11-21T14:02[:30][Z | +01:00]
    WHERE   CONDITION [and CONDITION]...
    CONDITION   COLUMN = | != | < | <= | > | >= VALUE | COLUMN contains VALUE | COLUMN is [not] null | [not] COLUMN

This file alone decides it. A time of day means the last such time that is not after the end of the log. A time without
a zone is UTC. A value is a number, a word, a time, or 'a text in quotes'. `contains` is for lists and for texts.
Anything beyond this needs SQL and is refused: further words after a value (`or ...`) are no part of it.
"""

import datetime
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

OFFSET_MAX = 2**63 - 1
_OFFSET = re.compile(r"\d{1,100}")
"""A number that Python reads, whatever a log can have."""
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?[Zz]?")
_PARTS = re.compile(r"""\s+and\s+(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""", re.IGNORECASE)
_COMPARED = re.compile(r"(\w+)\s*(<=|>=|!=|==|=|<|>|\bcontains\b)\s*(.+)", re.IGNORECASE)
_NULL = re.compile(r"(\w+)\s+is\s+(not\s+)?null", re.IGNORECASE)
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_WORD = re.compile(r"""[^\s'"]\S*|\d{4}-\d\d-\d\d \S+""")
_PLAIN = re.compile(r"(not\s+)?(\w+)", re.IGNORECASE)
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def as_of(text: str, end: datetime.datetime | None = None) -> int | datetime.datetime:
    """The offset or time of WHEN; UTC if it names no zone. `end`: time of the log's last record. Raises ValueError."""
    if _OFFSET.fullmatch(text):
        return int(text)
    clock = _CLOCK.fullmatch(text)
    try:
        if clock:
            last = (end or datetime.datetime.now(datetime.UTC)).astimezone(datetime.UTC)
            time = datetime.time(int(clock[1]), int(clock[2]), int(clock[3] or 0))
            found = datetime.datetime.combine(last.date(), time, datetime.UTC)
            return found if found <= last else found - datetime.timedelta(days=1)
        found = datetime.datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is no moment: write an offset, a time of day such as 14:02, or 2026-11-21T14:02."
        ) from None


def bound(text: str, end: datetime.datetime | None = None) -> int | datetime.datetime:
    """The offset or time of WHEN for an option that bounds what is read. Raises ValueError, also for an offset that no
    log can have."""
    found = as_of(text, end)
    if isinstance(found, int) and found > OFFSET_MAX:
        raise ValueError(f"{text} is beyond the highest offset that a log can have, {OFFSET_MAX}.")
    return found


def as_of_is_clock(text: str) -> bool:
    """Whether WHEN is a time of day, for which the end of the log must be known."""
    return _CLOCK.fullmatch(text) is not None


End = Callable[[], datetime.datetime | None]
"""Returns the time of the log's last record."""


class Where:
    """Conditions that must all hold. `end` is called if one of them names a time of day. Raises ValueError for words
    that are no condition."""

    def __init__(self, text: str, end: End = lambda: None) -> None:
        self.conditions = [_condition(part, end) for part in _PARTS.split(text.strip())] if text.strip() else []

    @property
    def columns(self) -> list[str]:
        """The columns in the conditions."""
        return [column for column, _ in self.conditions]

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The rows for which the conditions hold. Raises ValueError for a column that does not exist, or a value that
        does not fit."""
        for column, holds in self.conditions:
            if column not in rows.column_names:
                raise ValueError(f"there is no column {column!r}, only {', '.join(rows.column_names)}")
            rows = rows.filter(holds(rows[column]))
        return rows


def _condition(text: str, end: End) -> tuple[str, Callable[[pa.ChunkedArray], Any]]:
    text = text.strip()
    null = _NULL.fullmatch(text)
    if null:
        return null[1], (pc.is_valid if null[2] else pc.is_null)
    compared = _COMPARED.fullmatch(text)
    if compared:
        column, how, given = compared[1], compared[2].lower(), _value(compared[3].strip())
        return column, lambda values: _holds(column, values, how, given, end)
    plain = _PLAIN.fullmatch(text)
    if plain:
        return plain[2], lambda values: _flag(plain[2], values, bool(plain[1]))
    raise ValueError(f"{text!r} is no condition: write, for example, leader = 5 and isr contains 3.")


def _value(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return str(quoted[1] if quoted[2] is None else quoted[2])
    if not _WORD.fullmatch(text):
        raise ValueError(
            f"{text!r} is no value: write a number, a word, a time or 'a text in quotes'; more than that is SQL (--sql)."
        )
    return text


def _flag(column: str, values: pa.ChunkedArray, negated: bool) -> Any:
    if not pa.types.is_boolean(values.type):
        raise ValueError(f"{column} is not true or false: write a comparison, for example {column} = 1.")
    return pc.invert(values) if negated else values


def _holds(column: str, values: pa.ChunkedArray, how: str, given: str, end: End) -> Any:
    kind = values.type
    if how == "contains" and pa.types.is_list(kind):
        wanted = _scalar(column, kind.value_type, given, end)
        flat = pc.equal(pc.list_flatten(values), wanted)
        rows = pc.unique(pc.filter(pc.list_parent_indices(values), flat.fill_null(False)))
        return pc.is_in(pa.array(range(len(values)), pa.int64()), value_set=rows.cast(pa.int64()))
    if how == "contains":
        if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
            raise ValueError(f"{column} is no list and no text: contains says nothing about it.")
        return pc.match_substring(values, given)
    if pa.types.is_nested(kind):
        raise ValueError(f"{column} is a list: write {column} contains {given}.")
    return COMPARE[how](values, _scalar(column, kind, given, end))


def _scalar(column: str, kind: pa.DataType, given: str, end: End) -> pa.Scalar:
    try:
        if pa.types.is_timestamp(kind):
            found = as_of(given, end() if as_of_is_clock(given) else None)
            time = _microseconds(found) if isinstance(found, datetime.datetime) else found * 1000
            return pa.scalar(time, pa.int64()).cast(pa.timestamp("us", "UTC")).cast(kind)
        if pa.types.is_binary(kind):
            return pa.scalar(given.encode(), kind)
        return pa.scalar(given, pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
        raise ValueError(f"{given!r} does not compare with {column}, which is {kind}") from None


def _microseconds(time: datetime.datetime) -> int:
    """The microseconds since 1970 of a time, without the rounding of a float."""
    return (time - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
