"""The metrics of a cluster as a client sees them: brokers, topics, groups and how far these are behind.

The names are those of kafka_exporter, so that its dashboards and alerts work. This file alone decides what is asked for a
page, and how much. Rules:

1. Every page is asked anew. A cluster that does not answer has no page: Prometheus shows `up` 0.
2. What did not answer is absent, never 0 or -1, and is counted in `rayft_exporter_unanswered`. So is a sum that lacks a
   partition: it would fall where a lag grows.
3. A page asks for PARTITIONS_MAX partitions and GROUPS_MAX groups at most. What is left out is counted too.
"""

import argparse
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from actors.client.asks import Know, Steps
from actors.client.errors import ClientError
from actors.client.metadata import Metadata, Topic
from actors.client.operations.group_offsets.positions import Position, positions
from actors.client.operations.groups import Group, Listed, describe, list_groups
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import EARLIEST, LATEST, TRIES_SAMPLED, Found, list_offsets
from actors.command.by_address.connection import connected, wrong
from actors.command.by_address.ended_by_signals import ended_by_signals
from actors.host.client.blocking import Kafka
from actors.host.cluster_error import ClusterError
from actors.host.metrics import endpoint
from actors.host.metrics.text import PLAIN, written
from actors.host.net.server import PortTaken
from actors.node.metrics.family import GAUGE, Family, Sample
from actors.settings.keys import ConfigError

PARTITIONS_MAX = 20_000
GROUPS_MAX = 2_000
AT_ONCE = 50
"""How many groups are asked side by side."""
ANSWER_S = 10.0
"""How long each answer may take, s."""
PAGE_S = 20.0
"""How long all answers of a page may take together, s: the door gives a page up after 30 s."""
OPTION = "--listen"
TOPIC, PART = ("topic",), ("topic", "partition")
GROUP, GROUP_TOPIC, GROUP_PART = ("consumergroup",), ("consumergroup", "topic"), ("consumergroup", "topic", "partition")


def _family(name: str, labels: tuple[str, ...], help: str) -> Family:
    return Family(name, GAUGE, help, labels, "" if name.startswith("rayft_") else "kafka_exporter")


BROKERS = _family("kafka_brokers", (), "Brokers.")
BROKER = _family("kafka_broker_info", ("id", "address"), "1 for each of them.")
PARTITIONS = _family("kafka_topic_partitions", TOPIC, "Partitions of a topic.")
LEADER = _family("kafka_topic_partition_leader", PART, "The broker that leads a partition; -1: none does.")
PREFERRED = _family("kafka_topic_partition_leader_is_preferred", PART, "1 if that is the first of its replicas.")
REPLICAS = _family("kafka_topic_partition_replicas", PART, "Its replicas.")
IN_SYNC = _family("kafka_topic_partition_in_sync_replica", PART, "Those of them that are in sync.")
UNDER = _family("kafka_topic_partition_under_replicated_partition", PART, "1 if those are not all.")
END = _family("kafka_topic_partition_current_offset", PART, "Where its log ends.")
BEGIN = _family("kafka_topic_partition_oldest_offset", PART, "Where its log begins.")
MEMBERS = _family("kafka_consumergroup_members", GROUP, "Members of a group, of whichever kind.")
OFFSET = _family("kafka_consumergroup_current_offset", GROUP_PART, "Where a group reads on.")
OFFSETS = _family("kafka_consumergroup_current_offset_sum", GROUP_TOPIC, "The sum of these of a topic.")
LAG = _family("kafka_consumergroup_lag", GROUP_PART, "Records that a group has not read yet.")
LAGS = _family("kafka_consumergroup_lag_sum", GROUP_TOPIC, "The sum of these of a topic.")
UNANSWERED = _family(
    "rayft_exporter_unanswered",
    ("what",),
    "What is not on this page: it did not answer in time, or there were too many.",
)
EVERY = (
    BROKERS, BROKER, PARTITIONS, LEADER, PREFERRED, REPLICAS, IN_SYNC, UNDER, END, BEGIN, MEMBERS, OFFSET, OFFSETS, LAG,
    LAGS, UNANSWERED,
)  # fmt: skip


