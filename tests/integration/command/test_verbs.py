"""The commands by address, as they are typed: the same tests against rayft and against Apache Kafka, with what they print as
golden text (`typed.py`).
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

import rayft
from actors.client.asks import Ask, Coordinator, KeyType, Steps
from actors.host.client.blocking import connect
from actors.host.work.system_random import SystemRandom, uuid_text
from actors.wire.messages import message
from bench import apache
from tests.integration.bridge.zookeeper_mode import RELEASES, ZooKeeper, ZooKeeperBrokers
from tests.integration.command.typed import APACHE, Ran, check, made, typed
from tests.integration.conftest import ROOT, until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(
    scope="module", params=["rayft", *(pytest.param(one, marks=pytest.mark.slow) for one in ("kafka", *RELEASES))]
)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """host:port of the brokers of a cluster."""
    if request.param in RELEASES:
        with ZooKeeper() as zookeeper, ZooKeeperBrokers(zookeeper, request.param, config=APACHE) as brokers:
            yield brokers.bootstrap_servers
    elif request.param == "kafka":
        if apache.libs() is None:
            pytest.skip("no java, or Apache Kafka's jars are not in .kafka/libs: `make kafka` fetches them")
        with apache.ApacheKafka(controllers=1, brokers=1, config=APACHE) as kafka:
            yield kafka.bootstrap_servers
    else:
        cluster: rayft.Cluster = request.getfixturevalue("cluster")
        yield cluster.bootstrap_servers


@pytest.fixture
def release(request: pytest.FixtureRequest) -> str:
    """The release of Apache Kafka, if it is an old one with ZooKeeper; empty: it is another cluster."""
    param = request.node.callspec.params["servers"]
    return param if param in RELEASES else ""


def test_a_topic_from_its_making_to_its_end(servers: str, name: str) -> None:
    check(
        typed(servers, "topic", "create", name, "-p", "2", "-r", "1", "--set", "retention.ms=3600000"),
        "created topic <name>\n", name=name,
    )  # fmt: skip
    again = typed(servers, "topic", "create", name)
    assert (again.code, again.out) == (1, b"") and "(TOPIC_ALREADY_EXISTS)" in again.err and again.err.count("\n") == 1
    rows = [json.loads(line) for line in typed(servers, "topic", "list", "-o", "jsonl").out.splitlines()]
    mine = [row for row in rows if row["topic"] == name]
    assert [(row["partitions"], row["replicas"], row["internal"]) for row in mine] == [(2, 1, False)]
    assert (
        typed(servers, "produce", name, "--partition", "1", stdin=b"a\nb\n").err
        == f"2 records were written to {name}\n"
    )
    check(
        typed(servers, "topic", "describe", name),
        """
