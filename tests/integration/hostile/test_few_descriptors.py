"""Nodes that may open few files: bursts to many partitions, strangers at the metrics' port, clean stops."""

import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PARTITIONS = 400
SCRIPT = """
import socket, sys, time
from contextlib import ExitStack
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
import rayft

directory, partitions, metrics = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for start in range(2):
    config = {"rayft.metrics.listen": f"127.0.0.1:{metrics}"}
    with rayft.Cluster(1, 1, directory, None if start else config, combined=True) as cluster, ExitStack() as strangers:
        for _ in range(60):
            sock = strangers.enter_context(socket.create_connection(("127.0.0.1", metrics), timeout=5))
            sock.sendall(b"GET /metrics")
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        if not start:
            admin = AdminClient(servers)
            admin.create_topics([NewTopic("t", partitions, 1)])["t"].result(60)
            time.sleep(2)
        producer, refused = Producer({**servers, "acks": "all"}), []
        for _ in range(3):
            for number in range(partitions):
                note = lambda error, message: refused.append(error) if error else None
                producer.produce("t", b"x" * 100, partition=number, on_delivery=note)
            assert producer.flush(60) == 0 and not refused, refused[:3]
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("limit", [256, 1024])
def test_a_burst_to_many_partitions_ends_no_node_and_it_stops_cleanly(limit: int, tmp_path: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "c"), str(PARTITIONS), str(port)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=280,
        cwd=Path(__file__).parents[3],
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (log,) = [path for path in (tmp_path / "c").glob("*.log") if path.name != "supervisor.log"]
    lines = log.read_text().splitlines()
    assert sum("ends: stopped as asked" in line for line in lines) == 2, lines[-20:]
    assert sum("ends: " in line for line in lines) == 2, "no process has ended by itself"
    assert not [line for line in lines if " ERROR " in line or "no clean stop" in line]
    assert sum(f"this process may have {limit} files" in line for line in lines) == 2, "an operator is told"
