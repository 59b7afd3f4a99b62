"""All work for a request goes through `api/perform.py`: an authorizer there that refuses everything stops all of it.

No request may reach its handler in another way: not in an Envelope, not when it waits in a broker to be forwarded, and
not when it is run again because its controller has lost the leadership.
"""

from collections.abc import Callable
from typing import Any

import pytest

from actors.authorization.rights import Checked
from actors.node.api.perform import perform
from actors.node.api.table import ENVELOPED
from actors.node.runtime.answers import Answer, Close, Done, Sliced
from actors.node.runtime.calls import Call, Listener
from actors.wire import framing
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.access import Refuses
from tests.served import TABLE
from tests.simulator.cluster import Client
from tests.simulator.one_topic import OneTopic
from tests.simulator.world import Process

TOPIC_AUTHORIZATION_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_AUTHORIZATION_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def guard(process: Process, authorizer: Refuses) -> Refuses:
    """Put an authorizer into every context of a node."""
    assert process.node is not None
    for context in (process.node.dispatch.broker, process.node.dispatch.controller):
        if context is not None:
            context.authorizer = authorizer
    return authorizer


def creation(name: str) -> Any:
    kind = message("CreateTopicsRequest")
    return kind(topics=[kind.CreatableTopic(name=name, num_partitions=1, replication_factor=3)], timeout_ms=5_000)


WHOLE = sorted((place for place in TABLE if TABLE[place].right.checked is Checked.WHOLE), key=str)


@pytest.mark.parametrize("place", WHOLE, ids=lambda place: f"{place[0].value}-{TABLE[place].name}")
def test_no_handler_runs_that_needs_a_right_as_a_whole_which_is_refused(place: tuple[Listener, int]) -> None:
    def handler(context: Any, request: Any, call: Call) -> Any:
        raise AssertionError("it ran")

    class Context:
        authorizer = Refuses()

    nothing: Any = Context()
    api = TABLE[place]
    call = Call(1, place[0], "L", place[1], api.versions[-1], None, "h", "User:ANONYMOUS", memoryview(b""))
    request = message(f"{'v28:' if framing.is_draft(api.name) else ''}{api.name}Request")()
    answer = perform(nothing, api._replace(handler=handler), request, call)
    assert isinstance(answer, Done)
    assert getattr(answer.reply, "error_code", CLUSTER_AUTHORIZATION_FAILED) == CLUSTER_AUTHORIZATION_FAILED
    framing.encode_response(api.name, api.versions[-1], 1, answer.reply)


def test_what_a_client_asks_of_a_broker_that_refuses_does_nothing() -> None:
    t = OneTopic()
    t.produce(b"before")
    ends = {id: t.log(id).log_end_offset for id in t.cluster.brokers}
    topics, offset = t.image.topic_count, t.image.next_offset
    for process in t.cluster.brokers.values():
        guard(process, Refuses("Produce"))
    assert t.send(b"refused").error_code == TOPIC_AUTHORIZATION_FAILED
    assert {id: t.log(id).log_end_offset for id in t.cluster.brokers} == ends
    assert (t.image.topic_count, t.image.next_offset) == (topics, offset), "nothing was forwarded"


def test_what_a_broker_forwards_to_a_controller_that_refuses_does_nothing() -> None:
    t = OneTopic()
    topics = t.image.topic_count
    guards = [guard(process, Refuses("CreateTopics")) for process in t.cluster.controllers.values()]
    reply = t.client.call("b1", "CreateTopics", 7, creation("new"))
    assert [topic.error_code for topic in reply.topics] == [TOPIC_AUTHORIZATION_FAILED]
    asked = [name for one in guards for name in one.asked]
    assert "Envelope" in asked and "CreateTopics" in asked, "the Envelope was opened, and what is in it was asked about"
    assert t.image.topic_count == topics


def breaks() -> Answer:
    raise ValueError("a mistake in a handler")


@pytest.mark.parametrize("slices", [0, 1, 3])
@pytest.mark.parametrize("end", [breaks, lambda: Close("no answer")], ids=["breaks", "closes"])
def test_what_breaks_in_an_envelope_hurts_its_client_alone(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[], Answer], slices: int
) -> None:
    """A broker sends the requests of all its clients on one connection to the controller, which stays."""

    def handler(left: int) -> Answer:
        return Sliced(lambda: handler(left - 1)) if left else end()

    t = OneTopic()
    asked: list[int] = []
    row = ENVELOPED[43]

    def counted(context: Any, request: Any, call: Call) -> Answer:
        asked.append(slices)
        return handler(slices)

    monkeypatch.setitem(ENVELOPED, row.key, row._replace(handler=counted))
    gone: list[Any] = []
    other = Client(t.world, "other")
    other.ask("b1", "ElectLeaders", 2, message("ElectLeadersRequest")(), gone.append)
    reply = t.client.call("b1", "CreateTopics", 7, creation("new"), 500)
    assert [topic.error_code for topic in reply.topics] == [0], "nobody waits for it, and nothing is asked twice"
    t.until(lambda: bool(gone))
    assert gone == [None] and len(asked) == 1


def test_what_is_asked_anew_after_a_lost_leadership_is_authorized_anew() -> None:
    """A controller that has lost contact with the others holds the reply. When it learns of its loss, it runs the
    request again."""
    t = OneTopic()
    active = t.cluster.active()
    assert active is not None and active.node is not None
    others = [process for process in t.cluster.controllers.values() if process is not active]
    for process in others:
        process.freeze()
    replies: list[Any] = []
    t.client.ask(active.name, "CreateTopics", 7, creation("new"), replies.append)
    t.until(lambda: active.node is not None and active.node.controller.image.topic_count == 2)
    assert not replies, "it is not committed"
    refuses = guard(active, Refuses("CreateTopics"))
    t.until(lambda: not active.node.controller.active)
    t.world.run_for(100)
    (reply,) = replies
    assert "CreateTopics" in refuses.asked
    assert [topic.error_code for topic in reply.topics] == [CLUSTER_AUTHORIZATION_FAILED], "it is refused at the door"
    assert active.node.controller.image.topic_count == 1, "what it had done is undone"
