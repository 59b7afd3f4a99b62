"""The form of a sink's record in the ledger, and what is refused."""

import json
from typing import Any, NamedTuple

import pytest

from actors.client.errors import ClientError
from actors.client.operations.configs import Config
from actors.client.operations.fetching import Fetched
from actors.pipeline.sink import ledger
from actors.pipeline.sink.names import task_id
from actors.pipeline.sink.values import Attempt, Record, SinkFailed, State
from actors.wire.errors import ErrorCode

RECORD = Record(
    State.DECIDED, 7, 41, "q", "r", 3,
    (Attempt(task_id("s", 3, "w", 0), 1007, 4, (("out", 0, 120, 5119), ("out", 1, 118, -1))),)
)  # fmt: skip


def test_a_record_is_read_as_it_was_written() -> None:
    value = ledger.value_of(RECORD)
    assert json.loads(value) == {
        "layout": 1, "state": "decided", "opening": 7, "batch": 41, "query": "q", "run": "r", "base": 3,
        "attempts": [["rayft-sink/s/3/w/0", 1007, 4, [["out", 0, 120, 5119], ["out", 1, 118, -1]]]],
    }  # fmt: skip
    assert ledger.record_of("s", value) == RECORD
    assert ledger.record_of("s", ledger.value_of(RECORD._replace(attempts=()))).attempts == ()


@pytest.mark.parametrize("layout", [0, 2])
def test_a_record_of_another_layout_is_refused(layout: int) -> None:
    value = json.dumps({"layout": layout, "anything": 1}).encode()
    with pytest.raises(SinkFailed, match=f"record of sink s has layout {layout}, and this rayft reads 1"):
        ledger.record_of("s", value)


@pytest.mark.parametrize(
    "change",
    [
        {"layout": "1"}, {"layout": None}, {"state": "half"}, {"opening": "7"}, {"opening": True}, {"batch": 1.0},
        {"query": None}, {"run": 1}, {"base": None}, {"attempts": None}, {"attempts": [["a", 1]]},
        {"attempts": [["a", 1, 2, [["out", 0, 1]]]]}, {"attempts": [["a", "1", 2, []]]}, {"attempts": [[1, 1, 2, []]]},
        {"attempts": [["a", 1, 2, [["out", "0", 1, 2]]]]}, {"attempts": [["a", 1, 2, [["out", 0, 1, "2"]]]]},
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(change: dict[str, object]) -> None:
    value = json.dumps(json.loads(ledger.value_of(RECORD)) | change).encode()
    with pytest.raises(SinkFailed, match="record of sink s cannot be read"):
        ledger.record_of("s", value)


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000, b"{}"])
def test_bytes_that_are_no_record_are_refused(value: bytes) -> None:
    with pytest.raises(SinkFailed, match="record of sink s cannot be read"):
        ledger.record_of("s", value)


def test_a_batch_of_too_many_tasks_is_refused_before_it_is_decided() -> None:
    one = RECORD.attempts[0]
    many = RECORD._replace(attempts=(one,) * (ledger.RECORD_BYTES_MAX // 60))
    with pytest.raises(SinkFailed, match="are too many for one batch of a sink: repartition it into fewer"):
        ledger.value_of(many)


def test_a_record_that_was_deleted_is_no_new_sink_and_brings_back_no_older_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Read:
        """Offsets 5 to 7 of a log: a record, its deletion, and a record of another sink."""

        def __init__(self, config: Any, positions: Any) -> None:
            self.at = 5

        def position(self, *part: Any) -> int:
            return self.at

        def fetch(self) -> Any:
            yield
            self.at = 8
            kept = ((5, b"s", b"old"), (6, b"s", None), (7, b"other", b"x"))
            return [Fetched(*[kept] * len(Fetched._fields))]

    class Kept(NamedTuple):
        offset: int
        key: bytes
        value: bytes | None

    monkeypatch.setattr(ledger, "Fetcher", Read)
    monkeypatch.setattr(ledger, "_records", lambda one: [Kept(*row) for row in one.records])
    steps: Any = ledger._within(("ledger", 0), 5, 8, b"s", None)  # type: ignore[arg-type]
    next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.send(None)
    assert ended.value.value is not None, "the search would go on to older ones"
    with pytest.raises(SinkFailed, match="cannot be read"):
        ledger.record_of("s", ended.value.value)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("compact", None),
        ("compact,delete", "has cleanup.policy=compact,delete, so a ledger's records would be deleted"),
        ("delete", "has cleanup.policy=delete"),
        (None, "has cleanup.policy=None"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "its cleanup.policy may not be looked at: allow DescribeConfigs on it"),
        (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "its cleanup.policy may not be looked at: allow DescribeConfigs on it",
        ),
    ],
)
def test_a_ledger_has_to_be_seen_to_be_compacted(
    monkeypatch: pytest.MonkeyPatch, told: str | int | None, words: str | None
) -> None:
    def described(resources: Any, names: Any) -> Any:
        yield from ()
        one = (
            {"cleanup.policy": Config("cleanup.policy", told, "topic", False, False, ())}
            if isinstance(told, str)
            else {}
        )
        return {resources[0]: ClientError("denied", told) if isinstance(told, int) else one}

    monkeypatch.setattr(ledger.configs, "describe", described)
    metadata: Any = type("Known", (), {"topics": {"ledger": None}, "refused": {}, "brokers": {}})
    looking = ledger.found("ledger")
    next(looking)
    with pytest.raises(StopIteration) if words is None else pytest.raises(SinkFailed, match=words):
        looking.send(metadata)