topic  partition  leader  epoch  replicas  isr  earliest  latest
<name>  0  <n>  <n>  <n>  <n>  0  0
<name>  1  <n>  <n>  <n>  <n>  0  2
""",
        name=name,
    )
    assert typed(servers, "topic", "config", "get", name, "retention.ms").text == "retention.ms=3600000\n"
    assert typed(servers, "topic", "config", "set", name, "retention.ms=7200000").text == f"changed topic {name}\n"
    row = typed(servers, "topic", "config", "get", name, "retention.ms", "-o", "jsonl").text
    assert json.loads(row) == {"name": "retention.ms", "value": "7200000", "source": "topic"}
    assert typed(servers, "topic", "config", "unset", name, "retention.ms").code == 0
    rows = json.loads(typed(servers, "topic", "config", "get", name, "retention.ms", "-o", "json").out)
    assert [(row["name"], row["source"] == "topic") for row in rows] == [("retention.ms", False)]
    refused = typed(servers, "topic", "config", "set", name, "retention.mss=1")
    assert refused.code == 1 and "retention.mss" in refused.err and refused.err.count("\n") == 1
    assert typed(servers, "topic", "delete", name, "no-such").text == f"deleted topic {name}\n"
    gone = typed(servers, "topic", "describe", name)
    assert (gone.code, gone.err) == (1, f"rayft: topic {name} does not exist\n")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_written_is_read(servers: str, name: str, codec: str) -> None:
    made(servers, name)
    lines = [b"k%d:%s" % (n, bytes([n % 256]).replace(b"\n", b"") * (n % 40)) for n in range(1000)]
    ran = typed(
        servers, "produce", name, "-k", ":", "-H", "from=test", "-H", "x=", "-z", codec, stdin=b"\n".join(lines)
    )
    assert (ran.code, ran.err) == (0, f"1000 records were written to {name}\n")
    found = typed(servers, "consume", name, "-e", "-f", r"%o %k:%v%h\n")
    assert found.out == b"".join(b"%d %sfrom=test,x=\n" % (n, line) for n, line in enumerate(lines)), found.err


def test_places_counts_and_formats(servers: str, name: str) -> None:
    made(servers, name)
    typed(servers, "produce", name, stdin=b"".join(b"%d\n" % n for n in range(10)))

    def values(*words: str) -> str:
        return " ".join(typed(servers, "consume", name, *words).text.split())

    assert values("-n", "3") == "0 1 2"
    assert values("-e", "--from", "7") == values("-e", "--from", "-3") == "7 8 9"
    assert values("-e", "--from", "end") == "" and values("-e", "--from", "1h") == "0 1 2 3 4 5 6 7 8 9"
    assert values("-e", "--from", "2001-01-01", "-n", "1") == "0" and values("-e", "--from", "2101-01-01") == ""
    check(
        typed(servers, "consume", name, "-n", "1", "--json"),
        '{"topic": "<name>", "partition": 0, "offset": 0, "timestamp": <n>, "key": null, "value": "0", "headers": []}\n',
        name=name,
    )
    late = typed(servers, "consume", name, "-e", "--from", "99")
    assert (late.code, late.out) == (0, b"")
    assert late.err == f"rayft: {name}/0 has offsets 0 to 10: it is read from 10\n"
    absent = typed(servers, "consume", name, "--partition", "5")
    assert (absent.code, absent.err) == (1, f"rayft: topic {name} has 1 partition and no partition 5\n")


def test_keys_go_where_others_send_them(servers: str, name: str) -> None:
    made(servers, name, 5)
    keys = [b"key-%d" % n for n in range(50)]
    typed(servers, "produce", name, "-k", ":", stdin=b"".join(key + b":mine\n" for key in keys))
    other = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for key in keys:
        other.produce(name, key=key, value=b"theirs")
    assert other.flush(30) == 0
    found: dict[str, set[str]] = {}
    for line in typed(servers, "consume", name, "-e", "-f", r"%k %p\n").text.splitlines():
        key, partition = line.split()
        found.setdefault(key, set()).add(partition)
    assert len(found) == 50 and all(len(some) == 1 for some in found.values())
    assert len(set().union(*found.values())) == 5


def test_records_of_aborted_transactions_are_shown_only_when_asked_for(servers: str, name: str, tmp_path: Path) -> None:
    made(servers, name)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name})
    producer.init_transactions(30)
    for value, ends in ((b"lost", producer.abort_transaction), (b"kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(name, value)
        producer.flush(30)
        ends(30)
    assert typed(servers, "consume", name, "-e").text == "kept\n"  # and it ends, though the log ends in a marker
    assert typed(servers, "consume", name, "-e", "--isolation-level", "read_uncommitted").text == "lost\nkept\n"
    config = tmp_path / "client.properties"
    config.write_text("isolation.level=read_uncommitted\n")
    assert typed(servers, "consume", name, "-e", config=config).text == "lost\nkept\n"
    config.write_text(f"transactional.id={name}\n")
    assert typed(servers, "produce", name, "-k", ":", stdin=b"a:1\nb\n", config=config).code == 1
    assert typed(servers, "produce", name, stdin=b"whole\n", config=config).code == 0
    assert typed(servers, "consume", name, "-e").text == "kept\nwhole\n"


def test_a_group_from_its_first_offsets_to_its_end(servers: str, name: str, release: str) -> None:
    made(servers, name)
    typed(servers, "produce", name, stdin=b"a\nb\nc\n")
    assert typed(servers, "consume", name, "-g", name, "-n", "2").text == "a\nb\n"
    described = """
