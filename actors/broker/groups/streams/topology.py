"""The topology of a streams group as a value: what its members say that the application reads, writes and keeps
(KIP-1071).

This file alone decides which topology is malformed, whatever topics exist: STREAMS_INVALID_TOPOLOGY. Rules:

1. A topology is many subtopologies, each with an id of its own. A task is one subtopology and one partition number.
2. A subtopology has a source topic or a repartition source topic. A copartition group names these by their place.
3. Changelogs have as many partitions as there are tasks, so none may be said for them. A repartition topic may say 0: it is
   decided then (`partitioning.py`).
4. It is one record of the log, and what it names is kept for the group: its size is limited.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from actors.broker.groups.refusals import RequestRefused
from actors.metadata.topic_names import INTERNAL_TOPICS, name_error
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.group import StreamsGroupTopologyValue
    from actors.wire.schemas.rpc import StreamsGroupHeartbeatRequest

TEXT_CHARACTERS_MAX = 1024
"""The most characters of a subtopology's id, and of a setting of an internal topic."""
TOPOLOGY_CHARACTERS_MAX = 1 << 18
"""The most characters of all names and settings together. It is one record of the log, so it is well below
max.message.bytes."""
NAMES_MAX = 10_000
"""The most subtopologies and topics of theirs together: as many topics as the controller makes in one request."""
PARTITIONS_MAX = 10_000
"""The most partitions of one repartition topic, as many as the controller makes in one request: each is a task."""


class Topic(NamedTuple):
    """An internal topic as the application wants it. 0 partitions, and 0 or -1 replicas: not said."""

    name: str
    partitions: int
    replicas: int
    settings: tuple[tuple[str, str], ...]


class Copartition(NamedTuple):
    """Topics that have alike many partitions, by their places in the lists of the subtopology."""

    sources: tuple[int, ...]
    patterns: tuple[int, ...]
    repartitions: tuple[int, ...]


class Subtopology(NamedTuple):
    """A part of the application that reads and writes together. `sinks`: repartition topics that it writes."""

    id: str
    sources: tuple[str, ...]
    patterns: tuple[str, ...]
    changelogs: tuple[Topic, ...]
    sinks: tuple[str, ...]
    repartitions: tuple[Topic, ...]
    copartitions: tuple[Copartition, ...]

    def read(self) -> Iterator[str]:
        """The topics of which its tasks read a partition each."""
        yield from self.sources
        yield from (topic.name for topic in self.repartitions)

    def internal(self) -> Iterator[Topic]:
        """The topics that the application does not find but has made."""
        yield from self.repartitions
        yield from self.changelogs

    def groups(self) -> Iterator[frozenset[str]]:
        """The topics of each copartition group."""
        for one in self.copartitions:
            repartitions = (self.repartitions[place].name for place in one.repartitions)
            yield frozenset((*(self.sources[place] for place in one.sources), *repartitions))


@dataclass(frozen=True)
class Topology:
    """The topology of an application. Invariant: `subtopologies` are sorted by id, and no id is there twice."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    def required(self) -> set[str]:
        """Topics without which no task can run."""
        return {name for one in self.subtopologies for name in (*one.read(), *(log.name for log in one.changelogs))}

    def named(self) -> set[str]:
        """Every topic that it names."""
        return self.required() | {name for one in self.subtopologies for name in one.sinks}

    @cached_property
    def readers(self) -> Mapping[str, str]:
        """The id of the subtopology that reads a topic, by topic."""
        return {topic: one.id for one in self.subtopologies for topic in one.read()}


def topology(data: "StreamsGroupHeartbeatRequest.Topology | StreamsGroupTopologyValue") -> Topology:
    """A topology out of a heartbeat or of its record, which have the same fields. Nothing is checked."""
    return Topology(
        data.epoch, tuple(sorted((_subtopology(one) for one in data.subtopologies), key=lambda one: one.id))
    )


def check(given: Topology) -> None:
    """Check a topology. Raises RequestRefused: STREAMS_INVALID_TOPOLOGY, or INVALID_REQUEST for what no version of
    Kafka's coordinator takes yet."""
    if given.epoch < 0:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "The topology's epoch must not be negative.")
    if sum(map(_names, given.subtopologies)) > NAMES_MAX:
        _refuse(f"The topology has more than {NAMES_MAX} subtopologies and topics.")
    if sum(map(_characters, given.subtopologies)) > TOPOLOGY_CHARACTERS_MAX:
        _refuse(f"The topology has names and settings of more than {TOPOLOGY_CHARACTERS_MAX} characters together.")
    before = None
    for one in given.subtopologies:
        if one.id == before:
            _refuse(f"Two subtopologies have the id {one.id}.")
        before = one.id
        _check_subtopology(one)
    _check_names(given)


