"""One million records through librdkafka while the active controller and then the busiest broker are killed with -9.

At the end every acknowledged record is read back and counted. `python -m bench.demo [--records N] [--stay]`. Its page is at
the address that is printed, with the demo itself in its view Time; `--stay` keeps both until Enter.

Outages are measured as a user would see them. Controller: from the kill to the next metadata change that is committed.
Broker: from the kill until every partition that it led has acknowledged a record again.
"""

import argparse
import contextlib
import sys
import threading
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import rayft
from actors.command.by_address.page_process import page_process
from bench import frames

TOPIC = "demo"
PARTITIONS = 6
SIZE = 100
SECONDS_MAX = 300


class Acknowledged:
    """The acknowledgements: how many for each record, and when each partition last gave one."""

    def __init__(self, records: int) -> None:
        self.times = bytearray(records)
        self.count = 0
        self.failed: list[str] = []
        self.waiting: dict[int, float] = {}
        self.outages: dict[int, float] = {}

    def delivered(self, error: KafkaError | None, record: object) -> None:
        """librdkafka's report of one record."""
        if error is not None:
            self.failed.append(str(error))
            return
        assert hasattr(record, "value") and hasattr(record, "partition") and hasattr(record, "latency")
        self.times[int(record.value()[:12])] += 1
        self.count += 1
        if self.waiting:
            partition = record.partition()
            since = self.waiting.get(partition)
            # Only what was produced after the kill proves that the partition is led again.
            if since is not None and time.monotonic() - record.latency() > since:
                self.outages[partition] = time.monotonic() - since
                del self.waiting[partition]


def controller_outage(cluster: "rayft.Cluster", addresses: list[tuple[str, int]]) -> tuple[int, float]:
    """Kill the active controller. Returns (its id, seconds until a topic could be created)."""
    connection = frames.Connection(addresses[0])
    frames.check_created(connection.exchange(frames.create_topic("before-the-kill", 1, 1)))
    leader = cluster.leader_id()
    assert leader is not None
    begin = time.monotonic()
    cluster.kill(leader)
    frames.check_created(connection.exchange(frames.create_topic("after-the-kill", 1, 1)))
    seconds = time.monotonic() - begin
    connection.close()
    return leader, seconds


def busiest(admin: AdminClient) -> tuple[int, list[int]]:
    """The broker that leads most partitions of the topic, and these partitions."""
    partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    leader, _ = Counter(part.leader for part in partitions.values()).most_common(1)[0]
    return leader, [id for id, part in partitions.items() if part.leader == leader]


def read_back(servers: str, records: int, progress: Progress) -> list[int]:
    """How many times each record is in the topic."""
    seen = [0] * records
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "demo", "enable.auto.commit": False, "log_level": 0})
    places = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
    ends = {place.partition: consumer.get_watermark_offsets(place, 30)[1] for place in places}
    consumer.assign(places)
    task = progress.add_task("read back", total=sum(ends.values()))
    position = dict.fromkeys(ends, 0)
    end_time = time.monotonic() + SECONDS_MAX
    while any(position[part] < ends[part] for part in ends) and time.monotonic() < end_time:
        batch = consumer.consume(10_000, 1.0)
        for record in batch:
            if record.error():
                raise RuntimeError(record.error())
            seen[int(record.value()[:12])] += 1
            position[record.partition()] = record.offset() + 1
        progress.advance(task, len(batch))
    consumer.close()
    return seen


def main() -> int:
    """Run the demo. Returns 0 if no record was lost or duplicated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--stay", action="store_true", help="keep the cluster and its page until Enter")
    options = parser.parse_args()
    records = options.records
    console = Console(soft_wrap=True)
    columns = (TextColumn("{task.description:>12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with contextlib.ExitStack() as ends:
        cluster = ends.enter_context(rayft.Cluster(controllers=3, brokers=3))
        address, why = ends.enter_context(page_process(cluster.dir, 0))
        progress = ends.enter_context(Progress(*columns, console=console))
        console.print(f"3 controllers and 3 brokers at {cluster.bootstrap_servers}")
        console.print(f"its page: {address}" if address else f"there is no page: {why}")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        config = {"min.insync.replicas": "2"}
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])[TOPIC].result(30)
        addresses = [
            (host, int(port))
            for host, _, port in (server.rpartition(":") for server in cluster.bootstrap_servers.split(","))
        ]
        acknowledged = Acknowledged(records)
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": 100_000,
                "delivery.timeout.ms": SECONDS_MAX * 1000,
                "log_level": 0,
            }
        )
        task = progress.add_task("acknowledged", total=records)
        padding = b"." * (SIZE - 12)
        outcome: dict[str, tuple[int, float]] = {}
        thread: threading.Thread | None = None
        led: list[int] = []
        killed = -1
        for number in range(records):
            value = b"%012d" % number + padding
            while True:
                try:
                    producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=acknowledged.delivered)
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 500 == 0:
                producer.poll(0)
                progress.update(task, completed=acknowledged.count)
            if number == records // 3:

                def kill() -> None:
                    outcome["controller"] = controller_outage(cluster, addresses)

                thread = threading.Thread(target=kill)
                thread.start()
            if number == 2 * records // 3:
                killed, led = busiest(admin)
                now = time.monotonic()
                acknowledged.waiting = dict.fromkeys(led, now)
                cluster.kill(killed)
        assert thread is not None
        left = producer.flush(SECONDS_MAX)
        thread.join(60)
        progress.update(task, completed=acknowledged.count)
        seen = read_back(cluster.bootstrap_servers, records, progress)
        progress.stop()
        if options.stay:
            console.input("Enter ends the cluster and its page. ")
    lost = sum(1 for number in range(records) if acknowledged.times[number] and not seen[number])
    twice = sum(1 for count in seen if count > 1)
    controller, seconds = outcome["controller"]
    broker_seconds = max(acknowledged.outages.values(), default=float("inf")) if led else 0.0
    console.print(
        f"acknowledged {acknowledged.count:,} of {records:,}; failed {len(acknowledged.failed)}; unsent {left}"
    )
    console.print(f"lost {lost}; more than once {twice}")
    console.print(f"controller {controller} killed: {seconds * 1000:.0f} ms until the next committed change")
    console.print(
        f"broker {killed} killed (led {len(led)} of {PARTITIONS} partitions): "
        f"{broker_seconds * 1000:.0f} ms until the last of them acknowledged again"
    )
    return 0 if not lost and not twice and not left and not acknowledged.failed else 1


if __name__ == "__main__":
    sys.exit(main())
