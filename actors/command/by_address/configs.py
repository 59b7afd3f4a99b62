"""`rayft config`, once it runs.

A resource is a word and a name, `broker:1` or `group:billing`; `brokers` is what counts for brokers that have no value of
their own. A value that is a secret is told by no broker: it is `(hidden)`, and null in JSON.
"""

import argparse
import re
from collections.abc import Callable, Mapping
from typing import Any

from actors.client.errors import ClientError
from actors.client.operations import configs as operations
from actors.client.operations.configs import Config, Kind, Op, Resource
from actors.command.by_address.connection import connected, wrong
from actors.command.by_address.topics import pairs
from actors.command.output import listing
from actors.command.output.listing import BOOL, TEXT, Listing
from actors.printable import printable
from actors.wire.errors import ErrorCode

KINDS = {
    "broker": Kind.BROKER,
    "group": Kind.GROUP,
    "client-metrics": Kind.CLIENT_METRICS,
    "topic": Kind.TOPIC,
}
ALL_BROKERS = "brokers"
FORMS = "broker:ID, brokers, group:NAME, client-metrics:NAME or topic:NAME"
HIDDEN = "(hidden)"
ONE = {"name": TEXT, "value": TEXT, "source": TEXT}
CONFIGS = Listing({**ONE, "read_only": BOOL, "sensitive": BOOL, "synonyms": [ONE]}, ("name", "value", "source"))
WITH_SYNONYMS = CONFIGS._replace(table=("name", "value", "source", "synonyms"))


def resource(text: str) -> Resource:
    """The resource that is meant. Ends the command for words that mean none."""
    if text == ALL_BROKERS:
        return Kind.BROKER, ""
    word, colon, name = text.partition(":")
    if word not in KINDS or not colon or not name:
        wrong(f"{text!r} has no settings: write {FORMS}")
    kind = KINDS[word]
    if kind is Kind.BROKER and not re.fullmatch(r"\d{1,9}", name, re.ASCII):
        wrong(f"{name!r} is no broker: write broker:ID with a number, or brokers for all of them")
    return kind, name


def _get(options: argparse.Namespace) -> int:
    wanted = resource(options.resource)
    if options.as_of is not None:
        return _get_then(wanted, options)
    with connected(options) as kafka:
        found = kafka.run(operations.describe([wanted], options.names or None, synonyms=True))[wanted]
        if isinstance(found, ClientError):
            raise explained(wanted, found)
        missing = [name for name in options.names if name not in found]
        if missing:
            what = options.resource
            raise ClientError(f"{what} has no setting {missing[0]}: rayft config get {what} shows all that it has")
    show(found, options)
    return 0


def _get_then(wanted: Resource, options: argparse.Namespace) -> int:
    """Print the settings that a resource had of its own at an earlier moment."""
    from actors.command.by_address.metadata_log import moment

    found = moment.configs(options, wanted)
    show({name: one for name, one in found.items() if not options.names or name in options.names}, options)
    return 0


def explained(of: Resource, error: ClientError) -> ClientError:
    """The error of a resource, in a sentence where that is short."""
    if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error
    return ClientError(f"topic {of[1]} does not exist: rayft topic list shows those that do", error.code)


def show(found: Mapping[str, Config], options: argparse.Namespace) -> None:
    """Print settings by name."""
    as_text = options.output == "table"
    rows = [_row(one, as_text) for _, one in sorted(found.items())]
    listing.show(rows, WITH_SYNONYMS if options.synonyms else CONFIGS, options.output)


def _row(one: Config, as_text: bool) -> dict[str, Any]:
    synonyms: list[Any] = [dict(zip(ONE, other, strict=True)) for other in one.synonyms]
    if as_text:
        synonyms = [f"{source}: {name}={HIDDEN if one.sensitive else value}" for name, value, source in one.synonyms]
    return {
        "name": one.name,
        "value": HIDDEN if as_text and one.sensitive else one.value,
        "source": one.source,
        "read_only": one.read_only,
        "sensitive": one.sensitive,
        "synonyms": "; ".join(synonyms) if as_text else synonyms,
    }


def _set(options: argparse.Namespace) -> int:
    values = pairs(options.values, "log.retention.ms=3600000")
    return _alter(options, {name: (Op.SET, value) for name, value in values.items()})


def _unset(options: argparse.Namespace) -> int:
    return _alter(options, {name: (Op.DELETE, None) for name in options.names})


def _alter(options: argparse.Namespace, changes: Mapping[str, tuple[Op, str | None]]) -> int:
    wanted = resource(options.resource)
    with connected(options) as kafka:
        (error,) = kafka.run(operations.alter({wanted: changes})).values()
        if error is not None:
            raise explained(wanted, error)
    print(printable(f"changed settings of {options.resource}"))
    return 0


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {"get": _get, "set": _set, "unset": _unset}
