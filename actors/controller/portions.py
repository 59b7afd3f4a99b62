"""Long requests in portions: each portion is a request of its own to the operation, and the replies are joined.

This file alone decides how a request is cut. Rules:

1. A request of at most `ENTRIES_A_PORTION` entries stays whole.
2. Entries with the same name are in one portion, and at most two of them are kept: so the operation finds the duplicate
   and refuses it. Access rules and filters may repeat, and each has a result of its own: there, no entry is like another.
3. A portion is applied before the next one is decided, so a later entry sees what an earlier one has done. A topic with
   all its partitions is one entry. Topics that are only validated are not applied, so `create_topics` gets the names
   that were accepted so far with each portion.
4. If a null list means everything, each portion names the topics that exist when its turn comes.
5. If a portion is refused as a whole, so is what follows it: that error is the answer to the request. Entries that may be
   the reason for such an error come first (`Nested.first`), so that nothing is applied of a request that has one.

Between two portions nothing is kept but the reply.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from actors.controller.partitions.alter_isr import knows_more
from actors.controller.partitions.zookeeper_alter_partition import legacy_knows_more
from actors.metadata.image import Image
from actors.wire.errors import ErrorCode
from actors.wire.messages import Message, changed

ENTRIES_A_PORTION = 50
"""The size of a portion: an entry takes 10 to 130 microseconds."""
LOOKED_AT_ONCE = 1000
"""The number of entries that are sorted into portions between two yields."""
_Topic = tuple[str, bytes | None]
"""(name, id) of a topic; None: requests have no ids."""
_Found = tuple[Hashable, Any, bool]
"""(key, entry, whether it comes first) of an entry that is sorted into portions."""


class Flat(NamedTuple):
    """A request with a list of entries, and a reply with a list of results."""

    fields: tuple[str, ...]
    """The fields that may hold the entries. The version of the API decides which one does."""
    results: str
    key: Callable[[Any], Hashable]

    def is_long(self, request: Message, image: Image) -> bool:
        """Whether the request should be cut."""
        return any(len(getattr(request, field) or ()) > ENTRIES_A_PORTION for field in self.fields)

    def portions(self, request: Message, image: Image) -> Iterator[Message | None]:
        """The portions, in order. None: none is complete yet, and other requests may run."""
        for field in self.fields:
            entries = getattr(request, field)
            if not entries:
                continue
            for portion in _portions((self.key(entry), entry, False) for entry in entries):
                yield (
                    None
                    if portion is None
                    else changed(request, **{other: [] for other in self.fields} | {field: portion})
                )

    def shown(self, request: Message, reply: Any) -> Any:
        """The part of a portion's reply that goes into the answer."""
        return reply

    def ends(self, reply: Message) -> bool:
        """Whether a portion's reply is the answer to the whole request."""
        return False

    def join(self, reply: Message, more: Message) -> None:
        """Add a portion's reply to those before."""
        getattr(reply, self.results).extend(getattr(more, self.results))


class Nested(NamedTuple):
    """A request with partitions by topic, and a reply with results by topic. Null topics mean all topics."""

    topics: str
    name: str
    partitions: str
    key: Callable[[Any], Hashable]
    """The key of an entry of `partitions`."""
    results: str
    result_name: str
    result_partitions: str
    dropped: ErrorCode | None = None
    """The error whose results are left out when the request is for everything."""
    times: int = 1
    """How many times the usual number of entries a portion has, since an entry costs less than others do."""
    id: str | None = None
    """The field of a topic's id, which a request has beside its name or in its place."""
    first: Callable[[Image, Any, Any], bool] | None = None
    """Whether an entry, given with its topic, is decided before all others, as it may refuse the whole request."""

    def is_long(self, request: Message, image: Image) -> bool:
        """Whether the request should be cut."""
        topics = getattr(request, self.topics)
        if topics is None:
            return image.row_end > LOOKED_AT_ONCE
        if len(topics) > ENTRIES_A_PORTION:
            return True
        return sum(len(getattr(topic, self.partitions) or ()) for topic in topics) > self.times * ENTRIES_A_PORTION

    def portions(self, request: Message, image: Image) -> Iterator[Message | None]:
        """The portions, in order. None: none is complete yet, and other requests may run."""
        topics = getattr(request, self.topics)
        named = topics is not None
        for portion in _portions(self._named(topics, image), self.times) if named else _everything(image):
            yield None if portion is None else self._request(request, portion)

    def ends(self, reply: Message) -> bool:
        """Whether a portion's reply is the answer to the whole request."""
        return bool(getattr(reply, "error_code", 0))

    def shown(self, request: Message, reply: Any) -> Any:
        """The part of a portion's reply that goes into the answer, without results that an answer about everything
        leaves out."""
        if getattr(request, self.topics) is None and self.dropped is not None:
            topics = getattr(reply, self.results)
            for topic in topics:
                rows = getattr(topic, self.result_partitions)
                rows[:] = [row for row in rows if row.error_code != self.dropped]
            topics[:] = [topic for topic in topics if getattr(topic, self.result_partitions)]
        return reply

    def join(self, reply: Message, more: Message) -> None:
        """Add a portion's reply to those before. Its first topic may be the last one of those, whose results it then
        continues."""
        results = getattr(reply, self.results)
        for result in getattr(more, self.results):
            if results and self._topic(results[-1], self.result_name) == self._topic(result, self.result_name):
                getattr(results[-1], self.result_partitions).extend(getattr(result, self.result_partitions))
            else:
                results.append(result)

    def _topic(self, entry: Any, name: str) -> _Topic:
        """(name, id) of the topic that an entry is of."""
        return getattr(entry, name), None if self.id is None else getattr(entry, self.id, None)

    def _named(self, topics: Any, image: Image) -> Iterator[_Found | None]:
        key, first = self.key, self.first
        for topic in topics:
            named = self._topic(topic, self.name)
            yield None
            for entry in getattr(topic, self.partitions) or ():
                early = first is not None and first(image, topic, entry)
                yield (named[0] or named[1], key(entry)), (named, entry), early

    def _request(self, request: Message, portion: list[tuple[_Topic, Any]]) -> Message:
        topics: dict[_Topic, Any] = {}
        struct = next(
            child.cls
            for name, child in zip(request.__layout__.names, request.__layout__.children, strict=True)
            if name == self.topics and child is not None
        )
        for named, entry in portion:
            topic = topics.get(named)
            if topic is None:
                topic = topics[named] = struct(**{self.name: named[0], self.partitions: []})
                if self.id is not None:
                    setattr(topic, self.id, named[1])
            getattr(topic, self.partitions).append(entry)
        return changed(request, **{self.topics: list(topics.values())})


