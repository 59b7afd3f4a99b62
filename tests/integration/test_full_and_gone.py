"""Disks that are full for long, and directories that are unmounted, under real nodes with load. Only root can mount."""

import contextlib
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.host.cluster.on_processes import Cluster
from tests.integration.conftest import two_directories
from tests.integration.faults.targets import small_disk
from tests.integration.test_bad_input import Steady, create, fill, moved, planned, read, resident, until

MINUTES = float(os.environ.get("RAYFT_FULL_MINUTES", "10"))
SOON = {
    "log.segment.delete.delay.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "registration.lease.timeout.ms": "3000",
    "registration.heartbeat.interval.ms": "500",
}


class Load:
    """A thread that writes a record every few milliseconds, and knows when each was acknowledged."""

    def __init__(self, servers: str, topic: str, partition: int = 0) -> None:
        self.steady = Steady(servers, topic, 3_600_000)
        self.longest_s = 0.0
        """Between two acknowledgements."""
        self._last = time.monotonic()
        self._partition = partition
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        steady, number, before = self.steady, 0, 0
        while not self._ended.is_set():
            if len(steady.producer) < 1_000:
                value = b"%d-%08d" % (self._partition, number) + b"." * 900
                number += 1
                steady.producer.produce(self._topic, value, partition=self._partition, on_delivery=steady._delivered)
            steady.producer.poll(0)
            now = time.monotonic()
            if len(steady.acknowledged) > before:
                before, self._last = len(steady.acknowledged), now
            self.longest_s = max(self.longest_s, now - self._last)
            time.sleep(0.005)

    @property
    def count(self) -> int:
        """How many are acknowledged."""
        return len(self.steady.acknowledged)

    def begin_anew(self) -> None:
        """Forget the longest wait."""
        self.longest_s, self._last = 0.0, time.monotonic()

    def stop(self) -> int:
        """End, and wait for what is under way. How many are without an end."""
        self._ended.set()
        self._thread.join()
        return self.steady.flush(120)


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 600)
def test_disks_that_are_full_for_minutes_under_load(tmp_path: Path) -> None:
    """That of the broker and that of the only controller."""
    named = {name.replace(".", "_"): value for name, value in SOON.items()}
    planned(tmp_path / "c", **named)
    with contextlib.ExitStack() as stack:
        places = [stack.enter_context(small_disk(tmp_path / name, size)) for name, size in (("b", 64), ("k", 12))]
        if None in places:
            pytest.skip("no small file system can be mounted here: that takes root")
        for place, name in zip(places, ("broker-1", "controller-1001"), strict=True):
            assert place is not None
            moved(tmp_path / "c", name, place)
        cluster = stack.enter_context(rayft.Cluster(dir=tmp_path / "c"))
        servers = cluster.bootstrap_servers
        create(servers, "t")
        create(servers, "old")
        large = Steady(servers, "old")
        large.send(40, 100_000)
        assert large.flush() == 0
        load = Load(servers, "t")
        until(lambda: load.count > 200, "it runs")
        pids, before = dict(cluster.pids), {id: resident(pid) for id, pid in cluster.pids.items()}
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        ballasts = [fill(place) for place in places if place is not None]
        made, refused, looks, had = 0, 0, 0, 0
        end = time.monotonic() + MINUTES * 60
        while time.monotonic() < end:
            try:
                topic = f"n{made + refused}"
                admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=5)[topic].result(8)
                made += 1
            except Exception:
                refused += 1
            had = max(had, load.count)
            assert set(load.steady.acknowledged[:had]) <= set(served(cluster, "t")), "what is there is served"
            looks += 1
            assert cluster.pids == pids, "both go on"
            time.sleep(3)
        grown = {id: resident(pid) - before[id] for id, pid in pids.items()}
        lines = {id: len(cluster.log(id).splitlines()) for id in pids}
        full = load.count
        for ballast in ballasts:
            ballast.unlink()
        began = time.monotonic()
        until(lambda: load.count > full + 50, "records are taken again", 60)
        back = time.monotonic() - began
        assert load.stop() == 0 and not load.steady.failed, load.steady.failed[:3]
        found = read(servers, "t")
        assert sorted(load.steady.acknowledged) == sorted(found)
        admin.delete_topics(["old"])["old"].result(30)
        until(lambda: all("has room again" in cluster.log(id) for id in pids), "and said so", 60)
        assert cluster.pids == pids
        assert max(lines.values()) < 400, f"the logs do not fill: {lines}"
        assert max(grown.values()) < 64 << 20, grown
        print(
            f"{MINUTES:.0f} minutes: {full} records before and while full, {len(found)} in the end, none lost or twice; "
            f"{looks} times read whole meanwhile; {made} topics made and {refused} refused; back {back:.1f} s after there "
            f"was room; grown by {grown} bytes; lines of the logs {lines}"
        )


