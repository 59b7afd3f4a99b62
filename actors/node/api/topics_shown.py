"""Topics in answers to clients, written out of the columns of the image (`fastpath/image/topic_answers.pyx`).

This file alone decides what brokers an answer takes for alive and for reachable, how much of it is written in a slice, and
from which generation. Rules:

1. A list of all topics is of one generation, which is pinned until it is written. So is a topic with many partitions.
2. Any other topic is written whole, as it is when its turn comes.
3. Rights hold as they are when a topic's turn comes.
"""

from collections.abc import Generator
from typing import Any, cast

from actors.metadata.image import Pin
from actors.metadata.topic_names import INTERNAL_TOPICS
from actors.node.api.security.topic_rights import Run, TopicRights
from actors.node.api.shown_cluster import ClusterView
from actors.node.runtime.calls import Call
from actors.node.runtime.slices import ENTRIES_A_SLICE, SliceCount
from actors.wire.errors import ErrorCode
from fastpath.image.topic_answers import DESCRIBED, TopicAnswers
from fastpath.messages.encoder import Encoded

LISTENER_ERROR_FROM = 6
WRITTEN_AN_ENTRY = 50
"""A partition that is written out of the columns takes so much less than an entry that Python looks at."""
WRITTEN_A_SLICE = WRITTEN_AN_ENTRY * ENTRIES_A_SLICE
"""The partitions that are written in one slice: 1 to 2 ms."""
PART_BYTES = 256 << 10
"""What is written is taken out in parts of about this size."""


class ShownTopics:
    """The `topics` of one answer, as a list that is encoded already."""

    def __init__(self, context: ClusterView, call: Call, version: int) -> None:
        """`version`: of Metadata, or DESCRIBED."""
        self._context, self._call = context, call
        alive, cache = context.cluster.unfenced, context.cache
        reachable = alive
        if version != DESCRIBED:  # which names a leader wherever it is reached
            reachable = [id for id in alive if cache.endpoint(id, call.listener_name) is not None]
        code = ErrorCode.LISTENER_NOT_FOUND if version >= LISTENER_ERROR_FROM else ErrorCode.LEADER_NOT_AVAILABLE
        self.written = TopicAnswers(version, alive, reachable, INTERNAL_TOPICS, code)
        self._parts: list[Any] = []
        self._parts_bytes = 0
        self._counted = 0
        self.partitions = 0
        """How many partitions the topics have that were added one by one."""
        self.slices = 0
        """How many slices have ended within one of them."""

    @property
    def size(self) -> int:
        """How many bytes the list has by now."""
        return self._parts_bytes + self.written.size

    def encoded(self) -> Encoded:
        """The list, which is whole."""
        self._take()
        return Encoded(self.written.count, self._parts, self.written.codes)

    def put(self, topic: bytes) -> None:
        """Add a topic that is encoded already."""
        self.written.put(topic)

    def topic(
        self, name: str, row: int, operations: int, pace: SliceCount, first: int = 0, most: int = -1
    ) -> Generator[None, None, int]:
        """Add a topic with its partitions from number `first` on, `most` of them unless that is -1. Returns the number of
        the next partition; -1: there is none. The caller counts what the last slice has looked at."""
        image, written = self._context.cache.image, self.written
        count = image.partition_count(row)
        if (count if most < 0 else min(count, most)) <= WRITTEN_A_SLICE:
            following = written.begin(image, name, row, operations, first, most)
            self.partitions += written.go_on(WRITTEN_A_SLICE)
            self._take_if_large()
            return following
        pin = image.pin()
        try:
            following = written.begin(pin.columns, name, row, operations, first, most)
            while written.left:
                self.partitions += written.go_on(WRITTEN_A_SLICE)
                self._take_if_large()
                if written.left and pace.over(self.looked()):
                    self.slices += 1
                    yield
        finally:
            pin.release()
        return following

    def looked(self) -> int:
        """What was looked at since the last call, in entries of a slice."""
        before, self._counted = self._counted, self.written.looked
        return 1 + (self._counted - before) // WRITTEN_AN_ENTRY

    def every(self, rights: TopicRights, pace: SliceCount) -> Generator[None, None, None]:
        """Add all topics that are shown."""
        context, written = self._context, self.written
        pin = context.cache.image.pin()
        try:
            order, name = pin.order, cast("str | None", "")
            run, judged = None, -1
            while name is not None or written.left:
                if written.left or name is None:
                    written.go_on(WRITTEN_A_SLICE)
                else:
                    if run is None or judged != context.cache.image.credentials:
                        run, judged = rights.run(name, order), context.cache.image.credentials
                    following = None if run.hides_all else self._along(pin, name, run)
                    name, run = (run.until, None) if following is None else (following, run)
                self._take_if_large()
                if pace.over(self.looked()):
                    yield
        finally:
            pin.release()

    def _along(self, pin: Pin, name: str, run: Run) -> str | None:
        return self.written.along(
            pin.columns,
            pin.order,
            name,
            run.until,
            WRITTEN_A_SLICE,
            run.shown,
            run.own,
            run.whoever,
            run.others,
            run.judge,
        )

    def _take(self) -> None:
        if self.written.size:
            self._parts_bytes += self.written.size
            self._parts.append(self.written.take())

    def _take_if_large(self) -> None:
        if self.written.size >= PART_BYTES:
            self._take()
