"""`rayft group`, once it runs.

The lag of a partition is how many offsets lie between what is committed and the end of its log. Of a share group the offset
is where it reads on, and the lag is what its coordinator counts, where it tells.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from actors.client.errors import ClientError
from actors.client.operations import groups as operations
from actors.client.operations.group_offsets.places import whole
from actors.client.operations.group_offsets.positions import Position, positions
from actors.client.operations.group_offsets.seeking import Unnamed, seek
from actors.client.operations.groups import Group
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import TRIES_SAMPLED, Found, list_offsets
from actors.command.by_address import parts
from actors.command.by_address.connection import connected
from actors.command.by_address.places import where
from actors.command.by_address.topics import told
from actors.command.output import listing
from actors.command.output.listing import INT, LONG, TEXT, Listing
from actors.host.client.blocking import Kafka
from actors.printable import printable
from actors.why.phrases import counted
from actors.wire.errors import ErrorCode

LISTED = Listing(
    {"group": TEXT, "type": TEXT, "state": TEXT, "protocol_type": TEXT, "coordinator": INT},
    ("group", "type", "state", "coordinator"),
)
DESCRIBED = Listing({
    "topic": TEXT, "partition": INT, "committed": LONG, "end": LONG, "lag": LONG, "member": TEXT, "client": TEXT,
    "host": TEXT,
})  # fmt: skip
SOUGHT = Listing({"topic": TEXT, "partition": INT, "before": LONG, "after": LONG})


def _list(options: argparse.Namespace) -> int:
    with connected(options) as kafka:
        found, failed = kafka.run(operations.list_groups())
    rows = [
        {
            "group": one.name,
            "type": one.type or None,
            "state": one.state or None,
            "protocol_type": one.protocol_type,
            "coordinator": one.coordinator,
        }
        for _, one in sorted(found.items())
    ]
    listing.show(rows, LISTED, options.output)
    for broker, error in failed.items():
        print(f"rayft: broker {broker} did not tell its groups: {error}", file=sys.stderr)
    return 1 if failed else 0


def _described(kafka: Kafka, name: str) -> Group:
    """The description of a group. Raises ClientError with a sentence if it does not exist."""
    try:
        return kafka.run(operations.describe(name))
    except ClientError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise ClientError(f"group {name} does not exist: rayft group list shows those that do") from None
        raise


def _positions(kafka: Kafka, group: Group) -> dict[Part, Position]:
    """Where the group reads on in each partition. Raises ClientError."""
    return whole(kafka.run(positions(group.name, group.type)))


def _describe(options: argparse.Namespace) -> int:
    with connected(options) as kafka:
        group = _described(kafka, options.group)
        found = _positions(kafka, group)
        owners = _owners(group)
        shown = sorted({*found, *(owners if group.type != operations.STREAMS else ())})
        ends = kafka.run(list_offsets(shown, tries=TRIES_SAMPLED))
    rows = [_row(part, found.get(part), ends[part], owner) for part in shown for owner in owners.get(part) or [None]]
    if options.output == "table":
        epoch = f", epoch {group.epoch}" if group.epoch >= 0 else ""
        members = counted(len(group.members), "member")
        print(
            printable(
                f"group {group.name}: {group.type}, {group.state}{epoch}, {members}, coordinator {group.coordinator}"
            )
        )
    if options.output == "json":
        listing.whole({
            "group": group.name, "type": group.type, "state": group.state, "protocol": group.protocol,
            "epoch": group.epoch if group.epoch >= 0 else None, "coordinator": group.coordinator,
            "members": [one._asdict() for one in group.members], "partitions": rows,
        })  # fmt: skip
    else:
        listing.show(rows, DESCRIBED, options.output)
    return 0


def _owners(group: Group) -> dict[Part, list[Any]]:
    found: dict[Part, list[Any]] = {}
    for member in group.members:
        for topic, numbers in member.assignment.items():
            for one in numbers:
                found.setdefault((topic, one), []).append(member)
    return found


def _row(part: Part, position: Position | None, end: Any, owner: Any) -> dict[str, Any]:
    latest = end.offset if isinstance(end, Found) else None
    return {
        "topic": part[0],
        "partition": part[1],
        "committed": position.offset if position is not None else None,
        "end": latest,
        "lag": position.behind(latest) if position is not None else None,
        "member": owner.id if owner is not None else None,
        "client": owner.client_id if owner is not None else None,
        "host": owner.host if owner is not None else None,
    }


def _seek(options: argparse.Namespace) -> int:
    place = where(options.to)
    named = [parts.part(one) for one in options.topic or ()]
    with connected(options) as kafka:
        try:
            found = kafka.run(seek(options.group, place, named, dry_run=options.dry_run))
        except Unnamed as error:
            raise ClientError(f"{error} with --topic", error.code) from None
    if found.refused:
        return told("partition", found.refused, "moved")
    rows = [
        {
            "topic": part[0],
            "partition": part[1],
            "before": found.before[part].offset if part in found.before else None,
            "after": offset,
        }
        for part, offset in sorted(found.after.items())
    ]
    listing.show(rows, SOUGHT, options.output)
    return 0


def _delete(options: argparse.Namespace) -> int:
    with connected(options) as kafka:
        return told("group", kafka.run(operations.delete(dict.fromkeys(options.groups))), "deleted")


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list, "describe": _describe, "seek": _seek, "delete": _delete,
}  # fmt: skip
