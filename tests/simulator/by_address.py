"""Worlds in which the real client (`actors/client`) works, beside the simulator's own clients, which stay as its witnesses.

What the client is told goes to the checkers of all worlds. Besides: nothing it was told to be written is missing at the end
or there twice; what it reads of transactions is what the witness reads; no operation outlives its deadline, and no client is
busy with nothing (`clients/by_address/driven.py`); and when the faults are over each client does its work again.

Faults of these worlds are also between clients and brokers, as no network is better there.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from actors.client.operations.leaders import Part
from fastpath.records import batch as batches
from tests.simulator import simulation
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.by_address.driven import Driven
from tests.simulator.clients.by_address.operating import Operator
from tests.simulator.clients.by_address.reading import Follower, committed, read, read_committed
from tests.simulator.clients.by_address.transacting import RealCopier, TransactionalWriter
from tests.simulator.clients.by_address.writing import Writer
from tests.simulator.clients.transactions.transactional import TIMEOUT_MS, Plan
from tests.simulator.planted.aimed import AimedFaults
from tests.simulator.planted.rough import CONFIG
from tests.simulator.simulation import COPIER, Shape, Simulation, Topic

AGAIN_MS = 60_000
"""Within that time of health each client has done something more."""
READ_MS = 240_000
"""Within that time of health readers have read everything: one takes a batch at a time, and waits for all brokers."""
GROUP = "followers"
CHURNED = "churned"
PAUSE_MS = 150
MENU = {
    "kill": 5, "coordinator dies": 4, "broker loses power": 3, "leader falls behind": 3, "orderly restart": 3,
    "connections cut": 3, "slow link": 3, "long freeze": 3, "partition": 2,
    "clients cut off": 5, "connections of clients cut": 4, "clients slow": 3,
}  # fmt: skip


class ClientFaults(AimedFaults):
    """The aimed faults, and those between clients and brokers."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"menu": MENU, **more})
        self.driven: list[Driven] = []

    def _more(self) -> dict[str, Callable[[], bool]]:
        return {
            **super()._more(), "clients cut off": self.clients_cut_off, "clients slow": self.clients_slow,
            "connections of clients cut": self.clients_reset,
        }  # fmt: skip

    def _between_client_and_broker(self) -> tuple[Driven, str] | None:
        names = [process.name for process in self.cluster.brokers.values()]
        return (self.choose.choice(self.driven), self.choose.choice(names)) if self.driven else None

    def clients_cut_off(self) -> bool:
        """A client and a broker do not hear each other, or only one the other."""
        found = self._between_client_and_broker()
        if found is None:
            return False
        client, broker = found[0].name, found[1]
        pairs = self.choose.choice([[(client, broker), (broker, client)], [(client, broker)], [(broker, client)]])
        self._apart(pairs, self._between(100, 6_000))
        return True

    def clients_slow(self) -> bool:
        """What a client and a broker send takes long."""
        found = self._between_client_and_broker()
        if found is None:
            return False
        client, broker = found[0].name, found[1]
        pairs = [(client, broker), (broker, client)]
        self._slow(pairs, self.choose.randint(5_000, 900_000), self._between(500, 4_000))
        return True

    def clients_reset(self) -> bool:
        """All connections of a client are reset."""
        found = self._between_client_and_broker()
        if found is None:
            return False
        for link in list(found[0].peers.values()):
            link.cut(found[0])
            link.cut_here(found[0])
        return True


def shape(seed: int) -> Shape:
    """The cluster of a seed: three brokers, and transactions that the real client alone writes."""
    choose = random.Random(f"by address {seed}")
    config = {
        **CONFIG,
        **simulation.TRANSACTIONS,
        "leader.imbalance.check.interval.seconds": choose.choice(("1", "300")),
        "offsets.topic.num.partitions": "2",
        "replica.lag.time.max.ms": choose.choice(("500", "2000")),
    }
    topics = [
        Topic("t0", 1, 3, {"min.insync.replicas": choose.choice("12"), "internal.segment.bytes": "4000"}),
        Topic("t1", 3, choose.choice((2, 3)), {"min.insync.replicas": "1", "max.message.bytes": "200"}),
    ]
    plan = Plan(choose.choice((0, 2)), {"x0": 2, "x1": 1}, "x1", 0, 0, 150)
    return Shape(choose.choice((1, 2)), 3, 3, config, topics, 0, 0, False, 0)._replace(transactions=plan)


