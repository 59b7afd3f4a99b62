"""Sinks on clusters whose coordinators forget soon, and allow transactions little time: on rayft and Apache Kafka."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rayft
from actors.client.operations import transactions
from actors.pipeline.sink.values import RowsLost
from bench import apache
from tests.integration.pipeline.conftest import CONFIG, Topics
from tests.integration.pipeline.test_sink_steps import ROWS, Ended, Sink, ends

__all__ = ["ends"]
pytestmark = [pytest.mark.timeout(600)]
SOON = {
    "transactional.id.expiration.ms": "1000", "transaction.remove.expired.transaction.cleanup.interval.ms": "300",
    "transaction.max.timeout.ms": "25000",
}  # fmt: skip
BRIEF = {"kafka__transaction__timeout__ms": "20000"}


@pytest.fixture(scope="module", params=["rayft", pytest.param("apache", marks=pytest.mark.slow)])
def kafka(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "apache" and apache.libs() is None:
        pytest.skip("Apache Kafka's jars are not there")
    kind: Any = rayft.Cluster if request.param == "rayft" else apache.ApacheKafka
    with kind(controllers=1, brokers=2, config=CONFIG | SOON) as cluster:
        yield cluster


@pytest.mark.parametrize("is_lost", [False, True], ids=["committed", "aborted"])
def test_a_batch_whose_ids_were_forgotten_behind_the_decision_is_judged_by_its_topics(
    topics: Topics, name: str, ends: Callable[[int, bool], list[str]], monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    sink = Sink(topics, name)
    grant = sink.open()
    chosen = [sink.write(grant, ROWS[:20], **BRIEF), sink.write(grant, ROWS[20:], **BRIEF)]
    with monkeypatch.context():
        ends(4 if is_lost else 5, True)  # behind the decision, or behind the commits and in front of DONE
        with pytest.raises(Ended):
            sink.decide(grant, 0, chosen)
    monkeypatch.undo()
    ids = [one.id for one in chosen]
    with sink.driver() as one:
        if is_lost:
            one.kafka.run(transactions.fenced(ids[1:]))  # as its brokers do when its time is over
            one.kafka.run(transactions.committed([chosen[0][:3]]))
        end = time.monotonic() + 120
        while one.kafka.run(transactions.described(ids)):
            assert time.monotonic() < end, "the ids are not forgotten"
            time.sleep(0.2)
    if is_lost:
        words = rf"1 of its 2 .*INVALID_PRODUCER_ID_MAPPING.* 20 rows are not in {sink.topic}/. .*acceptLostBatch=0"
        with pytest.raises(RowsLost, match=words):
            sink.open()
        assert sink.rows() == Counter(ROWS[:20])
        return
    assert sink.open().decided == 0
    assert sink.rows() == Counter(ROWS)


def test_losers_are_fenced_where_transactions_may_take_little_time(topics: Topics, name: str) -> None:
    sink = Sink(topics, name)
    grant = sink.open()
    sink.write(grant, ROWS, **BRIEF)
    assert sink.open_transactions()
    again = sink.open()
    assert not sink.open_transactions()
    sink.decide(again, 0, [sink.write(again, ROWS, **BRIEF)])
    assert sink.rows() == Counter(ROWS)
