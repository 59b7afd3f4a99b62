"""Requests about transactions: every request in every state that a transactional id can rest in, with an epoch that has
passed, the present one and one that was never given out.

Each question has a transactional id of its own, brought to its state first. After the answer the id is described once its
coordinator has come to rest, so the epoch that a request has led to is compared as well.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from actors.broker.coordinators.coordination import partition_of
from actors.wire.errors import ErrorCode
from fastpath.records.batch import Builder
from tests.integration.answers.dialogue import SECONDS, Dialogue

CLASSIC_END, RAISING_END = 4, 5
"""EndTxn before transaction version 2, and with it."""
VERIFYING, ADDING = 11, 12
"""Produce that leaves it to the client to add the partition, and that adds it."""
PASSING = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
UNREADY = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)
OFFSETS_PARTITIONS = 10
"""`offsets.topic.num.partitions` of both clusters."""
EPOCHS = {"old epoch": -1, "epoch": 0, "future epoch": 1}


class Producer(NamedTuple):
    """What a client knows of its transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def named(self, by: int = 0) -> dict[str, Any]:
        """As the fields of a request, with an epoch that is higher by so much."""
        return {**self._asdict(), "producer_epoch": self.producer_epoch + by}


class Scene:
    """One topic with two partitions, a group, and as many transactional ids as are asked for."""

    def __init__(self, d: Dialogue, t: str) -> None:
        """`t`: a topic with two partitions."""
        self.d = d
        self.topic = t
        names = (f"{t}-group-{n}" for n in range(1000))
        self.group = next(name for name in names if partition_of(name, OFFSETS_PARTITIONS) == 0)
        self._made = 0
        d.coordinator(self.group)  # from then on its topic exists

    # ---- steps of a producer

    def new(self) -> Producer:
        """An id that nobody has used."""
        self._made += 1
        return self.initialised(f"{self.topic}-{self._made}")

    def initialised(self, id: str, **known: int) -> Producer:
        """The next producer of an id, once its coordinator gives it."""
        found = self._until("InitProducerId", 4, id, transactional_id=id, transaction_timeout_ms=60_000, **known)
        return Producer(id, found.producer_id, found.producer_epoch)

    def initialised_for(self, timeout_ms: int) -> Producer:
        """A new id whose transactions have that timeout."""
        self._made += 1
        id = f"{self.topic}-{self._made}"
        found = self._until("InitProducerId", 4, id, transactional_id=id, transaction_timeout_ms=timeout_ms)
        return Producer(id, found.producer_id, found.producer_epoch)

    def added(self, one: Producer) -> None:
        """The client adds the partition."""
        d, at = self.d, self.at(one)
        reply = d.raw("AddPartitionsToTxn", 3, at, **self.added_values(one.named()))
        assert reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0, reply

    def produced(self, one: Producer, version: int = ADDING) -> None:
        """The first batch of a transaction, or of an epoch."""
        deadline = time.monotonic() + SECONDS
        while True:
            reply = self.d.raw("Produce", version, self.d.leader(self.topic), **self.produce_values(one))
            code = reply.responses[0].partition_responses[0].error_code
            if code == 0:
                return
            assert code in UNREADY and time.monotonic() < deadline, reply
            time.sleep(0.02)

    def ended(self, one: Producer, version: int, commit: bool) -> Producer:
        """The producer of the next transaction."""
        reply = self._until("EndTxn", version, one.transactional_id, **one.named(), committed=commit)
        self.rest(one)
        return one if version < RAISING_END else Producer(one.transactional_id, reply.producer_id, reply.producer_epoch)

    # ---- values of requests

    def added_values(self, named: dict[str, Any]) -> dict[str, Any]:
        """AddPartitionsToTxn as a client asks."""
        return {f"v3_and_below_{key}": value for key, value in named.items()} | {
            "v3_and_below_topics": [{"name": self.topic, "partitions": [0]}]
        }

    def batched_values(self, named: dict[str, Any], verify_only: bool) -> dict[str, Any]:
        """AddPartitionsToTxn as a broker asks."""
        topics = [{"name": self.topic, "partitions": [0]}]
        return {"transactions": [{**named, "verify_only": verify_only, "topics": topics}]}

    def produce_values(self, one: Producer, by: int = 0, sequence: int = 0, number: int = 0) -> dict[str, Any]:
        """A transactional batch."""
        builder = Builder(
            attributes=0x10, producer_id=one.producer_id, producer_epoch=one.producer_epoch + by,
            base_sequence=sequence, timestamp_ms=1_600_000_000_000,
        )  # fmt: skip
        builder.append(b"k", b"v")
        data = builder.build()
        return {
            "transactional_id": one.transactional_id, "acks": -1, "timeout_ms": 10_000,
            "topic_data": [{"name": self.topic, "partition_data": [{"index": number, "records": data}]}],
        }  # fmt: skip

    def offset_values(self, named: dict[str, Any], **more: Any) -> dict[str, Any]:
        """TxnOffsetCommit of somebody who is no member of the group."""
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        topics = [{"name": self.topic, "partitions": [partition]}]
        return {**named, "group_id": self.group, "generation_id": -1, "topics": topics, **more}

    # ---- where, and when

    def at(self, one: Producer) -> int:
        """Its coordinator."""
        return self.d.coordinator(one.transactional_id, transactions=True)

    def rest(self, one: Producer) -> None:
        """Wait until no end is on its way."""
        deadline = time.monotonic() + SECONDS
        while self._state(one).startswith("Prepare"):
            assert time.monotonic() < deadline, "an end without an end"
            time.sleep(0.02)

    def _state(self, one: Producer) -> str:
        reply = self.d.raw("DescribeTransactions", 0, self.at(one), transactional_ids=[one.transactional_id])
        return str(reply.transaction_states[0].transaction_state)

    def _until(self, name: str, version: int, id: str, **values: Any) -> Any:
        deadline = time.monotonic() + SECONDS
        while True:
            reply = self.d.raw(name, version, self.d.coordinator(id, transactions=True), **values)
            if reply.error_code not in PASSING:
                assert reply.error_code == 0, (name, reply)
                return reply
            assert time.monotonic() < deadline, "the end before it takes too long"
            time.sleep(0.02)


