"""Explanations out of logs of released Kafka's records. Faults of a whole cluster are in tests/simulator/test_why.py."""

from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.replay.timeline import marks, past
from tests.unit.replay import metadata_logs
from tests.unit.replay.metadata_logs import Record

TOPIC = metadata_logs.TOPIC
DIRS = [bytes([one]) * 16 for one in (1, 2)]


def registered(broker: int, epoch: int = 0) -> Record:
    id = bytes([broker]) * 16
    return 0, 3, "RegisterBrokerRecord", {
        "broker_id": broker, "broker_epoch": epoch or broker, "incarnation_id": id, "log_dirs": DIRS,
    }  # fmt: skip


def broker(broker: int, **fields: Any) -> Record:
    return 17, 2, "BrokerRegistrationChangeRecord", {"broker_id": broker, "broker_epoch": broker, **fields}


def partition(number: int, replicas: list[int], isr: list[int], topic_id: bytes = TOPIC) -> Record:
    return 3, 1, "PartitionRecord", {
        "partition_id": number, "topic_id": topic_id, "replicas": replicas, "isr": isr, "leader": replicas[0],
        "leader_epoch": 0, "partition_epoch": 0,
    }  # fmt: skip


def change(number: int, **fields: Any) -> Record:
    return 5, 1, "PartitionChangeRecord", {"partition_id": number, "topic_id": TOPIC, **fields}


BEGUN: list[Record] = [
    *(record for one in (1, 2, 3) for record in (registered(one), broker(one, fenced=-1))),
    (2, 0, "TopicRecord", {"name": "orders", "topic_id": TOPIC}),
    *(partition(number, [1, 2, 3], [1, 2, 3]) for number in range(5)),
]


def history(tmp_path: Path, *steps: tuple[int, list[Record]], step: int = 1) -> replay.History:
    """A log that begins with three active brokers and five partitions at 1 s, and goes on with records at a time in ms."""
    found, offset = [metadata_logs.released(BEGUN, 0, 1_000)], len(BEGUN)
    for time_ms, records in steps:
        found.append(metadata_logs.released(records, offset, time_ms))
        offset += len(records)
    return replay.History(metadata_logs.write(tmp_path, found, metadata_logs.RELEASED), step=step)


def sentences(tmp_path: Path, *steps: tuple[int, list[Record]]) -> list[str]:
    with history(tmp_path, *steps) as found:
        return [one.sentence for one in replay.why(found)]


def test_the_sentence_of_the_issue(tmp_path: Path) -> None:
    begin = 32_368_000  # 08:59:28
    steps = [
        (begin - 500, [broker(2, fenced=1)]),
        (begin, [change(3, isr=[1, 3])]),
        (begin + 40_000, [broker(2, fenced=-1)]),
        (begin + 48_000, [change(3, isr=[1, 3, 2])]),
    ]
    with history(tmp_path, *steps) as found:
        assert replay.why(found) == []
        (one,) = replay.why_partition(found, "orders", 3)
        assert one.sentence == (
            "orders-3: replica 2 left the ISR at 08:59:28, 0.5 s after broker 2 was fenced; it came back at 09:00:16"
        )
        assert (one.since_ms, one.until_ms, one.cause) == (begin, begin + 48_000, "broker 2 was fenced at 08:59:27")
        (fenced, lacks) = replay.why(found, len(BEGUN) + 2)
        assert fenced.sentence == "broker 2 is fenced since 08:59:27 and has replicas of 5 partitions"
        assert lacks.sentence == "orders-3: replica 2 left the ISR at 08:59:28, 0.5 s after broker 2 was fenced"


def test_a_shutdown_is_told_from_a_broker_that_was_fenced(tmp_path: Path) -> None:
    steps = [
        (5_000, [broker(2, in_controlled_shutdown=1)]),
        (5_200, [change(0, isr=[1, 3])]),
        (9_000, [broker(2, fenced=1)]),
        (9_000, [broker(3, fenced=1), change(0, isr=[1])]),
    ]
    with history(tmp_path, *steps) as found:
        one, other, *replicas = replay.why(found)
        assert (one.cause, one.since_ms) == ("it asked for its shutdown", 9_000)
        assert other.cause == "no controller has heard of it within its lease"
        assert [part.sentence for part in replicas] == [
            "orders-0: replica 2 left the ISR at 00:00:05, 0.2 s after broker 2 was shut down",
            "orders-0: replica 3 left the ISR at 00:00:09, as broker 3 was fenced",
        ]
        assert replay.why(found, len(BEGUN) + 1)[0].sentence.startswith("broker 2 is shutting down since 00:00:05")


def test_the_log_does_not_say_who_unregistered_a_broker(tmp_path: Path) -> None:
    unregistered: Record = (1, 0, "UnregisterBrokerRecord", {"broker_id": 3, "broker_epoch": 3})
    with history(tmp_path, (5_000, [unregistered])) as found:
        (one,) = replay.why(found)
        assert one.sentence == "broker 3 is away since 00:00:05 and has replicas of 5 partitions"
        assert one.cause == "it was unregistered; the log does not say who changed it"


def test_a_broker_that_never_became_active(tmp_path: Path) -> None:
    with history(tmp_path, (5_000, [registered(4)])) as found:
        (one,) = replay.why(found)
        assert (one.broker, one.cause) == (4, "it has registered and is not ready yet")


