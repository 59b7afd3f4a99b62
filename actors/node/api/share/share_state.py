"""What the five APIs of the share coordinator have in common: entries of share partitions in, one result of each out.

This file alone decides how a request is cut: slices of a few hundred entries, where a state batch is an entry too, each of
which is begun in a turn of its own. The answer leaves when all of them have ended. As in Apache Kafka, a request without a
group, or with a topic that names no partition, is answered with no result.
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.persistence.share_coordinator import ShareStateVerdict, Told
from actors.node.api.contexts import BrokerContext
from actors.node.runtime.answers import Answer, Close
from actors.node.runtime.slices import ENTRIES_A_SLICE, SliceCount, Steps, joined
from actors.wire.messages import message

Ask = Callable[[SharePartitionKey, Any, Told], None]
"""Begin what an entry of the request asks for."""


def answered(context: BrokerContext, request: Any, name: str, topic_result: str, ask: Ask) -> Steps:
    """Have every entry begun, then answer. `name`: the API; `topic_result`: the struct of its response that holds a
    topic."""
    if not context.availability.serving:
        return Close("this broker is fenced")
    kind = message(f"{name}Response")
    answers: list[Answer] = []
    for portion in _portions(request):
        if portion is None:
            yield
            continue
        if answers:
            yield
        asks = [partial(ask, SharePartitionKey(request.group_id, topic, one.partition), one) for topic, one in portion]
        places = [(topic, one.partition) for topic, one in portion]
        answers.append(context.share_state.answer(asks, partial(_placed, places)))
    return joined(answers, partial(_reply, kind, topic_result))


def _placed(
    places: list[tuple[bytes, int]], verdicts: list[ShareStateVerdict]
) -> list[tuple[tuple[bytes, int], ShareStateVerdict]]:
    return list(zip(places, verdicts, strict=True))


def _portions(request: Any) -> Iterator[list[tuple[bytes, Any]] | None]:
    """Entries by topic id, a slice's worth each; None: the slice is over before one is."""
    if not request.group_id:
        return
    pace = SliceCount()
    for topic in request.topics:
        if not topic.partitions:
            return
        if pace.over():
            yield None
    portion: list[tuple[bytes, Any]] = []
    left = ENTRIES_A_SLICE
    for topic in request.topics:
        for one in topic.partitions:
            portion.append((topic.topic_id, one))
            left -= 1 + len(getattr(one, "state_batches", ()))
            if left <= 0:
                yield portion
                portion, left = [], ENTRIES_A_SLICE
    if portion:
        yield portion


def _reply(
    kind: Any, topic_result: str, results: list[list[tuple[tuple[bytes, int], ShareStateVerdict]]]
) -> Generator[None, None, Any]:
    found, pace = getattr(kind, topic_result), SliceCount()
    topics: dict[bytes, Any] = {}
    for portion in results:
        for (topic_id, number), verdict in portion:
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = found(topic_id=topic_id, partitions=[])
            topic.partitions.append(_result(kind, number, verdict))
            if pace.over(1 + (len(verdict.state.batches) if not verdict.error else 0)):
                yield
    return kind(results=list(topics.values()))


def _result(kind: Any, number: int, verdict: ShareStateVerdict) -> Any:
    """One partition's result: what a read is answered stands in it as far as the response has a place for it."""
    result = kind.PartitionResult(partition=number, error_code=verdict.error, error_message=verdict.message)
    state = verdict.state
    told = {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.complete_count,
    }
    if not verdict.error:
        for field in told.keys() & set(result.__layout__.names):
            setattr(result, field, told[field])
        if "state_batches" in result.__layout__.names:
            result.state_batches = [
                kind.StateBatch(first_offset=first, last_offset=last, delivery_state=delivery, delivery_count=count)
                for first, last, delivery, count in state.batches
            ]
    return result