def _subtopology(
    data: "StreamsGroupHeartbeatRequest.Subtopology | StreamsGroupTopologyValue.Subtopology",
) -> Subtopology:
    return Subtopology(
        data.subtopology_id,
        tuple(data.source_topics),
        tuple(data.source_topic_regex),
        _topics(data.state_changelog_topics),
        tuple(data.repartition_sink_topics),
        _topics(data.repartition_source_topics),
        tuple(
            Copartition(tuple(one.source_topics), tuple(one.source_topic_regex), tuple(one.repartition_source_topics))
            for one in data.copartition_groups
        ),
    )


def _topics(
    data: Iterable["StreamsGroupHeartbeatRequest.TopicInfo | StreamsGroupTopologyValue.TopicInfo"],
) -> tuple[Topic, ...]:
    return tuple(
        Topic(
            one.name,
            one.partitions,
            one.replication_factor,
            tuple((setting.key, setting.value) for setting in one.topic_configs),
        )
        for one in data
    )


def _names(one: Subtopology) -> int:
    grouped = sum(len(group.sources) + len(group.patterns) + len(group.repartitions) for group in one.copartitions)
    return (
        1
        + grouped
        + len(one.copartitions)
        + sum(map(len, (one.sources, one.patterns, one.sinks, one.repartitions, one.changelogs)))
    )


def _characters(one: Subtopology) -> int:
    texts = sum(map(len, (one.id, *one.sources, *one.patterns, *one.sinks)))
    settings = sum(len(key) + len(value) + 1 for topic in one.internal() for key, value in topic.settings)
    return texts + settings + sum(len(topic.name) for topic in one.internal())


def _check_subtopology(one: Subtopology) -> None:
    if not one.id or len(one.id) > TEXT_CHARACTERS_MAX:
        _refuse(f"The id of a subtopology must have 1 to {TEXT_CHARACTERS_MAX} characters.")
    if one.patterns:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet.")
    if next(one.read(), None) is None:
        _refuse(f"No source topics found for subtopology {one.id}")
    for log in one.changelogs:
        if log.partitions:
            _refuse(
                f"Changelog topic {log.name} must have an undefined partition count, but it is set to {log.partitions}."
            )
    for topic in one.internal():
        if not 0 <= topic.partitions <= PARTITIONS_MAX:
            _refuse(
                f"Topic {topic.name} must have 0 to {PARTITIONS_MAX} partitions, but it is set to {topic.partitions}."
            )
        if topic.replicas < -1:
            _refuse(
                f"The replication factor of topic {topic.name} must be positive, or -1, but it is {topic.replicas}."
            )
        if any(len(text) > TEXT_CHARACTERS_MAX for setting in topic.settings for text in setting):
            _refuse(f"A setting of topic {topic.name} has more than {TEXT_CHARACTERS_MAX} characters.")
    for group in one.copartitions:
        places = ((group.sources, one.sources), (group.patterns, one.patterns), (group.repartitions, one.repartitions))
        if any(not 0 <= place < len(named) for numbers, named in places for place in numbers):
            _refuse(f"A copartition group of subtopology {one.id} names a topic that the subtopology does not have.")


def _check_names(given: Topology) -> None:
    named = sorted(given.named())
    internal = [name for name in named if name in INTERNAL_TOPICS]
    if internal:
        _refuse(f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited.")
    illegal = [name[:TEXT_CHARACTERS_MAX] for name in named if name_error(name) is not None]
    if illegal:
        _refuse(f"Topic names {','.join(illegal[:10])} are not valid topic names.")


def _refuse(text: str) -> None:
    raise RequestRefused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
