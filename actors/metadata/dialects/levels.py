"""Levels: the values of `metadata.format`, and what may differ between two levels of the drafts' family.

This file alone decides which differences there may be. Each level is a `Level`, one in v19.py and one in v28.py.
drafts.py reads and writes the records and consults it. R631-083 to R631-088.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actors.metadata.ops import BrokerGone, TopicGone

FORMAT = "metadata.format"
"""The feature that names the level of the drafts' family (A07)."""

LATEST = 2
"""The level of new storage."""


class Level(NamedTuple):
    """What differs between the levels of metadata.format."""

    number: int
    types: Mapping[int, str]
    """Record type -> message name. Types 2 and 4 are read in bulk; they are listed for their names only."""
    broker_gone: Callable[[BrokerGone], tuple[int, Any]]
    """Makes the record that ends a registration: (record type, message)."""
    topic_gone: Callable[[TopicGone], tuple[int, Any]]
    empty_broker_is_gone: bool
    """Whether a BrokerRecord without endpoints means that the broker is not usable (A31)."""
    deleting_is_gone: bool
    """Whether a TopicRecord with Deleting is the deletion itself. If not, it hides the topic (A34)."""


EXTENSIONS = {
    10: "extensions:DelegationTokenRecord",
    11: "extensions:UserScramCredentialRecord",
    12: "extensions:FeatureLevelRecord",
    14: "extensions:ClientQuotaRecord",
    15: "extensions:ProducerIdsRecord",
    19: "extensions:RemoveAccessControlRecord",
    21: "extensions:ZkMigrationStateRecord",
    22: "extensions:RemoveUserScramCredentialRecord",
    26: "extensions:RemoveDelegationTokenRecord",
}
"""rayft's extension records (A08), the same at each level: record type -> message name."""
