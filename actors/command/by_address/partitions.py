"""`rayft topic partitions`, once it runs: how many there are, who leads them, and on which brokers they are."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping

from actors.client.errors import ClientError
from actors.client.operations import placement, topics
from actors.client.operations.group_offsets.seeking import existing
from actors.client.operations.leaders import Part
from actors.command.by_address import parts
from actors.command.by_address.connection import connected, wrong
from actors.command.by_address.topics import told
from actors.command.output import listing
from actors.command.output.listing import INT, INTS, TEXT, Listing
from actors.why.phrases import counted
from actors.wire.errors import ErrorCode

MOVES = Listing({"topic": TEXT, "partition": INT, "replicas": INTS, "adding": INTS, "removing": INTS})


def _grow(options: argparse.Namespace) -> int:
    if options.to < 1:
        wrong(f"--to {options.to} is no number of partitions: write more than there are")
    with connected(options) as kafka:
        outcomes = kafka.run(topics.add_partitions(dict.fromkeys(options.topics, options.to)))
    named = {
        f"{name} to {counted(options.to, 'partition')}" if error is None else name: error
        for name, error in outcomes.items()
    }
    return told("topic", named, "grew")


def _elect(options: argparse.Namespace) -> int:
    named = [parts.part(one) for one in options.topics]
    if options.unclean and not named:
        wrong("--unclean gives up records that only other replicas have: name the partitions, as in orders:3")
    with connected(options) as kafka:
        wanted = kafka.run(existing(named)) if named else None
        outcomes = kafka.run(placement.elect(wanted, unclean=options.unclean))
    done = {part: error for part, error in sorted(outcomes.items()) if not _not_needed(error)}
    kind = "a leader" if options.unclean else "the preferred leader"
    code = told(f"{kind} of", _by_name(done), "elected")
    if not outcomes:
        print("every partition has its preferred leader already")
    for part in sorted(outcomes.keys() - done.keys()):
        print(f"{part[0]}/{part[1]} has {kind} already")
    return code


def _not_needed(error: ClientError | None) -> bool:
    return error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED


def _by_name(outcomes: Mapping[Part, ClientError | None]) -> dict[str, ClientError | None]:
    return {f"{topic}/{number}": error for (topic, number), error in outcomes.items()}


def _brokers(text: str) -> list[int]:
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        wrong(f"{text!r} is no list of brokers: write their ids with commas, as in 1,2,3")
    found = [int(one) for one in text.split(",")]
    if len(set(found)) < len(found):
        wrong(f"{text!r} names a broker twice: a partition has one replica on each")
    return found


def _move(options: argparse.Namespace) -> int:
    brokers = _brokers(options.to)
    named = [parts.part(one) for one in options.topics]
    whole = {topic for topic, number in named if number is None}
    with connected(options) as kafka:
        targets: dict[Part, list[int] | None] = {}
        for topic, number in kafka.run(existing(named)):
            at = number % len(brokers) if topic in whole else 0  # those of a whole topic are led in turns
            targets[topic, number] = brokers[at:] + brokers[:at]
        outcomes = kafka.run(placement.move(targets))
    return _moving(outcomes, lambda part: f" to {listing.cell(targets[part])}", "moving")


def _moving(outcomes: Mapping[Part, ClientError | None], where: Callable[[Part], str], done: str) -> int:
    named = {
        f"{part[0]}/{part[1]}{where(part) if error is None else ''}": error for part, error in sorted(outcomes.items())
    }
    return told("partition", named, done)


def _moves(options: argparse.Namespace) -> int:
    with connected(options) as kafka:
        found = kafka.run(placement.moves())
    rows = [
        {"topic": topic, "partition": number, "replicas": list(one.replicas), "adding": list(one.adding),
         "removing": list(one.removing)}
        for (topic, number), one in sorted(found.items())
    ]  # fmt: skip
    listing.show(rows, MOVES, options.output)
    return 0


def _cancel(options: argparse.Namespace) -> int:
    named = [parts.part(one) for one in options.topics]
    with connected(options) as kafka:
        under_way = kafka.run(placement.moves())
        wanted = [part for part in kafka.run(existing(named)) if part in under_way]
        outcomes = kafka.run(placement.move(dict.fromkeys(wanted)))
    if not wanted:
        print("rayft: nothing of that is moving: rayft topic partitions moves shows what is", file=sys.stderr)
        return 1
    return _moving(outcomes, lambda part: "", "no longer moving")


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "grow": _grow, "elect": _elect, "move": _move, "moves": _moves, "cancel": _cancel,
}  # fmt: skip
