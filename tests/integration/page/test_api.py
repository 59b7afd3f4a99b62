"""The API over real HTTP: of Apache Kafka's files, and of a running cluster."""

import http.client
import random
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest

import rayft
from actors import replay
from actors.client.operations import configs, topics
from actors.host.client.blocking import connect
from actors.page.metadata.slices import rows
from tests.integration.conftest import ROOT, everywhere
from tests.integration.page.opened import Page, page, until

LOG = ROOT / "tests" / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"


@pytest.fixture(scope="module")
def files() -> Iterator[Page]:
    with page(str(LOG)) as opened:
        yield opened


@pytest.fixture(scope="module")
def live(cluster: rayft.Cluster) -> Iterator[Page]:
    with page("-b", cluster.bootstrap_servers) as opened:
        yield opened


def test_tables_of_any_moment_are_those_of_replay(files: Page) -> None:
    for offset in random.Random(1).sample(range(1, 1237), 20):
        for name, table in replay.state(LOG, offset, ["topics", "partitions", "brokers", "configs", "acls"]).items():
            body = files.get(f"/tables/{name}", at=offset, n=1000)
            assert body["moment"]["offset"] == offset and body["total"] == len(table)
            assert body["columns"] == table.column_names and body["rows"] == rows(table)


def test_slices_put_together_are_the_table(files: Page) -> None:
    whole = files.rows("changes", n=1000, sort="-offset")
    parts = [row for first in range(0, 70, 7) for row in files.rows("changes", n=7, first=first, sort="-offset")]
    assert parts == whole and len(whole) == 64


def test_a_table_in_arrow_has_the_types_of_replay(files: Page) -> None:
    status, body, headers = files.ask("/tables/partitions", at=600, format="arrow")
    assert status == 200 and headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert pa.ipc.open_stream(BytesIO(body)).read_all().equals(replay.state(LOG, 600, ["partitions"])["partitions"])


def test_the_life_of_a_partition(files: Page) -> None:
    life = files.get("/partitions/t1/0", at=600)
    found = [dict(zip(life["columns"], row, strict=True)) for row in life["rows"]]
    assert life["state"]["leader"] == 1 and found
    assert all(row["topic"] == "t1" and row["partition"] == 0 and row["offset"] < 600 for row in found)
    assert files.ask("/partitions/t1/0", at=10)[0] == 404


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/tables/nothing", {}, 404),
        ("/tables/records", {}, 404),
        ("/nothing", {}, 404),
        ("/tables/partitions", {"n": 1001}, 400),
        ("/tables/partitions", {"n": -1}, 400),
        ("/tables/partitions", {"n": "1e9"}, 400),
        ("/tables/partitions", {"first": "9" * 400}, 400),
        ("/tables/partitions", {"first": "\u0663"}, 400),
        ("/tables/partitions", {"at": "9" * 100}, 400),
        ("/tables/partitions", {"at": "tomorrow"}, 400),
        ("/tables/partitions", {"where": "leader"}, 400),
        ("/tables/partitions", {"where": "x" * 1001}, 400),
        ("/tables/partitions", {"where": "topic contains " + "(" * 900}, 200),
        ("/tables/partitions", {"sort": "nothing"}, 400),
        ("/tables/partitions", {"columns": "nothing"}, 400),
        ("/tables/partitions", {"q": "(((((.*" * 100}, 200),
        ("/timeline", {"n": 0}, 400),
        ("/timeline", {"n": 10**9}, 400),
        ("/partitions/../../etc/passwd", {}, 404),
        ("/partitions/t1/99999999999999999999", {}, 404),
    ],
)
def test_what_makes_no_sense_is_one_sentence(files: Page, path: str, query: dict[str, object], status: int) -> None:
    told, body, _ = files.ask(path, **query)
    assert told == status
    assert status == 200 or (set(body) == {"error"} and len(body["error"]) < 2_000)


@pytest.mark.parametrize(
    "path",
    ["/../pyproject.toml", "/..%2f..%2fetc/passwd", "/static/../serve.py", "//etc/passwd", "/%00", "/serve.py", "/."],
)
def test_no_address_leads_to_another_file(files: Page, path: str) -> None:
    conn = http.client.HTTPConnection(files.host, files.port, timeout=20)
    conn.request("GET", path)
    answer = conn.getresponse()
    assert answer.status in (400, 404) and b"root:" not in answer.read()
    conn.close()


def test_the_page_is_whole_and_small(files: Page) -> None:
    seen: set[str] = set()
    wanted, size = ["/"], 0
    while wanted:
        path = wanted.pop()
        seen.add(path)
        conn = http.client.HTTPConnection(files.host, files.port, timeout=20)
        conn.request("GET", path)
        answer = conn.getresponse()
        body = answer.read()
        size += len(body)
        assert answer.status == 200, path
        conn.close()
        text = body.decode()
        names = re.findall(r'(?:src|href)="([\w.-]+)"|from "\./([\w.-]+)"', text)
        wanted += [f"/{one or other}" for one, other in names if f"/{one or other}" not in {*seen, *wanted}]
    assert {"/app.js", "/kit.js", "/style.css", "/uplot.js"} <= seen
    assert size < 300_000


def test_without_the_token_nothing_is_said_and_the_token_is_never_printed_again(files: Page) -> None:
    for path in ("", "/now", "/tables/partitions", "/events", "/nothing"):
        assert files.ask(path, headers={"Authorization": ""})[0] == 401
    assert files.ask("/now", headers={"Host": "evil.example"})[0] == 421
    assert files.ask("/now", headers={"Origin": "http://evil.example"})[0] == 403
    assert files.ask("/now", method="DELETE")[0] == 405
    files.get("/now")
    assert sum(line.count(files.token) for line in files.printed) == 1


