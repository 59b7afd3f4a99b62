"""The metrics that a client pushes (KIP-714): OpenTelemetry's protobuf, as far as numbers are in it.

This file alone decides what of a payload is taken: gauges and sums whole, of histograms and summaries count and sum. The
rest is passed over. Protobuf numbers its fields: the numbers here are those of OpenTelemetry's metrics.proto.

Nothing in a payload is believed: its fields and data points are counted, and names and labels have a length. What is beyond
that, or no protobuf, raises Malformed. All of it runs outside the loop.
"""

import struct
from collections.abc import Generator, Iterator
from typing import NamedTuple

FIELDS_MAX = 500_000
"""The most fields in one payload: a consumer of a thousand partitions sends a hundred thousand. So many take about a
third of a second."""
FIELDS_FREE, FIELDS_A_POINT = 30_000, 160
"""The number of fields in a payload that need not belong to data points, and for each data point: with the most labels
it has so many. A kilobyte, decompressed, may be a million fields that say nothing."""
POINTS_MAX = 20_000
TEXT_BYTES_MAX = 512
LABELS_MAX = 32
DELTA = 1
"""The temporality of a sum that counts from the push before on."""

Labels = tuple[tuple[str, str], ...]


class Malformed(ValueError):
    """A payload that does not look like OpenTelemetry's metrics, or has too much of it."""


class Point(NamedTuple):
    """One number of a client. `adds`: it is what has come since the push before."""

    name: str
    labels: Labels
    value: float
    adds: bool


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
Field = tuple[int, int, int, memoryview]
"""A field: number, wire type, the value where it is a number, the bytes where it has a length or is fixed."""


class _Reader:
    """A reader of one payload, which counts fields."""

    def __init__(self) -> None:
        self.fields = self.points = 0
        self._told = 0

    def spent(self) -> int:
        """The number of fields since this was asked last."""
        spent, self._told = self.fields - self._told, self.fields
        return spent

    def of(self, data: memoryview) -> Iterator[Field]:
        """The fields of one message."""
        at, end = 0, len(data)
        while at < end:
            self.fields += 1
            if self.fields > FIELDS_MAX:
                raise Malformed(f"more than {FIELDS_MAX} fields")
            if self.fields > FIELDS_FREE + FIELDS_A_POINT * self.points:
                raise Malformed(f"{self.fields} fields with {self.points} data points")
            tag, at = _varint(data, at)
            kind, size, value = tag & 7, 0, 0
            if kind == _VARINT:
                value, at = _varint(data, at)
            elif kind == _BYTES:
                size, at = _varint(data, at)
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
            else:
                raise Malformed(f"wire type {kind}")
            if size > end - at:
                raise Malformed("a field that goes beyond its message")
            yield tag >> 3, kind, value, data[at : at + size]
            at += size


def read(data: bytes | memoryview) -> list[Point]:
    """The numbers of a MetricsData. Raises Malformed."""
    steps = reading(data)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[Point] = end.value
            return found


def reading(data: bytes | memoryview) -> Generator[int, None, list[Point]]:
    """Read the numbers of a MetricsData, metric by metric. Yields how many fields it has read since the last time.
    Returns the numbers. Raises Malformed."""
    reader, found = _Reader(), list[Point]()
    for number, kind, _, resource in reader.of(memoryview(data)):
        if (number, kind) != (1, _BYTES):
            continue
        labels, scopes = list[tuple[str, str]](), list[memoryview]()
        for inner, inner_kind, _, part in reader.of(resource):
            if inner_kind == _BYTES and inner == 1:
                labels += [_pair(reader, one) for at, k, _, one in reader.of(part) if (at, k) == (1, _BYTES)]
            elif inner_kind == _BYTES and inner == 2:
                scopes.append(part)
        for scope in scopes:
            for inner, inner_kind, _, metric in reader.of(scope):
                if (inner, inner_kind) == (2, _BYTES):
                    _metric(reader, metric, labels, found)
                    yield reader.spent()
    return found


def _metric(reader: _Reader, data: memoryview, labels: list[tuple[str, str]], found: list[Point]) -> None:
    name, bodies = "", list[tuple[int, memoryview]]()
    for number, kind, _, part in reader.of(data):
        if kind == _BYTES and number == 1:
            name = _text(part)
        elif kind == _BYTES and number in _KINDS:
            bodies.append((number, part))
    if not name:
        raise Malformed("a metric without a name")
    for number, body in bodies:
        points, adds = list[memoryview](), False
        for inner, kind, value, part in reader.of(body):
            if (inner, kind) == (1, _BYTES):
                points.append(part)
            elif (inner, kind) == (2, _VARINT):
                adds = value == DELTA
        for point in points:
            reader.points += 1
            if reader.points > POINTS_MAX:
                raise Malformed(f"more than {POINTS_MAX} data points")
            found += _point(reader, name, point, labels, _KINDS[number], adds)


class _Kind(NamedTuple):
    """The layout of a data point. `attributes`: number of that field. `numbers`: field -> (suffix, form)."""

    attributes: int
    numbers: dict[int, tuple[str, str]]


_NUMBER = _Kind(7, {4: ("", "<d"), 6: ("", "<q")})
_COUNTED = {4: (".count", "<Q"), 5: (".sum", "<d")}
_KINDS = {5: _NUMBER, 7: _NUMBER, 9: _Kind(9, _COUNTED), 10: _Kind(1, _COUNTED), 11: _Kind(7, _COUNTED)}
"""The kinds of a metric by the field that holds it: gauge, sum, histogram, exponential histogram, summary."""


def _point(
    reader: _Reader, name: str, data: memoryview, labels: list[tuple[str, str]], kind: _Kind, adds: bool
) -> list[Point]:
    own, values = list[tuple[str, str]](), list[tuple[str, float]]()
    for number, wire, _, part in reader.of(data):
        if (number, wire) == (kind.attributes, _BYTES):
            own.append(_pair(reader, part))
        elif wire == _FIXED64 and number in kind.numbers:
            suffix, form = kind.numbers[number]
            values.append((suffix, float(struct.unpack(form, part)[0])))
    if len(labels) + len(own) > LABELS_MAX:
        raise Malformed(f"more than {LABELS_MAX} attributes of {name}")
    all_labels = tuple(sorted({**dict(labels), **dict(own)}.items()))
    return [Point(name + suffix, all_labels, value, adds) for suffix, value in values]


def _pair(reader: _Reader, data: memoryview) -> tuple[str, str]:
    """A label: the name and the value of a KeyValue."""
    key = value = ""
    for number, kind, _, part in reader.of(data):
        if kind == _BYTES and number == 1:
            key = _text(part)
        elif kind == _BYTES and number == 2:
            for inner, inner_kind, plain, text in reader.of(part):
                if (inner, inner_kind) == (1, _BYTES):
                    value = _text(text)
                elif (inner, inner_kind) == (2, _VARINT):
                    value = "true" if plain else "false"
                elif (inner, inner_kind) == (3, _VARINT):
                    value = str(plain - (1 << 64) if plain >> 63 else plain)
                elif (inner, inner_kind) == (4, _FIXED64):
                    value = repr(struct.unpack("<d", text)[0])
    if not key:
        raise Malformed("an attribute without a key")
    return key, value


def _text(data: memoryview) -> str:
    if len(data) > TEXT_BYTES_MAX:
        raise Malformed(f"a text of {len(data)} bytes, more than {TEXT_BYTES_MAX}")
    return bytes(data).decode("utf-8", "replace")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Malformed("it ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise Malformed("a number of more than ten bytes")