# ---- states


def _open(s: Scene) -> Producer:
    one = s.new()
    s.added(one)
    s.produced(one, VERIFYING)
    return one


def _open_2(s: Scene) -> Producer:
    one = s.new()
    s.produced(one)
    return one


def _fenced(s: Scene) -> Producer:
    """The end of an open transaction by InitProducerId; what is returned is the producer that was fenced."""
    one = _open_2(s)
    s.d.raw("InitProducerId", 4, s.at(one), transactional_id=one.transactional_id, transaction_timeout_ms=60_000)
    s.rest(one)
    return one


def _replaced(s: Scene) -> Producer:
    one = s.new()
    s.initialised(one.transactional_id)
    return one


STATES: dict[str, Callable[[Scene], Producer]] = {
    "empty": lambda s: s.new(),
    "open": _open,
    "open, version 2": _open_2,
    "committed": lambda s: s.ended(_open(s), CLASSIC_END, True),
    "committed, version 2": lambda s: s.ended(_open_2(s), RAISING_END, True),
    "aborted": lambda s: s.ended(_open(s), CLASSIC_END, False),
    "aborted, version 2": lambda s: s.ended(_open_2(s), RAISING_END, False),
    "aborted empty": lambda s: s.ended(s.new(), RAISING_END, False),
    "fenced": _fenced,
    "replaced": _replaced,
}


# ---- questions

Asked = tuple[str, int, int, dict[str, Any]]
"""API, version, broker, values."""


def _init(s: Scene, one: Producer, by: int) -> Asked:
    return "InitProducerId", 4, s.at(one), {**one.named(by), "transaction_timeout_ms": 60_000}


def _add(s: Scene, one: Producer, by: int) -> Asked:
    return "AddPartitionsToTxn", 3, s.at(one), s.added_values(one.named(by))


def _batched(verify_only: bool) -> Callable[[Scene, Producer, int], Asked]:
    return lambda s, one, by: ("AddPartitionsToTxn", 5, s.at(one), s.batched_values(one.named(by), verify_only))


def _end(version: int, commit: bool) -> Callable[[Scene, Producer, int], Asked]:
    return lambda s, one, by: ("EndTxn", version, s.at(one), {**one.named(by), "committed": commit})


def _add_offsets(s: Scene, one: Producer, by: int) -> Asked:
    return "AddOffsetsToTxn", 4, s.at(one), {**one.named(by), "group_id": s.group}


def _commit_offsets(version: int) -> Callable[[Scene, Producer, int], Asked]:
    return lambda s, one, by: (
        "TxnOffsetCommit", version, s.d.coordinator(s.group), s.offset_values(one.named(by))
    )  # fmt: skip


def _produce(version: int) -> Callable[[Scene, Producer, int], Asked]:
    return lambda s, one, by: ("Produce", version, s.d.leader(s.topic, 1), s.produce_values(one, by, number=1))


