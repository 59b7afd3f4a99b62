"""`python -m bench.recompression`: how fast one thread puts produced batches into the codec of their topic (KIP-390).

A batch has a hundred records of a kilobyte that compress to about a third. MB/s counts the uncompressed bytes of its records
and seconds of the processor: check, decompression, compression and checksum together.
"""

import argparse
import random
import time

from fastpath.records import batch
from fastpath.records.inspection import Rules
from fastpath.records.recompression import Recompression, Target

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS = {"none": 0, "gzip": -1, "snappy": 0, "lz4": 9, "zstd": 3}
"""Apache Kafka's defaults."""
RECORDS, RECORD_BYTES = 100, 1_000


def built(codec: int) -> bytes:
    """A produced batch in that codec."""
    choose = random.Random(1)
    words = [bytes(choose.choices(b"abcdefghijklmnopqrstuvwxyz", k=choose.randint(3, 9))) for _ in range(500)]
    builder = batch.Builder(attributes=codec, timestamp_ms=1_700_000_000_000)
    for _ in range(RECORDS):
        builder.append(None, b" ".join(choose.choices(words, k=RECORD_BYTES // 6))[:RECORD_BYTES])
    return bytes(builder.build())


def megabytes_a_second(data: bytes, target: Target, seconds: float) -> float:
    """How fast batches like this one get that form."""
    began, done = time.process_time(), 0
    while (spent := time.process_time() - began) < seconds:
        for _ in Recompression(data, target).steps(data, Rules()):
            pass
        done += 1
    return done * RECORDS * RECORD_BYTES / spent / 1e6


def main() -> None:
    """Print a table: a row for each codec of the producer, a column for each of the topic."""
    parser = argparse.ArgumentParser(prog="python -m bench.recompression", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each pair (default 1)")
    args = parser.parse_args()
    print(f"{'MB/s':>8}" + "".join(f"{name:>9}" for name in CODECS))
    for source, name in enumerate(CODECS):
        data = built(source)
        row = [
            megabytes_a_second(data, Target(target, LEVELS[wanted], 1 << 30), args.seconds) if target != source else 0.0
            for target, wanted in enumerate(CODECS)
        ]
        print(f"{name:>8}" + "".join(f"{speed:9.0f}" if speed else f"{'-':>9}" for speed in row))


if __name__ == "__main__":
    main()
