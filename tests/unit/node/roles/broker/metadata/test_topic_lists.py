"""Lists of all topics: written once for all who ask in one generation, counted once, and given up for nobody but those who
do not read them."""

from typing import Any

import pytest

from actors.metadata.ops import EntitySet, PartitionsSet, TopicGone, TopicSet
from actors.node.api import topics_shown
from actors.node.roles.broker.metadata import topic_lists
from actors.ports import Now
from actors.wire import framing
from actors.wire.messages import message
from fastpath.image.topic_answers import TopicAnswers
from tests.unit.node.net.test_request_channel import LONG_NS, PLAIN, Lab

TOPICS, PARTITIONS = 400, 50
"""20,000 partitions."""


class Written(TopicAnswers):
    """Counts the partitions that are written in this process, and the most in one call; and those of topics that are written
    by themselves."""

    alone = 0
    partitions = 0
    most = 0

    def along(self, *given: Any) -> str | None:
        before = self.looked
        found = super().along(*given)
        Written.partitions += self.looked - before
        Written.most = max(Written.most, self.looked - before)
        return found

    def go_on(self, most: int) -> int:
        before = self.looked
        found = super().go_on(most)
        Written.alone += self.looked - before
        return found


class Scene:
    """A broker that knows many partitions, and clients that ask for all of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
        monkeypatch.setattr(topics_shown, "TopicAnswers", Written)
        Written.partitions = Written.most = Written.alone = 0
        self.lab = Lab(**settings)
        self.image = self.lab.node.broker.cache.image
        for number in range(TOPICS):
            self.change(TopicSet(f"t{number:04}", number.to_bytes(16, "big")))
            replicas = [[1, 2, 3]] * PARTITIONS
            self.change(PartitionsSet(number.to_bytes(16, "big"), range(PARTITIONS), replicas, replicas))
        self.ms = 0
        self.parts: dict[int, list[Any]] = {}
        """What each client got."""
        self.closed: list[int] = []
        self.slow: set[int] = set()
        """Clients that do not read."""
        self.lists = self.lab.node.broker.topic_lists

    def change(self, op: Any) -> None:
        self.image.replay(self.image.next_offset, op)
        self.image.commit(self.image.next_offset)

    def ask(self, *, version: int = 12, conn: int | None = None) -> int:
        conn = conn or self.lab.connect(PLAIN)
        self.lab.send(conn, "Metadata", version, message("MetadataRequest")(topics=None))
        return conn

    def turn(self, budget: int = LONG_NS) -> None:
        now = self.lab.process.now()
        effects = self.lab.node.turn(Now(now.mono_ms + self.ms, now.wall_ms + self.ms), budget)
        self.parts.update({conn: parts for conn, parts in effects.send if conn > 10_000})
        self.closed.extend(effects.close)
        for conn in self.slow.intersection(conn for conn, _ in effects.send):
            self.lab.node.congested(conn, True)  # the host has more for it than it takes

    def turns(self, count: int = 60) -> None:
        for _ in range(count):
            self.turn()

    def pass_ms(self, ms: int) -> None:
        for _ in range(ms // 100):
            self.ms += 100
            self.turn()

    def answer(self, conn: int, api: str, version: int) -> Any:
        data = b"".join(map(bytes, self.parts[conn]))
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        return framing.decode_response(api, version, memoryview(data)[4:])

    def topics(self, conn: int, version: int = 12) -> list[Any]:
        found: list[Any] = self.answer(conn, "Metadata", version).topics
        return found


def in_small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice has 1,500 partitions."""
    monkeypatch.setattr(topics_shown, "WRITTEN_A_SLICE", 1500)
    monkeypatch.setattr(topics_shown, "WRITTEN_AN_ENTRY", 5)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_eight_who_ask_at_once_get_one_list_that_is_written_once(scene: Scene) -> None:
    conns = [scene.ask() for _ in range(8)]
    scene.turns()
    large = [{id(part) for part in scene.parts[conn] if len(part) > 4096} for conn in conns]
    assert len(large[0]) > 1 and all(one == large[0] for one in large), "they are the same objects"
    assert Written.partitions <= TOPICS * (PARTITIONS + 4), "each partition was written once"
    assert Written.most <= topics_shown.WRITTEN_A_SLICE + PARTITIONS, "a slice is bounded"
    found = scene.topics(conns[0])
    assert [topic.name for topic in found] == [f"t{number:04}" for number in range(TOPICS)]
    assert {len(topic.partitions) for topic in found} == {PARTITIONS}
    size = sum(map(len, scene.parts[conns[0]]))
    assert 0 <= size - scene.lists.bytes_kept() < 1000, "what is kept is counted once"