class Exporter:
    """What is asked of a cluster for one page. It is used by one thread at a time."""

    def __init__(self, kafka: Kafka, topic: str = "", group: str = "") -> None:
        """`topic` and `group`: only those whose names hold this text."""
        self._kafka = kafka
        self._texts = topic, group
        self._unanswered: dict[str, int] = {}
        self._until_s = 0.0
        """The monotonic time by which the page has to be there."""

    def samples(self) -> list[Sample]:
        """Everything that is shown, as of now. Raises ClientError if no broker answers."""
        self._until_s = time.monotonic() + PAGE_S
        self._unanswered = dict.fromkeys(("brokers", "topics", "partitions", "groups"), 0)
        metadata: Metadata = self._kafka.run(_all(), self._seconds())
        found = [*_of_brokers(metadata)]
        topics, left_out = _chosen({name: one for name, one in metadata.topics.items() if self._texts[0] in name})
        self._unanswered["topics"] += left_out
        found += _of_topics(topics)
        parts = [(name, number) for name, topic in topics.items() for number in topic.partitions]
        ends, begins = self._offsets(parts)
        found += [Sample(END, (topic, str(number)), at) for (topic, number), at in ends.items()]
        found += [Sample(BEGIN, (topic, str(number)), at) for (topic, number), at in begins.items()]
        for listed, told, group in self._groups():
            found += self._of_group(listed, told, group, ends)
        found += [Sample(UNANSWERED, (what,), count) for what, count in self._unanswered.items()]
        return found

    def _seconds(self) -> float:
        return max(0.1, min(ANSWER_S, self._until_s - time.monotonic()))

    def _offsets(self, parts: list[Part]) -> tuple[dict[Part, int], dict[Part, int]]:
        """(ends, beginnings) of the logs that have answered."""
        if not parts:
            return {}, {}
        tasks = [
            self._kafka.start(list_offsets(parts, at, tries=TRIES_SAMPLED), self._seconds())
            for at in (LATEST, EARLIEST)
        ]
        told = [self._told(task) or {} for task in tasks]
        ends, begins = (
            {part: one.offset for part, one in each.items() if isinstance(one, Found) and one.offset >= 0}
            for each in told
        )
        self._unanswered["partitions"] += len(parts) - len(ends)
        return ends, begins

    def _groups(self) -> Iterator[tuple[Listed, dict[Part, Any], Group | None]]:
        """Each group, where it reads on, and its description; None: its coordinator did not tell."""
        told = self._told(self._kafka.start(list_groups(), self._seconds()))
        listed, refused = told if told is not None else ({}, ("all",))
        self._unanswered["brokers"] += len(refused)
        chosen = [one for name, one in sorted(listed.items()) if self._texts[1] in name]
        self._unanswered["groups"] += max(0, len(chosen) - GROUPS_MAX)
        chosen = chosen[:GROUPS_MAX]
        for begin in range(0, len(chosen), AT_ONCE):
            tasks = [
                (
                    one,
                    self._kafka.start(positions(one.name, one.type), self._seconds()),
                    self._kafka.start(describe(one.name, one.type or None), self._seconds()),
                )
                for one in chosen[begin : begin + AT_ONCE]
            ]
            for one, where, who in tasks:
                told, described = self._told(where), self._told(who)
                if told is None and described is None:
                    self._unanswered["groups"] += 1
                    continue
                yield one, told or {}, described

    def _told(self, task: Any) -> Any:
        """The result of a task; None: it has failed."""
        try:
            return self._kafka.wait(task)
        except ClientError:
            return None

    def _of_group(
        self, listed: Listed, told: Mapping[Part, Any], group: Group | None, ends: Mapping[Part, int]
    ) -> Iterator[Sample]:
        if group is not None:
            yield Sample(MEMBERS, (listed.name,), len(group.members))
        offsets: dict[str, int] = {}
        lags: dict[str, int] = {}
        partial: set[Any] = set()  # sums that would be too small
        for (topic, number), one in sorted(told.items()):
            if self._texts[0] not in topic:
                continue
            if not isinstance(one, Position):
                self._unanswered["partitions"] += 1
                partial |= {(OFFSETS, topic), (LAGS, topic)}
                continue
            labels = (listed.name, topic, str(number))
            yield Sample(OFFSET, labels, one.offset)
            offsets[topic] = offsets.get(topic, 0) + one.offset
            lag = one.behind(ends.get((topic, number)))
            if lag is None:
                partial.add((LAGS, topic))
                continue
            yield Sample(LAG, labels, lag)
            lags[topic] = lags.get(topic, 0) + lag
        for family, sums in ((OFFSETS, offsets), (LAGS, lags)):
            whole = ((topic, total) for topic, total in sums.items() if (family, topic) not in partial)
            yield from (Sample(family, (listed.name, topic), total) for topic, total in whole)


