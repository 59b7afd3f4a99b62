"""Compares the disks at the end of a run: the replicas of a partition have the same bytes on every broker, and the
metadata logs of all nodes have the same batches where they overlap.
"""

import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

from actors.node.quorum.files import DIRECTORIES
from fastpath.records import batch as batches
from tests.integration.faults.targets import Target

SETTLE_S = 20.0


def differences(target: Target, topic: str, partitions: int) -> list[str]:
    """Partitions whose replicas differ, after some time for those that are still fetching."""
    return _settled(lambda: [one for number in range(partitions) if (one := _difference(target, f"{topic}-{number}"))])


def metadata_differences(target: Target) -> list[str]:
    """Pairs of nodes whose metadata logs differ, after some time for what was never committed to be cut."""
    return _settled(lambda: _metadata(target))


def _settled(look: Callable[[], list[str]]) -> list[str]:
    until = time.monotonic() + SETTLE_S
    while True:
        found = look()
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.2)


def _metadata(target: Target) -> list[str]:
    nodes = [*target.controllers, *target.brokers]
    try:
        logs = {node: _batches(Path(target.member(node).config.metadata_log_dir)) for node in nodes}
    except FileNotFoundError as error:
        return [f"a segment goes: {error}"]
    found, compared = [], 0
    for one, other in combinations(nodes, 2):
        first, second = logs[one], logs[other]
        if not first or not second:
            continue
        start, end = max(min(first), min(second)), min(max(first), max(second))
        offsets = [offset for offset in sorted(first.keys() | second.keys()) if start <= offset <= end]
        compared += len(offsets)
        differing = [offset for offset in offsets if first.get(offset) != second.get(offset)]
        if differing:
            found.append(f"metadata of {one} and {other} differs at {differing[0]}")
    return found if compared else ["no two nodes have metadata in common"]


def _batches(directory: Path) -> dict[int, bytes]:
    """Base offset -> batch, of all segments of a metadata log."""
    found = {}
    for path in sorted((directory / DIRECTORIES["drafts"]).glob("*.log")):
        data = path.read_bytes()
        for header in batches.headers(data):
            found[header.base_offset] = data[header.position : header.position + header.size]
    return found


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
