"""What a broker asks of itself: handled like what peers ask, without a connection."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.metadata import ops
from actors.metadata.features import SHARE_VERSION
from actors.metadata.topic_names import SHARE_STATE_TOPIC
from actors.node.api.own_requests import OwnRequests
from actors.node.net.channels import ChannelError
from actors.node.runtime.answers import Answer, Done, Later, Parked, Sliced
from actors.node.runtime.calls import Api, Call, Lane, Listener
from actors.ports import WorkKind
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab

NAME = "WriteTxnMarkers"


class Scene:
    """Broker 1, whose handler of one API is `handler`."""

    def __init__(self, handler: Callable[[Any, Any, Call], Answer]) -> None:
        self.lab = Lab(1, {})
        node = self.lab.nodes[1].node
        rows = dict(node.requests._served[Listener.INTER_BROKER])
        key = next(key for key, row in rows.items() if row.name == NAME)
        rows[key] = rows[key]._replace(handler=handler)
        self.node = node
        self.own = OwnRequests(node.dispatch, {Listener.INTER_BROKER: rows})
        self.answers: list[Any] = []

    def ask(self, request: Any = None) -> None:
        self.own.ask(NAME, request, self.answers.append)


def test_it_waits_for_a_turn_and_its_answer_is_the_handler_s_own() -> None:
    seen: list[Call] = []

    def handler(context: Any, request: Any, call: Call) -> Answer:
        seen.append(call)
        return Done(("reply to", request))

    scene = Scene(handler)
    scene.ask("a")
    scene.ask("b")
    assert not scene.answers and scene.node.deadline_ms() == 0
    scene.lab.settle()
    assert scene.answers == [("reply to", "a"), ("reply to", "b")]
    assert {call.listener for call in seen} == {Listener.INTER_BROKER}
    assert {call.api_version for call in seen} == {2}, "the newest"


@pytest.mark.parametrize("kind", ["parked", "sliced", "later"])
def test_one_that_waits_or_works_in_slices_goes_on(kind: str) -> None:
    def handler(context: Any, request: Any, call: Call) -> Answer:
        reply = Done("reply")
        if kind == "parked":
            return Parked(["key"], 1 << 62, lambda expired: reply)
        if kind == "sliced":
            return Sliced(lambda: Sliced(lambda: reply))
        return Later(lambda: "found", lambda found: Done(found), WorkKind.RECORDS)

    scene = Scene(handler)
    scene.ask()
    scene.lab.turn()
    if kind == "parked":
        scene.lab.settle()
        assert not scene.answers
        scene.node.runtime.waiting.signal("key")
    scene.lab.settle()
    assert scene.answers == ["found" if kind == "later" else "reply"]


def test_one_that_says_what_it_waits_for_is_not_asked_in_vain() -> None:
    came: list[str] = []

    def handler(context: Any, request: Any, call: Call) -> Answer:
        return Parked(["key"], 1 << 62, lambda expired: Done("reply"), idle=lambda key: not came)

    scene = Scene(handler)
    scene.ask()
    scene.lab.settle()
    for _ in range(2):
        scene.node.runtime.waiting.signal("key")
        scene.lab.settle()
        assert scene.answers == (["reply"] if came else [])
        came.append("what it waits for")


def test_a_broken_handler_is_told_of_and_the_next_request_is_served() -> None:
    def handler(context: Any, request: Any, call: Call) -> Answer:
        return Done(1 // request)

    scene = Scene(handler)
    scene.ask(0)
    scene.ask(1)
    scene.lab.settle()
    lost, reply = scene.answers
    assert isinstance(lost, ChannelError) and lost.reason == "lost" and reply == 1
    assert any("ZeroDivisionError" in line for line in scene.node.runtime.log.lines)


def test_only_what_brokers_ask_one_another_can_be_asked() -> None:
    scene = Scene(lambda context, request, call: Done(None))
    with pytest.raises(KeyError):
        scene.own.ask("Fetch", None, scene.answers.append)


def test_a_fenced_broker_serves_itself_no_more_than_others() -> None:
    lab = Lab(1, {})
    node, answers = lab.nodes[1].node, []
    request = message("WriteTxnMarkersRequest")(markers=[])
    node.channels.itself("WriteTxnMarkers", request, answers.append)
    lab.settle()
    assert answers[0].markers == []
    lab.pass_ms(100)
    lab.controller_up = False
    lab.pass_ms(30_000)
    assert not lab.broker(1).availability.serving
    node.channels.itself("WriteTxnMarkers", request, answers.append)
    lab.settle()
    assert isinstance(answers[1], ChannelError) and "fenced" in str(answers[1])


def test_a_request_that_nobody_answers_has_an_end() -> None:
    scene = Scene(lambda context, request, call: Parked(["never"], 1 << 62, lambda expired: Done("late")))
    scene.node.channels.ask_itself = scene.own.ask
    scene.node.channels.itself(NAME, None, scene.answers.append, timeout_ms=1_000)
    scene.lab.pass_ms(900)
    assert not scene.answers
    scene.lab.pass_ms(200)
    assert isinstance(scene.answers[0], ChannelError) and scene.answers[0].reason == "timeout"
    scene.node.runtime.waiting.signal("never")
    scene.lab.settle()
    assert len(scene.answers) == 1


def test_a_broker_that_leads_the_state_of_its_share_partitions_dials_nobody() -> None:
    lab = Lab(1, {"share.coordinator.state.topic.num.partitions": "1"})
    lab.commit(ops.FeatureSet(SHARE_VERSION, 1))
    lab.topic([1], SHARE_STATE_TOPIC, b"\x08" * 16)
    lab.topic([1])
    fetches, answers = lab.fetches, []
    lab.broker(1).share_persister.initialize(SharePartitionKey("g", TOPIC_ID, 0), 0, 7, answers.append)
    lab.settle()
    lab.broker(1).share_persister.read(SharePartitionKey("g", TOPIC_ID, 0), 0, answers.append)
    lab.settle()
    assert [one.error_code for one in answers] == [ErrorCode.NONE] * 2 and answers[1].start_offset == 7
    assert lab.fetches == fetches


def test_its_requests_wait_in_the_lane_of_their_api_and_run_in_their_order() -> None:
    order: list[str] = []

    def handler(context: Any, request: Any, call: Call) -> Answer:
        order.append(request)
        return Done(request)

    scene = Scene(handler)
    api: Api = scene.own._apis[NAME][0]
    assert api.lane is Lane.DATA
    for number in range(3):
        scene.ask(f"own {number}")
    assert scene.node.requests.queue.size(Lane.DATA) == 3
    scene.lab.settle()
    assert order == ["own 0", "own 1", "own 2"] == scene.answers
