"""`rayft quota`, once it runs.

Whose quota it is are up to two names, a user and a client id, or an address. `<default>` in a table, and null in JSON, are
all that have no quota of their own.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.client.errors import ClientError
from actors.client.operations import quotas as operations
from actors.client.operations.quotas import TYPES, Entity, named
from actors.command.by_address.connection import connected, wrong
from actors.command.by_address.topics import pairs
from actors.command.output import listing
from actors.command.output.listing import FLOAT, TEXT, Listing
from actors.printable import printable

QUOTAS = Listing({"entity": [{"type": TEXT, "name": TEXT}], "quota": TEXT, "value": FLOAT})
WHOSE = "--user NAME, --client-id NAME, both, or --ip ADDRESS; or --default-user and so on"


def _entity(options: argparse.Namespace) -> Entity:
    """The entity that the options name; empty: none. Ends the command for one that cannot have quotas."""
    parts: list[tuple[str, str | None]] = []
    for type in TYPES:
        option = type.replace("-", "_")
        name, default = getattr(options, option), getattr(options, f"default_{option}")
        if name == "":
            wrong(f"--{type} needs a name: write --{type} NAME, or --default-{type}")
        if name is not None or default:
            parts.append((type, name))
    if len(parts) > 1 and "ip" in dict(parts):
        wrong("an address has quotas of its own: leave --ip out, or the user and the client id")
    return tuple(parts)


def _needed(options: argparse.Namespace) -> Entity:
    return _entity(options) or wrong(f"whose quota? Write {WHOSE}")


def _list(options: argparse.Namespace) -> int:
    wanted = _entity(options)
    if options.as_of is not None:
        from actors.command.by_address.metadata_log import moment

        found = {entity: some for entity, some in moment.quotas(options).items() if set(wanted) <= set(entity)}
    else:
        with connected(options) as kafka:
            found = kafka.run(operations.describe(wanted))
    show(found, options.output)
    return 0


def show(found: Mapping[Entity, Mapping[str, float]], how: str) -> None:
    """Print quotas by entity, in order."""
    listing.show(rows(found, how == "table"), QUOTAS, how)


def rows(found: Mapping[Entity, Mapping[str, float]], as_text: bool) -> list[dict[str, Any]]:
    """A row for each quota; `as_text`: the entity in words."""
    return [
        {
            "entity": named(entity) if as_text else [{"type": type, "name": name} for type, name in entity],
            "quota": quota,
            "value": value if math.isfinite(value) else None,
        }
        for entity, quotas in sorted(found.items(), key=lambda one: [(type, name or "") for type, name in one[0]])
        for quota, value in sorted(quotas.items())
    ]


def _value(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        wrong(f"{text!r} is no number for {name}: write 0 or more, as in {name}=1048576")
    return value


def _set(options: argparse.Namespace) -> int:
    entity = _needed(options)
    values = {name: _value(name, text) for name, text in pairs(options.values, "producer_byte_rate=1048576").items()}
    with connected(options) as kafka:
        (error,) = kafka.run(operations.alter({entity: values})).values()
    return _told(error, (f"set {name}={listing.cell(value)} for {named(entity)}" for name, value in values.items()))


def _told(error: ClientError | None, done: Iterable[str]) -> int:
    if error is not None:
        print(f"rayft: {error}", file=sys.stderr)
        return 1
    for sentence in done:
        print(printable(sentence))
    return 0


def _remove(options: argparse.Namespace) -> int:
    entity = _needed(options)
    with connected(options) as kafka:
        there = kafka.run(operations.describe(entity, strict=True)).get(entity, {})
        names = list(dict.fromkeys(options.names)) or sorted(there)
        missing = [name for name in names if name not in there]
        if missing or not names:
            quota = f"quota {missing[0]}" if missing else "quota of its own"
            raise ClientError(f"{named(entity)} has no {quota}: rayft quota list shows all")
        (error,) = kafka.run(operations.alter({entity: dict.fromkeys(names)})).values()
    return _told(error, (f"removed {name}={listing.cell(there[name])} of {named(entity)}" for name in names))


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {"list": _list, "set": _set, "remove": _remove}
