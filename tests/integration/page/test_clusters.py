"""Several clusters in one page: each by its name, with its own history; one that is away; changes that say where."""

import json
import socket
from pathlib import Path

import pytest

import rayft
from tests.integration.conftest import ROOT, command
from tests.integration.page.opened import page, until

LOG = ROOT / "tests" / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"
JSON = {"Content-Type": "application/json"}


def test_clusters_files_and_one_that_is_away_in_one_page(cluster: rayft.Cluster, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
    here = cluster.bootstrap_servers
    with (
        rayft.Cluster(controllers=1, brokers=1) as other,
        page(str(LOG), "-b", here, "-b", nobody, "--dir", str(other.dir), "--allow-changes") as opened,
    ):
        there = other.bootstrap_servers
        found = until(
            lambda: (some := opened.get("/clusters")["clusters"]) and some[1]["open"] and some[3]["open"] and some
        )
        assert [one["name"] for one in found] == [str(LOG), here, nobody, there]
        assert not found[2]["open"] and nobody in opened.ask("", cluster=nobody)[1]["error"]
        assert opened.ask("/now", cluster=nobody)[0] == 502
        assert opened.get("")["kind"] == "directory" and opened.get("", cluster=here)["may_change"]
        body = json.dumps({"topic": name}).encode()
        status, told, _ = opened.ask("/changes/topics/create", method="POST", body=body, headers=JSON)
        assert status == 400 and "cluster=" in told["error"]
        for wanted, code in ((there, 200), (str(LOG), 404), ("nothing", 404)):
            given = opened.ask("/changes/topics/create", method="POST", body=body, headers=JSON, cluster=wanted)
            assert given[0] == code, given
        until(lambda: opened.rows("topics", where=f"topic = {name}", cluster=there))
        assert not opened.rows("topics", where=f"topic = {name}", cluster=here)
        assert opened.get("/now", cluster=there)["counts"]["partitions"] == 1
        assert len(opened.get("/now", cluster=here)["quorum"]["voters"]) == 3


def test_names_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for words, said in (
        (("-b", "a:1", "-b", "a:1"), "named twice"),
        ((str(LOG), "--allow-changes"), "files are only read"),
        (tuple(f"-ba:{port}" for port in range(1, 18)), "16 clusters at most"),
        ((str(LOG), "--config", str(tmp_path / "c")), "--config alone"),
        ((), "what is to be shown?"),
    ):
        done = command("ui", "--port", "0", *words)
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.slow
def test_one_address_with_the_login_of_a_profile_is_one_cluster(cluster: rayft.Cluster, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=me\n")
    with page("-b", cluster.bootstrap_servers, "--config", str(config)) as opened:
        assert len(opened.get("/clusters")["clusters"]) == 1
