"""Addresses, and what they are answered with."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from actors.page.application import application
from actors.page.guard import Access, Guard
from actors.page.metadata.recorded import Recorded
from actors.page.query import question
from actors.page.routes import groups, overview, tables
from actors.page.routes.asking import told
from actors.page.shown import Slot
from actors.page.watched import Watched
from fastpath.bytes.crc32c import crc32c
from fastpath.records.scan import scan
from tests.unit.replay import metadata_logs

LOG = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"
NAME = "00000000000000000000.log"
HOST = "127.0.0.1:8421"
DISCONNECT = {"type": "http.disconnect"}


@pytest.fixture
def page() -> Guard:
    return of(Recorded(LOG))


def of(recorded: Recorded) -> Guard:
    return application(
        {"log": Slot("log", Watched("log", recorded))}, Access(frozenset({f"http://{HOST}"}), "s", "c", False)
    )


def test_one_whose_log_is_lost_keeps_no_other_from_being_shown() -> None:
    class Lost(Recorded):
        def explain(self, *_: Any) -> Any:
            raise OSError(5, "Input/output error")

    found = {name: Slot(name, Watched(name, kind(LOG))) for name, kind in (("lost", Lost), ("whole", Recorded))}
    page = application(found, Access(frozenset({f"http://{HOST}"}), "s", "c", False))
    status, told = asyncio.run(ask(page, "/api/v1/clusters"))
    assert status == 200 and [one["name"] for one in told["clusters"]] == ["lost", "whole"]
    assert told["clusters"][0]["sentence"] == "[Errno 5] Input/output error" and not told["clusters"][0]["well"]


async def ask(
    page: Guard, path: str, *messages: dict[str, Any], method: str = "GET", slow_s: float = 0
) -> tuple[int, Any]:
    """(status, body) of a request. What is received behind `messages` never comes; what is sent takes `slow_s`."""
    got, sent = list(messages), []

    async def receive() -> Any:
        return got.pop(0) if got else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        await asyncio.sleep(slow_s)
        sent.append(message)

    path, _, query = path.partition("?")
    scope = {
        "type": "http", "method": method, "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(b"host", HOST.encode()), (b"authorization", b"Bearer s")], "root_path": "", "scheme": "http",
    }  # fmt: skip
    await page(scope, receive, send)
    data = b"".join(one.get("body", b"") for one in sent)
    return sent[0]["status"] if sent else 0, json.loads(data) if data.startswith(b"{") else data


@pytest.mark.parametrize("name", ["app", "team/app", "a\nb", "..", "a/lag/b"])
@pytest.mark.parametrize("below", ["", "/lag"])
def test_a_group_may_have_any_name(page: Guard, name: str, below: str) -> None:
    status, body = asyncio.run(ask(page, f"/api/v1/groups/{quote(name, safe='')}{below}"))
    assert status == 404 and "need a running cluster" in body["error"], "it has reached the answer about groups"


@pytest.mark.parametrize("name", ["app", "lag", "lag/lag", "team/lag", "/lag", ".", "..", "a b", "ü"])
def test_a_group_and_its_lag_are_told_apart_whatever_its_name(
    page: Guard, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for which in ("_group", "_lag"):

        async def answered(_: Any, name: str, which: str = which) -> Any:
            return told({which: name})

        monkeypatch.setattr(groups, which, answered)
    asked = quote(name, safe="")
    assert asyncio.run(ask(page, f"/api/v1/groups/{asked}")) == (200, {"_group": name})
    assert asyncio.run(ask(page, f"/api/v1/groups/{asked}/lag")) == (200, {"_lag": name})
    assert asyncio.run(ask(page, f"/api/v1/group?name={asked}")) == (200, {"_group": name})
    assert asyncio.run(ask(page, f"/api/v1/group/lag?name={asked}")) == (200, {"_lag": name})


def test_a_log_that_was_replaced_by_another_one_of_the_same_length_is_shown(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(LOG, directory)
    recorded = Recorded(directory)
    page = of(recorded)
    _, before = asyncio.run(ask(page, "/api/v1/tables/changes"))
    recorded.path = _another(tmp_path, directory)
    recorded._anew()
    _, after = asyncio.run(ask(page, "/api/v1/tables/changes"))
    assert before["moment"]["offset"] == after["moment"]["offset"] and before["rows"] != after["rows"]


KEPT = ("/now", "", "/tables/partitions?sort=-partition", "/tables/topics?where=partitions%20%3E%201", "/heat")


@pytest.mark.parametrize("kept", KEPT)
def test_of_another_log_that_ends_at_the_same_offset_and_time_nothing_is_kept(tmp_path: Path, kept: str) -> None:
    """A log that was set up anew, or put back from a copy: the page went on with the numbers of the one before."""
    idle: metadata_logs.Record = (20, 0, "NoOpRecord", {})
    many = metadata_logs.on_three_brokers("orders", 5)
    few = [*metadata_logs.on_three_brokers("orders", 3), idle, idle]
    one, other = (
        metadata_logs.write(tmp_path / name, [metadata_logs.released(some)], metadata_logs.RELEASED)
        for name, some in (("one", many), ("other", few))
    )
    recorded = Recorded(one)
    page, expected = of(recorded), of(Recorded(other))

    def told(page: Guard) -> dict[str, Any]:
        _, body = asyncio.run(ask(page, f"/api/v1{kept}"))
        return {name: body.get(name) for name in ("moment", "sentence", "counts", "total", "rows")}

    before = told(page)
    recorded.path = other
    recorded._anew()
    after = told(page)
    assert before["moment"] == after["moment"] and before != after == told(expected)


def test_changes_that_come_while_a_table_is_made_are_behind_its_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were in the answer, and for as long as that was kept in each answer about that offset."""
    data = (LOG / NAME).read_bytes()
    headers, _, _ = scan(memoryview(data), 0, len(data), True)
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    (directory / NAME).write_bytes(data[: int(headers[200]["position"])])
    recorded = Recorded(directory)
    page, make = of(recorded), tables.maker

    def grows(*given: Any) -> Any:
        (directory / NAME).write_bytes(data)
        recorded.refresh()
        return make(*given)

    monkeypatch.setattr(tables, "maker", grows)
    _, now = asyncio.run(ask(page, "/api/v1/tables/changes"))
    end = int(headers[200]["base_offset"])
    place = now["columns"].index("offset")
    assert now["moment"]["offset"] == end and all(row[place] < end for row in now["rows"])
    assert recorded.extent().end == 1237
    _, then = asyncio.run(ask(page, f"/api/v1/tables/changes?at={end}"))
    assert then["rows"] == now["rows"] and then["total"] == now["total"] == len(now["rows"]) > 0