def test_thousands_of_streams_are_bounded(files: Page) -> None:
    with ExitStack() as opened:
        socks, refused = [], 0
        for _ in range(300):
            sock = opened.enter_context(socket.create_connection((files.host, files.port), timeout=20))
            sock.sendall(
                f"GET /api/v1/events HTTP/1.1\r\nHost: {files.host}:{files.port}\r\n"
                f"Authorization: Bearer {files.token}\r\n\r\n".encode()
            )
            socks.append(sock)
        for sock in socks:
            refused += b" 503 " in sock.recv(1024)[:20]
        assert refused >= 300 - 64
    until(lambda: files.ask("/now")[0] == 200)
    until(lambda: _streams(files), 30)


@pytest.mark.long
@pytest.mark.slow
def test_connections_that_ask_nothing_are_ended(files: Page) -> None:
    with ExitStack() as opened:
        for _ in range(280):
            sock = opened.enter_context(socket.create_connection((files.host, files.port), timeout=40))
            sock.sendall(b"GET / HTTP/1.1\r\nHost: ")
        until(lambda: files.ask("/now")[0] == 200, 60)
        assert sock.recv(1000)[:12] in (b"", b"HTTP/1.1 503"), "and it is told, or ended"


def _streams(opened: Page) -> bool:
    try:
        with opened.events() as told:
            return "moment" in next(told)
    except AssertionError:
        return False


# ---- a running cluster


def test_a_change_is_told_and_shown(live: Page, cluster: rayft.Cluster, name: str) -> None:
    with live.events() as told, connect(cluster.bootstrap_servers) as kafka:
        first = next(told)
        assert first["well"]
        kafka.run(topics.create([topics.NewTopic(name, 5, 3)]))
        after = next(one for one in told if one["extent"]["end"] > first["extent"]["end"])
        assert after["told_ms"] >= first["told_ms"]
    everywhere(cluster, name, 5)
    until(lambda: live.rows("topics", where=f"topic = {name}"))
    found = until(lambda: live.rows("partitions", where=f"topic = {name}"))
    assert [row["partition"] for row in found] == [0, 1, 2, 3, 4] and all(len(row["isr"]) == 3 for row in found)
    change = next(row for row in live.rows("changes", q=name) if row["kind"] == "topic")
    assert not live.rows("partitions", where=f"topic = {name}", at=change["offset"]), (
        "before it there was no such topic"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has loaded is asked of /proc")
def test_nothing_of_pandas_is_loaded(files: Page, live: Page) -> None:
    for one in (files, live):
        assert one.rows("changes", n=5) and one.get("/tables/partitions", n=5)["columns"]
        loaded = Path(f"/proc/{one.process.pid}/maps").read_text()
        assert "pyarrow" in loaded and "pandas" not in loaded


def test_the_quorum_and_the_brokers_now(live: Page) -> None:
    now = until(lambda: (one := live.get("/now"))["quorum"]["source"] == "quorum" and one)
    quorum = now["quorum"]
    assert len(quorum["voters"]) == 3 and quorum["leader"] in [one["id"] for one in quorum["voters"]]
    assert all(one["address"] for one in quorum["voters"])
    assert now["brokers"]["total"] == 3 and now["sentence"].startswith("Well: controller")


def test_a_setting_that_is_secret_is_in_no_answer(live: Page, cluster: rayft.Cluster, name: str) -> None:
    with connect(cluster.bootstrap_servers) as kafka:
        kafka.run(topics.create([topics.NewTopic(name, 1, 1)]))
        change = {(configs.Kind.TOPIC, name): {"retention.ms": (configs.Op.SET, "123456789")}}
        assert set(kafka.run(configs.alter(change)).values()) == {None}
    until(lambda: live.rows("configs", where=f"resource = {name}"))
    assert live.rows("changes", where=f"name = retention.ms and resource = 'topic:{name}'")[0]["new"] == "123456789"


def test_a_cluster_that_vanishes_and_comes_back_is_told_in_a_sentence() -> None:
    with rayft.Cluster(controllers=1, brokers=1) as own, page("-b", own.bootstrap_servers) as opened:
        node = 1001
        until(lambda: opened.get("/now")["quorum"]["source"] == "quorum")
        with opened.events() as told:
            own.kill(node, restart=False)
            gone = next(one for one in told if not one["well"])
            assert "quorum" in gone["sentence"] and gone["sentence"].startswith("Not well: ")
            assert opened.get("/tables/brokers")["total"] == 1, "what was known is still shown"
            own.start_node(node)
            assert next(one for one in told if one["well"])


@pytest.mark.slow
def test_an_address_at_which_nobody_answers_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(AssertionError, match=f"127.0.0.1:{port}"), page("-b", f"127.0.0.1:{port}"):
        pass
    with pytest.raises(AssertionError, match="holds no log"), page(str(tmp_path)):
        pass


def test_a_directory_that_vanishes_is_told_in_a_note(tmp_path: Path) -> None:
    directory = tmp_path / LOG.name
    shutil.copytree(LOG, directory)
    with page(str(directory)) as opened:
        shutil.rmtree(directory)
        note = until(lambda: opened.get("")["notes"])[0]
        assert "cannot be read any more" in note
        assert opened.get("/tables/partitions")["total"] == 6
