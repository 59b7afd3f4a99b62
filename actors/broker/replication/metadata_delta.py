"""What changed in the cluster's metadata, as far as one broker has to do something about it: values, whoever says so.

This file alone decides what a source of metadata must say. Today the image of the metadata log is the one source
(`actors/node/roles/broker/metadata/image_deltas.py`); a controller that pushes LeaderAndIsr says the same with the same
values. Rules:

1. A row of an image never gets here: a partition is named by topic id and number.
2. The leader epoch and the partition epoch are two numbers (`Assignment`), even where a format has one for both.
3. A fenced broker has a registration that says so; an absent one has none. Which of the two matters is decided by the
   reader.
"""

from collections.abc import Iterable
from typing import NamedTuple

from actors.broker.replication.partition import Assignment
from actors.metadata.image import Broker, ConfigKey


class PartitionState(NamedTuple):
    """One partition as the metadata has it now."""

    topic: str
    topic_id: bytes
    number: int
    assignment: Assignment | None
    """The partition's assignment, if this broker has a replica of it; None: it has none, or has none any more."""


class MetadataDelta(NamedTuple):
    """One change of the metadata, or everything that it says. Iterables are read once, in the order of the fields."""

    brokers: Iterable[tuple[int, Broker | None]] = ()
    """Registrations that changed, by broker id; None: the broker is absent."""
    led_here: Iterable[PartitionState] = ()
    """Every partition that this broker leads by the metadata. Read only when its own registration is in `brokers` and has
    begun, or ceased, to be that of the running process."""
    deleted_topics: Iterable[tuple[str, bytes]] = ()
    """The deleted topics: (name, topic id)."""
    partitions: Iterable[PartitionState] = ()
    """Partitions that changed; a partition that has no replica here and had none may be left out. In a delta that says
    everything: those with a replica here, and there are no others."""
    configs: Iterable[ConfigKey] = ()
    topics_changed: bool = False
    """Whether a topic came, went or got partitions."""
    leaders_changed: bool = False
    """Whether a broker or a partition changed, also without having to do with this broker."""
    features_changed: bool = False
