"""Legal topic names (Kafka's rules), and which names stand in each other's way.

A name has 1 to 249 characters out of letters, digits, '.', '_' and '-', and is neither '.' nor '..'. Two names that differ
only in '.' against '_' cannot both exist: their metrics would have one name. Such a rival is found by looking up the few
spellings that a name has; for a name with many dots and underscores an index is built, once, in soft state.
"""

import re
from itertools import product

from actors.controller.soft import Soft
from actors.metadata.image import Image

NAME_LENGTH_MAX = 249
OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset((OFFSETS_TOPIC, "__transaction_state", "__share_group_state"))
"""Made by the brokers, with settings that nobody chose; clients neither write to them nor delete their records."""
METADATA_TOPICS = ("__cluster_metadata", "__kafka_metadata")
"""Not topics for anybody: the name of the metadata log in both families (A09)."""
SPELLINGS_MAX = 64
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


def rival(name: str, image: Image, soft: Soft) -> str | None:
    """An existing topic whose name differs from `name` only in '.' against '_', or None."""
    marks = name.count(".") + name.count("_")
    if not marks:
        return None
    if 1 << marks <= SPELLINGS_MAX:
        for spelling in _spellings(name):
            if spelling != name and image.topic(spelling) >= 0:
                return spelling
        return None
    key = name.replace(".", "_")
    names = _index(image, soft).get(key)
    if names is None:
        return None
    # Losing leadership drops the index, so a name that is missing from the image now was deleted for good.
    names -= {other for other in names if image.topic(other) < 0}
    others = sorted(names - {name})
    return others[0] if others else None


def created(name: str, soft: Soft) -> None:
    """A topic is being created."""
    if soft.names is not None and ("." in name or "_" in name):
        soft.names.setdefault(name.replace(".", "_"), set()).add(name)


def _spellings(name: str) -> list[str]:
    parts = re.split(r"[._]", name)
    found = []
    for marks in product("._", repeat=len(parts) - 1):
        pieces = [parts[0]]
        for mark, part in zip(marks, parts[1:], strict=True):
            pieces += (mark, part)
        found.append("".join(pieces))
    return found


def _index(image: Image, soft: Soft) -> dict[str, set[str]]:
    if soft.names is None:
        soft.names = {}
        for row in image.topics():
            created(image.topic_name(row), soft)
    return soft.names
