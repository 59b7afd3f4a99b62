"""500 requests at once on the control-plane listener of a broker: 20 wait in its queue, the others in their sockets.

A connection that sends more than 16 at once gets an answer to each.
"""

import re
import struct
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rayft
from actors.host.cluster import plan
from tests.integration.answers.dialogue import request
from tests.integration.hostile.conftest import CONFIG
from tests.integration.hostile.scene import Address, Peer, Scene, encoded

REQUESTS, CONNECTIONS, QUEUE = 500, 10, 20
GAUGE = re.compile(r"^kafka_network_requestchannel_controlplanerequestqueuesize ([0-9.]+)$", re.MULTILINE)


@pytest.fixture
def probed(tmp_path: Path) -> Iterator[tuple[Scene, Address, Address]]:
    """A controller and a broker with a control plane. Also the addresses of the control plane and of the broker's
    metrics."""
    plan.create(tmp_path, 1, 1, common=CONFIG)
    held = [plan.reserve("127.0.0.1", 0) for _ in range(2)]
    control, metrics = (one.getsockname() for one in held)
    path = tmp_path / "broker-1.properties"
    text = path.read_text().replace("listeners=PLAINTEXT", f"listeners=PROBE://127.0.0.1:{control[1]},PLAINTEXT", 1)
    path.write_text(
        f"{text}control.plane.listener.name=PROBE\nlistener.security.protocol.map=PROBE:PLAINTEXT,"
        f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\nrayft.metrics.listen=127.0.0.1:{metrics[1]}\n"
    )
    for one in held:
        one.close()
    with rayft.Cluster(dir=tmp_path) as running:
        yield Scene(running), control, metrics


def ask(address: Address, times: int) -> None:
    """Send all requests at once, then read every answer in order."""
    with Peer(address) as peer:
        peer.send(b"".join(encoded("ApiVersions", 0, request("ApiVersions"), number) for number in range(times)))
        for number in range(times):
            assert struct.unpack(">i", peer.read()[:4])[0] == number


def waiting(address: Address) -> float:
    """The value of the gauge."""
    with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/metrics", timeout=10) as answer:
        found = GAUGE.search(answer.read().decode())
    assert found is not None
    return float(found[1])


@pytest.mark.timeout(120)
def test_twenty_requests_wait_and_others_are_served(probed: tuple[Scene, Address, Address]) -> None:
    scene, control, metrics = probed
    seen: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            seen.append(waiting(metrics))

    def attack() -> None:
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            with ThreadPoolExecutor(CONNECTIONS) as pool:
                for one in [pool.submit(ask, control, REQUESTS) for _ in range(CONNECTIONS)]:
                    one.result()
        finally:
            ended.set()
            watcher.join()

    cost = scene.measured(attack)
    print(cost, f"\nqueued: {max(seen):.0f} of {QUEUE} at most, seen {len(seen)} times")
    assert not cost.lost and not cost.broken, cost
    assert cost.ping_p99_ms < 2000
    assert max(seen) <= QUEUE
