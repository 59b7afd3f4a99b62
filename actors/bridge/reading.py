"""The znodes that are read before a takeover, and the rounds in which they are read.

This file alone decides that. `everything` is a generator: it yields reads, is sent their results, and returns a
`Snapshot`. Rules:

1. Names first, then what is behind them. A znode that has gone meanwhile is left out.
2. Brokers are read first. What they make while the rest is read is found by the watches that the reads leave.
3. Not more than READS_A_ROUND at once, and not more than ZNODES_MAX altogether.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from actors.bridge import znodes
from actors.bridge.asks import Job, Look
from actors.bridge.subjects.rules import KINDS
from actors.bridge.subjects.settings import is_entity
from actors.bridge.subjects.topics import path_of, state_path, topic
from actors.bridge.znodes import BadZnode
from actors.ports.zookeeper import Children, Get, Read, Znode

READS_A_ROUND = 500
ZNODES_MAX = 2_000_000
SINGLE = (
    znodes.CLUSTER_ID,
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
    znodes.PRODUCER_IDS,
    znodes.FEATURE,
    znodes.REASSIGN,
    znodes.PREFERRED,
    znodes.MIGRATION,
    znodes.BRIDGE,
    znodes.WANTED,
    znodes.CLAIMED,
    znodes.AGREED,
)
"""Paths of single znodes that are read."""
SETTINGS_AND_RULES = (
    *(f"{znodes.CONFIG}/{kind}" for kind in ("topics", "brokers", "clients", "users", "ips")),
    *(f"{root}/{kind}" for root in (znodes.RULES, znodes.PREFIXED) for kind in KINDS),
)
NAMES = (
    znodes.BROKER_IDS,
    znodes.TOPICS,
    znodes.CONFIG_CHANGES,
    znodes.DELETE_TOPICS,
    znodes.TOKEN_CHANGES,
    znodes.TOKENS,
    znodes.RULE_CHANGES,
    znodes.PREFIXED_CHANGES,
    znodes.LOG_DIR_EVENTS,
    znodes.ISR_CHANGES,
    *SETTINGS_AND_RULES,
)
"""Paths whose children's names are read: notifications before what they are about, so that none is passed over."""
WHOLE = frozenset(NAMES) - {
    znodes.DELETE_TOPICS,
    znodes.TOKEN_CHANGES,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
    znodes.CONFIG_CHANGES,
    znodes.RULE_CHANGES,
    znodes.PREFIXED_CHANGES,
}
"""The paths of NAMES whose children are read too."""
Rounds = Generator[Sequence[Read], Sequence[Any], "Snapshot"]


class Snapshot(NamedTuple):
    """The znodes that were read. They were not all read at the same moment."""

    znodes: Mapping[str, Znode]
    names: Mapping[str, tuple[str, ...]]
    """The names of children, by path; a path without a znode is missing."""

    def get(self, path: str) -> Znode | None:
        """The znode at a path; None: it was not there."""
        return self.znodes.get(path)

    def children(self, path: str) -> tuple[str, ...]:
        """The names of the children of a path."""
        return self.names.get(path, ())

    def below(self, path: str) -> Iterator[tuple[str, Znode]]:
        """(path, znode) of the children of a path that were read."""
        for name in self.children(path):
            one = f"{path}/{name}"
            if (znode := self.znodes.get(one)) is not None:
                yield one, znode

    def entities(self) -> Iterator[str]:
        """Entity paths of the settings that were read, such as `topics/orders`."""
        prefix = znodes.CONFIG + "/"
        for path in self.znodes:
            if path.startswith(prefix) and is_entity(path.removeprefix(prefix)):
                yield path.removeprefix(prefix)

    def rule_znodes(self) -> Iterator[tuple[str, Znode]]:
        """(path, znode) of access rules."""
        for path, znode in self.znodes.items():
            if path.startswith((znodes.RULES + "/", znodes.PREFIXED + "/")):
                yield path, znode


def everything() -> Rounds:
    """Read all that a takeover needs. Raises BadZnode if it cannot even be seen what there is to read."""
    found: dict[str, Znode] = {}
    names: dict[str, tuple[str, ...]] = {}
    yield from _read(map(Get, SINGLE), found, names)
    yield from _read(map(Children, NAMES), found, names)
    yield from _below(NAMES, found, names)
    yield from states(names.get(znodes.TOPICS, ()), found, names)
    return Snapshot(found, names)


def settings_and_rules() -> Rounds:
    """Read settings, quotas, credentials and access rules, and nothing else."""
    found: dict[str, Znode] = {}
    names: dict[str, tuple[str, ...]] = {}
    yield from _read(map(Children, SETTINGS_AND_RULES), found, names)
    yield from _below(SETTINGS_AND_RULES, found, names)
    return Snapshot(found, names)


def read(rounds: Rounds) -> Job:
    """Run rounds of reads in a job, and return the snapshot."""
    results = None
    while True:
        try:
            reads = next(rounds) if results is None else rounds.send(results)
        except StopIteration as end:
            return end.value
        results = yield Look(reads, watch=False)


def _below(
    paths: Iterable[str], found: dict[str, Znode], names: dict[str, tuple[str, ...]]
) -> Generator[Any, Any, None]:
    """Read the children of those paths whose children are read, and the settings of users with client ids."""
    listed = [f"{path}/{name}" for path in paths if path in WHOLE for name in names.get(path, ())]
    yield from _read(map(Get, listed), found, names)
    users = [f"{znodes.CONFIG}/users/{user}/clients" for user in names.get(f"{znodes.CONFIG}/users", ())]
    yield from _read(map(Children, users), found, names)
    yield from _read((Get(f"{path}/{name}") for path in users for name in names.get(path, ())), found, names)


def states(
    topics: Iterable[str], found: dict[str, Znode], names: dict[str, tuple[str, ...]]
) -> Generator[Any, Any, None]:
    """Read the states of all partitions of topics whose own znodes are in `found`."""
    there = [name for name in topics if path_of(name) in found]
    yield from _read((Children(f"{path_of(name)}/partitions") for name in there), found, names)
    wanted = (
        Get(state_path(name, number))
        for name in there
        if f"{path_of(name)}/partitions" in names
        for number in topic(path_of(name), found[path_of(name)]).replicas
    )
    yield from _read(wanted, found, names)


def _read(
    wanted: Iterable[Read], found: dict[str, Znode], names: dict[str, tuple[str, ...]]
) -> Generator[Sequence[Read], Sequence[Any], None]:
    rest = iter(wanted)
    while portion := list(islice(rest, READS_A_ROUND)):
        results = yield portion
        for read, result in zip(portion, results, strict=True):
            if result is None:
                continue
            if isinstance(read, Get):
                found[read.path] = result
            else:
                names[read.path] = result
        if len(found) + sum(map(len, names.values())) > ZNODES_MAX:
            raise BadZnode("/", f"there are more than {ZNODES_MAX} znodes to read, more than a cluster can have")