@pytest.mark.parametrize("begin", [0, 200, 380])
def test_a_page_costs_by_what_it_holds_wherever_it_begins(scene: Scene, begin: int) -> None:
    kind = message("DescribeTopicPartitionsRequest")
    cursor = kind.Cursor(topic_name=f"t{begin:04}", partition_index=0)
    conn = scene.lab.connect(PLAIN)
    request = kind(topics=[], response_partition_limit=500, cursor=cursor)
    scene.lab.send(conn, "DescribeTopicPartitions", 0, request)
    scene.turns()
    found = scene.answer(conn, "DescribeTopicPartitions", 0).topics
    assert [topic.name for topic in found] == [f"t{number:04}" for number in range(begin, begin + 10)]
    assert 500 <= Written.alone <= 500 + PARTITIONS


def test_a_hundred_topics_cost_by_what_they_have(scene: Scene) -> None:
    kind = message("MetadataRequest")
    names = [f"t{number:04}" for number in range(0, TOPICS, 4)]
    conn = scene.lab.connect(PLAIN)
    topics = [kind.MetadataRequestTopic(name=name) for name in names]
    scene.lab.send(conn, "Metadata", 12, kind(topics=topics, allow_auto_topic_creation=False))
    scene.turns()
    assert sorted(topic.name for topic in scene.topics(conn)) == names
    assert Written.alone == len(names) * PARTITIONS


def test_nothing_is_kept_of_a_list_that_was_read_and_is_not_asked_for(scene: Scene) -> None:
    for conn in [scene.ask(), scene.ask(version=5)]:
        scene.turns()
        assert len(scene.topics(conn, 12 if conn == 10_001 else 5)) == TOPICS
    assert scene.lists.bytes_kept() > 0
    scene.pass_ms(topic_lists.KEPT_MS + 2 * topic_lists.LOOK_MS)
    assert scene.lists.bytes_kept() == 0 and not scene.lab.node.runtime.ledger.by_principal
    assert not scene.lists._newest and not scene.lists._readers and scene.image.generations.pinned == -1


def test_a_list_that_is_asked_for_again_is_kept_and_one_of_another_generation_is_not_given(scene: Scene) -> None:
    first = scene.ask()
    scene.turns()
    written = Written.partitions
    scene.pass_ms(topic_lists.KEPT_MS - 200)
    again = scene.ask()
    scene.pass_ms(topic_lists.KEPT_MS - 200)
    assert scene.topics(again) == scene.topics(first) and Written.partitions == written
    scene.change(TopicGone((7).to_bytes(16, "big")))
    later = scene.ask()
    scene.turns()
    assert [topic.name for topic in scene.topics(later)] == [f"t{n:04}" for n in range(TOPICS) if n != 7]
    assert Written.partitions > written


