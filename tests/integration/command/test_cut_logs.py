"""`rayft consume -e` while an unclean election cuts the log: it ends, and says which offsets are gone."""

import os
import subprocess
import sys
import time

import pyarrow as pa
import pytest

import rayft
from actors.client.asks import Know, Steps
from actors.client.errors import ClientError
from actors.client.metadata import Partition
from actors.client.operations import groups, topics
from actors.host.client.blocking import connect
from tests.integration.command.typed import typed
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


def cut_off(cluster: "rayft.Cluster", cut: int) -> int:
    """Write RECORDS records, of which one replica has only the first ones, up to `cut`, and is away. Returns the leader."""
    servers = cluster.bootstrap_servers
    with connect(servers) as kafka:
        kafka.run(topics.create([topics.NewTopic("t", assignment={0: [1, 2]})]))
        write(servers, 0, cut)
        leader = kafka.run(known()).leader
        cluster.kill(3 - leader, restart=False)
        while kafka.run(known()).isr != (leader,):
            time.sleep(0.1)
        write(servers, cut, RECORDS)
    return leader


@pytest.mark.parametrize("cut", [20, 200], ids=["behind the position", "before the position"])
def test_a_log_that_is_cut_ends_it(cut: int) -> None:
    """About 64 records fit into the pipe, which nobody reads until the log is cut."""
    with rayft.Cluster(controllers=1, brokers=2, config=UNCLEAN) as cluster:
        servers, leader = cluster.bootstrap_servers, cut_off(cluster, cut)
        words = ["consume", "t", "-e", "-f", r"%v\n", "-b", servers, "--config", "/dev/stdin"]
        consume = subprocess.Popen(
            [sys.executable, "-m", "actors.command.cli", *words], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert consume.stdin is not None and consume.stdout is not None
        consume.stdin.write(b"max.partition.fetch.bytes=4000\n")
        consume.stdin.close()
        consume.stdin = None
        begun = os.read(consume.stdout.fileno(), 1)
        cluster.kill(leader, restart=False)
        cluster.start_node(3 - leader)
        out, told = consume.communicate(timeout=90)
    found, err = [int(line.split()[0]) for line in (begun + out).splitlines()], told.decode()
    assert consume.returncode == 0 and found == list(range(len(found))) and len(found) < RECORDS
    assert len(found) >= cut and f"t/0: offsets {cut} to " in err and f"to {RECORDS - 1} were lost" in err


def test_a_group_reads_what_took_the_place_of_lost_records() -> None:
    """The log is as long again when the group goes on."""
    with rayft.Cluster(controllers=1, brokers=3, config=UNCLEAN) as cluster:
        servers = cluster.bootstrap_servers
        with connect(servers) as kafka:
            kafka.run(groups.committed("g"))  # while there are brokers enough for the topic of its offsets
        leader = cut_off(cluster, 200)
        consume = ("consume", "t", "-g", "g", "-e", "-f", r"%o\n")
        assert len(typed(servers, *consume).text.split()) == RECORDS
        with rayft.follow(servers, "t", "earliest", group="f", columns=("offset",)) as following:
            while following.positions.get(("t", 0)) != RECORDS:
                assert following.next_batch(60) is not None
            following.commit()
        cluster.kill(leader, restart=False)
        cluster.start_node(3 - leader)
        write(servers, 1000, 1000 + RECORDS)
        again = typed(servers, *consume)
        assert again.err == f"rayft: t/0: offsets 200 to {RECORDS - 1} were lost with their leader\n"
        assert [int(one) for one in again.text.split()] == list(range(200, 200 + RECORDS))
        with (
            rayft.follow(servers, "t", group="f") as following,
            pytest.raises(ClientError, match=f"its log ends at 200 now, and {RECORDS} was reached"),
        ):
            following.next_batch(60)
