"""The table of the kinds of groups.

A new kind is a folder beside this file with a class that is a `Kind` (`kind.py`), and a field of `Kinds` here. The order of
the table is the one in which they are asked; where the log has a group of two kinds and none has members, the first counts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from actors.broker.groups.classic.groups import ClassicGroups, ClassicGroupSettings
from actors.broker.groups.classic.rebalance import GroupPolicy
from actors.broker.groups.consumer.groups import ConsumerGroups
from actors.broker.groups.consumer.settings import ConsumerGroupSettings
from actors.broker.groups.kind import Ports
from actors.broker.groups.member_groups import SettingsOf
from actors.broker.groups.share.groups import ShareGroups, ShareGroupSettings
from actors.broker.groups.streams.groups import USUAL as USUAL_STREAMS
from actors.broker.groups.streams.groups import StreamsGroups, StreamsGroupSettings
from actors.broker.groups.topics import Topics
from actors.ledger import Account


class GroupSettings(NamedTuple):
    """The broker's settings of groups, `offsets.*` and `group.*`. `partitions`: how many `__consumer_offsets` will have
    at first."""

    partitions: int
    policy: GroupPolicy
    session_ms_min: int
    session_ms_max: int
    metadata_bytes_max: int
    retention_ms: int
    consumer: ConsumerGroupSettings
    share: ShareGroupSettings
    streams: StreamsGroupSettings = USUAL_STREAMS

    @classmethod
    def of(cls, value: Callable[[str], Any], settings_of: SettingsOf) -> "GroupSettings":
        """The settings, taken out of the broker's settings by name. `settings_of`: every setting of a group, by its
        id."""
        return cls(
            partitions=value("offsets.topic.num.partitions"),
            policy=GroupPolicy(value("group.initial.rebalance.delay.ms"), value("group.max.size")),
            session_ms_min=value("group.min.session.timeout.ms"),
            session_ms_max=value("group.max.session.timeout.ms"),
            metadata_bytes_max=value("offset.metadata.max.bytes"),
            retention_ms=value("offsets.retention.minutes") * 60_000,
            consumer=ConsumerGroupSettings.of(value, settings_of),
            share=ShareGroupSettings.of(value, settings_of),
            streams=StreamsGroupSettings.of(value, settings_of),
        )


class Kinds(NamedTuple):
    """Every kind of group, in the order in which they are asked."""

    consumer: ConsumerGroups
    share: ShareGroups
    streams: StreamsGroups
    classic: ClassicGroups


def kinds(ports: Ports, settings: GroupSettings, topics: Topics, members: Account | None = None) -> Kinds:
    """The kinds of one coordinator. `members`: the account to which members of classic groups are charged."""
    return Kinds(
        consumer=ConsumerGroups(ports, settings.consumer, topics),
        share=ShareGroups(ports, settings.share, topics),
        streams=StreamsGroups(ports, settings.streams, topics),
        classic=ClassicGroups(
            ports, ClassicGroupSettings(settings.policy, settings.session_ms_min, settings.session_ms_max), members
        ),
    )
