"""The client of share coordinators: whom it asks, what shares a request, what it tries again, and in which order."""

from types import SimpleNamespace
from typing import Any

from actors.broker.coordinators.coordination import partition_of
from actors.broker.groups.share.delivery.in_flight import StateBatch
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.metadata.topic_names import SHARE_STATE_TOPIC
from actors.node.net.channels import ChannelError, Channels
from actors.node.roles.broker.groups.share.share_persister import (
    ENTRIES_A_REQUEST,
    GIVEN_UP_MS,
    INITIALIZE,
    SharePersister,
)
from actors.node.runtime.runtime import Runtime
from actors.ports import Now
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

TOPIC = b"\x01" * 16
PARTITIONS = 4


class Metadata:
    """Leaders of `__share_group_state`, by partition; a broker of each id is reached under its name."""

    def __init__(self) -> None:
        self.leaders: list[int] | None = [1] * PARTITIONS
        self.image = self

    def topic(self, name: str) -> int:
        assert name == SHARE_STATE_TOPIC
        return -1 if self.leaders is None else 7

    def topic_partitions(self, row: int) -> range:
        return range(len(self.leaders or ()))

    def partition(self, row: int, number: int) -> int:
        return number

    def leader(self, row: int) -> int:
        assert self.leaders is not None
        return self.leaders[row]

    def endpoint(self, broker: int, listener: str) -> Any:
        return SimpleNamespace(host=f"broker{broker}", port=1)


