"""Every record of files that Apache Kafka 4.3.1 wrote, against what its own dump says of them, field by field."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from actors import replay
from actors.replay.columns import column_plans, metadata
from actors.replay.columns.arrow import Uniform, spread
from actors.replay.logs import files
from actors.replay.logs.chunks import ChunkReading, chunks

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.3.1"
FILES = {
    "__cluster_metadata-0/00000000000000000000.log": "__cluster_metadata-0/00000000000000000000.dump.txt.gz",
    "snapshots/00000000000000002473-0000000002.checkpoint": "snapshots/00000000000000002473-0000000002.checkpoint.dump.txt",
    "snapshots/bootstrap.checkpoint": "snapshots/bootstrap.checkpoint.dump.txt",
}
RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*?headerKeys: \[\] (?:payload|(\w+):?):? ?(\{.*\})$")


def dumped(name: str) -> dict[int, tuple[int, object]]:
    """offset -> (timestamp in ms, JSON) of Kafka's dump."""
    path = GOLDEN / name
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    found = [RECORD.match(line) for line in lines]
    assert all(found), "a line of the dump that this test does not understand"
    return {int(one[1]): (int(one[2]), json.loads(one[4])) for one in found if one}


def shown(path: Path, secrets: bool) -> dict[int, tuple[int, object]]:
    """The same from our decoder; `secrets`: with what is otherwise never shown."""
    log = files.partitions(path)[0]
    which = files.family(log)
    family = column_plans.family(which, None, None, secrets)
    schema = metadata.records_schema(which, ("offset", "timestamp", "json"))
    found = {}
    for chunk in chunks(path, ChunkReading()):
        decoded = metadata.Decoded(family, chunk, ChunkReading())
        made = metadata._merged(family, decoded, schema, 0, -1, Uniform(pa.nulls))
        times = made.column("timestamp").cast(pa.int64()).to_pylist()
        for offset, time, text in zip(
            made.column("offset").to_pylist(), times, made.column("json").to_pylist(), strict=True
        ):
            found[offset] = (time // 1000, json.loads(text))
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_field_is_what_kafkas_own_dump_says(name: str) -> None:
    expected = dumped(FILES[name])
    assert len(expected) > 5
    assert shown(GOLDEN / name, secrets=True) == expected


def test_secrets_are_null_and_nothing_else_differs() -> None:
    name = "__cluster_metadata-0/00000000000000000000.log"
    open_, hidden = shown(GOLDEN / name, True), shown(GOLDEN / name, False)
    different = [offset for offset in open_ if open_[offset] != hidden[offset]]
    assert different
    for offset in different:
        record = hidden[offset][1]
        assert isinstance(record, dict)
        assert record["type"] == "USER_SCRAM_CREDENTIAL_RECORD"
        assert [record["data"][field] for field in ("salt", "storedKey", "serverKey")] == [None] * 3
    (split,) = replay.open(GOLDEN / name).splits()
    (batch,) = replay.read(split, ["user_scram_credential"])
    rows = [row for row in batch.column(0).to_pylist() if row is not None]
    assert len(rows) == len(different) and all(row["salt"] is None for row in rows)


def test_structs_lie_in_the_rows_of_their_type() -> None:
    """As `take` would put them, which copies."""
    name = "__cluster_metadata-0/00000000000000000000.log"
    kinds = 0
    for chunk in chunks(GOLDEN / name, ChunkReading(chunk_bytes=30_000)):
        family = column_plans.family("released")
        decoded = metadata.Decoded(family, chunk, ChunkReading())
        together = sorted(offset for rows in decoded.rows.values() for offset in rows[0].tolist())
        for slot, rows in decoded.rows.items():
            kind = family.kinds[slot]
            if not kind.trees:
                continue
            kinds += 1
            values = pa.StructArray.from_arrays(decoded.fields(kind), fields=list(kind.type))
            own = np.searchsorted(together, rows[0])
            places = {row: at for at, row in enumerate(own.tolist())}
            expected = values.take(pa.array([places.get(row) for row in range(len(together))], pa.int64()))
            found = spread(values, own, len(together))
            found.validate(full=True)
            assert found.to_pylist() == expected.to_pylist(), kind.name
    assert kinds > 20
