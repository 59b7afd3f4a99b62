"""How share partitions begin for a group, begin anew at another offset, and end (KIP-932).

The group's log says which share partitions are initialising, initialised and deleting; their share coordinators remember
where they are. This file alone decides the order of the two. Rules:

1. What is to begin is initialising in the log before a share coordinator is asked; it is initialised in the log when that
   has answered. So a coordinator that ends in between leaves nothing that nobody knows of.
2. What a share coordinator has refused is initialising no more, and begins again with a later heartbeat.
3. What was initialising when the log was read, or for `group.share.initialize.retry.interval.ms`, is asked again: the
   answer may be lost. But never while an answer may still come: the second would take back what was acknowledged after the
   first.
4. What is to end is deleting in the log, and no more assigned, before it is asked for; it is forgotten when all share
   coordinators of the topic have answered. An administrator may ask again for what is deleting.
5. What begins anew at another offset keeps its place among what is initialised if its share coordinator refuses.
6. Of topics that are deleted nothing is remembered; share coordinators see that by themselves.
7. While a topic is deleting nothing of it begins for a member: what is left of its removal, after a failure or in a log
   that was read, is asked for first.
8. An answer counts for what was asked last of a share partition. What a coordinator of the group that is one no more has
   asked is not asked again.
9. A share coordinator may have lost what was initialised (a removal of an earlier coordinator of the group that was late,
   a log that was cut): while members come, what is initialised is looked at each `LOOK_MS`, and what is lost begins anew.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from actors.broker.groups.shard import Shard
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.records import STATE, RecordKey
from actors.broker.groups.share.state import Begun, ShareGroup
from actors.broker.groups.topics import Topics
from actors.ports import Now
from actors.wire.errors import ErrorCode, text

LOOK_MS = 60_000
NO_OFFSET = -1
"""A share partition begins where `share.auto.offset.reset` of its group says, when it is first read."""
Then = Callable[[ErrorCode], None]
Commit = Callable[[Shard, ShareGroup, Mapping[RecordKey, None], Then | None], None]
Place = tuple[bytes, int]
"""The name of a partition: (topic id, partition)."""


class ShareStateApi(Enum):
    """The requests to a share coordinator."""

    INITIALIZE = "InitializeShareGroupState"
    DELETE = "DeleteShareGroupState"
    SUMMARY = "ReadShareGroupStateSummary"


class ShareStateAnswer(NamedTuple):
    """The answer of a share coordinator for one share partition. `known`: it remembers something of it; only a summary
    says that."""

    error: ErrorCode
    message: str | None = None
    known: bool = True


class StateAsk(NamedTuple):
    """One thing to be asked. `state_epoch`, `start_offset`: of what begins. `wanted`: the group is still that of the
    broker that asks."""

    api: ShareStateApi
    key: SharePartitionKey
    state_epoch: int
    start_offset: int
    then: Callable[[ShareStateAnswer], None]
    wanted: Callable[[], bool]


class Beginnings:
    """The share partitions that begin, begin anew or end, of all share groups of one broker."""

    def __init__(
        self, topics: Topics, retry_ms: int, still: Callable[[Shard, ShareGroup], bool], commit: Commit
    ) -> None:
        """Share partitions of which none is beginning. `still`: whether a group is still what it was; `commit`: writes
        what is touched of a group."""
        self._topics = topics
        self._retry_ms = retry_ms
        self._still = still
        self._commit = commit
        self.asks: list[StateAsk] = []
        """The requests to be taken, and sent."""

    # ---- what members need

    def begin(self, shard: Shard, group: ShareGroup, touched: dict[RecordKey, None], now: Now) -> Then | None:
        """What members subscribe to, and has not begun, begins: `touched` is to be written, and the result told how
        that ended. None: there is nothing, as where nothing has changed since this was asked last."""
        if now.mono_ms >= group.way.look_ms:
            group.way.look_ms = now.mono_ms + LOOK_MS
            self._look(shard, group)
        seen = (group.changes, self._topics.version)
        if group.way.begun_at == seen and not group.initializing:
            return None
        if group.deleting:
            self._delete_on(shard, group)
        group.way.begun_at = (group.changes, self._topics.version)
        missing: dict[bytes, Begun] = {}
        for name in group.topics:
            found = self._topics.named(name)
            if found is not None and found[0] not in group.deleting:
                partitions = frozenset(range(found[1])) - self._begun(group, found[0], now)
                if partitions:
                    missing[found[0]] = Begun(name, partitions, now.wall_ms)
        if not missing:
            return None
        offsets = {(topic_id, number): NO_OFFSET for topic_id, one in missing.items() for number in one.partitions}
        return self._initialize(shard, group, missing, offsets, touched, lambda told: None)

    def _begun(self, group: ShareGroup, topic_id: bytes, now: Now) -> frozenset[int]:
        begun = group.assignable(topic_id)
        asked = frozenset(number for id, number in group.way.asked if id == topic_id)
        present = group.initializing.get(topic_id)
        if present is not None and now.wall_ms - present.wall_ms < self._retry_ms:
            begun |= present.partitions
        return begun | asked

    def waits(self, group: ShareGroup) -> bool:
        """Whether something that members subscribe to is still to begin."""
        return bool(group.initializing) or any(name in group.topics for name in group.deleting.values())

    def _delete_on(self, shard: Shard, group: ShareGroup) -> None:
        """Go on with share partitions that are deleting, and for which there is no request (rule 7)."""
        rest = {id: one for id, one in self.deleting(group).items() if one.name in group.topics}
        topics = {id: one for id, one in rest.items() if id not in group.way.ending}
        if topics:
            self.delete(shard, group, topics, lambda told: None)

    def _look(self, shard: Shard, group: ShareGroup) -> None:
        """See whether share coordinators still know what is initialised (rule 9)."""
        places = {
            (topic_id, number): NO_OFFSET
            for topic_id, one in group.initialized.items()
            if one.name in group.topics and topic_id not in group.way.ending
            for number in one.partitions
            if (topic_id, number) not in group.way.asked
        }
        number = group.way.number

        def told(found: Mapping[Place, ShareStateAnswer]) -> None:
            lost = [place for place, one in found.items() if one.error is ErrorCode.NONE and not one.known]
            if lost and group.way.number == number and self._still(shard, group):
                group.lose(_by_topic(group.initialized, lost))
                self._commit(shard, group, {RecordKey(STATE): None}, None)

        if places:
            self._ask(ShareStateApi.SUMMARY, shard, group, 0, places, told)

    # ---- what administrators ask for

    def alter(
        self,
        shard: Shard,
        group: ShareGroup,
        topics: Mapping[bytes, Begun],
        offsets: Mapping[Place, int],
        then: Callable[[Mapping[Place, ShareStateAnswer]], None],
    ) -> None:
        """Share partitions begin anew at these offsets; `then` is told what became of each."""
        touched: dict[RecordKey, None] = {}
        written = self._initialize(shard, group, topics, offsets, touched, then)
        self._commit(shard, group, touched, written)

    def delete(
        self,
        shard: Shard,
        group: ShareGroup,
        topics: Mapping[bytes, Begun],
        then: Callable[[Mapping[Place, ShareStateAnswer]], None],
    ) -> None:
        """Share partitions of these topics end; `then` is told what became of each."""
        group.end(topics)
        way = group.way
        way.number += 1
        way.ending.update(topics.keys())
        for place in [place for place in way.asked if place[0] in topics]:
            del way.asked[place]
        places = [(topic_id, number) for topic_id, one in topics.items() for number in sorted(one.partitions)]

        def gone(told: Mapping[Place, ShareStateAnswer]) -> None:
            left = {topic_id for (topic_id, _), one in told.items() if one.error is not ErrorCode.NONE}
            done = [topic_id for topic_id in topics if topic_id not in left]
            way.ending.subtract(topics.keys())
            way.ending = +way.ending
            group.ended([topic_id for topic_id in done if topic_id not in way.ending])
            if not self._still(shard, group):
                then(_all(told, ErrorCode.NOT_COORDINATOR))
            elif done:
                self._commit(shard, group, {RecordKey(STATE): None}, lambda error: then(_all(told, error)))
            else:
                then(told)

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._ask(ShareStateApi.DELETE, shard, group, 0, dict.fromkeys(places, NO_OFFSET), gone)
            else:
                way.ending.subtract(topics.keys())
                way.ending = +way.ending
                then({place: ShareStateAnswer(error, text(error)) for place in places})

        self._commit(shard, group, {RecordKey(STATE): None}, written)

    def delete_all(self, shard: Shard, group: ShareGroup, then: Then) -> None:
        """All that share coordinators remember for a group ends; `then` is told the first error."""
        topics: dict[bytes, Begun] = {}
        for begun in (group.initialized, group.initializing):
            for topic_id, one in begun.items():
                known = topics.get(topic_id)
                topics[topic_id] = one if known is None else one._replace(partitions=known.partitions | one.partitions)
        topics |= self.deleting(group)
        if not topics:
            then(ErrorCode.NONE)
            return

        def ended(told: Mapping[Place, ShareStateAnswer]) -> None:
            failed = [one.error for one in told.values() if one.error not in (ErrorCode.NONE, *NO_TOPIC)]
            then(failed[0] if failed else ErrorCode.NONE)

        self.delete(shard, group, topics, ended)

    def deleting(self, group: ShareGroup) -> dict[bytes, Begun]:
        """What is deleting, of topics that exist: all of their partitions, as it is not remembered which."""
        found = {}
        for topic_id, name in group.deleting.items():
            topic = self._topics.named(name)
            if topic is not None and topic[0] == topic_id:
                found[topic_id] = Begun(name, frozenset(range(topic[1])))
        return found

    # ---- loading, and topics that go

    def loaded(self, shard: Shard, group: ShareGroup, now: Now) -> None:
        """The log was read: what is initialising counts from now, and what is there no more is forgotten."""
        for topic_id, begun in group.initializing.items():
            group.initializing[topic_id] = begun._replace(wall_ms=now.wall_ms)
        known = {*group.initializing, *group.initialized, *group.deleting}
        self.forget(shard, group, frozenset(id for id in known if self._topics.name(id) is None))

    def forget(self, shard: Shard, group: ShareGroup, topic_ids: frozenset[bytes]) -> None:
        """Forget topics that do not exist any more."""
        if topic_ids and group.forget(topic_ids):
            self._commit(shard, group, {RecordKey(STATE): None}, None)

    # ---- inside

    def _initialize(
        self,
        shard: Shard,
        group: ShareGroup,
        topics: Mapping[bytes, Begun],
        offsets: Mapping[Place, int],
        touched: dict[RecordKey, None],
        then: Callable[[Mapping[Place, ShareStateAnswer]], None],
    ) -> Then:
        """Have share partitions initialised, once `touched` is committed: the result is told that."""
        group.begin(topics)
        way = group.way
        way.number += 1
        mine = way.number
        way.asked.update(dict.fromkeys(offsets, mine))
        touched[RecordKey(STATE)] = None
        state_epoch = group.epoch

        def still_mine() -> list[Place]:
            places = [place for place in offsets if way.asked.get(place) == mine]
            for place in places:
                del way.asked[place]
            return places

        def answered(told: Mapping[Place, ShareStateAnswer]) -> None:
            settled = still_mine()
            if not self._still(shard, group):
                then(_all(told, ErrorCode.NOT_COORDINATOR))
                return
            for begun in (True, False):
                places = [place for place in settled if (told[place].error is ErrorCode.NONE) is begun]
                group.settle(_by_topic(topics, places), begun=begun)
            self._commit(shard, group, {RecordKey(STATE): None}, lambda error: then(_all(told, error)))

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE and not self._still(shard, group):
                error = ErrorCode.NOT_COORDINATOR
            if error is ErrorCode.NONE:
                self._ask(ShareStateApi.INITIALIZE, shard, group, state_epoch, offsets, answered)
            else:
                group.settle(_by_topic(topics, still_mine()), begun=False)
                then({place: ShareStateAnswer(error, text(error)) for place in offsets})

        return written

    def _ask(
        self,
        api: ShareStateApi,
        shard: Shard,
        group: ShareGroup,
        state_epoch: int,
        offsets: Mapping[Place, int],
        then: Callable[[Mapping[Place, ShareStateAnswer]], None],
    ) -> None:
        """Ask for each share partition; `then` when all are answered."""
        told: dict[Place, ShareStateAnswer] = {}
        waiting = set(offsets)

        def wanted() -> bool:
            return self._still(shard, group)

        def answered(place: Place, one: ShareStateAnswer) -> None:
            told[place] = one
            waiting.discard(place)
            if not waiting:
                then(told)

        if not offsets:
            then(told)
        for place, offset in sorted(offsets.items()):
            key = SharePartitionKey(group.id, *place)
            then_one: Callable[[ShareStateAnswer], None] = lambda one, place=place: answered(place, one)  # type: ignore[misc]  # noqa: E731
            self.asks.append(StateAsk(api, key, state_epoch, offset, then_one, wanted))


NO_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
"""The topic has gone meanwhile, and what was remembered with it."""


def _all(told: Mapping[Place, ShareStateAnswer], error: ErrorCode) -> Mapping[Place, ShareStateAnswer]:
    """The results, or an error of the group's log for all of them."""
    return told if error is ErrorCode.NONE else {place: ShareStateAnswer(error, text(error)) for place in told}


def _by_topic(topics: Mapping[bytes, Begun], places: Sequence[Place]) -> dict[bytes, Begun]:
    found: dict[bytes, set[int]] = {}
    for topic_id, number in places:
        found.setdefault(topic_id, set()).add(number)
    return {topic_id: topics[topic_id]._replace(partitions=frozenset(numbers)) for topic_id, numbers in found.items()}