class ByAddress(Simulation):
    """One run of one seed with the real client."""

    faults: ClientFaults

    def __init__(self, seed: int, *, keep_log: bool = False) -> None:
        super().__init__(seed, keep_log=keep_log)
        self.driven: list[Driven] = []
        self.acknowledged: dict[bytes, Part] = {}
        """Every record that the client was told to be written -> where."""

    def _driven(self, name: str, **settings: str) -> Driven:
        """A process with the real client. The seed decides its settings, but for these."""
        choose = random.Random(f"{name} {self.seed}")
        brokers = [process.name for process in self.cluster.brokers.values()]
        given = {
            "request.timeout.ms": choose.choice(("3000", "6000")),
            "default.api.timeout.ms": "15000",
            "delivery.timeout.ms": "40000",
            "socket.connection.setup.timeout.ms": choose.choice(("1000", "4000")),
            "metadata.max.age.ms": choose.choice(("2000", "300000")),
            "connections.max.idle.ms": choose.choice(("1500", "540000")),
            "max.in.flight.requests.per.connection": choose.choice("125"),
            "max.partition.fetch.bytes": choose.choice(("200", "2000", "1000000")),
            "fetch.max.wait.ms": choose.choice(("50", "500")),
            "linger.ms": "0",
        }
        found = Driven(self.world, name, brokers, choose, {**given, **_dotted(settings)})
        self.driven.append(found)
        self.faults.driven.append(found)
        return found

    def _work(self) -> None:
        super()._work()
        history, plan = self.history, self.shape.transactions
        assert plan is not None
        parts = [(topic.name, one) for topic in self.shape.topics for one in range(topic.partitions)]
        churned = [(CHURNED, 0), (CHURNED, 1)]
        for number in range(2):
            driven = self._driven(f"w{number}")
            driven.spawn(Writer(driven, history, self.acknowledged, PAUSE_MS).run(parts))
        driven = self._driven("wc")
        driven.spawn(Writer(driven, history, {}, PAUSE_MS).run(churned[:1]))
        driven = self._driven("read")
        driven.spawn(read(driven, history, parts))
        driven = self._driven("readc")
        driven.spawn(read(driven, history, churned))
        driven = self._driven("follow")
        followed = [part for part in parts if part[0] == "t1"]
        driven.spawn(Follower(driven, history, GROUP, followed).run("t1"))
        driven = self._driven("look")
        driven.spawn(committed(driven, history, GROUP, followed))
        driven = self._driven("stable", isolation_level="read_committed")
        transactional = [(topic, one) for topic, count in plan.topics.items() for one in range(count)]
        driven.spawn(read_committed(driven, history, self.transactions, transactional))
        for number in range(2):
            name = f"tx{number}"
            driven = self._driven(name, transactional_id=name, transaction_timeout_ms=str(TIMEOUT_MS))
            driven.spawn(TransactionalWriter(driven, history, self.told, plan, f"{name}-group").run())
        for number in range(2):
            driven = self._driven(
                f"copier{number}", transactional_id=COPIER, transaction_timeout_ms=str(TIMEOUT_MS),
                isolation_level="read_committed",
            )  # fmt: skip
            driven.spawn(RealCopier(driven, history, self.told, plan, COPIER).run("x0"))
        operator = self._operator("op")
        operator[0].spawn(operator[1].run(parts, 1_000))
        operator = self._operator("churn")
        operator[0].spawn(operator[1].churn(CHURNED, 2_500))

    def _operator(self, name: str) -> tuple[Driven, Operator]:
        driven = self._driven(name)
        return driven, Operator(driven, self.history, lambda: self.metadata.image, list(self.cluster.brokers))

    def _finish(self) -> None:
        before = {driven.name: driven.done for driven in self.driven}
        if not self._until(lambda: all(one.done > before[one.name] for one in self.driven), AGAIN_MS):
            idle = [one.name for one in self.driven if one.done == before[one.name]]
            raise Violation("clients_work_again", f"{idle} have done nothing within {AGAIN_MS} ms without faults")
        readers = [one for one in self.driven if one.reached]
        self._stop([one for one in self.driven if one not in readers])
        for one in readers:
            one.hurries = True
        if not self._until(lambda: not any(self._left(one) for one in readers), READ_MS):
            left = {one.name: self._left(one) for one in readers if self._left(one)}
            raise Violation("readers_reach_the_end", f"{left} is not read within {READ_MS} ms without faults")
        self._stop(readers)
        super()._finish()
        self._judge_written()

    def _stop(self, some: list[Driven]) -> None:
        for one in some:
            one.stopping = True
        if not self._until(lambda: not any(one.running for one in some), AGAIN_MS):
            busy = [one.name for one in some if one.running]
            raise Violation("clients_work_again", f"{busy} do not end within {AGAIN_MS} ms without faults")

    def _left(self, reader: Driven) -> dict[Part, str]:
        """What a reader has not reached of the topics that stay."""
        image, found = self.metadata.image, {}
        for (topic, number), offset in reader.reached.items():
            if topic == CHURNED:
                continue
            end = self.data.partitions[image.topic_id(image.topic(topic)), number].end
            if offset < end:
                found[topic, number] = f"{offset} of {end}"
        return found

    def _judge_written(self) -> None:
        """What was acknowledged is there, each record once."""
        found: Counter[bytes] = Counter()
        for topic in self.shape.topics:
            image = self.metadata.image
            id = image.topic_id(image.topic(topic.name))
            for number in range(topic.partitions):
                held = self.data.partitions[id, number]
                for _, data in held.batches.values():
                    found.update(record.value or b"" for record in batches.records(data))
        lost = [value for value in self.acknowledged if not found[value]]
        if lost:
            raise Violation("no_acknowledged_record_lost", f"{len(lost)} records of the client, as {lost[0]!r}")
        twice = [value for value, count in found.items() if count > 1]
        if twice:
            raise Violation("no_record_twice", f"{len(twice)} records of the client, as {twice[0]!r}")


def _dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}
