"""Legal topic names (Kafka's rules), and which names exclude each other.

A name has 1 to 249 characters out of letters, digits, '.', '_' and '-', and is neither '.' nor '..'. Two names that
differ only in '.' against '_' cannot both exist, because their metrics would have one name. Finding such a pair costs
two look-ups: the image keeps the names that contain a '.' under what they become with '_' for '.'.
"""

import re

from actors.metadata.image import Image

NAME_LENGTH_MAX = 249
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC))
"""Topics that brokers make, with settings that no client chose; clients neither write to them nor delete their records.
"""
METADATA_TOPICS = ("__cluster_metadata", "__kafka_metadata")
"""Names that no topic may have: the name of the metadata log in both families (A09)."""
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def name_error(name: str) -> str | None:
    """Why `name` cannot be a topic's name, or None."""
    if not name:
        return "Topic name is illegal, it can't be empty"
    if name in (".", ".."):
        return "Topic name cannot be '.' or '..'"
    if len(name) > NAME_LENGTH_MAX:
        return f"Topic name is illegal, it can't be longer than {NAME_LENGTH_MAX} characters, topic name: {name}"
    if _LEGAL.match(name) is None:
        return (
            f"Topic name \"{name}\" is illegal, it contains a character other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    return None


def rival(name: str, image: Image) -> str | None:
    """An existing topic whose name differs from `name` only in '.' against '_', or None."""
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    for other in (folded, *sorted(image.dotted(folded))):
        if other != name and image.topic(other) >= 0:
            return other
    return None
