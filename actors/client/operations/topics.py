"""Topics: what there are, and making, growing and deleting them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from actors.client.asks import Ask, Controller, Know, Pause, Steps
from actors.client.errors import ClientError, refused
from actors.client.metadata import Metadata, Topic
from actors.client.operations.each import each
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

WAIT_MS = 30_000
"""How long the server may take to make or delete all topics of a request, ms."""
ABSENCES_MAX = 5
"""How often brokers are asked again about a topic that none of them tells of, before it is believed: one that has just begun
does not know all topics, nor one that has not heard yet of a topic that was made a moment ago."""


class NewTopic(NamedTuple):
    """A topic that is to be made."""

    name: str
    partitions: int = -1
    """The number of partitions; -1: the cluster's default (Kafka 2.4 and newer)."""
    replication_factor: int = -1
    configs: Mapping[str, str] = {}
    assignment: Mapping[int, list[int]] = {}
    """The brokers of each partition, instead of the two numbers."""


def describe(names: Iterable[str] | None = None, *, patiently: bool = False) -> Steps[dict[str, Topic]]:
    """The topics by name, asked anew; None: all. `patiently`: a topic that no broker tells of is asked for again, since it
    may have been made a moment ago. Raises ClientError if one does not exist or may not be seen."""
    wanted = tuple(names) if names is not None else None
    metadata: Metadata = yield Know(wanted, fresh=True)
    for attempt in range(ABSENCES_MAX if patiently else 0):
        if not any(_is_absent(metadata, name) for name in wanted or ()):
            break
        yield Pause(attempt=attempt)
        metadata = yield Know(wanted, fresh=True)
    for name in wanted or ():
        missing(metadata, name)
    return {name: metadata.topics[name] for name in (metadata.topics if wanted is None else wanted)}


def _is_absent(metadata: Metadata, name: str) -> bool:
    """Whether no broker has told of a topic, nor why it does not."""
    unknown = (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    return name not in metadata.topics and metadata.refused.get(name) in unknown


def missing(metadata: Metadata, name: str) -> None:
    """Check that the cluster has a topic, and tells of it. Raises ClientError if not."""
    if _is_absent(metadata, name):
        raise ClientError(f"topic {name} does not exist", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    code = metadata.refused.get(name)
    if name not in metadata.topics or code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        raise refused(f"topic {name}", int(code or 0))


def create(
    topics: Iterable[NewTopic], *, validate_only: bool = False, wait: bool = True
) -> Steps[dict[str, ClientError | None]]:
    """Make these topics. Returns each one's error or None. `wait`: until a broker knows their leaders."""
    by_name = {one.name: one for one in topics}
    kind = message("CreateTopicsRequest")

    def ask(names: list[str]) -> Ask:
        def build(version: int) -> Any:
            return kind(
                topics=[_creatable(kind, by_name[name], version) for name in names],
                timeout_ms=WAIT_MS,
                validate_only=validate_only,
            )

        return Ask(Controller(), "CreateTopics", build, timeout_ms=2 * WAIT_MS, again=False)

    found = yield from each(
        "topic", by_name, ask,
        lambda reply: ((one.name, one.error_code, one.error_message) for one in reply.message.topics),
    )  # fmt: skip
    made = [name for name, error in found.items() if error is None]
    if wait and made and not validate_only:
        yield from led(made)
    return found


def _creatable(kind: Any, topic: NewTopic, version: int) -> Any:
    if version < 4 and not topic.assignment and -1 in (topic.partitions, topic.replication_factor):
        raise ClientError(
            f"topic {topic.name}: this Kafka is older than 2.4 and has no defaults for that: give the number of "
            f"partitions and the replication factor"
        )
    return kind.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignment else topic.partitions,
        replication_factor=-1 if topic.assignment else topic.replication_factor,
        assignments=[
            kind.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in topic.assignment.items()
        ],
        configs=[kind.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def led(names: Iterable[str]) -> Steps[Metadata]:
    """Wait until all partitions of topics have leaders."""
    wanted, attempt = tuple(names), 0
    while True:
        metadata: Metadata = yield Know(wanted, fresh=True)
        topics = [metadata.topics.get(name) for name in wanted]
        if all(one is not None and all(part.leader >= 0 for part in one.partitions.values()) for one in topics):
            return metadata
        yield Pause(attempt=attempt)
        attempt += 1


def delete(names: Iterable[str], ids: Mapping[str, bytes] = {}) -> Steps[dict[str, ClientError | None]]:
    """Delete topics by name. `ids`: their ids, where they are known: a topic that was made anew under the name of one stays
    (Kafka 2.8 and newer). Returns each one's error or None."""
    kind = message("DeleteTopicsRequest")
    known = {id: name for name, id in ids.items()}

    def ask(some: list[str]) -> Ask:
        def build(version: int) -> Any:
            if version < 6:
                return kind(topic_names=list(some), timeout_ms=WAIT_MS)
            states = [
                kind.DeleteTopicState(name=None, topic_id=ids[name])
                if name in ids
                else kind.DeleteTopicState(name=name)
                for name in some
            ]
            return kind(topics=states, timeout_ms=WAIT_MS)

        return Ask(Controller(), "DeleteTopics", build, timeout_ms=2 * WAIT_MS, again=False)

    def outcomes(reply: Any) -> Any:
        for one in reply.message.responses:
            name = one.name if one.name is not None else known.get(bytes(one.topic_id))
            yield name, one.error_code, one.error_message

    return (yield from each("topic", names, ask, outcomes))


def add_partitions(counts: Mapping[str, int], *, validate_only: bool = False) -> Steps[dict[str, ClientError | None]]:
    """Give topics more partitions: topic -> how many it is to have in all. Returns each one's error or None."""
    kind = message("CreatePartitionsRequest")

    def ask(names: list[str]) -> Ask:
        def build(version: int) -> Any:
            topics = [kind.CreatePartitionsTopic(name=name, count=counts[name], assignments=None) for name in names]
            return kind(topics=topics, timeout_ms=WAIT_MS, validate_only=validate_only)

        return Ask(Controller(), "CreatePartitions", build, timeout_ms=2 * WAIT_MS, again=False)

    def outcomes(reply: Any) -> Any:
        return ((one.name, one.error_code, one.error_message) for one in reply.message.results)

    return (yield from each("topic", counts, ask, outcomes))
