"""The protocol of sinks on real brokers of both kinds, without Spark: a driver that ends at each step, and bad input."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import rayft
from actors.client.errors import ClientError
from actors.client.operations import transactions
from actors.pipeline.sink import attempts, driver, steps
from actors.pipeline.sink.driver import EFFECTS, Driver
from actors.pipeline.sink.fates import fates
from actors.pipeline.sink.options import Target, target
from actors.pipeline.sink.values import Attempt, Fate, Grant, Inspect, LedgerLost, Overtaken, RowsLost, SinkFailed
from tests.integration.pipeline.conftest import Topics, settled

pytestmark = [pytest.mark.timeout(600)]
ROWS = [f"row {n}" for n in range(40)]
EFFECTS_OF_A_BATCH = 13
"""Opening a sink for the first time, and deciding a batch in which there is a loser."""


class Ended(Exception):
    """The driver has ended."""


class Sink:
    """A sink for a topic of its own."""

    def __init__(self, topics: Topics, name: str) -> None:
        self.topic = topics.make(name, 3)
        self.servers, self.id = topics.servers, name
        self.ledger = f"ledger-{name}"

    def target(self, **options: str) -> Target:
        own = {"kafka.bootstrap.servers": self.servers, "topic": self.topic, "sinkId": self.id, "ledger": self.ledger}
        return target(own | {name.replace("__", "."): text for name, text in options.items()})

    def driver(self) -> Driver:
        return Driver(self.target().settings, self.id, self.ledger)

    def open(self, **options: Any) -> Grant:
        with self.driver() as one:
            grant: Grant = one.run(steps.opening(self.id, ledger=self.ledger, **options))
            return grant

    def write(self, grant: Grant, rows: list[str], run: str = "run", **options: str) -> Attempt:
        found = attempts.write(self.target(**options), [table(rows)], grant, run)
        assert found is not None
        return found

    def decide(self, grant: Grant, batch: int, chosen: list[Attempt], run: str = "run") -> Any:
        with self.driver() as one:
            return one.run(steps.deciding(grant, batch, tuple(chosen), "q", run))

    def batch(self, batch: int, cut: int, run: str, rows: list[str] = ROWS) -> None:
        """Write a batch in some tasks, the first of which has a second attempt that is not chosen."""
        grant = self.open()
        if batch <= grant.decided:
            return
        chosen = [self.write(grant, rows[number::cut], run) for number in range(cut)]
        self.write(grant, rows[0::cut], run)
        self.decide(grant, batch, chosen, run)

    def rows(self) -> Counter[str]:
        """The rows that readers of committed records see."""
        settled(self.servers, self.topic)
        found = rayft.read(
            self.servers, self.topic, columns=["value"], config={"isolation.level": "read_committed"}
        ).read_all()
        return Counter(one.decode() for one in found["value"].to_pylist())

    def open_transactions(self) -> set[str]:
        with self.driver() as one:
            told: set[str] = one.kafka.run(transactions.listed())
        return {id for id in told if f"/{self.id}@{self.ledger}/" in id}


def table(rows: list[str]) -> pa.RecordBatch:
    return pa.record_batch({"key": rows, "value": rows})


@pytest.fixture
def sink(topics: Topics, name: str) -> Sink:
    return Sink(topics, name)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, bool], list[str]]]:
    """Let the n-th effect end the driver, before the brokers are asked or behind it."""

    def plan(last: int, behind: bool) -> list[str]:
        told: list[str] = []
        for kind, carry_out in list(EFFECTS.items()):

            def counted(own: Driver, effect: Any, carry_out: Any = carry_out) -> Any:
                told.append(type(effect).__name__)
                if len(told) == last and not behind:
                    raise Ended
                answer = carry_out(own, effect)
                if len(told) == last:
                    raise Ended
                return answer

            monkeypatch.setitem(EFFECTS, kind, counted)
        return told

    yield plan


@pytest.mark.parametrize(
    "steps_", [(9, 10), pytest.param(range(1, EFFECTS_OF_A_BATCH + 1), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_a_driver_that_ends_at_any_step_is_followed_by_one_that_cuts_the_batch_otherwise(
    topics: Topics, name: str, ends: Callable[[int, bool], list[str]], monkeypatch: pytest.MonkeyPatch, steps_: Any
) -> None:
    for last in steps_:
        for behind in (False, True):
            sink = Sink(topics, f"{name}-{last}-{behind}".lower())
            with monkeypatch.context():
                told = ends(last, behind)
                with pytest.raises(Ended):
                    sink.batch(0, 2, "one")
            monkeypatch.undo()
            sink.batch(0, 3, "two")
            sink.batch(1, 1, "two", ["last"])
            assert sink.rows() == Counter([*ROWS, "last"]), f"ended at {told}"
            assert not sink.open_transactions(), f"ended at {told}"
    told = ends(1 << 30, False)
    Sink(topics, f"{name}-whole").batch(0, 2, "one")
    assert len(told) == EFFECTS_OF_A_BATCH, told


def test_a_transaction_that_ends_behind_the_decision_is_told_with_batch_and_partitions(
    sink: Sink, ends: Callable[[int, bool], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = sink.open()
    chosen = [sink.write(grant, ROWS[:20]), sink.write(grant, ROWS[20:])]
    with monkeypatch.context():
        ends(4, True)
        with pytest.raises(Ended):
            sink.decide(grant, 7, chosen)
    monkeypatch.undo()
    with sink.driver() as one:
        one.kafka.run(transactions.fenced([chosen[1].id]))  # as its brokers do when its time is over
    words = (
        rf"batch 7 was decided, and 1 of its 2 transactions .* 20 rows are not in {sink.topic}/0 .*acceptLostBatch=7"
    )
    with pytest.raises(RowsLost, match=words):
        sink.open()
    assert sink.rows() == Counter(ROWS[:20])
    assert sink.open(accepted=7).decided == 7


def test_a_transaction_whose_time_is_over_is_not_decided(sink: Sink) -> None:
    grant = sink.open()
    attempt = sink.write(grant, ROWS, kafka__transaction__timeout__ms="1000")
    while sink.open_transactions():
        pass
    with pytest.raises(SinkFailed, match="has ended before batch 0 was decided: nothing of the batch is written"):
        sink.decide(grant, 0, [attempt])
    with sink.driver() as one:
        assert one.run(steps.giving_up(grant, 0, "q")) == steps.ABORTED
    sink.batch(0, 1, "two")
    assert sink.rows() == Counter(ROWS)


def test_transactions_of_a_two_phase_commit_wait_for_their_driver(
    sink: Sink, kafka: Any, ends: Callable[[int, bool], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker times them out between the decision and the commit (KIP-939)."""
    if not isinstance(kafka, rayft.Cluster):
        pytest.skip("Apache Kafka 4.3.1 does not serve two-phase commit")
    more = {"kafka__transaction__two__phase__commit__enable": "true"}
    grant = sink.open()
    chosen = [sink.write(grant, ROWS[:20], **more), sink.write(grant, ROWS[20:], **more)]
    sink.write(grant, ROWS, **more)
    with sink.driver() as one:
        told = one.kafka.run(transactions.described([attempt.id for attempt in chosen]))
    assert {found.timeout_ms for found in told.values()} == {(1 << 31) - 1}
    with monkeypatch.context():
        ends(4, True)
        with pytest.raises(Ended):
            sink.decide(grant, 0, chosen)
    monkeypatch.undo()
    assert sink.open().decided == 0
    assert sink.rows() == Counter(ROWS)
    assert not sink.open_transactions(), "the loser is aborted, though it has no timeout"
    again = sink.open()
    sink.decide(again, 1, [sink.write(again, ["last"], **more)])
    assert sink.rows() == Counter([*ROWS, "last"])


