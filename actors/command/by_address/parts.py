"""Which partitions are meant: `orders` are all of a topic, `orders:3` is one."""

import re
from collections.abc import Iterable

from actors.client.operations import leaders, topics
from actors.client.operations.leaders import Part
from actors.command.by_address.connection import wrong
from actors.host.client.blocking import Kafka

Named = tuple[str, int | None]
"""A topic, and a partition of it; None: all."""


def part(text: str) -> Named:
    """The partitions that a word means. Ends the command for one that means none."""
    topic, colon, number = text.rpartition(":")
    if not colon:
        return text, None
    if not topic or not re.fullmatch(r"\d{1,9}", number, re.ASCII):
        wrong(f"{text!r} is no topic: write TOPIC or TOPIC:PARTITION")
    return topic, int(number)


def existing(kafka: Kafka, named: Iterable[Named]) -> list[Part]:
    """The partitions by topic and number. Raises ClientError if one does not exist."""
    named = list(named)
    found = kafka.run(topics.describe({topic for topic, _ in named}))
    parts: set[Part] = set()
    for topic, number in named:
        if number is None:
            parts |= {(topic, one) for one in found[topic].partitions}
        else:
            leaders.existing(kafka.metadata, (topic, number))
            parts.add((topic, number))
    return sorted(parts)