group <name>: classic, Empty, 0 members, coordinator <n>
topic  partition  committed  end  lag  member  client  host
<name>  0  2  3  1  -  -  -
"""
    check(typed(servers, "group", "describe", name), described, name=name)
    assert typed(servers, "consume", name, "-g", name, "-e").text == "c\n"
    rows = [json.loads(line) for line in typed(servers, "group", "list", "-o", "jsonl").out.splitlines()]
    kind = None if release == "2.8.2" else "classic"  # which does not tell it
    assert [(one["type"], one["state"]) for one in rows if one["group"] == name] == [(kind, "Empty")]
    sought = "topic  partition  before  after\n<name>  0  3  1\n"
    for _ in range(2):
        check(typed(servers, "group", "seek", name, "--to", "-2", "--dry-run"), sought, name=name)
    check(typed(servers, "group", "seek", name, "--to", "1"), sought, name=name)
    assert typed(servers, "consume", name, "-g", name, "-e").text == "b\nc\n"
    assert typed(servers, "group", "delete", name).text == f"deleted group {name}\n"
    for words in (("describe", name), ("delete", name), ("seek", name, "--to", "end")):
        gone = typed(servers, "group", *words)
        assert (gone.code, gone.out) == (1, b"") and name in gone.err and gone.err.count("\n") == 1, gone
    check(
        typed(servers, "group", "seek", name, "--to", "end", "--topic", f"{name}:0"),
        "topic  partition  before  after\n<name>  0  -  3\n", name=name,
    )  # fmt: skip


def test_what_is_named_twice_is_deleted_once(servers: str, name: str) -> None:
    made(servers, name)
    typed(servers, "produce", name, stdin=b"a\n")
    assert typed(servers, "consume", name, "-g", name, "-e").text == "a\n"
    for kind in ("group", "topic"):
        check(typed(servers, kind, "delete", name, name), f"deleted {kind} <name>\n", name=name)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_shown_and_not_overruled(servers: str, name: str, protocol: str, release: str) -> None:
    if release and protocol == "consumer":
        pytest.skip(f"Apache Kafka {release} has no such groups with ZooKeeper")
    made(servers, name)
    typed(servers, "produce", name, stdin=b"a\nb\n")
    settings = {
        "bootstrap.servers": servers, "group.id": name, "group.protocol": protocol, "client.id": "reader",
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
    }  # fmt: skip
    consumer = Consumer(settings)
    try:
        consumer.subscribe([name])
        message = next(one for one in iter(lambda: consumer.poll(30), None) if one is not None and not one.error())
        consumer.commit(message, asynchronous=False)
        ran = typed(servers, "group", "describe", name, "-o", "json")
        assert ran.code == 0, ran
        found = json.loads(ran.out)
        assert (found["type"], found["state"], len(found["members"])) == (protocol, "Stable", 1)
        row = found["partitions"][0]
        assert (row["committed"], row["end"], row["lag"], row["client"]) == (1, 2, 1, "reader")
        refused = typed(servers, "group", "seek", name, "--to", "end")
        assert refused.code == 1
        assert refused.err == f"rayft: group {name} has 1 member, which would commit over it: stop them first\n"
    finally:
        consumer.close()


def beat(kind: str, group: str, member: str, epoch: int, topic: str) -> Steps[int]:
    """One heartbeat of a member of a share group or of a group of Streams; its error code."""
    request = message(f"{kind}GroupHeartbeatRequest")
    if kind == "Share":
        given = request(group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=[topic])
    else:
        part = request.Subtopology(subtopology_id="0", source_topics=[topic])
        first = {"topology": request.Topology(epoch=0, subtopologies=[part])} if epoch == 0 else {}
        given = request(
            group_id=group, member_id=member, member_epoch=epoch, process_id="p", rebalance_timeout_ms=5000,
            active_tasks=[], standby_tasks=[], warmup_tasks=[], **first,
        )  # fmt: skip
    reply = yield Ask(Coordinator(KeyType.GROUP, group), f"{kind}GroupHeartbeat", lambda version: given)
    return int(reply.message.error_code)


@pytest.mark.parametrize("kind", ["Share", "Streams"])
def test_groups_of_other_kinds(servers: str, name: str, kind: str, release: str) -> None:
    """A member joins and leaves. Then the group is moved and deleted like any other."""
    if release:
        pytest.skip(f"Apache Kafka {release} has no such groups")
    made(servers, name)
    typed(servers, "produce", name, stdin=b"a\nb\nc\n")
    member = uuid_text(SystemRandom().uuid())
    with connect(servers) as kafka:
        assert kafka.run(beat(kind, name, member, 0, name)) == 0
        ran = typed(servers, "group", "describe", name, "-o", "json")
        assert ran.code == 0, ran
        found = json.loads(ran.out)
        assert (found["type"], [one["id"] for one in found["members"]]) == (kind.lower(), [member])
        assert kafka.run(beat(kind, name, member, -1, name)) == 0
    ran = typed(servers, "group", "seek", name, "--to", "1", "--topic", name)
    assert ran.code == 0, ran
    assert re.fullmatch(rf"topic +partition +before +after\n{name} +0 +[-\d]+ +1\n", ran.text)
    check(
        typed(servers, "group", "describe", name),
        f"""
group <name>: {kind.lower()}, Empty, epoch <n>, 0 members, coordinator <n>
topic  partition  committed  end  lag  member  client  host
<name>  0  1  3  2  -  -  -
""",
        name=name,
    )
    assert typed(servers, "group", "delete", name).text == f"deleted group {name}\n"


def interruptible() -> None:
    """Handle SIGINT again: tests in the background of a shell have inherited that it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_it_and_what_was_printed_is_committed(servers: str, name: str) -> None:
    made(servers, name)
    typed(servers, "produce", name, stdin=b"first\nsecond\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", "consume", name, "-g", name, "-b", servers],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=interruptible,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    with process:
        try:
            assert process.stdout.readline() == b"first\n" and process.stdout.readline() == b"second\n"
            time.sleep(1.0)  # in the middle of a record Ctrl-C commits what is before it, and the record comes again
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0 and process.stderr.read() == b""
        finally:
            process.kill()
    assert typed(servers, "consume", name, "-g", name, "-e").text == ""


