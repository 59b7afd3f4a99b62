"""Changes of groups: where one reads on, and its end."""

import time

from actors.client.errors import ClientError
from actors.client.operations import groups
from actors.client.operations.each import alone
from actors.client.operations.group_offsets.places import place
from actors.client.operations.group_offsets.seeking import Named, Sought, seek
from actors.host.client.asynchronous import Kafka
from actors.page.changes.given import Given
from actors.why.phrases import counted

ANSWER_S = 15.0
PARTS_TOLD = 1_000


async def reset(kafka: Kafka, given: Given) -> str:
    """Let a group read on elsewhere: `group`, `to` (beginning, end, an offset, -N, a time, 15m), `topics` with or without
    `:PARTITION` (what it has offsets for, where that is left out)."""
    name = given.text("group")
    found = await _sought(kafka, name, given, is_tried=False)
    if found.refused:
        error = next(iter(found.refused.values()))
        moved = f"{len(found.refused)} of {counted(len(found.after), 'partition')} did not move: "
        raise ClientError(f"{moved if len(found.after) > 1 else ''}{error}", error.code)
    return f"Group {name} reads on elsewhere in {counted(len(found.after), 'partition')}: {_moved(found)}."


async def tried(kafka: Kafka, given: Given) -> list[list[object]]:
    """What a reset would do: [topic, partition, offset now, offset then] of each partition. Nothing is changed."""
    found = await _sought(kafka, given.text("group"), given, is_tried=True)
    return [
        [*part, found.before[part].offset if part in found.before else None, offset]
        for part, offset in sorted(found.after.items())[:PARTS_TOLD]
    ]


async def _sought(kafka: Kafka, name: str, given: Given, is_tried: bool) -> Sought:
    to, named = given.text("to"), [_named(one) for one in given.names("topics")]
    given.end()
    where = place(to, int(time.time() * 1000))
    return await kafka.run(seek(name, where, named, dry_run=is_tried), ANSWER_S)


def _named(text: str) -> Named:
    topic, colon, number = text.rpartition(":")
    if not colon:
        return text, None
    if not topic or not number.isascii() or not number.isdecimal() or len(number) > 9:
        raise ValueError(f"{text!r} is no topic: write TOPIC or TOPIC:PARTITION.")
    return topic, int(number)


def _moved(found: Sought) -> str:
    """How far it goes, in records."""
    known = [(found.before[part].offset, offset) for part, offset in found.after.items() if part in found.before]
    back, on = sum(max(0, a - b) for a, b in known), sum(max(0, b - a) for a, b in known)
    again = f"{counted(back, 'record')} will be read again" if back else ""
    skipped = f"{counted(on, 'record')} will not be read" if on else ""
    return " and ".join(filter(None, (again, skipped))) or "where it was"


async def delete(kafka: Kafka, given: Given) -> str:
    """Delete a group without members: `group`, and `confirm` with its name."""
    name = given.text("group")
    given.confirmed(name, f"Deleting {name} removes where it reads on in every partition for good.")
    given.end()
    alone(await kafka.run(groups.delete([name]), ANSWER_S))
    return f"Group {name} was deleted."
