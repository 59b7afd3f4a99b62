"""Offsets of partitions as JSON, in the form of Spark's own kafka source, and what rayft adds to it in a checkpoint.

    {"orders": {"0": 23, "1": 345}}                                       options, and the checkpoints of Spark's own source
    {"orders": {"0": 23, "1": 345},
     "@orders": {"id": "p1hV...", "epochs": {"0": 4}, "begun": {"1": 300}}}   positions in a checkpoint of rayft

This file alone decides these forms. No topic's name begins with `@`. Rules:

1. What is added can be left out: a checkpoint of Spark's own source is read as it is, and a position may be given as
   startingOffsets.
2. `id` is the topic id; a topic of the same name with another id is another topic. `epochs` are the leader epochs in which
   offsets were seen (KIP-320). `begun` has where partitions began that are new in that position.
3. What makes no sense is refused by the name of the option, or as a checkpoint that is not of topics by address.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from actors.client.operations.leaders import Part
from actors.wire.messages import ZERO_UUID

LATEST, EARLIEST = -1, -2
"""The words `latest` and `earliest` where a number is written."""
NUMBER_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1
MORE = "@"
EXAMPLE = '{"orders": {"0": 23, "1": -2}}'
PARTS_EXAMPLE = '{"orders": [0, 1]}'
OTHER_CHECKPOINT = (
    "the checkpoint does not hold positions of topics by address (it may be one of path=, or of another version): begin "
    "with a new checkpoint"
)


class Position(NamedTuple):
    """How far a query has come in each partition."""

    offsets: dict[Part, int]
    """The offset that is read next."""
    ids: dict[str, bytes]
    """The topic ids, where they are known."""
    epochs: dict[Part, int]
    """The leader epochs in which offsets were seen, where they are known."""
    begun: dict[Part, int]
    """The first offset of each partition that is new in this position."""


# ---- options


def numbers(option: str, text: str, lowest: int) -> dict[Part, int]:
    """(topic, partition) -> offset or time, from the text of an option. Raises ValueError that names the option."""
    found: dict[Part, int] = {}
    for topic, rows in _topics(option, text, EXAMPLE):
        if not isinstance(rows, _Pairs):
            raise _wrong(option, EXAMPLE)
        for number, value in rows:
            part = topic, _partition(option, number, EXAMPLE)
            if type(value) is not int or not lowest <= value <= NUMBER_MAX:
                raise ValueError(f"{option}: {topic}/{part[1]} has {_shown(value)}: write a number from {lowest} on")
            if part in found:
                raise ValueError(f"{option} names partition {topic}/{part[1]} twice")
            found[part] = value
    return found


def parts(option: str, text: str) -> frozenset[Part]:
    """The partitions that an option names. Raises ValueError that names the option."""
    found: set[Part] = set()
    for topic, rows in _topics(option, text, PARTS_EXAMPLE):
        if not isinstance(rows, list) or isinstance(rows, _Pairs):
            raise _wrong(option, PARTS_EXAMPLE)
        for number in rows:
            part = topic, _partition(option, number, PARTS_EXAMPLE)
            if part in found:
                raise ValueError(f"{option} names partition {topic}/{part[1]} twice")
            found.add(part)
    if not found:
        raise _wrong(option, PARTS_EXAMPLE)
    return frozenset(found)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a name that stands twice is seen."""


def _topics(option: str, text: str, example: str) -> list[tuple[str, Any]]:
    """The topics of a JSON object and what stands there, without what rayft adds."""
    try:
        found = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, _Pairs):
        raise _wrong(option, example)
    names = [topic for topic, _ in found]
    twice = next((topic for topic in names if names.count(topic) > 1), None)
    if twice is not None:
        raise ValueError(f"{option} names topic {twice} twice")
    return [(topic, rows) for topic, rows in found if not topic.startswith(MORE)]


def _partition(option: str, number: Any, example: str) -> int:
    text = str(number) if type(number) in (int, str) else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= PARTITION_MAX):
        raise _wrong(option, example)
    return int(text)


def _wrong(option: str, example: str) -> ValueError:
    return ValueError(f"{option} is no JSON of topics and partitions: write it as in {example}")


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


# ---- positions


def written(position: Position) -> dict[str, Any]:
    """A position in the form that a checkpoint holds."""
    found: dict[str, Any] = {}
    for name, rows in sorted(_by_topic(position.offsets).items()):
        found[name] = rows
        more: dict[str, Any] = {}
        id = position.ids.get(name, ZERO_UUID)
        if id != ZERO_UUID:
            more["id"] = base64.urlsafe_b64encode(id).decode().rstrip("=")
        for key, values in (("epochs", position.epochs), ("begun", position.begun)):
            own = _by_topic({part: value for part, value in values.items() if part[0] == name})
            if own:
                more[key] = own[name]
        if more:
            found[MORE + name] = more
    return found


def read(stored: Mapping[str, Any]) -> Position:
    """The position that a checkpoint holds. Raises ValueError for one that is not of topics by address."""
    found = Position({}, {}, {}, {})
    try:
        for name, rows in stored.items():
            if not name.startswith(MORE):
                found.offsets.update(_rows(name, rows))
                continue
            topic = name.removeprefix(MORE)
            found.epochs.update(_rows(topic, rows.get("epochs", {})))
            found.begun.update(_rows(topic, rows.get("begun", {})))
            if "id" in rows:
                found.ids[topic] = base64.b64decode(f"{rows['id']}==", "-_", validate=True)
    except (ValueError, AttributeError, TypeError, binascii.Error):
        raise ValueError(OTHER_CHECKPOINT) from None
    return found


def _rows(topic: str, rows: Mapping[str, Any]) -> dict[Part, int]:
    found = {(topic, int(number)): value for number, value in rows.items()}
    if not all(type(value) is int and 0 <= value <= NUMBER_MAX for value in found.values()):
        raise ValueError
    return found


def _by_topic(values: Mapping[Part, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, number), value in sorted(values.items()):
        found.setdefault(topic, {})[str(number)] = value
    return found
