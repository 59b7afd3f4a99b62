"""What ten thousand consumer groups cost in memory beyond their records (KIP-848).

`python -m bench.group_memory [--groups 10000] [--members 10] [--partitions 20] [--out FILE.json]`

The newest records of settled groups, as the log of `__consumer_offsets` has them once it is compacted, are loaded into a
coordinator, as when a broker becomes its partition's leader. Some heartbeat intervals later every member sends one
heartbeat, and what that leaves behind counts too. What is counted is what Python has allocated since (tracemalloc), which is
exact and repeatable. The records themselves, keys and values as they are in the log, are counted apart: what is said of a
member has to be kept in some form. All the rest is overhead, and is told for each member.
"""

import argparse
import gc
import json
import sys
import tracemalloc
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.classic.rebalance import GroupPolicy
from actors.broker.groups.consumer import groups as consumer
from actors.broker.groups.consumer import records
from actors.broker.groups.consumer.requests import ConsumerBeat, ConsumerHeartbeat
from actors.broker.groups.consumer.state import ConsumerGroup, Current, Member, MemberState, Subscription
from actors.broker.groups.coordinator import Coordinator
from actors.broker.groups.kinds import GroupSettings
from actors.broker.groups.member_groups import GroupConfig
from actors.broker.groups.share import groups as share
from actors.broker.groups.topics import metadata_hash
from actors.ports import Now
from actors.wire.errors import ErrorCode
from bench.end_to_end import RESULTS, machine

AIM_BYTES = 200
NOW = Now(1_000_000, 1_700_000_000_000)
LATER = Now(NOW.mono_ms + 20_000, NOW.wall_ms + 20_000)
SETTLED_MS = 60_000
"""Age of each group's target assignment."""
TOPIC, TOPIC_ID = "orders", bytes(range(16))


class Topics:
    """One topic."""

    version = 1

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def named(self, name: str) -> tuple[bytes, int] | None:
        """Its id and size."""
        return (TOPIC_ID, self.partitions) if name == TOPIC else None

    def name(self, topic_id: bytes) -> str | None:
        """Its name."""
        return TOPIC if topic_id == TOPIC_ID else None

    def names(self) -> list[str]:
        """All of them."""
        return [TOPIC]


def settled(number: int, members: int, topics: Topics) -> ConsumerGroup:
    """A group in which each member has its part of the topic."""
    group = ConsumerGroup(f"application-{number}")
    group.epoch = group.target_epoch = members + 1
    group.target_wall_ms = NOW.wall_ms - SETTLED_MS
    group.metadata_hash = metadata_hash(topics, [TOPIC])
    for place in range(members):
        id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        part = frozenset(range(place, topics.partitions, members))
        told = Subscription(None, None, f"consumer-{number}-{place}", "/10.0.0.1", (TOPIC,), "", 300_000, None)
        held = {TOPIC_ID: dict.fromkeys(sorted(part), group.epoch)} if part else {}
        group.members[id] = Member(id, told, Current(group.epoch, group.epoch, MemberState.STABLE, held, {}))
        group.targets[id] = {TOPIC_ID: part} if part else {}
    return group


def log_of(groups: int, members: int, topics: Topics) -> Iterator[Record]:
    """The records of all groups, a group at a time."""
    for number in range(groups):
        group = settled(number, members, topics)
        for key in reversed(records.keys(group)):
            yield records.record(group, key)


def coordinator(topics: Topics) -> Coordinator:
    """One that knows nothing yet."""
    config = GroupConfig(45_000, 5_000, 1_000)
    return Coordinator(
        GroupSettings(
            1,
            GroupPolicy(0, 1000),
            6_000,
            1_800_000,
            4096,
            604_800_000,
            consumer.ConsumerGroupSettings(1_000_000, ("uniform", "range"), 600_000, lambda group: config),
            share.ShareGroupSettings(200, lambda group: GroupConfig(45_000, 5_000, 1_000), 30_000),
        ),
        topics,
    )


def heartbeats(machine: Coordinator) -> int:
    """One of every member, as it comes from a client. How many."""
    kind = machine.kinds.consumer
    count = 0
    for group in kind.groups(machine.shards[0]).values():
        assert group.rest is not None, "settled groups are at rest"
        for id, (told, _, _) in zip(group.rest.places, group.rest.opened(), strict=True):
            request = ConsumerHeartbeat(
                group.id, id, group.epoch, None, None, -1, None, None, None, None,
                told.client_id, told.client_host, "", 1,
            )  # fmt: skip
            kind.heartbeat(count, request, LATER)
            count += 1
        for _, verdict in machine.answers:
            assert group.rest is not None, "it was woken"
            assert isinstance(verdict, ConsumerBeat) and verdict.error is ErrorCode.NONE, verdict
        machine.answers.clear()
    assert not kind.jobs and not machine.writes, "settled groups have nothing to do"
    return count


def measured(groups: int, members: int, partitions: int) -> dict[str, float]:
    """Bytes, of which the last is for each member."""
    topics = Topics(partitions)
    log = list(log_of(groups, members, topics))
    of_records = sum(len(key) + len(value or b"") for key, value in log)
    machine = coordinator(topics)
    machine.gained(0, 1)
    heartbeats_of_one = coordinator(topics)  # what the first of anything costs does not count
    heartbeats_of_one.gained(0, 1)
    heartbeats_of_one.load(0, 1, log[: 3 * members + 2])
    heartbeats_of_one.loaded(0, 1, NOW)
    heartbeats_of_one.tick(LATER)
    heartbeats(heartbeats_of_one)
    gc.collect()
    tracemalloc.start()
    for begin in range(0, len(log), 1000):
        machine.load(0, 1, [(bytes(key), bytes(value or b"")) for key, value in log[begin : begin + 1000]])
    machine.loaded(0, 1, NOW)
    gc.collect()
    loaded, _ = tracemalloc.get_traced_memory()
    machine.tick(LATER)
    gc.collect()
    count = heartbeats(machine)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    if "-v" in sys.argv:
        for stat in tracemalloc.take_snapshot().statistics("lineno")[:25]:
            print(f"{stat.size / count:8.1f} a member  {stat.traceback}")
    tracemalloc.stop()
    assert count == groups * members
    return {
        "groups": groups,
        "members": count,
        "record_bytes_a_member": of_records / count,
        "loaded_bytes_a_member": loaded / count,
        "bytes_a_member": after / count,
        "beyond_records_a_member": (after - of_records) / count,
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure and print. Returns 0 if the aim is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("-v", action="store_true", help="where the memory is")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    console = Console(width=120)
    found = measured(given.groups, given.members, given.partitions)
    for name, figure in found.items():
        console.print(f"{name}: {figure:,.0f}")
    met = found["beyond_records_a_member"] <= AIM_BYTES
    console.print(f"at most {AIM_BYTES} bytes a member beyond its records: {'yes' if met else 'no'}")
    out = given.out or RESULTS / f"group_memory-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "rows": [{**found, "aim": AIM_BYTES, "met": met}]}, indent=2))
    console.print(f"written to {out}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
