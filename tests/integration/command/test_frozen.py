"""`rayft consume` while one of two brokers is frozen: what the other leads is printed as it comes."""

import subprocess
import sys
import threading
import time

from actors.client.operations import records
from actors.client.operations.producing import Placed, Producer
from actors.host.client.blocking import connect
from tests.integration.command.conftest import Two
from tests.integration.command.typed import typed
from tests.integration.conftest import ROOT, until

HELD_UP_S = 20.0
"""Less than the time after which a request to the frozen broker is given up, request.timeout.ms."""


def test_a_frozen_broker_holds_up_no_others_records(two: Two, name: str) -> None:
    servers = two.servers.split(",")[0]
    for words in (
        ("create", name, "-p", "2", "-r", "1"),
        ("partitions", "move", f"{name}:0", "--to", "1"),
        ("partitions", "move", f"{name}:1", "--to", "2"),
    ):
        assert typed(servers, "topic", *words).code == 0
    until(lambda: typed(servers, "topic", "partitions", "moves", "-o", "json").out == b"[]\n")
    consume = subprocess.Popen(
        [sys.executable, "-u", "-m", "actors.command.cli", "consume", name, "-f", r"%p:%v\n", "-b", servers],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert consume.stdout is not None
    stdout, found = consume.stdout, list[str]()

    def collect() -> None:
        found.extend(iter(stdout.readline, ""))

    collecting = threading.Thread(target=collect, daemon=True)
    collecting.start()
    with connect(servers) as kafka:
        producer = Producer(kafka.config)

        def write(partition: int, value: bytes) -> None:
            (placed,) = kafka.run(producer.send([((name, partition), records.batch(None, value, 1))]))
            assert isinstance(placed, Placed)

        try:
            write(0, b"first")
            write(1, b"second")
            until(lambda: sorted(found) == ["0:first\n", "1:second\n"])
            two.freeze()
            for n in range(5):
                write(0, b"%d" % n)
                end = time.monotonic() + HELD_UP_S
                while f"0:{n}\n" not in found:
                    assert time.monotonic() < end, found
                    time.sleep(0.01)
        finally:
            two.end()
            consume.kill()
            consume.wait()
            collecting.join()
