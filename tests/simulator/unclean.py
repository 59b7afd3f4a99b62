"""Worlds in which leaders are elected that lack what was acknowledged, and the real client reads and writes.

Nothing is promised there but this: a producer's records come once and in order, and a reader is told what is lost. So the
checkers of what is committed are away, and readers are compared with what the logs hold in the end.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from actors.client.operations.leaders import Part
from tests.simulator.by_address import AGAIN_MS, PAUSE_MS, READ_MS, ByAddress, ClientFaults
from tests.simulator.checkers.hooks import EVENTS, Violation
from tests.simulator.clients.by_address.auditing import Auditor
from tests.simulator.clients.by_address.writing import Writer
from tests.simulator.clients.consumer import fetch
from tests.simulator.clients.process import Client
from tests.simulator.planted.rough import CONFIG
from tests.simulator.simulation import Shape, Topic

MENU = {"leader and its records lost": 10, "kill": 2, "connections cut": 1, "clients cut off": 2, "clients slow": 1}


class UncleanFaults(ClientFaults):
    """Leaders that are away with records that nobody else has."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, menu=MENU)

    def _more(self) -> dict[str, Callable[[], bool]]:
        return {**super()._more(), "leader and its records lost": self.leader_lost}

    def leader_lost(self) -> bool:
        """A leader is apart from the other brokers until it is alone in the ISR. Then it dies, and is away until another one
        was elected."""
        found = self._partition()
        if found is None or not self._untouched() or self._down:
            return False
        image, row, leader = found
        if not leader.alive or leader.frozen or len(image.isr(row)) < 2:
            return False
        others = [one.name for one in self.cluster.brokers.values() if one is not leader]
        lasts_ms = self._between(1_500, 2_500)
        self._apart([pair for one in others for pair in ((leader.name, one), (one, leader.name))], lasts_ms)
        self._after(lasts_ms - 50, lambda: self._away(leader))
        return True

    def _away(self, leader: Any) -> None:
        if self.over or not leader.alive:
            return
        self._down[leader.name] = None
        self.world.say(leader.name, "FAULT killed for a while")
        leader.kill()
        self._after(self._between(3_500, 6_000), lambda: self._up([leader]))


def shape(seed: int) -> Shape:
    """The cluster of a seed."""
    choose = random.Random(f"unclean {seed}")
    configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "internal.segment.bytes": "4000"}
    config = {
        **CONFIG, "replica.lag.time.max.ms": "500", "leader.imbalance.check.interval.seconds": choose.choice(("1", "300")),
    }  # fmt: skip
    topics = [Topic("u0", 1, 2, configs), Topic("u1", 2, 3, configs)]
    return Shape(2, 3, 3, config, topics, 0, 0, False, 0)


class Unclean(ByAddress):
    """One run of one seed."""

    def __init__(self, seed: int, *, keep_log: bool = False) -> None:
        super().__init__(seed, keep_log=keep_log)
        self.auditors: list[Auditor] = []
        for event in EVENTS:
            setattr(self.hooks, event, [one for one in getattr(self.hooks, event) if self._stays(one)])
        world = self.world
        for calls in (world.turned, world.ended, world.sent, world.asked, world.answered):
            calls[:] = [one for one in calls if self._stays(one)]  # type: ignore[index]

    def _stays(self, call: Any) -> bool:
        owner = getattr(call, "__self__", None)
        return owner is self.metadata or not type(owner).__module__.startswith("tests.simulator.checkers")

    def _work(self) -> None:
        parts = [(topic.name, one) for topic in self.shape.topics for one in range(topic.partitions)]
        for number in range(2):
            driven = self._driven(f"w{number}")
            driven.spawn(Writer(driven, self.history, self.acknowledged, PAUSE_MS).run(parts))
        for name, group in (("audit", None), ("group", "auditors")):
            driven = self._driven(name, fetch_max_wait_ms="50")
            auditor = Auditor(driven, self.history, parts, group)
            self.auditors.append(auditor)
            driven.spawn(auditor.run())

    def _finish(self) -> None:
        writers, readers = self.driven[:2], self.driven[2:]
        before = {driven.name: driven.done for driven in self.driven}
        if not self._until(lambda: all(one.done > before[one.name] for one in self.driven), AGAIN_MS):
            idle = [one.name for one in self.driven if one.done == before[one.name]]
            raise Violation("clients_work_again", f"{idle} have done nothing within {AGAIN_MS} ms without faults")
        self._stop(writers)
        logs = self._logs()
        for one in readers:
            one.hurries = True
        if not self._until(lambda: all(one.held == logs for one in self.auditors), READ_MS):
            one = next(one for one in self.auditors if one.held != logs)
            part = next(part for part in logs if one.held[part] != logs[part])
            wrong = sorted(dict(one.held[part].items() ^ logs[part].items()))
            raise Violation(
                "a_reader_holds_what_the_log_holds",
                f"{one._driven.name} and {part} are not alike at {wrong[:5]} of {len(logs[part])}, read up to "
                f"{one.position[part]}",
            )
        self._stop(readers)
        self._judge_order(logs)

    def _logs(self) -> dict[Part, dict[int, bytes]]:
        """What each partition holds, by the simulator's own reader."""
        found: dict[Part, dict[int, bytes]] = {}
        reader = self._client("reader")
        for topic in self.shape.topics:
            for number in range(topic.partitions):
                reader.spawn(self._held(reader, topic.name, number, found))
        if not self._until(lambda: reader.running == 0, AGAIN_MS):
            raise Violation("liveness", f"not everything could be read within {AGAIN_MS} ms")
        return found

    async def _held(self, client: Client, topic: str, number: int, found: dict[Part, dict[int, bytes]]) -> None:
        held: dict[int, bytes] = {}
        offset = 0
        while True:
            if not await client.learn(topic) or (topic, number) not in client.leaders:
                await client.sleep(100)
                continue
            error, records = await fetch(client, topic, client.topic_ids[topic], number, offset, wait_ms=1)
            for record in records:
                held[record.offset] = record.value or b""
                offset = record.offset + 1
            if not error and error is not None and offset >= self._end(client.leaders[topic, number], topic, number):
                found[topic, number] = held
                return
            if not records:
                await client.sleep(100)

    def _end(self, leader: str, topic: str, number: int) -> int:
        process = next(one for one in self.cluster.brokers.values() if one.name == leader)
        partition = process.node.broker.replicas.get(topic, number) if process.node is not None else None
        return 1 << 62 if partition is None or not partition.leads else int(partition.log.log_end_offset)

    def _judge_order(self, logs: dict[Part, dict[int, bytes]]) -> None:
        """A producer's records are there once, and in order; some are lost."""
        lost = Counter(part for value, part in self.acknowledged.items() if value not in set(logs[part].values()))
        self.history.counts["by address: acknowledged records that were lost"] += sum(lost.values())
        for part, held in logs.items():
            last: dict[str, int] = {}
            for offset in sorted(held):
                attempt = self.history.attempts[held[offset]]
                if attempt.number <= last.get(attempt.producer, 0):
                    raise Violation(
                        "order_within_a_partition", f"{held[offset]!r} at {offset} of {part} comes again, or too late"
                    )
                last[attempt.producer] = attempt.number
