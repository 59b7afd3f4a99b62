"""Questions in SQL: answered, or refused with a sentence; none writes, reads a file, or takes the machine."""

import asyncio
import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from actors.page.query import question
from actors.page.query.question import Questions, Unanswered
from tests.seeds import first_are_quick

TABLES = {
    "partitions": pa.table({"topic": ["a", "b", "b"], "leader": pa.array([1, 1, None], pa.int32())}),
    "changes": pa.table({"offset": list(range(50_000))}),
}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said about time where nothing is tested about it: other tests may have the machine."""
    monkeypatch.setattr(question, "ANSWER_S", 120.0)


def ask(sql: str) -> tuple[pa.Table, bool]:
    return asyncio.run(Questions().ask(sql, TABLES, TABLES.__getitem__))


def test_a_question_is_answered_from_the_tables() -> None:
    found, is_cut = ask("select topic, count(*) as n from partitions group by topic order by topic")
    assert found.to_pylist() == [{"topic": "a", "n": 1}, {"topic": "b", "n": 2}] and not is_cut
    found, _ = ask('with x as (select max("offset") m from changes) select m from x')
    assert found["m"].to_pylist() == [49_999]


def test_only_tables_that_are_named_are_made() -> None:
    made: list[str] = []

    def make(name: str) -> pa.Table:
        made.append(name)
        return TABLES[name]

    asyncio.run(Questions().ask("select count(*) from PARTITIONS", TABLES, make))
    assert made == ["partitions"]


@pytest.mark.long
def test_a_long_answer_is_cut_and_says_so() -> None:
    found, is_cut = ask("select * from changes")
    assert len(found) == 10_000 and is_cut
    found, is_cut = ask("select repeat('x', 1000000) from changes limit 100")
    assert 1 <= len(found) < 100 and is_cut


@pytest.mark.parametrize(
    "sql",
    first_are_quick(
        [
            "create table t as select 1",
            "insert into partitions values ('c', 3)",
            "copy (select 1) to '{path}'",
            "attach '{path}' as other",
            "select 1; select 2",
            "set enable_external_access = true",
            "install httpfs",
            "this is no SQL",
        ],
        2,
    ),
)
def test_what_does_not_read_is_refused(sql: str, tmp_path: Path) -> None:
    with pytest.raises(Unanswered):
        ask(sql.format(path=tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sql",
    first_are_quick(
        [
            "select * from read_csv('{path}')",
            "select * from read_text('{path}')",
            "select * from '{path}'",
            "select * from glob('/etc/*')",
            "select * from read_text('http://127.0.0.1:1/')",
            "select * from connection",
            "select getenv('HOME')",
        ],
        2,
    ),
)
def test_no_file_and_no_variable_is_read(sql: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a-secret\n")
    with pytest.raises(Unanswered) as refused:
        ask(sql.format(path=secret))
    assert "a-secret" not in str(refused.value)


@pytest.mark.long
@pytest.mark.parametrize(
    "sql",
    [
        "select string_agg(repeat('x', 100000), '') from range(1000000)",
        "select count(distinct r) from (select hash(i) || repeat('y', 100) as r from range(100000000) t(i))",
        "select list(i) from range(1000000000) t(i)",
        "select repeat('x', 4000000000)",
    ],
)
def test_memory_is_bounded(sql: str) -> None:
    with pytest.raises(Unanswered):
        ask(sql)
    assert ask("select 1 as one")[0].to_pylist() == [{"one": 1}]


@pytest.mark.long
def test_time_is_bounded_and_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "ANSWER_S", 1.5)
    with pytest.raises(Unanswered, match="took longer than"):
        ask("select sum(a.i * b.i * c.i) from range(100000) a(i), range(100000) b(i), range(1000) c(i)")
    children = [one for one in os.popen(f"ps --ppid {os.getpid()} -o args=").read().splitlines() if "answerer" in one]
    assert children == []


@pytest.mark.long
def test_nothing_is_left_of_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ask("select * from partitions")
    with pytest.raises(Unanswered):
        ask("select * from nothing")
    assert list(tmp_path.iterdir()) == []


def test_tables_are_made_beside_the_loop() -> None:
    """A table of a million rows takes seconds, and all readers would wait for them."""
    threads: list[threading.Thread] = []

    def make(name: str) -> pa.Table:
        threads.append(threading.current_thread())
        return TABLES[name]

    asyncio.run(Questions().ask("select count(*) from partitions", TABLES, make))
    assert len(threads) == 1 and threads[0] is not threading.main_thread()