def test_the_second_driver_of_a_sink_overtakes_the_first(sink: Sink) -> None:
    first = sink.open()
    attempt = sink.write(first, ROWS, "one")
    second = sink.open()
    assert not sink.open_transactions(), "what the first had open is aborted"
    with pytest.raises(Overtaken, match="another query or job has begun to write with this sinkId"):
        sink.decide(first, 0, [attempt], "one")
    sink.decide(second, 0, [sink.write(second, ROWS, "two")], "two")
    assert sink.rows() == Counter(ROWS)


def test_several_topics_keys_headers_and_times(sink: Sink, topics: Topics, name: str) -> None:
    other = topics.make(f"{name}-b", 2)
    rows = pa.record_batch({
        "topic": [sink.topic, other, other], "value": ["a", None, "c"], "key": ["k", "l", None],
        "headers": pa.array([[("h", b"1"), ("h", b"2")], None, []], pa.map_(pa.string(), pa.binary())).cast(
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        ),
        "timestamp": pa.array([1000, 2000, 3000], pa.timestamp("us", "UTC")),
    })  # fmt: skip
    grant = sink.open()
    own = sink.target(includeTimestamp="true")._replace(topic=None)
    attempt = attempts.write(own, [rows], grant)
    assert attempt is not None and {one[0] for one in attempt.counts} == {sink.topic, other}
    sink.decide(grant, 0, [attempt])
    settled(sink.servers, sink.topic, other)
    names = ["topic", "key", "value", "headers", "timestamp"]
    found = rayft.read(sink.servers, [sink.topic, other], columns=names, config={"isolation.level": "read_committed"})
    read = {bytes(one["key"] or b""): one for one in found.read_all().to_pylist()}
    assert {key: (one["topic"], one["value"], one["timestamp"].microsecond) for key, one in read.items()} == {
        b"k": (sink.topic, b"a", 1000), b"l": (other, None, 2000), b"": (other, b"c", 3000)
    }  # fmt: skip
    assert read[b"k"]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": b"2"}]


