"""kcat, unmodified: the command line client that most people try first."""

import json
import shutil
import subprocess
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat on the path: `make kafka` installs it")
SECONDS = 60


@pytest.fixture
def kcat(cluster: Any) -> Any:
    """Runs kcat against the cluster. Returns its standard output."""

    def call(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["kcat", "-b", cluster.bootstrap_servers, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"kcat {' '.join(arguments)} ended with {done.returncode}: {done.stderr}"
        return done.stdout

    return call


def test_producing_creates_the_topic_with_three_replicas(kcat: Any, name: str) -> None:
    kcat("-P", "-t", name, "-X", "acks=all", stdin="a\nb\n")
    (topic,) = json.loads(kcat("-L", "-J", "-t", name))["topics"]
    assert topic["topic"] == name and topic["partitions"]
    assert all(len(place["replicas"]) == 3 and place["leader"] >= 0 for place in topic["partitions"])
    assert kcat("-C", "-t", name, "-e", "-q").split() == ["a", "b"]


def test_the_cluster_is_listed(kcat: Any) -> None:
    found = json.loads(kcat("-L", "-J"))
    assert len(found["brokers"]) == 3
    assert found["controllerid"] in {broker["id"] for broker in found["brokers"]}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_back_by_offset(kcat: Any, name: str, codec: str) -> None:
    lines = [f"{codec}{n}" * 20 for n in range(200)]
    kcat("-P", "-t", name, "-p", "0", "-X", f"compression.codec={codec}", stdin="\n".join(lines))
    assert kcat("-C", "-t", name, "-p", "0", "-o", "beginning", "-e", "-q").split() == lines
    assert kcat("-C", "-t", name, "-p", "0", "-o", "150", "-c", "3", "-q").split() == lines[150:153]
    assert kcat("-C", "-t", name, "-p", "0", "-o", "-2", "-e", "-q").split() == lines[-2:]


def test_keys_headers_and_offsets_by_time(kcat: Any, name: str) -> None:
    kcat("-P", "-t", name, "-p", "0", "-K", ":", "-H", "h=1", stdin="k:v\n")
    record = json.loads(kcat("-C", "-t", name, "-e", "-q", "-J"))
    assert (record["key"], record["payload"], record["headers"]) == ("k", "v", ["h", "1"])
    assert kcat("-Q", "-t", f"{name}:0:{record['ts']}").split() == [name, "[0]", "offset", "0"]
    assert kcat("-Q", "-t", f"{name}:0:-1").split()[-1] == "1"
    assert kcat("-C", "-t", name, "-o", f"s@{record['ts']}", "-e", "-q").split() == ["v"]


def test_a_group_reads_and_goes_on_where_it_was(kcat: Any, name: str) -> None:
    kcat("-P", "-t", name, stdin="a\nb\nc\n")
    reset = ("-q", "-X", "auto.offset.reset=earliest")
    assert kcat("-G", name, "-c", "2", *reset, name).split() == ["a", "b"]
    assert kcat("-G", name, "-e", *reset, name).split() == ["c"]