def test_a_transaction_that_fails_is_aborted_and_hides_nothing_behind_it(
    servers: str, name: str, tmp_path: Path
) -> None:
    made(servers, name)
    config = tmp_path / "client.properties"
    config.write_text(f"transactional.id={name}\n")
    ran = typed(servers, "produce", name, "-k", ":", stdin=b"a:1\nb\n", config=config)
    assert (ran.code, ran.err) == (
        1, "rayft: line 2 has no key: ':' is not in it; its transaction is not committed\n"
    )  # fmt: skip
    typed(servers, "produce", name, stdin=b"behind\n")
    begun = time.monotonic()
    until(lambda: typed(servers, "consume", name, "-e").text == "behind\n")
    assert time.monotonic() - begun < 30  # its own timeout is 60 s


def test_a_closed_pipe_ends_it_quietly(servers: str, name: str) -> None:
    made(servers, name)
    typed(servers, "produce", name, stdin=b"first\nsecond\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", "consume", name, "-b", servers],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    with process:
        try:
            assert process.stdout.readline() == b"first\n" and process.stdout.readline() == b"second\n"
            process.stdout.close()
            assert process.wait(30) == 0 and process.stderr.read() == b""
        finally:
            process.kill()


def test_a_profile_names_the_cluster(servers: str, name: str, tmp_path: Path) -> None:
    made(servers, name)
    (tmp_path / "rayft").mkdir()
    addresses = ", ".join(f'"{one}"' for one in servers.split(","))
    (tmp_path / "rayft" / "profiles.toml").write_text(f"[here]\nbootstrap.servers = [{addresses}]\n")
    there = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert name in typed("", "topic", "list", "--profile", "here", env=there).text
    assert name in typed("", "topic", "list", env=there | {"RAYFT_PROFILE": "here"}).text
    wrong = typed("", "topic", "list", "--profile", "her", env=there)
    assert (wrong.code, wrong.err.count("\n")) == (2, 1) and wrong.err.endswith("only 'here'\n")


def test_a_cluster_that_is_well(servers: str, release: str) -> None:
    nodes = "1 broker" if release else "controller <n> leads, epoch <n>, <n> brokers"
    check(typed(servers, "health"), f"well: {nodes}, <n> partitions with all their replicas\n")


def test_a_line_that_is_too_long_is_told_with_its_number(servers: str, name: str) -> None:
    made(servers, name)
    ran = typed(servers, "produce", name, stdin=b"fine\n" + b"x" * 2_000_000 + b"\n")
    assert (ran.code, ran.out) == (1, b"")
    wanted = f"rayft: line 2 has 2000000 bytes, and max.request.size is 1048576; <n> record<s> to {name}\n"
    assert re.fullmatch(re.escape(wanted).replace("<n>", "[01]").replace("<s>", "s? w(as|ere) written"), ran.err), (
        ran.err
    )


@pytest.fixture(params=["rayft", pytest.param("kafka", marks=pytest.mark.slow)])
def without_broker_2(request: pytest.FixtureRequest, name: str) -> Iterator[str]:
    """host:port of a cluster of two brokers, one of which has gone, with a topic on both."""
    if request.param == "rayft":
        with rayft.Cluster(controllers=1, brokers=2) as cluster:
            typed(cluster.bootstrap_servers, "topic", "create", name, "-p", "1", "-r", "2")
            cluster.kill(2, restart=False)
            yield cluster.bootstrap_servers
        return
    if apache.libs() is None:
        pytest.skip("no java, or Apache Kafka's jars are not in .kafka/libs: `make kafka` fetches them")
    with apache.ApacheKafka(controllers=1, brokers=2, config=APACHE, heap="512m") as kafka:
        typed(kafka.bootstrap_servers, "topic", "create", name, "-p", "1", "-r", "2")
        kafka.kill(2)
        yield kafka.bootstrap_servers


def test_a_cluster_that_is_not_well(without_broker_2: str, name: str) -> None:
    wanted = Ran(2, b"broker 2 is away and has replicas of 1 partition: start broker 2\n1 fault\n", "")
    # First the ISR shrinks, then the broker is taken for gone.
    until(lambda: typed(without_broker_2, "health") == wanted)
    found = json.loads(typed(without_broker_2, "health", "-o", "json").out)
    wanted_row = {
        "kind": "broker", "fault": "broker 2 is away and has replicas of 1 partition", "since_ms": None, "cause": "",
        "help": "start broker 2", "is_fault": True,
    }  # fmt: skip
    assert found == [wanted_row]
    assert " 1  " in typed(without_broker_2, "topic", "describe", name).text