def test_what_became_of_a_transaction_is_shown_by_its_topics(sink: Sink, topics: Topics, name: str) -> None:
    grant = sink.open()
    own = sink.target()
    committed, aborted, deleted = (
        attempts.write(own._replace(topic=topics.make(f"{name}-{word}", 2)), [table(ROWS)], grant)
        for word in ("committed", "aborted", "deleted")
    )
    later = attempts.write(own._replace(topic=f"{name}-committed"), [table(ROWS)], grant)
    assert committed is not None and aborted is not None and deleted is not None and later is not None
    with sink.driver() as one:
        told = one.kafka.run(
            transactions.committed([(own.id, own.producer_id, own.epoch) for own in (committed, deleted)])
        )
        assert not any(told.values())
        one.kafka.run(transactions.fenced([aborted.id, later.id]))
        topics.delete(f"{name}-deleted")
        topics.make(f"{name}-deleted", 2)
        rayft.write(sink.servers, f"{name}-deleted", table(ROWS))
        all_of_them = (committed, aborted, deleted, later)
        found = one.kafka.run(fates(all_of_them, one.kafka.config), 120)
        assert [found[own.id] for own in all_of_them] == [Fate.COMMITTED, Fate.ABORTED, Fate.UNKNOWN, Fate.ABORTED]
        part = committed.counts[0]
        swapped = committed._replace(counts=((f"{name}-aborted", *part[1:]),))
        beyond = committed._replace(counts=((*part[:3], part[3] + 1000),))
        unknown = committed._replace(counts=((*part[:3], -1),))
        for other in (swapped, beyond, unknown, committed._replace(epoch=committed.epoch + 1)):
            assert one.kafka.run(fates([other], one.kafka.config), 120) == {other.id: Fate.UNKNOWN}


def test_sinks_of_two_ledgers_leave_each_other_alone(sink: Sink) -> None:
    other = Sink.__new__(Sink)
    other.topic, other.servers, other.id, other.ledger = sink.topic, sink.servers, sink.id, f"{sink.ledger}-b"
    grant = sink.open()
    attempt = sink.write(grant, ROWS)
    for number in range(3):
        other.batch(number, 1, "two", [f"other {number}"])
    sink.decide(grant, 0, [attempt])
    assert sink.rows() == Counter([*ROWS, "other 0", "other 1", "other 2"])


def test_an_attempt_of_an_older_opening_harms_none_of_a_newer_one(sink: Sink) -> None:
    """Both in one process, whose ids are counted anew with each opening."""
    old = sink.open()
    sink.decide(old, 0, [sink.write(old, ["first"])])
    old, new = sink.open(), sink.open()
    assert old.base_of("run") == 1
    attempt = sink.write(new._replace(run="run", base=1), ROWS)
    with pytest.raises(SinkFailed, match=f"a task attempt of opening {old.opening} comes when"):
        sink.write(old, ROWS)
    sink.decide(new, 1, [attempt])
    assert sink.rows() == Counter([*ROWS, "first"])


def test_an_attempt_that_comes_behind_the_decision_leaves_nothing_open(sink: Sink) -> None:
    grant = sink.open()
    sink.decide(grant, 0, [sink.write(grant, ROWS)])
    with pytest.raises(SinkFailed, match="this task attempt comes too late"):
        sink.write(grant, ROWS)
    assert not sink.open_transactions()
    assert sink.rows() == Counter(ROWS)