def _all() -> Steps[Metadata]:
    metadata: Metadata = yield Know(None, fresh=True)
    return metadata


def _chosen(topics: Mapping[str, Topic]) -> tuple[dict[str, Topic], int]:
    """(the topics that are asked for, how many are left out)."""
    chosen: dict[str, Topic] = {}
    room = PARTITIONS_MAX
    for name, topic in sorted(topics.items()):
        if len(topic.partitions) <= room:
            chosen[name] = topic
            room -= len(topic.partitions)
    return chosen, len(topics) - len(chosen)


def _of_brokers(metadata: Metadata) -> Iterator[Sample]:
    yield Sample(BROKERS, (), len(metadata.brokers))
    for id, broker in sorted(metadata.brokers.items()):
        yield Sample(BROKER, (str(id), f"{broker.host}:{broker.port}"), 1)


def _of_topics(topics: Mapping[str, Topic]) -> Iterator[Sample]:
    for name, topic in topics.items():
        yield Sample(PARTITIONS, (name,), len(topic.partitions))
        for number, one in sorted(topic.partitions.items()):
            labels = (name, str(number))
            yield Sample(LEADER, labels, one.leader)
            yield Sample(PREFERRED, labels, int(one.replicas[:1] == (one.leader,)))
            yield Sample(REPLICAS, labels, len(one.replicas))
            yield Sample(IN_SYNC, labels, len(one.isr))
            yield Sample(UNDER, labels, int(len(one.isr) < len(one.replicas)))


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError if no broker answers at first."""
    where = _where(options.listen) if options.listen is not None else None
    with connected(options) as kafka:
        exporter = Exporter(kafka, options.topic or "", options.group or "")
        if where is None:
            sys.stdout.write(written(exporter.samples(), PLAIN).decode())
            return 0
        try:
            with ended_by_signals():
                _serve(exporter, where)
        except KeyboardInterrupt:
            pass
    return 0


def _where(text: str) -> tuple[str, int]:
    try:
        return endpoint.address(text, OPTION)
    except ConfigError as error:
        wrong(str(error))


def _serve(exporter: Exporter, where: tuple[str, int]) -> None:
    """Serve pages until the process is told to end. The thread of the pages is the only one that asks the cluster."""
    lacks = ""

    def asked() -> list[Sample]:
        nonlocal lacks
        try:
            found = exporter.samples()
        except ClientError as error:
            if str(error) != lacks:
                print(f"rayft: {error}", file=sys.stderr, flush=True)
            lacks = str(error)
            return []
        lacks = ""
        return found

    try:
        door = endpoint.Endpoint(where, endpoint.Node(asked, lambda: lacks), OPTION)
    except PortTaken as error:
        raise ClusterError(str(error)) from None
    try:
        print(f"metrics are at http://{where[0] or '127.0.0.1'}:{door.port}/metrics until Ctrl-C", flush=True)
        threading.Event().wait()
    finally:
        door.close()
