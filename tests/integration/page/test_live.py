"""Records, groups, questions and settings of a running cluster, over real HTTP; and a cluster whose log may not be read."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import rayft
from actors.client.operations import topics
from actors.host.client.blocking import connect
from tests.integration.conftest import everywhere
from tests.integration.page.opened import Page, page, until
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, PLAIN, SecureCluster

COUNT = 300


@pytest.fixture(scope="module")
def live(cluster: rayft.Cluster) -> Iterator[Page]:
    with page("-b", cluster.bootstrap_servers) as opened:
        yield opened


@pytest.fixture(scope="module")
def topic(cluster: rayft.Cluster) -> str:
    """A topic of three partitions with COUNT records, and an empty one beside it."""
    name = "t-page-records"
    with connect(cluster.bootstrap_servers) as kafka:
        kafka.run(topics.create([topics.NewTopic(name, 3, 3), topics.NewTopic(f"{name}-empty", 40, 1)]))
    everywhere(cluster, name, 3)
    everywhere(cluster, f"{name}-empty", 40)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for at in range(COUNT):
        value = b"\xff\xfe" + bytes([at % 256]) if at % 100 == 7 else json.dumps({"order": at}).encode()
        producer.produce(
            name, value, f"k-{at}", at % 3, timestamp=1_700_000_000_000 + at, headers=[("trace", f"h-{at}")]
        )
    assert producer.flush(30) == 0
    return name


def events(opened: Page, path: str, **query: Any) -> list[tuple[str, Any]]:
    """(event, data) of a stream that ends."""
    conn = http.client.HTTPConnection(opened.host, opened.port, timeout=60)
    conn.request("GET", f"/api/v1{path}?{urlencode(query)}", headers={"Authorization": f"Bearer {opened.token}"})
    answer = conn.getresponse()
    body = answer.read().decode()
    conn.close()
    assert answer.status == 200, body
    parts = [one.split("\n", 1) for one in body.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


def records(opened: Page, topic: str, **query: Any) -> list[dict[str, Any]]:
    told = events(opened, f"/topics/{topic}/records", **query)
    assert told[-1][0] == "end", told[-1]
    return [row for name, rows in told if name == "records" for row in rows]


def test_the_last_records_are_the_newest_of_all_partitions(live: Page, topic: str) -> None:
    found = records(live, topic, n=10)
    assert [row["key"]["text"] for row in found] == [f"k-{at}" for at in range(COUNT - 1, COUNT - 11, -1)]
    assert found[0]["headers"] == [["trace", {"size": 5, "text": f"h-{COUNT - 1}"}]]
    assert found[0]["timestamp"] == 1_700_000_000_000 + COUNT - 1


def test_records_from_an_offset_a_time_and_a_partition(live: Page, topic: str) -> None:
    found = records(live, topic, **{"from": 90, "partition": 1, "n": 4})
    assert [(row["partition"], row["offset"]) for row in found] == [(1, 90), (1, 91), (1, 92), (1, 93)]
    late = records(live, topic, **{"from": "2023-11-14T22:13:20.290+00:00", "n": 100})
    assert sorted(row["key"]["text"] for row in late) == sorted(f"k-{at}" for at in range(290, COUNT))
    assert len(records(live, topic, **{"from": "earliest", "n": 1000})) == COUNT


def test_a_search_says_how_far_it_has_come_and_finds_bytes_anywhere(live: Page, topic: str) -> None:
    told = events(live, f"/topics/{topic}/records", **{"from": "earliest", "q": "h-123", "n": 1000})
    (found,) = [row for name, rows in told if name == "records" for row in rows]
    assert found["key"]["text"] == "k-123"
    last = [data for name, data in told if name == "progress"][-1]
    assert last == {"scanned": COUNT, "of": COUNT, "found": 1}
    assert records(live, topic, **{"from": "earliest", "q": "h-123", "field": "value"}) == []
    assert len(records(live, topic, **{"from": "latest", "q": '"order": 29', "field": "value"})) == 11
    newest = records(live, topic, **{"from": "latest", "q": "order", "n": 3})
    assert [row["key"]["text"] for row in newest] == ["k-299", "k-298", "k-297"], "the last of those, not the first"


def test_bytes_that_are_no_text_are_base64(live: Page, topic: str) -> None:
    (found,) = records(live, topic, **{"from": 2, "partition": 1, "n": 1})
    assert found["key"]["text"] == "k-7" and found["value"] == {"size": 3, "base64": "//4H"}


def test_an_empty_topic_answers_at_once(live: Page, topic: str) -> None:
    told = events(live, f"/topics/{topic}-empty/records", q="anything")
    assert told == [("progress", {"scanned": 0, "of": 0, "found": 0}), ("end", {})]


def test_what_cannot_be_read_is_a_sentence(live: Page, topic: str) -> None:
    for path, query, words in (
        ("/topics/no-such-topic/records", {}, "no-such-topic"),
        (f"/topics/{topic}/records", {"partition": "77"}, "no partition 77"),
        (f"/topics/{topic}/records", {"from": "99999"}, "offsets 0 to"),
        (f"/topics/{topic}/records", {"from": "yesterday"}, "no place in a log"),
    ):
        name, data = events(live, path, **query)[-1]
        assert name == "failed" and words in data["error"]
    for query in ({"n": 100_000}, {"partition": "x"}, {"field": "all"}, {"q": "x" * 1001}, {"bytes": 1 << 30}):
        assert live.ask(f"/topics/{topic}/records", **query)[0] == 400
    assert live.ask("/topics/no-such-topic")[0] == 404


def test_the_tail_gives_what_is_written_next(live: Page, topic: str, cluster: rayft.Cluster) -> None:
    conn = http.client.HTTPConnection(live.host, live.port, timeout=60)
    conn.request(
        "GET", f"/api/v1/topics/{topic}-empty/records?tail=1", headers={"Authorization": f"Bearer {live.token}"}
    )
    answer = conn.getresponse()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    assert answer.readline() == b"event: progress\n"
    producer.produce(f"{topic}-empty", b"first", partition=39)
    producer.flush(30)
    line = next(line for line in iter(answer.readline, b"") if line.startswith(b"data: ["))
    (row,) = json.loads(line[6:])
    assert row["partition"] == 39 and row["value"]["text"] == "first"
    conn.close()


def test_an_export_is_json_lines(live: Page, topic: str) -> None:
    status, body, headers = live.ask(f"/topics/{topic}/export", **{"from": "earliest", "n": 1000, "q": "order"})
    rows = [json.loads(line) for line in body.splitlines()]
    assert status == 200 and headers["content-disposition"] == f'attachment; filename="{topic}.jsonl"'
    assert len(rows) == COUNT - 3
    assert {row["value"] for row in rows} == {f'{{"order": {at}}}' for at in range(COUNT) if at % 100 != 7}


def test_readers_are_bounded_and_their_end_gives_room(live: Page, topic: str) -> None:
    socks = []
    for _ in range(20):
        sock = socket.create_connection((live.host, live.port), timeout=30)
        path = f"/api/v1/topics/{topic}/records?tail=1"
        sock.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {live.host}:{live.port}\r\nAuthorization: Bearer {live.token}\r\n\r\n".encode()
        )
        socks.append((sock, sock.recv(64)))
    assert sum(b" 503 " in first[:20] for _, first in socks) == 4
    for sock, _ in socks:
        sock.close()
    until(lambda: live.ask(f"/topics/{topic}/records", n=1)[0] == 200)


def test_a_topic_now(live: Page, topic: str) -> None:
    told = live.get(f"/topics/{topic}")
    assert [(row[0], row[4], row[5]) for row in told["rows"]] == [(0, 0, 100), (1, 0, 100), (2, 0, 100)]
    assert ["retention.ms", "604800000", "default"] in told["settings"]


def test_groups_and_their_lag_over_time(live: Page, topic: str, cluster: rayft.Cluster) -> None:
    name = "g-page"
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap_servers, "group.id": name, "client.id": "reader", "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    })  # fmt: skip
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(60, 30)
        assert len(messages) == 60
        consumer.commit(offsets=[TopicPartition(topic, part, 20) for part in range(3)], asynchronous=False)

        def listed() -> Any:
            told = live.get("/groups", q="G-PAGE")
            row = dict(zip(told["columns"], told["rows"][0], strict=True)) if told["rows"] else {}
            return row if row.get("lag") == COUNT - 60 else None

        assert until(listed)["state"] == "Stable"
        one = live.get(f"/groups/{name}")
        assert [member["client"] for member in one["members"]] == ["reader"]
        assert sum(row[4] for row in one["rows"] if row[4] is not None) == COUNT - 60
        over = until(lambda: len((told := live.get(f"/groups/{name}/lag"))["times"]) > 1 and told)
        assert over["total"][-1] == COUNT - 60 and over["times"] == sorted(over["times"])
        assert live.get(f"/groups/{name}/lag", span="day")["total"][-1] == COUNT - 60
    finally:
        consumer.close()
    assert live.get("/groups/no-such-group/lag")["times"] == []
    assert live.ask("/groups/no-such-group")[0] == 404


def test_a_question_in_sql_is_of_the_moment(live: Page, topic: str) -> None:
    def asked(sql: str, **more: Any) -> tuple[int, Any]:
        status, body, _ = live.ask("/ask", method="POST", body=json.dumps({"sql": sql, **more}).encode())
        return status, body

    sql = f"select count(*) as n from partitions where topic = '{topic}'"
    status, told = asked(sql)
    assert (status, told["columns"], told["rows"]) == (200, ["n"], [[3]])
    change = next(
        row for row in live.rows("changes", q=topic, n=1000) if row["kind"] == "topic" and row["topic"] == topic
    )
    assert asked(sql, at=str(change["offset"]))[1]["rows"] == [[0]]
    for wrong in ("drop table partitions", "select * from read_text('/etc/passwd')", "", "x" * 30_000):
        status, told = asked(wrong)
        assert status == 400 and "root:" not in told["error"]
    assert live.ask("/ask", method="POST", body=b"x" * 100_000)[0] == 413
    assert live.ask("/ask", method="POST", body=b"[1]")[0] == 400
    assert live.ask("/ask", method="POST", body=b"no json")[0] == 400


def test_brokers_with_the_same_settings_do_not_differ(live: Page) -> None:
    assert live.get("/settings/brokers") == {"brokers": [1, 2, 3], "silent": {}, "differing": [], "dynamic": []}


def client_file(path: Path, cluster: SecureCluster, user: str, password: str) -> str:
    path.write_text(
        f"bootstrap.servers={cluster.bootstrap_servers}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} required username="{user}" password="{password}";\n'
    )
    return str(path)


@pytest.mark.slow
def test_a_log_that_may_not_be_read_is_replaced_by_what_brokers_tell(tmp_path: Path) -> None:
    own = SecureCluster(tmp_path, {"allow.everyone.if.no.acl.found": "true"}, nodes=1)
    try:
        config = client_file(tmp_path / "alice.properties", own, "alice", "alice-secret")
        with page("--config", config) as opened, connect(config=config) as kafka:
            (note,) = opened.get("")["notes"]
            assert "cannot be read" in note and "since this page was started" in note
            begun = opened.get("")["extent"]
            kafka.run(topics.create([topics.NewTopic("t-polled", 2, 1)]))
            found = until(lambda: opened.rows("partitions", where="topic = t-polled"))
            assert [(row["partition"], row["leader"], row["isr"]) for row in found] == [(0, 1, [1]), (1, 1, [1])]
            (change,) = opened.rows("changes", where="kind = topic and topic = t-polled")
            assert change["offset"] >= begun["end"] and opened.get("/now")["sentence"].startswith("Well: ")
            assert opened.rows("partitions", where="topic = t-polled", at=change["offset"]) == []
            assert opened.ask("/tables/partitions", at="2020-01-01")[0] == 400
            kafka.run(topics.delete({"t-polled": None}))
            until(lambda: not opened.rows("topics", where="topic = t-polled"))
            assert "alice-secret" not in "".join(opened.printed) + json.dumps(opened.get("/now"))
        admin = client_file(tmp_path / "admin.properties", own, ADMIN, ADMIN_PASSWORD)
        with page("--config", admin) as opened:
            assert opened.get("")["notes"] == [] and opened.rows("changes", q="t-polled"), (
                "the log knows what was before"
            )
    finally:
        own.stop()


def test_a_page_that_is_ended_by_a_signal_leaves_no_copy(
    cluster: rayft.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with page("-b", cluster.bootstrap_servers) as opened:
        assert [one.name[:14] for one in tmp_path.iterdir()] == ["rayft-metadata"]
    assert opened.process.returncode == 0 and list(tmp_path.iterdir()) == []


def test_the_copy_of_a_page_that_was_killed_goes_with_the_next_page_and_no_other(
    cluster: rayft.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with page("-b", cluster.bootstrap_servers) as lives:
        (kept,) = tmp_path.iterdir()
        with page("-b", cluster.bootstrap_servers) as killed:
            killed.process.kill()
            killed.process.wait()
        (left,) = {*tmp_path.iterdir()} - {kept}
        with page("-b", cluster.bootstrap_servers) as opened:
            assert kept.exists() and not left.exists()
            assert opened.get("")["well"] and lives.get("")["well"] and lives.get("/tables/topics")["total"] >= 0
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_is_opened_while_no_controller_leads_recovers_by_itself() -> None:
    with rayft.Cluster(controllers=1, brokers=1) as own:
        with connect(own.bootstrap_servers) as kafka:
            kafka.run(topics.create([topics.NewTopic("t-before", 2, 1)]))
            until(lambda: "t-before" in kafka.run(topics.describe()))
        own.kill(1001, restart=False)
        with page("-b", own.bootstrap_servers) as opened:
            assert until(lambda: not (one := opened.get(""))["well"] and one)["sentence"].startswith(
                "Not well: the quorum"
            )
            (note,) = opened.get("")["notes"]
            assert opened.rows("topics") and "cannot be read" in note
            assert "the quorum of controllers does not answer" in note
            told = opened.get("/settings/brokers")
            assert told["brokers"] == [1] and told["silent"] == {}, (
                "the question about the quorum keeps no other waiting"
            )
            own.start_node(1001)
            told = until(lambda: (one := opened.get(""))["well"] and not one["notes"] and one, 60)
            assert told["sentence"].startswith("Well: controller 1001 leads")
            assert [row["kind"] for row in opened.rows("changes", q="t-before")] == ["topic"], "now its log is read"


def test_another_cluster_at_the_same_address_is_told() -> None:
    with rayft.Cluster(controllers=1, brokers=1) as first, page("-b", first.bootstrap_servers) as opened:
        until(lambda: opened.get("")["well"])
        assert opened.get("")["notes"] == []
        first.stop()
        with rayft.Cluster(controllers=1, brokers=1, port=int(first.bootstrap_servers.rpartition(":")[2])):
            note = until(lambda: [one for one in opened.get("")["notes"] if one.startswith("Another cluster")], 60)[0]
            assert note.startswith("Another cluster answers at this address") and "rayft ui anew" in note