def test_a_list_is_of_one_generation_whatever_changes_between_its_slices(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_slices(monkeypatch)
    conn = scene.ask()
    for number in range(TOPICS - 1, -1, -1):  # one topic goes in each turn, from the end on, and its rows are used anew
        scene.turn()
        if conn in scene.parts:
            break
        scene.change(TopicGone(number.to_bytes(16, "big")))
        scene.change(TopicSet(f"u{number}", (number + 9999).to_bytes(16, "big")))
    assert number < TOPICS - 5, "there were slices"
    assert [topic.name for topic in scene.topics(conn)] == [f"t{n:04}" for n in range(TOPICS)]
    assert {len(topic.partitions) for topic in scene.topics(conn)} == {PARTITIONS}


def test_who_asks_first_and_goes_keeps_nobody_waiting(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_slices(monkeypatch)
    first, second = scene.ask(), scene.ask()
    scene.turn()
    scene.lab.node.closed(first, False)
    scene.turns()
    assert first not in scene.parts and len(scene.topics(second)) == TOPICS


def test_a_list_that_nobody_waits_for_any_more_lets_its_generation_go(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_slices(monkeypatch)
    conn = scene.ask()
    scene.turn()
    assert scene.image.generations.pinned >= 0
    scene.lab.node.closed(conn, False)
    scene.pass_ms(topic_lists.KEPT_MS + 2 * topic_lists.LOOK_MS)
    assert scene.image.generations.pinned == -1 and scene.lists.bytes_kept() == 0


@pytest.mark.parametrize("reads", [True, False])
def test_the_next_list_waits_for_room_and_who_does_not_read_loses_his_connection(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    monkeypatch.setattr(topic_lists, "BYTES_MAX", 100_000)
    monkeypatch.setattr(topic_lists, "READ_MS", 1_000)
    slow = scene.ask()
    scene.slow.add(slow)
    scene.turns(8)
    scene.change(TopicGone((7).to_bytes(16, "big")))
    waiting = scene.ask()
    other = scene.ask(version=1)
    scene.pass_ms(600)
    assert waiting not in scene.parts and other not in scene.parts and not scene.closed
    assert 0 <= sum(map(len, scene.parts[slow])) - scene.lists.bytes_kept() < 1000, "one list at a time"
    if reads:
        scene.lab.node.congested(slow, False)
    scene.pass_ms(1_200)
    assert (slow in scene.closed) is not reads
    assert len(scene.topics(waiting)) == TOPICS - 1
    scene.pass_ms(topic_lists.KEPT_MS)
    assert len(scene.topics(other, 1)) == TOPICS - 1


def test_who_finds_no_room_at_all_is_told_by_the_end_of_his_connection(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_lists, "BYTES_MAX", 0)
    monkeypatch.setattr(topic_lists, "WAIT_MS", 500)
    conn = scene.ask()
    scene.pass_ms(1000)
    assert conn in scene.closed and conn not in scene.parts


def test_who_loses_the_room_to_others_again_and_again_waits_no_longer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_lists, "WAIT_MS", 500)
    monkeypatch.setattr(scene.lists, "find", lambda *given: None)
    conn = scene.ask()
    for _ in range(10):
        scene.pass_ms(100)
        scene.lab.node.runtime.waiting.signal(topic_lists.ROOM_KEY)
    assert conn in scene.closed and conn not in scene.parts


def test_a_failure_is_everybodys_and_the_next_request_begins_anew(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Any, *given: Any) -> str | None:
        raise MemoryError

    in_small_slices(monkeypatch)
    conns = [scene.ask(), scene.ask()]
    scene.turn()
    monkeypatch.setattr(Written, "along", fails)
    scene.turns(5)
    assert set(conns) <= set(scene.closed) and scene.image.generations.pinned == -1
    monkeypatch.undo()
    later = scene.ask()
    scene.turns()
    assert len(scene.topics(later)) == TOPICS


def test_slow_readers_of_one_list_do_not_take_the_room_of_records(scene: Scene) -> None:
    conns = [scene.ask() for _ in range(8)]
    scene.slow.update(conns)
    scene.turns()
    held = scene.lab.node.requests.connections
    assert held._unread >= 8 * scene.lists.bytes_kept() > 0
    assert held.unread_bytes < 1000, "what is not shared: the heads of the answers"


def test_lists_that_are_written_at_once_count_as_they_grow(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_slices(monkeypatch)
    whole = scene.ask()
    scene.turns()
    size = sum(map(len, scene.parts[whole]))
    scene.pass_ms(topic_lists.KEPT_MS + 2 * topic_lists.LOOK_MS)
    monkeypatch.setattr(topic_lists, "BYTES_MAX", size // 2)
    scene.lists._largest = 0  # as at the start, and behind a list for somebody who may see nothing
    conns = {version: scene.ask(version=version) for version in range(1, 13)}
    scene.slow.update(conns.values())
    most = 0
    for _ in range(120):
        scene.pass_ms(100)
        held = {id(part): len(part) for parts in scene.parts.values() for part in parts if len(part) > 4096}
        most = max(most, scene.lists.bytes_kept())
    assert held and most <= size // 2 + 1.2 * size, "the bound, one list and a slice of each"


def test_all_who_ask_at_once_are_answered_in_the_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_slices(monkeypatch)
    monkeypatch.setattr(topic_lists, "BYTES_MAX", 100_000)
    conns = {version: scene.ask(version=version) for version in range(1, 13)}
    for _ in range(20):
        scene.turns(15)
        scene.pass_ms(200)
    for version, conn in conns.items():
        assert len(scene.topics(conn, version)) == TOPICS
    assert not set(conns.values()) & set(scene.closed)


def test_a_list_that_somebody_still_reads_is_given_to_others(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_lists, "BYTES_MAX", 100_000)
    slow = scene.ask()
    scene.slow.add(slow)
    scene.turns()
    written = Written.partitions
    scene.pass_ms(3 * topic_lists.KEPT_MS)
    later = scene.ask()
    scene.turns(2)
    assert scene.topics(later) == scene.topics(slow) and Written.partitions == written
    scene.lab.node.congested(slow, False)
    scene.pass_ms(topic_lists.KEPT_MS + 2 * topic_lists.LOOK_MS)
    assert scene.lists.bytes_kept() == 0


def test_who_has_read_the_list_and_fetches_records_does_not_count_as_one_who_reads_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_lists, "BYTES_MAX", 100_000)
    monkeypatch.setattr(topic_lists, "READ_MS", 1_000)
    busy = scene.ask()
    scene.turns()
    held = scene.lab.node.requests.connections
    held.promise(busy, 5000)  # records are read for its next answer
    scene.change(TopicGone((7).to_bytes(16, "big")))
    waiting = scene.ask()
    scene.pass_ms(600)
    assert len(scene.topics(waiting)) == TOPICS - 1
    scene.pass_ms(2_000)
    assert busy not in scene.closed and held.unread_bytes == 5000


def test_who_shares_a_list_is_shown_what_its_own_rights_say_when_rules_change_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_small_slices(monkeypatch)
    scene = Scene(
        monkeypatch,
        **{
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:admin",
        },
    )
    conns = {}
    for number, name in enumerate(("some", "other", "admin")):
        conns[name] = scene.lab.conns = 10_001 + number
        scene.lab.node.connected(conns[name], PLAIN, "127.0.0.1", 0, f"User:{name}")
        scene.ask(conn=conns[name])
    scene.turn()
    fields = {
        "resource_type": 2, "resource_name": f"t{TOPICS - 1:04}", "pattern_type": 3, "principal": "User:other",
        "host": "*", "operation": 8, "permission_type": 3,
    }  # fmt: skip
    assert not scene.parts
    scene.change(EntitySet("acl", tuple(fields.values()), tuple(fields.items())))
    scene.turns(100)
    seen = {name: [topic.name for topic in scene.topics(conn)] for name, conn in conns.items()}
    every = [f"t{number:04}" for number in range(TOPICS)]
    assert seen["some"] == every[:-1], "the last topic has a rule, which is for another"
    assert seen["other"] == every and seen["admin"] == every