def test_a_log_directory_that_a_broker_has_lost(tmp_path: Path) -> None:
    lost = broker(2, log_dirs=DIRS[:1])
    assert sentences(tmp_path / "a", (5_000, [lost])) == ["a log directory of broker 2 is offline since 00:00:05"]
    again = [registered(2, epoch=20), broker(2, broker_epoch=20, fenced=-1)]
    assert sentences(tmp_path / "b", (5_000, [lost]), (6_000, again)) == []
    unregistered: Record = (1, 0, "UnregisterBrokerRecord", {"broker_id": 2, "broker_epoch": 2})
    (one,) = sentences(tmp_path / "c", (5_000, [lost]), (6_000, [unregistered]))
    assert one.startswith("broker 2 is away")


def test_a_replica_that_a_reassignment_adds_is_not_missing(tmp_path: Path) -> None:
    moving = change(0, replicas=[1, 2, 3], isr=[1, 2], adding_replicas=[3])
    assert sentences(tmp_path / "a", (5_000, [moving])) == []
    (one,) = sentences(tmp_path / "b", (5_000, [change(0, isr=[1, 2])]))
    assert one == "orders-0: replica 3 left the ISR at 00:00:05"


def test_a_topic_that_was_made_again_has_its_own_past(tmp_path: Path) -> None:
    again = bytes(reversed(TOPIC))
    gone: list[Record] = [(9, 0, "RemoveTopicRecord", {"topic_id": TOPIC})]
    made: list[Record] = [
        (2, 0, "TopicRecord", {"name": "orders", "topic_id": again}),
        partition(0, [1, 2], [1], again),
    ]
    steps = [(5_000, [change(0, isr=[1, 3])]), (6_000, [change(0, isr=[1, 2, 3])]), (6_500, gone), (7_000, made)]
    with history(tmp_path, *steps) as found:
        (one,) = replay.why(found)
        assert one.sentence == "orders-0: replica 2 has not been in the ISR since the partition was made at 00:00:07"
        assert replay.why_partition(found, "orders", 0) == []
        assert len(replay.why_partition(found, "orders", 0, len(BEGUN) + 2)) == 1


@pytest.mark.parametrize("step", [1, 10_000])
def test_a_partition_that_was_added_to_a_topic_was_made_then(tmp_path: Path, step: int) -> None:
    steps = [(4_000, [partition(5, [1, 2], [1]), partition(6, [1, 2], [1, 2])]), (5_000, [change(0, leader=3)])]
    with history(tmp_path, *steps, step=step) as found:
        assert replay.why(found)[0].sentence == (
            "orders-5: replica 2 has not been in the ISR since the partition was made at 00:00:04"
        )


def test_what_happened_is_known_also_when_marks_stand_for_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MARKS_MAX", 4)
    given = {"resource_type": 4, "name": "x", "value": "1"}
    steps: list[tuple[int, list[Record]]] = [
        (4_000, [(4, 0, "ConfigRecord", {**given, "resource_name": "1"})]),
        (5_000, [broker(2, fenced=1), change(0, isr=[1, 3])]),
        *((6_000 + n, [(4, 0, "ConfigRecord", {**given, "resource_name": f"{n + 10}"})]) for n in range(10)),
        *((7_000 + n, [broker(3, fenced=1 if n % 2 == 0 else -1)]) for n in range(20)),
    ]
    with history(tmp_path, *steps) as found:
        assert any(not one.about for one in found.marks(["broker"])), "some became one"
        away, flapping, replica, differs = replay.why(found)
        assert away.sentence == "broker 2 is fenced since 00:00:05 and has replicas of 5 partitions"
        assert flapping.sentence.startswith("broker 3 was fenced 10 times")
        assert replica.sentence == "orders-0: replica 2 left the ISR at 00:00:05, as broker 2 was fenced"
        assert differs.cause.startswith("it was last changed for broker 1 at 00:00:04")


def test_a_broker_that_is_back_and_not_ready_is_away_since_it_left(tmp_path: Path) -> None:
    steps = [
        (5_000, [broker(2, in_controlled_shutdown=1)]),
        (6_000, [broker(2, fenced=1)]),
        (8_000, [registered(2, epoch=20)]),
    ]
    with history(tmp_path, *steps) as found:
        (one,) = replay.why(found)
        assert (one.since_ms, one.cause) == (6_000, "it has registered and is not ready yet")


def test_a_replica_that_was_moved_away_needs_no_broker_to_be_started(tmp_path: Path) -> None:
    steps = [
        (5_000, [change(0, isr=[1, 3])]),
        (6_000, [change(0, replicas=[1, 3], isr=[1, 3])]),
        (7_000, [change(1, isr=[1, 3])]),
    ]
    with history(tmp_path, *steps) as found:
        (moved,), (lacks,) = (replay.why_partition(found, "orders", number) for number in (0, 1))
        assert moved.sentence == "orders-0: replica 2 left the ISR at 00:00:05; it is no replica any more"
        assert (moved.command, lacks.command) == ("", "start broker 2")


def test_only_so_many_pieces_of_a_log_are_read_for_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After that the time is not known, and is left out."""
    monkeypatch.setattr(past, "PIECES_MAX", 3)
    steps = [(5_000, [change(0, isr=[1, 3])])]
    steps += [(6_000 + n, [change(0, leader=1 + n % 2 * 2)]) for n in range(8)]
    assert sentences(tmp_path, *steps)[0] == "orders-0: replica 2 is not in the ISR"