@pytest.mark.parametrize("minutes", [-30, 30], ids=["behind", "ahead"])
def test_the_drivers_clock_may_be_wrong(sink: Sink, monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    """What is left of a transaction's time is told by the brokers' clock."""
    right = driver.clock_ms
    monkeypatch.setattr(driver, "clock_ms", lambda: right() + minutes * 60_000)
    grant = sink.open()
    attempt = sink.write(grant, ROWS)
    seen = {}
    inspect = EFFECTS[Inspect]
    monkeypatch.setitem(EFFECTS, Inspect, lambda own, effect: seen.setdefault("told", inspect(own, effect)))
    sink.decide(grant, 0, [attempt])
    (left_ms,) = [one.left_ms for one in seen["told"].values()]
    assert 900_000 - 300_000 < left_ms <= 901_000
    assert sink.rows() == Counter(ROWS)


# ---- bad input


def test_bad_rows_and_topics_are_one_error_each_and_leave_nothing(sink: Sink) -> None:
    grant = sink.open()
    for columns, topic, words in (
        ({"value": ["a"], "partition": [3]}, sink.topic, "column 'partition' says 3, and topic .* has 3 partitions"),
        ({"value": ["a"], "partition": [-1]}, sink.topic, "column 'partition' says -1"),
        ({"value": ["a", "b"], "topic": [sink.topic, None]}, None, "row 1: column 'topic' is null"),
        ({"value": ["a"]}, None, "neither a column 'topic' nor the option topic"),
        ({"key": ["a"]}, sink.topic, "there is no column 'value'"),
        ({"value": ["a"], "keys": ["a"]}, sink.topic, "column 'keys' is none of a record's"),
        ({"value": [1]}, sink.topic, "column 'value' is of type int64"),
        ({"value": ["a"]}, "there-is-none", "topic there-is-none does not exist"),
    ):
        own = sink.target()._replace(topic=topic)
        with pytest.raises((ClientError, ValueError), match=words):
            attempts.write(own, [pa.record_batch(columns)], grant)
    parts = [table(["a"]), pa.record_batch({"value": ["b"], "colour": ["red"]})]
    with pytest.raises(ValueError, match="column 'colour' is none of a record's"):
        attempts.write(sink.target(), parts, grant)
    assert not sink.open_transactions()
    assert attempts.write(sink.target(), [], grant) is None
    assert not sink.rows()


def test_a_ledger_that_cannot_be_read_is_no_empty_one(sink: Sink, topics: Topics) -> None:
    sink.batch(3, 1, "one")
    record = {
        "layout": 1,
        "state": "done",
        "opening": 1,
        "batch": 3,
        "query": "q",
        "run": "",
        "base": 1,
        "attempts": [],
    }
    for value, words in (
        (json.dumps(record | {"layout": 0}), "has layout 0, and this rayft reads 1"),
        (json.dumps(record | {"layout": 2}), "has layout 2, and this rayft reads 1"),
        ("{", "cannot be read: something else has written to the ledger's topic"),
        (json.dumps(record | {"state": "half"}), "cannot be read"),
        (json.dumps(record | {"batch": "3"}), "cannot be read"),
        (json.dumps(record | {"attempts": [["a", 1]]}), "cannot be read"),
    ):
        producer = Producer({"bootstrap.servers": sink.servers})
        producer.produce(sink.ledger, value, sink.id)
        assert producer.flush(30) == 0
        with pytest.raises(SinkFailed, match=words):
            sink.open()
    producer.produce(sink.ledger, json.dumps(record | {"opening": 9}), sink.id)
    assert producer.flush(30) == 0
    assert sink.open().opening == 10


def test_a_topic_that_is_not_compacted_is_no_ledger(sink: Sink, topics: Topics) -> None:
    topics.make(sink.ledger, 1)
    with pytest.raises(SinkFailed, match=f"topic {sink.ledger} has cleanup.policy=delete"):
        sink.open()


def test_a_ledger_that_was_deleted_is_no_new_one(sink: Sink, topics: Topics) -> None:
    sink.batch(0, 1, "one")
    topics.delete(sink.ledger)
    for _ in range(2):
        with pytest.raises(
            LedgerLost, match=f"the ledger, topic {sink.ledger}, has no record of it, though its tasks have"
        ):
            sink.batch(0, 1, "two")
    assert sink.rows() == Counter(ROWS)


def test_a_record_is_found_behind_many_of_others(sink: Sink, topics: Topics) -> None:
    sink.batch(0, 1, "one")
    producer = Producer({"bootstrap.servers": sink.servers})
    for number in range(3000):
        producer.produce(sink.ledger, "{", f"{sink.id}-{number}")
    assert producer.flush(60) == 0
    assert sink.open().decided == 0


def test_an_open_transaction_of_another_sink_is_waited_for(sink: Sink) -> None:
    """What lies behind it cannot be read yet, and would be taken for nothing."""
    with sink.driver() as one, Driver(sink.target().settings, "another", sink.ledger) as other:
        one.run(steps.opening(sink.id, ledger=sink.ledger))
        other.kafka.run(other._producer.begin())
        record = driver.ledger.Record(steps.State.OPEN, 1, -1, "", "", 0)
        batch = driver.ledger.batch_of("another", record, 0)
        other.kafka.run(other._producer.send([((sink.ledger, 0), batch)]))
        reading = one.kafka.start(driver.ledger.newest(sink.ledger, sink.id, one.kafka.config))
        for _ in range(20):
            one.kafka.step(0.05)
        assert not reading.done
        other.kafka.run(other._producer.commit())
        found = one.kafka.wait(reading)
        assert found is not None and found.opening == 1