def served(cluster: Cluster, topic: str) -> list[bytes]:
    """Every value of partition 0; a client that gives up its connection asks again."""
    for _ in range(5):
        try:
            return read(cluster.bootstrap_servers, topic)
        except KafkaException as error:
            why = error
            time.sleep(1)
    raise AssertionError(f"{why}; {cluster.log(1)[-2000:]}")


@contextlib.contextmanager
def unmounted(second: Path) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """A directory that is a mount, what takes it away, and what brings it back."""
    real = second.with_name("real")
    second.rename(real)
    second.mkdir()

    def mount() -> None:
        subprocess.run(["mount", "--bind", str(real), str(second)], check=True, capture_output=True)

    try:
        mount()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("nothing can be mounted here: that takes root")
    try:
        yield lambda: subprocess.run(["umount", "-l", str(second)], check=True), mount
    finally:
        subprocess.run(["umount", "-l", str(second)], check=False, capture_output=True)


@contextlib.contextmanager
def replaced(second: Path) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """A directory in whose place an empty one comes, and back."""
    gone = second.with_name("gone")

    def replace() -> None:
        second.rename(gone)
        second.mkdir(exist_ok=True)

    def back() -> None:
        shutil.rmtree(second)
        gone.rename(second)

    yield replace, back


@pytest.mark.slow
@pytest.mark.parametrize("how", [unmounted, replaced])
def test_a_directory_goes_away_under_load_and_its_neighbour_serves(
    tmp_path: Path,
    how: Callable[[Path], contextlib.AbstractContextManager[tuple[Callable[[], None], Callable[[], None]]]],
) -> None:
    home = tmp_path / "c"
    two_directories(home, 1, SOON)
    second = home / "second"
    with how(second) as (take, bring), rayft.Cluster(dir=home) as cluster:
        servers, pid = cluster.bootstrap_servers, cluster.pids[1]
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(30)
        loads = [Load(servers, "t", number) for number in range(4)]
        until(lambda: all(load.count > 200 for load in loads), "all are written")
        here = {int(one.name[2:]) for one in second.glob("t-*")}
        assert len(here) == 2, here
        for load in loads:
            load.begin_anew()
        take()
        until(lambda: f"log directory {second} is offline with " in cluster.log(1), "it is noticed", 60)
        counts = [load.count for load in loads]
        time.sleep(10)
        for number, load in enumerate(loads):
            if number not in here:
                assert load.count > counts[number] + 200, f"partition {number} is not in that directory"
        assert cluster.pids[1] == pid
        assert len(re.findall("is offline with", cluster.log(1))) == 1
        waits = [round(load.longest_s, 2) for number, load in enumerate(loads) if number not in here]
        cluster.kill(1, restart=False)
        bring()
        cluster.restart(1)
        assert all(load.stop() == 0 and not load.steady.failed for load in loads)
        for number, load in enumerate(loads):
            found = partition(servers, number)
            assert sorted(found) == sorted(load.steady.acknowledged), f"partition {number}"
        print(
            f"{how.__name__}: {[load.count for load in loads]} records, none lost or twice; partitions beside it waited for "
            f"{waits} s at most"
        )


def partition(servers: str, number: int) -> list[bytes]:
    """Every value of a partition of t."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False, "log_level": 0})
    place = TopicPartition("t", number, 0)
    end, found, position = consumer.get_watermark_offsets(place, 30)[1], [], 0
    consumer.assign([place])
    until_s = time.monotonic() + 60
    while position < end and time.monotonic() < until_s:
        for record in consumer.consume(1000, 0.2):
            assert record.error() is None, record.error()
            found.append(record.value())
            position = record.offset() + 1
    consumer.close()
    assert position >= end
    return found
