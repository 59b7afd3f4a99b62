"""Which partitions are meant: `orders` are all of a topic, `orders:3` is one."""

import re

from actors.client.operations.group_offsets.seeking import Named
from actors.command.by_address.connection import wrong


def part(text: str) -> Named:
    """The partitions that a word means. Ends the command for one that means none."""
    topic, colon, number = text.rpartition(":")
    if not colon:
        return text, None
    if not topic or not re.fullmatch(r"\d{1,9}", number, re.ASCII):
        wrong(f"{text!r} is no topic: write TOPIC or TOPIC:PARTITION")
    return topic, int(number)
