"""Which columns can be written: what is refused is named with what it has to be."""

import pyarrow as pa
import pytest

from actors.arrow import written_columns
from actors.arrow.written_columns import batches, check
from fastpath.arrow.columns_to_batches import Batches
from fastpath.records.batch import records
from tests.unit.fastpath.arrow.columns import BYTES

V = ("value", pa.binary())
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
WRONG = [
    ([("key", pa.binary())], "there is no column 'value', which has to be binary or string"),
    ([("value", pa.int64())], "column 'value' is of type int64, and has to be binary or string: cast it"),
    ([("value", pa.dictionary(pa.int8(), pa.int64()))], "column 'value' is of type dictionary.*, and has to be binary"),
    ([V, ("key", pa.list_(pa.binary()))], "column 'key' is of type list.*, and has to be binary or string"),
    (
        [V, ("headers", pa.map_(pa.string(), pa.binary()))],
        r"column 'headers' is of type map.* has to be list<struct<key",
    ),
    ([V, ("headers", pa.list_(pa.string()))], "column 'headers' is of type list"),
    ([V, ("headers", pa.list_(pa.struct([("key", pa.string())])))], "column 'headers' is of type list"),
    ([V, ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.int8())])))], "column 'headers' is of"),
    ([V, ("headers", pa.list_(pa.struct([("k", pa.string()), ("value", pa.binary())])))], "column 'headers' is of"),
    ([V, ("headers", pa.list_(PAIR, 2))], "column 'headers' is of type fixed_size_list"),
    ([V, ("timestamp", pa.int64())], "column 'timestamp' is of type int64, and has to be a timestamp"),
    ([V, ("timestamp", pa.date32())], "column 'timestamp' is of type date32"),
    ([V, ("partition", pa.string())], "column 'partition' is of type string, and has to be an integer"),
    ([V, ("partition", pa.null())], "column 'partition' is of type null"),
    (
        [V, ("Key", pa.binary())],
        "column 'Key' is none of a record's: leave it out, or call it one of value, key, headers",
    ),
    ([V, V], "there are two columns 'value'"),
]


@pytest.mark.parametrize(("fields", "said"), WRONG)
def test_what_does_not_fit_is_named(fields: list[tuple[str, pa.DataType]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check(pa.schema(fields))


@pytest.mark.parametrize("kind", BYTES, ids=str)
def test_every_type_of_bytes_fits(kind: pa.DataType) -> None:
    check(pa.schema([("value", kind), ("key", kind)]))


def test_what_a_read_gives_can_be_written() -> None:
    from actors.replay.columns.record_columns import SCHEMA

    check(SCHEMA)
    check(pa.schema([V, ("headers", pa.null()), ("timestamp", pa.null())]))
    check(pa.schema([V, ("headers", pa.large_list(PAIR))]))


def test_every_column_of_a_read_is_written_or_left_out_on_purpose() -> None:
    from actors.replay.columns.record_columns import SCHEMA

    assert {*written_columns.WANTED, *written_columns.IGNORED} == set(SCHEMA.names)


def test_partitions_beyond_64_bits_are_refused() -> None:
    batch = pa.record_batch({"value": pa.nulls(1), "partition": pa.array([(1 << 64) - 1], pa.uint64())})
    with pytest.raises(ValueError, match="18446744073709551615 not in range"):
        written_columns.columns(batch)


def test_data_of_every_kind_and_what_is_none() -> None:
    table = pa.table({"value": pa.chunked_array([["a"], ["b", "c"]])})

    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    for data in (table, table.to_reader(), Stream()):
        schema, some = batches(data)
        assert schema == table.schema and [one.num_rows for one in some] == [1, 2]
    (batch,) = batches(table.to_batches()[1])[1]
    assert batch.num_rows == 2
    for other in ([1, 2], {"value": [b"a"]}, None, "text"):
        with pytest.raises(ValueError, match="is no Arrow data: give a pyarrow Table"):
            batches(other)


def test_the_words_of_a_dictionary_are_not_copied_for_its_rows() -> None:
    words = pa.array([b"x" * (1 << 20), None], pa.binary())
    value = pa.DictionaryArray.from_arrays(pa.array([0] * 200 + [1, None]), words)
    before = pa.total_allocated_bytes()
    read = written_columns.columns(pa.record_batch({"value": value}))
    assert pa.total_allocated_bytes() - before < 10 << 20, "bytes, of 200 MiB in rows"
    filled = Batches(1, 8 << 20, 8 << 20)
    assert filled.fill(read, 0, 202, 0, 0, 1 << 40) == 202
    filled.close()
    found = [record.value for one in filled.taken() for record in records(one.data)]
    assert found == [b"x" * (1 << 20)] * 200 + [None, None]


@pytest.mark.parametrize("index", [2, -1, (1 << 31) - 1])
def test_a_row_without_a_word_is_refused(index: int) -> None:
    indices = pa.array([0, index], pa.int32())
    value = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    with pytest.raises(IndexError):
        written_columns.columns(pa.record_batch({"value": value}))
