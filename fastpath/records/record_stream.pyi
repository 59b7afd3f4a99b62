from typing import NamedTuple

from typing_extensions import Buffer

class Found(NamedTuple):
    """The first record that matches a search. `timestamp`: ms."""

    offset_delta: int
    timestamp: int

class Walk:
    """One pass over the records of a batch. `feed` it with the records' bytes, in any pieces and in order."""

    index: int  # type: ignore[assignment]
    """The number of records read so far."""
    latest: int
    """The largest timestamp of a record whose offset delta is at least `from_delta`, ms; -1: none."""
    latest_delta: int
    """The offset delta of the first record that has it; -1: none."""
    errors: int
    """The number of records without a key where one is needed, or with a time that is not accepted."""
    mistimed: bool
    """Whether one of those records has a time that is not accepted."""
    found: Found | None
    """The first record from `from_ms` on whose offset delta is at least `from_delta`. Records after it are not read."""

    def __init__(
        self,
        count: int,
        last_offset_delta: int,
        base_timestamp: int,
        *,
        strict: bool,
        keyed: bool = False,
        oldest_ms: int = ...,
        newest_ms: int = ...,
        append_time_ms: int | None = None,
        from_ms: int = ...,
        from_delta: int = 0,
    ) -> None:
        """`strict`: offset deltas are 0, 1, 2, ...; otherwise they only rise (compaction leaves gaps). `keyed`: a
        record without a key is an error. A timestamp outside [`oldest_ms`, `newest_ms`] is an error too, except -1 (no
        time). `append_time_ms`: the time of every record, if the log decides it."""

    @property
    def whole(self) -> bool:
        """Whether `count` records have been read, and nothing else."""

    @property
    def kept_errors(self) -> list[tuple[int, bool]]:
        """The first 100 `errors`: (index of the record, whether its key is missing)."""

    def feed(self, piece: Buffer) -> str | None:
        """Read one piece of the records. Returns a sentence when the records are invalid. Pieces of 16 KiB and more are
        read without the GIL."""
