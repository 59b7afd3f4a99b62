"""The byte hot path compared with Python's libraries for it, at several sizes.

    python -m pytest -s bench/test_hotpath.py --benchmark-columns=min,median,ops --benchmark-sort=min

Rivals: google-crc32c (C) for the checksum, kafka-python's record classes for batches, and its varints. The ratio of
each pair (the rival's minimum over rayft's: above 1, rayft is faster) is printed at the end.
"""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator

import google_crc32c
import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import decode_varint, encode_varint

from fastpath.bytes import crc32c, varint
from fastpath.records import batch

pytest.importorskip("pytest_benchmark")

CRC_SIZES = [61, 256, 1024, 4096, 16_384, 65_536, 1 << 20, 16 << 20]
SHAPES = [(1, 100), (10, 100), (160, 100), (1, 1024), (16, 1024), (1000, 1024)]  # records, bytes of each value
BUFFERS = [(1, 1_000_000), (2, 1_000_000), (8, 100_000), (8, 1_000_000)]  # frames held at once, bytes of each
OURS = "rayft"

_minima: dict[str, dict[str, float]] = {}


@pytest.fixture(scope="module", autouse=True)
def ratios() -> Iterator[None]:
    yield
    print("\n\nrival's time / ours")
    for case, minima in _minima.items():
        for who in minima.keys() - {OURS}:
            print(f"  {case:<34} {minima[who] / minima[OURS]:8.2f} x  {who}")


def measure(benchmark, case: str, who: str, function: Callable[..., object], *arguments: object) -> None:
    benchmark.group = case
    benchmark(function, *arguments)
    _minima.setdefault(case, {})[who] = benchmark.stats.stats.min


def value_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size", CRC_SIZES)
@pytest.mark.parametrize("who", [OURS, *(way for way in crc32c.ways()), "google-crc32c"])
def test_crc32c(benchmark, who: str, size: int) -> None:
    data = value_of(size)
    if who == OURS:
        measure(benchmark, f"crc32c {size}", who, crc32c.crc32c, data)
    elif who == "google-crc32c":
        measure(benchmark, f"crc32c {size}", who, google_crc32c.value, data)
    else:
        measure(benchmark, f"crc32c {size}", who, crc32c.crc32c_by, who, data)


def ours_built(count: int, value: bytes) -> bytearray:
    builder = batch.Builder(timestamp_ms=1000)
    for _ in range(count):
        builder.append(None, value)
    return builder.build()


def theirs_built(count: int, value: bytes) -> bytearray:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
    for i in range(count):
        builder.append(i, 1000, None, value, [])
    return builder.build()


@pytest.mark.parametrize(("count", "size"), SHAPES)
@pytest.mark.parametrize("who", [OURS, "kafka-python"])
def test_build(benchmark, who: str, count: int, size: int) -> None:
    value = value_of(size)
    assert bytes(ours_built(count, value))[61:] == bytes(theirs_built(count, value))[61:]
    measure(benchmark, f"build {count} x {size}", who, ours_built if who == OURS else theirs_built, count, value)


@pytest.mark.parametrize(("count", "size"), SHAPES)
@pytest.mark.parametrize("who", [OURS, "kafka-python"])
def test_verify(benchmark, who: str, count: int, size: int) -> None:
    data = bytes(ours_built(count, value_of(size)))
    theirs = DefaultRecordBatch(data)
    assert theirs.validate_crc() and batch.verify(data).crc == theirs.crc
    function, given = (batch.verify, data) if who == OURS else (DefaultRecordBatch.validate_crc, theirs)
    measure(benchmark, f"verify {count} x {size}", who, function, given)


@pytest.mark.parametrize(("count", "size"), SHAPES)
@pytest.mark.parametrize("who", [OURS, "without records"])
def test_accept(benchmark, who: str, count: int, size: int) -> None:
    """The produce path. `without records` skips the walk over the records, which shows the cost of the walk."""
    data = ours_built(count, value_of(size))

    def accept() -> object:
        return batch.accept(data, 0, len(data), 1 << 40, 7, client=who == OURS)

    measure(benchmark, f"accept {count} x {size}", who, accept)


@pytest.mark.parametrize(("count", "size"), SHAPES)
@pytest.mark.parametrize("who", [OURS, "kafka-python"])
def test_records(benchmark, who: str, count: int, size: int) -> None:
    data = bytes(ours_built(count, value_of(size)))

    def ours() -> object:
        return [record.value for record in batch.records(data)]

    def theirs() -> object:
        return [record.value for record in DefaultRecordBatch(data)]

    assert ours() == theirs()
    measure(benchmark, f"records {count} x {size}", who, ours if who == OURS else theirs)


@pytest.mark.parametrize("who", [OURS, "one at a time"])
def test_columns(benchmark, who: str) -> None:
    data = bytes(ours_built(10, value_of(100))) * 10_000
    measure(benchmark, "10,000 headers", who, batch.columns if who == OURS else batch.headers, data)


@pytest.mark.parametrize("value", [1, 300, 70_000, 2**31 - 1])
@pytest.mark.parametrize("who", [OURS, "kafka-python"])
def test_varint_decode(benchmark, who: str, value: int) -> None:
    data = varint.encode_varint(value)
    assert varint.decode_varint(data, 0) == decode_varint(bytearray(data), 0)
    function = varint.decode_varint if who == OURS else decode_varint
    measure(benchmark, f"varint decode {value}", who, function, data if who == OURS else bytearray(data), 0)


@pytest.mark.parametrize("value", [1, 300, 70_000, 2**31 - 1])
@pytest.mark.parametrize("who", [OURS, "kafka-python"])
def test_varint_encode(benchmark, who: str, value: int) -> None:
    if who == OURS:
        measure(benchmark, f"varint encode {value}", who, varint.encode_varint, value)
    else:
        measure(benchmark, f"varint encode {value}", who, encode_varint, value, bytearray().append)


FRAMES = """
import sys, timeit
import numpy
from fastpath.bytes.frame_pool import Pool

who, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
content, pool = memoryview(bytes(size)), Pool(64 << 20)
take = {
    "rayft": pool.take,
    "bytearray": lambda n: memoryview(bytearray(n)),
    "numpy.empty": lambda n: numpy.empty(n, numpy.uint8).data,
}[who]

def fill():
    held = [take(size) for _ in range(count)]
    for view in held:
        view[:] = content

print(min(timeit.repeat(fill, number=20, repeat=5)) / 20 / count)
"""


@pytest.mark.parametrize(("count", "size"), BUFFERS)
@pytest.mark.parametrize("who", [OURS, "bytearray", "numpy.empty"])
def test_frames_in_turn(who: str, count: int, size: int) -> None:
    """Fill `count` frames and drop them, as sockets do with produce requests.

    Each case runs in a process of its own, because what the allocator gives back to the kernel depends on earlier work.
    """
    command = [sys.executable, "-c", FRAMES, who, str(count), str(size)]
    seconds = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    _minima.setdefault(f"{count} frames of {size}", {})[who] = seconds
