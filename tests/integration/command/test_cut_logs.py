"""`rayft consume -e` while an unclean election cuts the log: it ends, and says which offsets are gone."""

import subprocess
import sys
import time

import pyarrow as pa
import pytest

import rayft
from actors.client.asks import Know, Steps
from actors.client.metadata import Partition
from actors.client.operations import topics
from actors.host.client.blocking import connect
from tests.integration.conftest import ROOT

pytestmark = [pytest.mark.timeout(180), pytest.mark.slow]
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
RECORDS = 400
TEXT = b"x" * 1000


def known() -> Steps[Partition]:
    metadata = yield Know(("t",), fresh=True)
    return metadata.topics["t"].partitions[0]


def write(servers: str, first: int, end: int) -> None:
    rows = pa.table({"value": [b"%d " % n + TEXT for n in range(first, end)]})
    rayft.write(servers, "t", rows, config={"batch.size": 2000})


@pytest.mark.parametrize("cut", [20, 200], ids=["behind the position", "before the position"])
def test_a_log_that_is_cut_ends_it(cut: int) -> None:
    """About 64 records fit into the pipe, which nobody reads until the log is cut."""
    with rayft.Cluster(controllers=1, brokers=2, config=UNCLEAN) as cluster:
        servers = cluster.bootstrap_servers
        with connect(servers) as kafka:
            kafka.run(topics.create([topics.NewTopic("t", assignment={0: [1, 2]})]))
            write(servers, 0, cut)
            leader = kafka.run(known()).leader
            cluster.kill(3 - leader, restart=False)
            while kafka.run(known()).isr != (leader,):
                time.sleep(0.1)
            write(servers, cut, RECORDS)
        words = ["consume", "t", "-e", "-f", r"%v\n", "-b", servers, "--config", "/dev/stdin"]
        consume = subprocess.Popen(
            [sys.executable, "-m", "actors.command.cli", *words], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert consume.stdin is not None and consume.stdout is not None
        consume.stdin.write("max.partition.fetch.bytes=4000\n")
        consume.stdin.close()
        consume.stdin = None
        assert consume.stdout.readline().startswith("0 ")
        cluster.kill(leader, restart=False)
        cluster.start_node(3 - leader)
        out, err = consume.communicate(timeout=90)
    found = [int(line.split()[0]) for line in out.splitlines()]
    assert consume.returncode == 0 and found == list(range(1, len(found) + 1)) and len(found) < RECORDS - 1
    assert len(found) + 1 >= cut and f"t/0: offsets {cut} to " in err and f"to {RECORDS - 1} were lost" in err
