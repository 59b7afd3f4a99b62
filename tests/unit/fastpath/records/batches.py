"""Batches to test with: made up by hypothesis, and written by Apache Kafka 4.3.1."""

from pathlib import Path

from hypothesis import strategies as st

from fastpath.records import batch
from tests.reference import batch as slow

GOLDEN = Path(__file__).parents[3] / "golden" / "apache-kafka-4.3.1"

maybe_bytes = st.none() | st.binary(max_size=20) | st.binary(min_size=120, max_size=140)
timestamps = st.integers(0, 2**42) | st.just(-1)
rows = st.lists(
    st.builds(
        slow.Row,
        maybe_bytes,
        maybe_bytes,
        timestamps,
        st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=8,
)
codecs = st.integers(0, 4)


def built(content: list[slow.Row], **header: int) -> bytearray:
    """The same batch as `slow.build` makes, by the Builder."""
    builder = batch.Builder(**header)
    for row in content:
        builder.append(row.key, row.value, row.timestamp, row.headers)
    return builder.build()


def read(data, pos: int = 0, **limits: int) -> list[slow.Row]:
    """Records as rows with their absolute timestamp."""
    return [slow.Row(r.key, r.value, r.timestamp, r.headers) for r in batch.records(data, pos, **limits)]
