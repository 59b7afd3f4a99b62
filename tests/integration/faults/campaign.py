"""One run: clients work under random faults, then without faults, and a verdict follows.

After each fault the run waits until every partition has acknowledged a new record, which must happen within a minute.
Now and then the next fault comes without this wait.
"""

import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.faults import clients, replicas, transactions
from tests.integration.faults.checker import Verdict, check
from tests.integration.faults.history import History
from tests.integration.faults.nemesis import Fault
from tests.integration.faults.outages import Outage, outages
from tests.integration.faults.targets import Target, wait_for

TOPIC = "hurt"
PARTITIONS = 6
READERS = {"librdkafka": clients.librdkafka_reader, "kafka-python": clients.kafka_python_reader}
LIVELY_S = 60.0
IMPATIENCE = 0.2
"""How often the next fault comes before the last one is over."""
CONFIG = {
    "registration.lease.timeout.ms": "6000",
    "registration.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "min.insync.replicas": "2",
    "log.segment.bytes": "1048576",
}
"""Short leases, so that several end within a minute."""


class Outcome(NamedTuple):
    """The result of a run."""

    verdict: Verdict
    outages: list[Outage]
    stuck: list[str]
    """Faults after which some partition accepted nothing for too long."""
    transactions: str
    """How many there were, and what became of them."""

    @property
    def clean(self) -> bool:
        """Whether nothing was wrong, and writing was always possible again in time."""
        return self.verdict.clean and not self.stuck


def run(target: Target, faults: Mapping[Fault, int], seconds: float, seed: int, tell: Callable[[str], None],
        rate: float = 150.0, lively_s: float = LIVELY_S) -> Outcome:  # fmt: skip
    """Run faults on a running cluster for `seconds`. `tell` gets a line for each event. `lively_s`: the time to become
    writable again."""
    history, acks, stop = History(), clients.Acks(PARTITIONS), clients.Stop()
    history.read.update({reader: [] for reader in READERS})
    servers = target.bootstrap
    _create(servers)
    undecided = transactions.Transactions()
    work = {
        "librdkafka producer": clients.librdkafka_producer("c", servers, TOPIC, PARTITIONS, rate, history, acks, stop),
        "kafka-python producer": clients.kafka_python_producer(
            "p", servers, TOPIC, PARTITIONS, rate / 3, history, acks, stop
        ),
        **{
            f"{name} reader": reader(name, servers, TOPIC, PARTITIONS, history, stop)
            for name, reader in READERS.items()
        },
        "member one": clients.group_member("one", servers, TOPIC, history, stop),
        "member two": clients.group_member("two", servers, TOPIC, history, stop),
        "admin": clients.admin(servers, history, acks, stop),
        **transactions.clients(servers, seed, undecided, stop),
    }
    threads = [
        threading.Thread(target=_watched(name, client, history), name=name, daemon=True)
        for name, client in work.items()
    ]
    for thread in threads:
        thread.start()
    begin = time.monotonic()
    stuck: list[str] = []
    try:
        if not wait_for(lambda: acks.proven(begin), lively_s):
            raise RuntimeError("the clients do not get to work")
        done = _hurt(
            target, faults, time.monotonic() + seconds, random.Random(seed), acks, stuck, begin, tell, lively_s
        )
        peace = time.monotonic()
        if not wait_for(lambda: acks.changed(peace), lively_s):
            stuck.append("the controllers: no topic can be created")
    finally:
        end = time.monotonic()
        stop.set()
        for thread in threads:
            if "producer" in thread.name or thread.name == "admin":
                thread.join(clients.DELIVERY_S + 20)
        _drain(history, undecided, lively_s)
        stop.all.set()
        for thread in threads:
            thread.join(30)
            if thread.is_alive():
                history.broken.append(f"{thread.name} does not end: {_where(thread)}")
    clients.final_state(servers, TOPIC, PARTITIONS, history, lively_s)
    transactions.final_state(servers, undecided, lively_s)
    verdict = check(history)
    verdict.wrong |= transactions.wrong(undecided)
    verdict.wrong["diverged"] = [
        *replicas.differences(target, TOPIC, PARTITIONS), *replicas.metadata_differences(target)
    ]  # fmt: skip
    return Outcome(verdict, outages(done, acks, begin, end), stuck, transactions.summary(undecided))


def _where(thread: threading.Thread) -> str:
    """Where a thread is waiting."""
    frame = sys._current_frames().get(thread.ident or 0)
    return (
        " > ".join(f"{line.name}: {line.line}" for line in traceback.extract_stack(frame)[-3:]) if frame else "it has"
    )


def _hurt(
    target: Target,
    faults: Mapping[Fault, int],
    until: float,
    choice: random.Random,
    acks: clients.Acks,
    stuck: list[str],
    begin: float,
    tell: Callable[[str], None],
    lively_s: float,
) -> list[tuple[float, str]]:
    done: list[tuple[float, str]] = []
    kinds, weights = list(faults), list(faults.values())
    while time.monotonic() < until:
        at = time.monotonic()
        hurt = choice.choices(kinds, weights)[0](target, choice)
        if hurt is None:
            time.sleep(0.2)
            continue
        done.append((at, hurt.what))
        tell(f"{at - begin:7.1f} s  {hurt.what}, for {hurt.lasts_s:.1f} s")
        time.sleep(hurt.lasts_s)
        hurt.undo()
        healed = time.monotonic()
        last = healed + 3 >= until
        if not last and choice.random() < IMPATIENCE:
            continue
        if not wait_for(lambda since=healed: acks.proven(since), lively_s):
            stuck.append(f"{hurt.what} at {at - begin:.1f} s")
            tell(f"{time.monotonic() - begin:7.1f} s  STUCK after {hurt.what}")
        time.sleep(choice.uniform(0.2, 2.0))
    return done


def _create(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    config = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])[TOPIC].result(30)


def _watched(name: str, client: Callable[[], None], history: History) -> Callable[[], None]:
    def run() -> None:
        try:
            client()
        except Exception as error:
            history.broken.append(f"{name}: {error!r}")

    return run


def _drain(history: History, undecided: transactions.Transactions, lively_s: float) -> None:
    """Wait until readers and members have got all acknowledged records, or make no more progress."""
    wanted = {seen.value for seen in history.acknowledged}

    def complete() -> bool:
        seen = [{one.value for one in list(records)} for records in (*history.read.values(), history.consumed)]
        return all(wanted <= one for one in seen) and transactions.drained(undecided)

    wait_for(complete, lively_s)
