"""The table of the kinds of groups.

A new kind is a folder beside this file with a class that is a `Kind` (`kind.py`), and a field of `Kinds` here. The order of
the table is the one in which they are asked; where the log has a group of two kinds and none has members, the first counts.
"""

from typing import NamedTuple

from actors.broker.groups.classic import groups as classic
from actors.broker.groups.classic.groups import ClassicGroups
from actors.broker.groups.classic.rebalance import Policy
from actors.broker.groups.consumer import groups as consumer
from actors.broker.groups.consumer.groups import ConsumerGroups
from actors.broker.groups.kind import Ports
from actors.broker.groups.share import groups as share
from actors.broker.groups.share.groups import ShareGroups
from actors.broker.groups.streams.groups import USUAL as USUAL_STREAMS
from actors.broker.groups.streams.groups import Settings as StreamsSettings
from actors.broker.groups.streams.groups import StreamsGroups
from actors.broker.groups.topics import Topics
from actors.ledger import Account


class Settings(NamedTuple):
    """The broker's `offsets.*` and `group.*`. `partitions`: how many `__consumer_offsets` will have at first."""

    partitions: int
    policy: Policy
    session_ms_min: int
    session_ms_max: int
    metadata_bytes_max: int
    retention_ms: int
    consumer: consumer.Settings
    share: share.Settings
    streams: StreamsSettings = USUAL_STREAMS


class Kinds(NamedTuple):
    """Every kind of group, in the order in which they are asked."""

    consumer: ConsumerGroups
    share: ShareGroups
    streams: StreamsGroups
    classic: ClassicGroups


def kinds(ports: Ports, settings: Settings, topics: Topics, members: Account | None = None) -> Kinds:
    """The kinds of one coordinator. `members`: to which members of classic groups are charged."""
    return Kinds(
        consumer=ConsumerGroups(ports, settings.consumer, topics),
        share=ShareGroups(ports, settings.share, topics),
        streams=StreamsGroups(ports, settings.streams, topics),
        classic=ClassicGroups(
            ports, classic.Settings(settings.policy, settings.session_ms_min, settings.session_ms_max), members
        ),
    )