QUESTIONS: dict[str, Callable[[Scene, Producer, int], Asked]] = {
    "a producer that recovers": _init,
    "add": _add,
    "add by a broker": _batched(False),
    "verify": _batched(True),
    "commit": _end(CLASSIC_END, True),
    "abort": _end(CLASSIC_END, False),
    "commit, version 2": _end(RAISING_END, True),
    "abort, version 2": _end(RAISING_END, False),
    "add offsets": _add_offsets,
    "offsets": _commit_offsets(3),
    "offsets, version 2": _commit_offsets(5),
    "produce": _produce(VERIFYING),
    "produce, version 2": _produce(ADDING),
}


def asked_in_each_state(scene: Scene) -> None:
    """Each question, in each state, with each epoch."""
    d = scene.d
    for state, bring in STATES.items():
        for question, values in QUESTIONS.items():
            for epoch, by in EPOCHS.items():
                one = bring(scene)
                if one.producer_epoch + by < 0:
                    continue
                name, version, at, fields = values(scene, one, by)
                title = f"{state}: {question}, {epoch}"
                d.ask(title, name, version, at, **fields)
                scene.rest(one)
                d.ask(title, "DescribeTransactions", 0, scene.at(one), transactional_ids=[one.transactional_id])


# ---- what cannot be, and what is shown


