"""`python -m bench.cleaner`: how fast one thread compacts a log on the disk, and in how much memory for keys.

The log has uncompressed batches of a hundred records (or compressed ones), values of a hundred bytes, and each key about
ten times. MB/s counts the bytes of the log once, though the dirty part is read twice, and seconds of the processor: what
else the machine does and how fast its disk is do not count.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from actors.broker.log.cleaner import Cleaned, Durable, Limits, LogCleaning, Slice
from actors.broker.log.cleaning import cleanable
from actors.broker.log.log import PartitionLog
from actors.host.disk import LocalDisk
from actors.settings import BROKER_CONFIGS, topic_settings
from fastpath.records import batch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MAP_BYTES = 128 << 20


def written(root: str, megabytes: int, codec: int) -> PartitionLog:
    """A compacted topic's log of so many megabytes."""
    overrides = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20)}
    settings = topic_settings(overrides, lambda name: (False, BROKER_CONFIGS[name].default))
    log = PartitionLog(LocalDisk(root), "topic-0", settings, bytes(range(16)))
    choose = random.Random(1)
    keys = megabytes * 1_000_000 // 1_250
    pool = choose.randbytes(1 << 20)
    while log.size < megabytes * 1_000_000:
        builder = batch.Builder(attributes=codec, timestamp_ms=1_700_000_000_000)
        for _ in range(100):
            at = choose.randrange(len(pool) - 100)
            builder.append(b"key-%010d" % choose.randrange(keys), pool[at : at + 50] * 2)
        data = builder.build()
        log.append(data, batch.accept(data, 0, len(data), log.log_end_offset, 0).headers, 0)
    log.roll(0)
    log.flush()
    log.checkpointed_offset = log.log_end_offset
    return log


def cleaned(log: PartitionLog) -> tuple[Cleaned, int]:
    """Clean it without waiting for the disk; what came of it, and the memory of the map."""
    found = cleanable(log, log.log_end_offset, 1_700_000_100_000)
    cleaning = LogCleaning(log, found, Limits(MAP_BYTES, 0.9, 512 << 10), bytes(16), 1_700_000_100_000)
    steps, result = cleaning.steps(), None
    while True:
        try:
            wish = steps.send(result)
        except StopIteration as end:
            done: Cleaned = end.value
            return done, cleaning.map_bytes
        result = wish.job() if isinstance(wish, Slice) else None
        assert isinstance(wish, Slice | Durable) or wish.segments


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cleaner", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--codec", choices=CODECS, action="append")
    arguments = parser.parse_args()
    for name in arguments.codec or CODECS:
        with tempfile.TemporaryDirectory() as root:
            log = written(root, arguments.megabytes if name == "none" else arguments.megabytes // 4, CODECS.index(name))
            size, begun = sum(path.stat().st_size for path in Path(root).rglob("*.log")), time.process_time()
            done, memory = cleaned(log)
            took = time.process_time() - begun
            print(
                f"{name:7} {size / 1e6:6.0f} MB in {took:5.2f} s: {size / 1e6 / took:6.1f} MB/s a thread, kept "
                f"{done.records_kept} of {done.records_read} records, map of {memory / 1e6:.0f} MB"
            )


if __name__ == "__main__":
    main()
