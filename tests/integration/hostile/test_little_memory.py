"""A node that may have little memory (RLIMIT_AS, as `ulimit -v` sets it): what does not fit is refused with a sentence, the
process lives on, and others are served."""

import contextlib
import re
import resource
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.hostile.scene import Peer, Scene, framed

MEBIBYTE = 1 << 20
LEFT_BYTES = 80 * MEBIBYTE
"""What a node may take besides what it has when it is up: less than one of the frames."""
FRAME_BYTES = 95 * MEBIBYTE


def may_have_no_more_than(pid: int, more: int) -> None:
    """As `ulimit -v`, of a process that is there."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + more
    resource.prlimit(pid, resource.RLIMIT_AS, (size, size))


@pytest.mark.timeout(240)
def test_what_finds_no_memory_is_refused_and_nothing_ends() -> None:
    with rayft.Cluster(controllers=1, brokers=1, config={"offsets.topic.num.partitions": "2"}) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        admin = AdminClient(servers)
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(60)
        pids = dict(cluster.pids)
        for pid in pids.values():
            may_have_no_more_than(pid, LEFT_BYTES)
        scene = Scene(cluster)
        for address in (*scene.brokers(), *scene.controllers()):
            for _ in range(4):
                with Peer(address, 10) as peer, contextlib.suppress(OSError):
                    peer.send(framed(bytes(FRAME_BYTES))[: 2 * MEBIBYTE])
                    peer.closed()
        refused: list[object] = []
        producer = Producer({**servers, "acks": "all"})
        for number in range(200):
            producer.produce(
                "t", b"x" * 10_000, partition=number % 2, on_delivery=lambda error, _: error and refused.append(error)
            )
        assert producer.flush(60) == 0 and not refused, refused[:3]
        time.sleep(0.5)
        assert dict(cluster.pids) == pids, "nothing ended"
        text = "".join(path.read_text() for path in Path(cluster.dir).glob("*.log"))
    assert re.search(r"no memory is left for a frame of \d+ bytes; give the process more", text), text[-2000:]
    assert "Traceback" not in text