def asked_what_cannot_be(s: Scene) -> None:
    """Ids, producers, partitions and groups that do not exist, at each version whose words for it differ."""
    d, t = s.d, s.topic
    replaced = _replaced(s)
    at, offsets_at = s.at(replaced), d.coordinator(s.group)
    unknown = Producer(replaced.transactional_id, replaced.producer_id + 1_000_000, 0)
    nobody = Producer(f"{replaced.transactional_id}-none", 5, 0)
    empty = Producer("", 5, 0)
    for title, values in (
        ("empty id", {"transactional_id": ""}), ("no time", {"transaction_timeout_ms": 0}),
        ("negative time", {"transaction_timeout_ms": -5}), ("too much time", {"transaction_timeout_ms": 900_001}),
        ("id without epoch", {"producer_id": 5}), ("epoch without id", {"producer_epoch": 0}),
        ("unknown producer", {"producer_id": unknown.producer_id, "producer_epoch": 0}),
    ):  # fmt: skip
        asked = {"transactional_id": replaced.transactional_id, "transaction_timeout_ms": 60_000} | values
        d.ask(f"init: {title}", "InitProducerId", 4, at, **asked)
    for version in (3, 4, 5):
        asked = {**replaced.named(), "transaction_timeout_ms": 60_000}
        d.ask("init: replaced", "InitProducerId", version, at, **asked)
    for title, one in (("replaced", replaced), ("unknown", unknown), ("no such id", nobody), ("empty id", empty)):
        to = at if one is empty else s.at(one)
        for version in (0, 1, 2, 3):
            d.ask(f"add: {title}", "AddPartitionsToTxn", version, to, **s.added_values(one.named()))
            d.ask(f"add offsets: {title}", "AddOffsetsToTxn", version, to, **one.named(), group_id=s.group)
        for version in (0, 1, 2, 4, 5):
            d.ask(f"end: {title}", "EndTxn", version, to, **one.named(), committed=True)
        for verify_only in (False, True):
            asked = s.batched_values(one.named(), verify_only)
            d.ask(f"batched: {title}, {verify_only}", "AddPartitionsToTxn", 4, to, **asked)
        for version in (0, 2, 3, 4, 5):
            d.ask(f"offsets: {title}", "TxnOffsetCommit", version, offsets_at, **s.offset_values(one.named()))
    one = s.new()
    at = s.at(one)
    for title, topics in (
        ("no topics", []), ("no partitions", [{"name": t, "partitions": []}]),
        ("unknown partition", [{"name": t, "partitions": [0, 7]}]),
        ("unknown topic", [{"name": t, "partitions": [0]}, {"name": f"{t}-none", "partitions": [0]}]),
        ("internal topic", [{"name": "__consumer_offsets", "partitions": [0]}]),
        ("own topic", [{"name": "__transaction_state", "partitions": [0]}]),
        ("twice", [{"name": t, "partitions": [0, 0]}]),
    ):  # fmt: skip
        d.ask(
            f"add: {title}", "AddPartitionsToTxn", 3, at,
            **{f"v3_and_below_{key}": value for key, value in one.named().items()}, v3_and_below_topics=topics,
        )  # fmt: skip
        for verify_only in (False, True):
            asked = {"transactions": [{**one.named(), "verify_only": verify_only, "topics": topics}]}
            d.ask(f"batched: {title}, {verify_only}", "AddPartitionsToTxn", 5, at, **asked)
    for version, title in ((VERIFYING, "late start, added"), (ADDING, "late start")):
        other = s.new()
        if version == VERIFYING:
            s.added(other)
        d.ask(f"produce: {title}", "Produce", version, d.leader(t), **s.produce_values(other, sequence=2))
        d.ask(f"produce: {title}, the first", "Produce", version, d.leader(t), **s.produce_values(other))
    d.ask("add offsets: no group", "AddOffsetsToTxn", 4, at, **one.named(), group_id="")
    d.ask("add offsets", "AddOffsetsToTxn", 4, at, **one.named(), group_id=s.group)
    for title, more in (
        ("no group", {"group_id": ""}), ("unknown member", {"member_id": "m", "generation_id": 1}),
        ("a generation", {"generation_id": 3}), ("an instance", {"group_instance_id": "i", "member_id": "m"}),
        ("unknown topic", {"topics": [{"name": f"{t}-none", "partitions": [
            {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}]}),
        ("unknown partition", {"topics": [{"name": t, "partitions": [
            {"partition_index": 7, "committed_offset": 1, "committed_metadata": ""},
            {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 5000},
            {"partition_index": 1, "committed_offset": 1, "committed_metadata": None}]}]}),
    ):  # fmt: skip
        for version in (3, 5):
            values = s.offset_values(one.named(), **more)
            d.ask(f"offsets: {title}", "TxnOffsetCommit", version, offsets_at, **values)


def asked_of_markers(s: Scene) -> None:
    """WriteTxnMarkers of an administrator, and what replicas then know of producers."""
    d, t = s.d, s.topic
    at = d.leader(t)
    one, other = _open_2(s), _open_2(s)
    places = [{"name": t, "partition_indexes": [0]}]
    marker = {"producer_id": one.producer_id, "producer_epoch": 0, "transaction_result": False, "topics": places,
              "coordinator_epoch": 0}  # fmt: skip
    for title, values in (
        ("an epoch that stays", {"transaction_version": 2}),
        ("an older epoch", {"producer_epoch": -1}),
        ("no producer", {"producer_id": -1}),
        ("an unknown producer", {"producer_id": one.producer_id + 1_000_000, "producer_epoch": 3}),
        ("an unknown topic", {"topics": [{"name": f"{t}-none", "partition_indexes": [0]}]}),
        ("an unknown partition", {"topics": [{"name": t, "partition_indexes": [9]}]}),
        ("nowhere", {"topics": []}),
        ("the end", {"coordinator_epoch": 1}),
        ("again", {"coordinator_epoch": 1}),
        ("an older coordinator", {}),
        ("a higher epoch", {"producer_epoch": 2, "coordinator_epoch": 1, "transaction_version": 2}),
        ("the same epoch again", {"producer_epoch": 2, "coordinator_epoch": 1, "transaction_version": 2}),
        ("the epoch before", {"producer_epoch": 1, "coordinator_epoch": 2, "transaction_version": 2}),
        ("version 0, the epoch before", {"producer_epoch": 1, "coordinator_epoch": 2}),
        ("version 0, the same epoch", {"producer_epoch": 2, "coordinator_epoch": 2}),
        ("a negative coordinator", {"producer_id": other.producer_id, "producer_epoch": 1, "coordinator_epoch": -1}),
    ):
        d.ask(f"marker: {title}", "WriteTxnMarkers", 2, at, markers=[{**marker, **values}])
        d.ask(f"marker: {title}", "DescribeProducers", 0, at, topics=[{"name": t, "partition_indexes": [0, 9]}])
    d.ask(
        "markers: version 1",
        "WriteTxnMarkers",
        1,
        at,
        markers=[{**marker, "producer_epoch": 2, "coordinator_epoch": 2}],
    )
    d.ask("producers: unknown", "DescribeProducers", 0, at, topics=[{"name": f"{t}-none", "partition_indexes": [0]}])
    for title, producer, epoch, sequence in (
        ("behind the marker", one, 2, 1), ("behind the marker, from 0", one, 2, 0),
    ):  # fmt: skip
        named = producer._replace(producer_epoch=epoch)
        d.ask(f"produce: {title}", "Produce", VERIFYING, at, **s.produce_values(named, sequence=sequence))


def asked_of_readers(s: Scene) -> None:
    """Fetch and ListOffsets of a partition with committed, aborted and open transactions."""
    d, t = s.d, s.topic
    s.ended(_open_2(s), RAISING_END, True)
    s.ended(_open(s), CLASSIC_END, False)
    s.ended(_open_2(s), RAISING_END, False)
    s.ended(_open_2(s), RAISING_END, True)
    _open(s)
    at = d.leader(t)
    for isolation in (0, 1):
        for version in (4, 11, 12):
            for offset in (0, 1, 3, 6, 9, 10, 11, 99):
                partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
                d.ask(
                    f"fetch {offset}, isolation {isolation}", "Fetch", version, at, max_wait_ms=0, min_bytes=0,
                    isolation_level=isolation, topics=[{"topic": t, "partitions": [partition]}],
                )  # fmt: skip
        for version in (2, 7):
            for stamp in (-1, -2, 0, 1 << 50):
                partition = {"partition_index": 0, "timestamp": stamp}
                d.ask(
                    f"list {stamp}, isolation {isolation}", "ListOffsets", version, at,
                    isolation_level=isolation, topics=[{"name": t, "partitions": [partition]}],
                )  # fmt: skip


def asked_of_offsets(s: Scene) -> None:
    """Offsets of a group that are pending, meet plain ones, are deleted, and count or not in the end."""
    d, t = s.d, s.topic
    plain = {"generation_id_or_member_epoch": -1, "topics": [
        {"name": t, "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]}]}  # fmt: skip
    both = [{"name": t, "partition_indexes": [0, 1]}]

    def fetch(title: str, group: str) -> None:
        for stable in (False, True):
            groups = [{"group_id": group, "topics": both}]
            d.ask(f"{title}, stable {stable}", "OffsetFetch", 8, at, groups=groups, require_stable=stable)

    steps: dict[str, Callable[[str], None]] = {
        "nothing": lambda group: None,
        "plain before": lambda group: None,
        "plain meanwhile": lambda group: d.ask(f"plain {title}", "OffsetCommit", 8, at, group_id=group, **plain),
        "deleted meanwhile": lambda group: d.ask(
            f"delete {title}", "OffsetDelete", 0, at, group_id=group,
            topics=[{"name": t, "partitions": [{"partition_index": 0}]}],
        ),
        "group deleted meanwhile": lambda group: d.ask(f"delete {title}", "DeleteGroups", 2, at, groups_names=[group]),
    }  # fmt: skip
    for name, meanwhile in steps.items():
        for commit in (True, False):
            title = f"{name}, {'commit' if commit else 'abort'}"
            group = f"{t}-{name}-{commit}"
            at = d.coordinator(group)
            if name in ("plain before", "deleted meanwhile", "group deleted meanwhile"):
                d.ask(f"before {title}", "OffsetCommit", 8, at, group_id=group, **plain)
            one = s.new()
            d.ask(f"in {title}", "TxnOffsetCommit", 5, at, **s.offset_values(one.named(), group_id=group))
            fetch(f"pending {title}", group)
            meanwhile(group)
            fetch(f"meanwhile {title}", group)
            s.ended(one, RAISING_END, commit)
            fetch(f"after {title}", group)


def asked_to_show(s: Scene) -> None:
    """DescribeTransactions and ListTransactions."""
    d = s.d
    one = _open_2(s)
    at = s.at(one)
    d.ask("describe: unknown", "DescribeTransactions", 0, at, transactional_ids=[one.transactional_id, ""])
    only = f"{one.transactional_id[:-1]}[{one.transactional_id[-1]}]"
    for title, values in (
        ("one", {}), ("by state", {"state_filters": ["Ongoing"]}), ("by another state", {"state_filters": ["Empty"]}),
        ("by a strange state", {"state_filters": ["Gone"]}),
        ("by two states", {"state_filters": ["Ongoing", "Gone", "Gone"]}),
        ("by producer", {"producer_id_filters": [one.producer_id]}),
        ("by another producer", {"producer_id_filters": [one.producer_id + 1_000_000]}),
        ("by duration", {"duration_filter": 1 << 50}), ("by no duration", {"duration_filter": -1}),
        ("by a pattern that begins so", {"transactional_id_pattern": only[:-1]}),
        ("by a bad pattern", {"transactional_id_pattern": "(x"}),
    ):  # fmt: skip
        asked: dict[str, Any] = {"transactional_id_pattern": only, **values}
        d.ask(f"list: {title}", "ListTransactions", 2, at, **asked)
