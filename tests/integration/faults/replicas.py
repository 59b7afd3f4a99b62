"""Compares the replicas of a partition on the disk, once all is over: the same bytes on every broker."""

import time
from pathlib import Path

from tests.integration.faults.targets import Target

SETTLE_S = 20.0


def differences(target: Target, topic: str, partitions: int) -> list[str]:
    """Partitions whose replicas differ, after some time for those that are still fetching."""
    until = time.monotonic() + SETTLE_S
    while True:
        found = [one for number in range(partitions) if (one := _difference(target, f"{topic}-{number}"))]
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.2)


def _difference(target: Target, partition: str) -> str | None:
    logs = {broker: _bytes(_directory(target, broker) / partition) for broker in target.brokers}
    if not any(logs.values()):
        return f"{partition}: no broker has any of it"
    first, *rest = logs
    for other in rest:
        one, two = logs[first], logs[other]
        if one != two:
            same = next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
            return f"{partition}: brokers {first} ({len(one)} bytes) and {other} ({len(two)}) differ at byte {same}"
    return None


def _directory(target: Target, broker: int) -> Path:
    return Path(target.member(broker).config.log_dirs[0])


def _bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