def _another(tmp_path: Path, directory: Path) -> Path:
    """A log with as many records at other times."""
    data = bytearray((directory / NAME).read_bytes())
    headers, _, _ = scan(memoryview(bytes(data)), 0, len(data), True)
    for at, size in zip(headers["position"].tolist(), headers["size"].tolist(), strict=True):
        for place in (27, 35):
            time = int.from_bytes(data[at + place : at + place + 8]) + 3_600_000
            data[at + place : at + place + 8] = time.to_bytes(8)
        data[at + 17 : at + 21] = crc32c(bytes(data[at + 21 : at + size])).to_bytes(4)
    other = tmp_path / "other" / "__cluster_metadata-0"
    shutil.copytree(directory, other)
    (other / NAME).write_bytes(data)
    return other


def test_a_reader_who_left_at_once_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "STREAMS_MAX", 2)
    page = of(Recorded(LOG))

    async def readers() -> None:
        for _ in range(5):
            status, _ = await asyncio.wait_for(ask(page, "/api/v1/events", DISCONNECT, slow_s=30), 20)
            assert status in (0, 200)

    asyncio.run(readers())


def test_a_question_ends_when_nobody_waits_for_it(page: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "ANSWER_S", 600.0)
    asked = {"type": "http.request", "body": json.dumps({"sql": "select count(*) from range(1000000000000)"}).encode()}
    status, body = asyncio.run(asyncio.wait_for(ask(page, "/api/v1/ask", asked, DISCONNECT, method="POST"), 60))
    assert status == 400 and "Nobody waits" in body["error"]


def test_brackets_without_an_end_are_refused(page: Guard) -> None:
    asked = {"type": "http.request", "body": b"[" * 60_000}
    status, body = asyncio.run(ask(page, "/api/v1/ask", asked, method="POST"))
    assert status == 400 and body["error"]


def test_readers_who_come_at_once_are_counted_and_end_with_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "STREAMS_MAX", 2)
    page = of(Recorded(LOG))

    async def readers() -> list[tuple[int, Any]]:
        asked = [asyncio.create_task(ask(page, "/api/v1/events")) for _ in range(3)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        for end in page.ends:
            end()
        return await asyncio.wait_for(asyncio.gather(*asked), 30)

    (one, _), (other, _), (refused, body) = asyncio.run(readers())
    assert (one, other, refused) == (200, 200, 503) and "listen already" in body["error"]


def test_several_clusters_are_asked_by_their_names() -> None:
    recorded = Recorded(LOG)
    slots = {name: Slot(name, Watched(name, recorded)) for name in ("one", "b/ü:9092")} | {"gone": Slot("gone")}
    access = Access(frozenset({f"http://{HOST}"}), "s", "c", False, may_change=True)
    several = application(slots, access)

    def told(path: str) -> tuple[int, Any]:
        return asyncio.run(ask(several, path))

    status, body = told("/api/v1/clusters")
    assert status == 200
    assert [(one["name"], one["open"]) for one in body["clusters"]] == [
        ("one", True),
        ("b/ü:9092", True),
        ("gone", False),
    ]
    assert told("/api/v1")[1]["name"] == "one", "the first, where nothing is said"
    assert told(f"/api/v1?cluster={quote('b/ü:9092', safe='')}")[1]["name"] == "b/ü:9092"
    assert told("/api/v1?cluster=two")[0] == 404
    status, body = told("/api/v1/tables/topics?cluster=gone")
    assert status == 502 and body["error"] == "gone cannot be shown: it is being opened"