class Scene:
    def __init__(self) -> None:
        config: Any = SimpleNamespace(inter_broker_listener="B", broker_id=99, value=lambda _name: 1 << 30)
        log: Any = SimpleNamespace(info=None, warning=None, error=None)
        self.runtime = Runtime(config, None, log)  # type: ignore[arg-type]
        self.runtime.now = Now(1_000, 0)
        self.cache: Any = Metadata()
        self.sent: list[tuple[str, str, Any, Any]] = []
        """(host, API, request, then) of what is not answered yet."""
        self.created: list[str] = []
        self.results: list[Any] = []
        channels: Any = self
        self.persister = SharePersister(self.runtime, channels, self.cache, self.created.extend)

    def peer(self, purpose: Any, address: Any, name: str, request: Any, then: Any, *more: Any, **named: Any) -> None:
        self.sent.append((address[0], name, request, then))

    def turn(self, ms: int = 0) -> None:
        self.runtime.now = Now(self.runtime.now.mono_ms + ms, 0)
        self.runtime.waiting.timers.run(self.runtime.now.mono_ms)
        self.persister.end_turn()

    def write(self, number: int, epoch: int = 1, group: str = "g", batches: int = 1) -> None:
        state = [StateBatch(offset, offset, 2, 1) for offset in range(batches)]
        key = SharePartitionKey(group, TOPIC, number)
        self.persister.write(key, 0, epoch, 0, 0, state, self.results.append)

    def answer(self, code: int = ErrorCode.NONE, place: int = 0) -> None:
        """Answer a request of WriteShareGroupState with one code for all its partitions."""
        _, name, request, then = self.sent.pop(place)
        kind = message(f"{name}Response")
        then(
            kind(
                results=[
                    kind.WriteStateResult(
                        topic_id=topic.topic_id,
                        partitions=[
                            kind.PartitionResult(partition=one.partition, error_code=code) for one in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        )

    def numbers(self, place: int = 0) -> list[int]:
        return [one.partition for topic in self.sent[place][2].topics for one in topic.partitions]


def test_the_leader_of_the_key_s_partition_is_asked() -> None:
    scene = Scene()
    key = SharePartitionKey("g", TOPIC, 3)
    scene.cache.leaders = [10 + number for number in range(PARTITIONS)]
    assert key.coordinator_key == "g:AQEBAQEBAQEBAQEBAQEBAQ:3"
    scene.persister.read(key, 5, scene.results.append)
    assert not scene.sent and scene.persister.gathers
    scene.turn()
    host, name, request, _ = scene.sent[0]
    assert host == f"broker{10 + partition_of(key.coordinator_key, PARTITIONS)}"
    assert (name, request.group_id, request.topics[0].partitions[0].leader_epoch) == ("ReadShareGroupState", "g", 5)


def test_what_comes_up_meanwhile_shares_a_request_and_groups_do_not() -> None:
    scene = Scene()
    scene.write(0)
    scene.write(1)
    scene.write(0, group="h")
    scene.turn()
    assert [request.group_id for _, _, request, _ in scene.sent] == ["g", "h"] and scene.numbers() == [0, 1]
    scene.write(2)
    scene.write(3)
    scene.turn()
    assert len(scene.sent) == 2
    scene.answer()
    assert scene.numbers(1) == [2, 3]


def test_writes_of_one_partition_keep_their_order_when_the_first_is_tried_again() -> None:
    scene = Scene()
    scene.write(0, epoch=1)
    scene.turn()
    scene.write(0, epoch=2)
    scene.answer(ErrorCode.NOT_COORDINATOR)
    scene.turn()
    assert not scene.sent
    scene.turn(20)
    assert scene.sent[0][2].topics[0].partitions[0].leader_epoch == 1
    scene.answer()
    scene.turn()
    assert scene.sent[0][2].topics[0].partitions[0].leader_epoch == 2
    scene.answer()
    assert [one.error_code for one in scene.results] == [0, 0]


def test_a_lost_connection_is_tried_again_and_another_error_is_told() -> None:
    scene = Scene()
    scene.write(0)
    scene.turn()
    scene.sent.pop()[3](ChannelError("lost", "gone"))
    assert not scene.results
    scene.turn(20)
    scene.answer(ErrorCode.FENCED_STATE_EPOCH)
    assert [one.error_code for one in scene.results] == [ErrorCode.FENCED_STATE_EPOCH]


def test_without_the_topic_it_is_created_and_after_a_time_the_caller_hears_of_it() -> None:
    scene = Scene()
    scene.cache.leaders = None
    scene.write(0)
    while not scene.results:
        scene.turn(100)
    assert scene.results[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE and scene.results[0].error_message
    assert set(scene.created) == {SHARE_STATE_TOPIC}
    assert GIVEN_UP_MS - 2_000 < scene.runtime.now.mono_ms - 1_000 <= GIVEN_UP_MS
    scene.cache.leaders = [1] * PARTITIONS
    scene.write(0)
    scene.turn()
    assert len(scene.sent) == 1


def test_an_answer_that_leaves_a_partition_out_is_an_error() -> None:
    scene = Scene()
    scene.write(0)
    scene.turn()
    scene.sent.pop()[3](message("WriteShareGroupStateResponse")(results=[]))
    assert [one.error_code for one in scene.results] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_request_has_a_bounded_number_of_entries() -> None:
    scene = Scene()
    for number in range(3):
        scene.write(number, batches=ENTRIES_A_REQUEST // 2)
    scene.turn()
    assert scene.numbers() == [0]
    scene.answer()
    assert scene.numbers() == [1]
    scene.write(3, batches=2 * ENTRIES_A_REQUEST)
    scene.turn()
    scene.answer()
    scene.answer()
    assert scene.numbers() == [3]


def test_a_coordinator_that_comes_back_elsewhere_is_asked_there_for_all_that_leaves_in_a_turn() -> None:
    scene, where = Scene(), ["broker1"]
    scene.cache.endpoint = lambda broker, listener: SimpleNamespace(host=where[0], port=1)
    logins: Any = SimpleNamespace(begin=lambda to_controller, listener: None, listener=lambda to_controller: "")
    timers, now_ms = scene.runtime.waiting.timers, lambda: scene.runtime.now.mono_ms
    channels = Channels(timers, now_ms, "n", lambda: None, logins, scene.runtime.log)
    persister = SharePersister(scene.runtime, channels, scene.cache, scene.created.extend)
    for group in ("one", "two"):
        persister.read(SharePartitionKey(group, TOPIC, 0), 1, scene.results.append)
    persister.end_turn()
    channels.connected(channels.dials[0].conn)
    where[0] = "elsewhere"
    for group in ("three", "four", "five"):
        persister.read(SharePartitionKey(group, TOPIC, 0), 1, scene.results.append)
    persister.end_turn()
    channels.settle()
    scene.runtime.now = Now(scene.runtime.now.mono_ms + 20, 0)
    timers.run(scene.runtime.now.mono_ms)
    persister.end_turn()
    assert [dial.host for dial in channels.dials] == ["broker1", "elsewhere"] and not scene.results
    channels.connected(channels.dials[1].conn)
    assert [conn for conn, _ in channels.sends].count(channels.dials[1].conn) == 5


def test_a_beginning_waits_for_the_removal_before_it_and_other_share_partitions_do_not() -> None:
    scene, told = Scene(), []  # type: ignore[var-annotated]
    key, other = SharePartitionKey("g", TOPIC, 0), SharePartitionKey("g", TOPIC, 1)
    scene.persister.delete(key, lambda result: told.append("removed"))
    scene.turn()
    scene.persister.initialize(key, 1, 0, lambda result: told.append("begun"))
    scene.persister.initialize(other, 1, 0, lambda result: told.append("other begun"))
    scene.persister.summary(key, -1, lambda result: told.append("summed up"))
    scene.turn()
    names = [name for _, name, _, _ in scene.sent]
    assert names == ["DeleteShareGroupState", "InitializeShareGroupState", "ReadShareGroupStateSummary"]
    assert scene.numbers(1) == [1]
    scene.sent.pop(0)[3](ChannelError("lost", "cut"))
    scene.turn(20)
    assert [name for _, name, _, _ in scene.sent][2:] == ["DeleteShareGroupState"]
    _, _, _, then = scene.sent.pop(2)
    kind = message("DeleteShareGroupStateResponse")
    result = kind.PartitionResult(partition=0)
    then(kind(results=[kind.DeleteStateResult(topic_id=TOPIC, partitions=[result])]))
    scene.turn()
    assert told == ["removed"] and not scene.persister._lines[1, INITIALIZE, "g"][0].entries - 1
    kind = message("InitializeShareGroupStateResponse")
    result = kind.PartitionResult(partition=1)
    scene.sent.pop(0)[3](kind(results=[kind.InitializeStateResult(topic_id=TOPIC, partitions=[result])]))
    assert [(name, scene.numbers(place)) for place, (_, name, _, _) in enumerate(scene.sent)][1:] == [
        ("InitializeShareGroupState", [0])
    ]


def test_what_nobody_wants_any_more_is_not_asked_and_not_asked_again() -> None:
    scene, wanted, told = Scene(), [True], []  # type: ignore[var-annotated]
    count = ENTRIES_A_REQUEST + 1
    for number in range(count):
        key = SharePartitionKey("g", TOPIC, number)
        scene.persister.delete(key, lambda result: told.append(result.error_code), lambda: wanted[0])
    scene.turn()
    assert len(scene.numbers()) == ENTRIES_A_REQUEST
    wanted[0] = False
    scene.sent.pop(0)[3](ChannelError("lost", "cut"))
    assert told == [ErrorCode.NOT_COORDINATOR] and not scene.sent, "the one that has waited for the first request"
    scene.turn(20)
    assert told == [ErrorCode.NOT_COORDINATOR] * count and not scene.sent
    assert not scene.persister._waiting and not scene.persister._lines
    scene.persister.delete(SharePartitionKey("g", TOPIC, 0), told.append)
    scene.turn()
    assert scene.numbers() == [0], "the next is asked"