Cut = Flat | Nested


def added(cut: Flat | Nested, reply: Any, more: Message) -> Any:
    """The reply so far, None at first, with that of one more portion. One that ends the request takes the place of all."""
    if reply is None or cut.ends(more):
        return more
    cut.join(reply, more)
    return reply


def _portions(entries: Iterator[_Found | None], times: int = 1) -> Iterator[list[Any] | None]:
    """Portions of entries by key, those that come first before all others; None among the entries: something else was
    looked at. At least one portion."""
    groups: dict[Hashable, Any] = {}
    early: dict[Hashable, Any] = {}
    again: dict[Hashable, Any] = {}
    """The second entry of each key that has more than one."""
    for count, found in enumerate(entries, 1):
        if found is not None:
            key, entry, first = found
            if key in groups or key in early:
                again.setdefault(key, entry)
            else:
                (early if first else groups)[key] = entry
        if count % LOOKED_AT_ONCE == 0:
            yield None
    if not groups and not early:
        yield []
    portion: list[Any] = []
    for key, entry in itertools.chain(early.items(), groups.items()):
        portion.append(entry)
        if again and key in again:
            portion.append(again[key])
        if len(portion) >= times * ENTRIES_A_PORTION:
            yield portion
            portion = []
    if portion:
        yield portion


def _everything(image: Image) -> Iterator[list[Any]]:
    portion: list[tuple[_Topic, int]] = []
    for row in image.topics():
        name = image.topic_name(row)
        for number in range(image.partition_count(row)):
            portion.append(((name, None), number))
            if len(portion) == ENTRIES_A_PORTION:
                yield portion
                portion = []
    yield portion


# ---- the cuts

TOPICS_MADE = Flat(("topics",), "topics", lambda topic: topic.name)
TOPICS_GROWN = Flat(("topics",), "results", lambda topic: topic.name)
TOPICS_GONE = Flat(
    ("topics", "topic_names"), "responses", lambda one: one if isinstance(one, str) else (one.name, one.topic_id)
)
CONFIGS = Flat(("resources",), "responses", lambda resource: (resource.resource_type, resource.resource_name))
QUOTAS = Flat(
    ("entries",), "entries", lambda entry: frozenset((part.entity_type, part.entity_name) for part in entry.entity)
)
RULES_MADE = Flat(("creations",), "results", id)
REASSIGNED = Nested(
    "topics",
    "name",
    "partitions",
    lambda entry: entry.partition_index,
    "responses",
    "name",
    "partitions",
    times=5,  # each portion is a turn and a batch, and an entry takes 8 to 15 microseconds
)
PROPOSED = Nested(
    "topics",
    "topic",
    "partitions",
    lambda entry: entry.partition_id,
    "topics",
    "topic",
    "partitions",
    times=5,
    id="topic_id",
    first=knows_more,
)
"""A leader's proposals in KIP-497's layout."""
PROPOSED_BY_LEGACY = Nested(
    "topics",
    "topic_name",
    "partitions",
    lambda entry: entry.partition_index,
    "topics",
    "topic_name",
    "partitions",
    times=5,
    id="topic_id",
    first=legacy_knows_more,
)
"""Proposals of a leader in ZooKeeper mode."""
REASSIGNMENTS = Nested("topics", "name", "partition_indexes", int, "topics", "name", "partitions")
ELECTED = Nested(
    "topic_partitions",
    "topic",
    "partitions",
    int,
    "replica_election_results",
    "topic",
    "partition_result",
    ErrorCode.ELECTION_NOT_NEEDED,
)
