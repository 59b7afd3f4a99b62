"""Every node has the same committed metadata log, and the image of every node is what replaying that log gives.

This file replays every committed batch once into an image of its own, as a reader of the log from its start does. Nodes
at the same offset must have an equal image, however they got it: by generating the operations (the active controller),
by decoding them, or by loading a snapshot first. Images are equal if their canonical snapshots have the same bytes.
"""

from collections.abc import Iterator
from typing import Any

from actors.metadata import snapshot
from actors.metadata.batches import is_control
from actors.metadata.dialects import FORMAT, dialect
from actors.metadata.image import Image
from actors.ports import Batch
from tests.simulator.checkers.hooks import Hooks, Violation

READ_BYTES = 1 << 20
FAMILY = "drafts"


def canonical(image: Image) -> bytes:
    """The state of an image as the bytes of a snapshot."""
    pin = image.pin()
    try:
        level = image.feature(FORMAT) or 2
        return b"".join(bytes(part) for part in snapshot.encode(pin, 0, level, 0, None))
    finally:
        pin.release()


def replay(image: Image, batch: Batch) -> None:
    """Apply a batch of the log to an image that follows it."""
    if not is_control(batch.data):
        for offset, op in dialect(image.feature(FORMAT) or FAMILY).decode(batch):
            image.replay(offset, op)
    if image.next_offset <= batch.last_offset:
        image.advance(batch.last_offset + 1)
    image.commit(image.next_offset)


def partitions(image: Image) -> Iterator[tuple[tuple[bytes, int], int]]:
    """((topic id, number), row) of every partition; a simulated cluster has few."""
    for topic in image.topics():
        topic_id = image.topic_id(topic)
        assert topic_id is not None
        for row in image.topic_partitions(topic):
            yield (topic_id, image.number(row)), row


class MetadataLog:
    name = "metadata_logs_identical"

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self.image = Image()
        self.batches: dict[int, bytes] = {}
        self._checked: dict[str, int] = {}
        self._compared: dict[str, int] = {}
        self._named: dict[str, int] = {}
        """End of the newest snapshot of each process that was checked."""
        self._canonical: tuple[int, bytes] = (-1, b"")

    def ended(self, process: Any) -> None:
        """The disk of the next process is checked again."""
        self._checked.pop(process.name, None)
        self._compared.pop(process.name, None)

    def turned(self, process: Any) -> None:
        """Compare what this node knows to be committed since the last turn."""
        node = process.node
        quorum = node.quorum
        raft = quorum.raft
        mark = min(raft.high_watermark, raft.log_end_offset)
        checked = self._checked.get(process.name, 0)
        if mark > checked:
            self._checked[process.name] = self._compare(process, max(checked, quorum.store.log.start_offset), mark)
        snapshot = quorum.store.checkpoints.latest
        if snapshot is not None and self._named.get(process.name) != snapshot.end_offset <= self.image.next_offset:
            self._named[process.name] = end = snapshot.end_offset
            if end not in self.batches and end != self.image.next_offset:
                raise Violation(self.name, f"{process.name} has a snapshot that ends at {end}, inside a batch")
        image = process.image
        offset = image.next_offset
        if offset == self.image.next_offset and offset != self._compared.get(process.name) and offset <= mark:
            self._compared[process.name] = offset
            self._images(process.name, image)

    def _compare(self, process: Any, offset: int, mark: int) -> int:
        while offset < mark:
            found = process.node.quorum.store.log.read(offset, READ_BYTES)
            if not found:
                break
            for batch in found:
                if batch.last_offset >= mark:
                    return offset
                if batch.base_offset >= offset:
                    self._batch(process.name, batch)
                offset = batch.last_offset + 1
        return offset

    def _batch(self, name: str, batch: Batch) -> None:
        data = bytes(batch.data)
        known = self.batches.get(batch.base_offset)
        if known is not None:
            if known != data:
                raise Violation(self.name, f"{name} has another committed batch at {batch.base_offset}")
            return
        if batch.base_offset != self.image.next_offset:
            raise Violation(self.name, f"{name} has a batch at {batch.base_offset}, where nobody else had one begin")
        self.batches[batch.base_offset] = data
        replay(self.image, Batch(batch.base_offset, batch.last_offset, batch.epoch, data))
        for function in self._hooks.metadata:
            function(self.image, batch)

    def _images(self, name: str, image: Image) -> None:
        offset = self.image.next_offset
        if self._canonical[0] != offset:
            self._canonical = offset, canonical(self.image)
        if canonical(image) != self._canonical[1]:
            raise Violation("images_equal", f"the image of {name} at offset {offset} is not what the log says")
