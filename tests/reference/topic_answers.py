"""Topics of a Metadata answer and of a DescribeTopicPartitions answer, object by object: slow, and plainly right."""

from actors.wire.messages import encode, message

LEADER_NOT_AVAILABLE = 5


def names(state):
    """Topics that are not hidden, by name: (name, topic id)."""
    return sorted((name, topic_id) for topic_id, (name, deleting) in state["topics"].items() if not deleting)


def partitions(state, topic_id, first=0, most=None):
    """(number, partition) of a topic from number `first` on, `most` of them; and the number of the next one, or -1."""
    found = sorted(
        (number, one) for (of, number), one in state["partitions"].items() if of == topic_id and number >= first
    )
    if most is None or len(found) <= most:
        return found, -1
    return found[:most], found[most][0]


def isr(one):
    return [broker for broker in one["replicas"] if broker in one["isr"]]


def leader(one, alive, reachable, no_listener):
    """(error code, leader) as clients are told."""
    if one["leader"] not in alive:
        return LEADER_NOT_AVAILABLE, -1
    return (0, one["leader"]) if one["leader"] in reachable else (no_listener, -1)


def metadata_topic(name, topic_id, found, operations, version, alive, reachable, no_listener, internal):
    """The bytes of a topic in a Metadata answer."""
    kind = message("MetadataResponse")
    rows = []
    for number, one in found:
        code, leads = leader(one, alive, reachable, no_listener)
        rows.append(
            kind.MetadataResponsePartition(
                error_code=code,
                partition_index=number,
                leader_id=leads,
                leader_epoch=one["leader_epoch"],
                replica_nodes=list(one["replicas"]),
                isr_nodes=isr(one),
                offline_replicas=[broker for broker in one["replicas"] if broker not in alive],
            )
        )
    topic = kind.MetadataResponseTopic(
        name=name,
        topic_id=topic_id,
        is_internal=name in internal,
        partitions=rows,
        topic_authorized_operations=operations,
    )
    return encode(topic, version)


def described_topic(name, topic_id, found, operations, alive, internal):
    """The bytes of a topic in a DescribeTopicPartitions answer."""
    kind = message("DescribeTopicPartitionsResponse")
    rows = []
    for number, one in found:
        code, leads = leader(one, alive, alive, 0)
        rows.append(
            kind.DescribeTopicPartitionsResponsePartition(
                error_code=code,
                partition_index=number,
                leader_id=leads,
                leader_epoch=one["leader_epoch"],
                replica_nodes=list(one["replicas"]),
                isr_nodes=isr(one),
                eligible_leader_replicas=list(one["elr"]),
                last_known_elr=list(one["last_known_elr"]),
                offline_replicas=[broker for broker in one["replicas"] if broker not in alive],
            )
        )
    topic = kind.DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic_id,
        is_internal=name in internal,
        partitions=rows,
        topic_authorized_operations=operations,
    )
    return encode(topic, 0)
