"""Schema ids that stand in a header of a record and not in front of its value, as Confluent's serializers can write them.

    __value_schema_id: a one and sixteen bytes of a GUID, or a zero and four bytes of an id; and the message of Protobuf

This file alone decides how such a header is read. What is in it is put in front of the value, so that all that reads values
reads one way. A GUID, by which a schema has the same name in all registries, gets a number for that: one above those that
registries give. Such a number that somebody wrote himself, in a header or in front of a value, is no id. Of several headers
the last one counts, as for Java's deserializers.
"""

import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.client.errors import ClientError

ID, GUID = 0, 1
ID_BYTES, GUID_BYTES = 5, 17
FIRST = 1 << 31
"""Registries give ids below this."""
FIRST_WRITTEN = bytes([ID]) + FIRST.to_bytes(4, "big")
GUIDS_MAX = 100_000
NO_ID = b"\1"
"""What stands in front of a value without an id."""


class HeaderIds:
    """The ids in the headers of the records of a read."""

    def __init__(self, column: str) -> None:
        """`column`: key or value."""
        self._column = column
        self._header = f"__{column}_schema_id"
        self._numbers: dict[bytes, int] = {}
        self._names: dict[int, str] = {}

    def name(self, id: int) -> int | str:
        """What a registry is asked for: an id, or a GUID."""
        return self._names.get(id, id)

    def before(self, batch: pa.RecordBatch) -> tuple[pa.Array, bool]:
        """The keys or values of a batch, each with its id in front, and whether ids may be the numbers of GUIDs. Raises
        ClientError for more GUIDs than there may be."""
        given = batch.column(self._column)
        at = batch.schema.get_field_index("headers")
        if at < 0 or batch.column(at).null_count == len(batch):
            return given, False
        lists = batch.column(at)
        entries = lists.flatten()
        is_id = pc.fill_null(pc.equal(entries.field("key"), self._header), False)
        if not pc.any(is_id).as_py():
            return given, False
        lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
        rows = np.repeat(np.arange(len(batch)), lengths)[np.asarray(is_id)]
        is_last = np.append(rows[1:] != rows[:-1], True)
        told = entries.field("value").filter(is_id).filter(pa.array(is_last)).fill_null(b"").dictionary_encode()
        fronts = pa.array([b"", NO_ID, *(self._front(one) for one in told.dictionary.to_pylist())], pa.binary())
        claims = pc.and_(pc.greater_equal(given, FIRST_WRITTEN), pc.less(given, NO_ID))
        which = np.asarray(pc.fill_null(claims, False)).astype(np.int32)
        which[rows[is_last]] = np.asarray(told.indices) + 2
        return pc.binary_join_element_wise(fronts.take(pa.array(which)), given, b""), True

    def _front(self, header: bytes) -> bytes:
        """What stands in front of a value that has this header."""
        if header[:1] == bytes([ID]) and len(header) >= ID_BYTES:
            return header if header < FIRST_WRITTEN else NO_ID
        if header[:1] != bytes([GUID]) or len(header) < GUID_BYTES:
            return NO_ID
        guid = header[1:GUID_BYTES]
        number = self._numbers.get(guid)
        if number is None:
            if len(self._numbers) >= GUIDS_MAX:
                raise ClientError(
                    f"the headers {self._header} have more than {GUIDS_MAX:,} GUIDs: they are none of schemas"
                )
            number = self._numbers[guid] = FIRST + len(self._numbers)
            self._names[number] = str(uuid.UUID(bytes=guid))
        return bytes([ID]) + number.to_bytes(4, "big") + header[GUID_BYTES:]
