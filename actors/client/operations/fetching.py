"""Reading partitions: whole batches as they lie in the frames, with positions that are kept from batch headers.

Rules:

1. A position moves to behind the last whole batch of an answer, so control batches and gaps of compaction move it too, and
   a reader never waits for a record that is not delivered.
2. No choice is made for the user: an offset that the log does not have, a log that was cut behind what was read, and a topic
   that was deleted and made anew are told as such.
3. Each broker has a fetch session (KIP-227) and is told only what has changed. Whatever goes wrong with it begins a new one.

KIP-227 (sessions), KIP-320 (leader epochs), KIP-392 (the replica in the rack), KIP-516 (topic ids).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from actors.client.asks import Ask, Know, Node, Pause, Purpose, Reply, Steps
from actors.client.connection import Lost
from actors.client.errors import Action, ClientError, action, refused
from actors.client.metadata import Metadata
from actors.client.operations.leaders import Part, by_topic
from actors.client.operations.offsets import EARLIEST, EpochEnd, Found, epoch_ends, list_offsets
from actors.client.properties import ClientConfig
from actors.wire.errors import ErrorCode
from actors.wire.messages import ZERO_UUID, message
from fastpath.records import batch as batches

BY_NAME_LAST = 12
"""The last version of Fetch that names topics; later versions have ids."""
SESSIONS_FIRST = 7
SESSION_EPOCH_MAX = (1 << 31) - 1
ABSENCES_MAX = 8
"""How often brokers may say that a topic does not exist, before it is believed: a broker that has just begun does not
know."""
NOT_FETCHED = -1


class Fetched(NamedTuple):
    """Batches of one partition."""

    topic: str
    partition: int
    offset: int
    """The position that was asked for: records before it in the first batch are to be left out."""
    records: memoryview
    """The bytes of whole batches, then possibly one that is cut off. It lies in the frame of the answer."""
    next_offset: int
    """The position behind the last whole batch."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    """The aborted transactions in these batches, (producer id, first offset); with READ_COMMITTED only."""
    leader_epoch: int = NOT_FETCHED
    """The leader epoch of the last whole batch: what a commit of `next_offset` tells beside it."""


class OutOfRange(NamedTuple):
    """The log does not have an offset: it was deleted, or was never there. `Fetcher.seek` goes on elsewhere."""

    topic: str
    partition: int
    offset: int


class Diverged(NamedTuple):
    """A new leader's log ends before what was read: records up to `offset` were lost there. `Fetcher.seek` goes on."""

    topic: str
    partition: int
    offset: int
    end_offset: int
    """The offset up to which what was read is in the log; where the leader knows nothing of that, the log's beginning."""


class Failed(NamedTuple):
    """A partition that is not read any more, and why."""

    topic: str
    partition: int
    error: ClientError


Result = Fetched | OutOfRange | Diverged | Failed


class _Place:
    """The state of a reader in one partition."""

    __slots__ = ("absences", "checked_epoch", "epoch", "halted", "offset", "replica")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.epoch = NOT_FETCHED
        """The leader epoch of the last batch that was read."""
        self.checked_epoch = NOT_FETCHED
        """The leader epoch in which the position was found to be in the log."""
        self.replica = -1
        """The broker that the leader has sent this reader to; -1: none."""
        self.absences = 0
        self.halted = False
        """Whether the partition is not read until `seek`."""


class _Session:
    """A fetch session with one broker."""

    __slots__ = ("by_id", "epoch", "id", "sent")

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0
        self.sent: dict[Part, tuple[int, int]] = {}
        """The position and leader epoch of each partition as the broker knows them."""
        self.by_id: bool | None = None


class Fetcher:
    """A reader of some partitions. `fetch()` once gives what all brokers have; `fetch_from(node)` what one has, and may
    be under way for several brokers at once, but only once for each."""

    def __init__(
        self, config: ClientConfig, positions: Mapping[Part, int], ids: Mapping[str, bytes] | None = None
    ) -> None:
        """`ids`: those of the topics for which the positions were found, where they are known."""
        self._config = config
        self._places = {part: _Place(offset) for part, offset in positions.items()}
        self._sessions: dict[int, _Session] = {}
        self._ids: dict[str, bytes] = dict(ids or {})
        """The id of a topic when it was seen first, by name; another id is another topic."""
        self._stale = False

    def position(self, topic: str, partition: int) -> int:
        """The offset that is read next."""
        return self._places[topic, partition].offset

    def positions(self) -> dict[Part, int]:
        """The offset that is read next, of each partition."""
        return {part: place.offset for part, place in self._places.items()}

    def seek(self, topic: str, partition: int, offset: int, epoch: int = NOT_FETCHED) -> None:
        """Set the position of a partition, or begin to read it. `epoch`: the leader epoch of the record before it, if that
        was read: the leader is asked first whether it has it."""
        place = self._places[topic, partition] = _Place(offset)
        if epoch >= 0:
            place.epoch, place.checked_epoch = epoch, 0

    def leave(self, topic: str, partition: int) -> None:
        """Stop reading a partition."""
        self._places.pop((topic, partition), None)

    def prepare(self) -> Steps[tuple[list[int], list[Result]]]:
        """Learn which brokers are to be asked. Returns them, and what is to be told before."""
        active = [part for part, place in self._places.items() if not place.halted]
        metadata: Metadata = yield Know(tuple(dict.fromkeys(topic for topic, _ in active)), fresh=self._stale)
        self._stale = False
        told: list[Result] = [one for part in active if (one := self._absent(metadata, part)) is not None]
        told += yield from self._check(metadata)
        nodes = {self._node(metadata, part) for part, place in self._places.items() if not place.halted}
        return sorted(nodes - {-1}), told

    def fetch(self) -> Steps[list[Result]]:
        """Ask each broker once, all at the same time; empty: nothing new came within fetch.max.wait.ms."""
        nodes, told = yield from self.prepare()
        metadata: Metadata = yield Know(())
        if not nodes:
            self._stale = True
            if not told:
                yield Pause(attempt=1)
            return told
        replies = yield [self._ask(metadata, node) for node in nodes]
        for node, reply in zip(nodes, replies, strict=True):
            told += self._take(metadata, node, reply)
        if self._stale and not told:
            yield Pause()
        return told

    def fetch_from(self, node: int) -> Steps[list[Result]]:
        """Ask one of the brokers that `prepare` has returned."""
        metadata: Metadata = yield Know(())
        replies = yield [self._ask(metadata, node)]
        told = self._take(metadata, node, replies[0])
        if self._stale and not told:
            yield Pause()
        return told

    # ---- whom to ask

    def _node(self, metadata: Metadata, part: Part) -> int:
        """The broker to ask for a partition; -1: none that is known, or it is not known yet whether the leader has what
        was read, or `prepare` has not seen the topic."""
        if part[0] not in metadata.topics or part[0] not in self._ids or self._is_unchecked(metadata, part):
            return -1
        replica = self._places[part].replica
        node = replica if replica in metadata.brokers else metadata.leader(*part)
        return node if node in metadata.brokers else -1

    def _absent(self, metadata: Metadata, part: Part) -> Failed | None:
        """The reason why a partition cannot be read any more, by what the brokers say; None: it can be read."""
        topic, partition = part
        place, known = self._places[part], metadata.topics.get(topic)
        if known is None or partition not in known.partitions:
            code = metadata.refused.get(topic, 0)
            place.absences += 1
            self._stale = True
            if action(code) is Action.FINAL:
                return self._failed(part, refused(f"topic {topic}", code))
            if place.absences < ABSENCES_MAX:
                return None
            lacks = f"topic {topic} does not exist" if known is None else f"topic {topic} has no partition {partition}"
            return self._failed(part, ClientError(lacks, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        place.absences = 0
        before = self._ids.setdefault(topic, known.id)
        if before == ZERO_UUID:  # it was told by a broker before Kafka 2.8, and another one knows its id
            before = self._ids[topic] = known.id
        if known.id not in (before, ZERO_UUID):
            sentence = f"topic {topic} was deleted and made anew while it was read"
            return self._failed(part, ClientError(sentence, ErrorCode.UNKNOWN_TOPIC_ID))
        return None

    def _failed(self, part: Part, error: ClientError) -> Failed:
        self._places[part].halted = True
        return Failed(*part, error)

    def _check(self, metadata: Metadata) -> Steps[list[Result]]:
        """Ask new leaders whether they have what was read (KIP-320)."""
        wanted = {
            part: (place, metadata.leader_epoch(*part))
            for part, place in self._places.items()
            if not place.halted and self._is_unchecked(metadata, part) and metadata.leader(*part) in metadata.brokers
        }
        if not wanted:
            return []
        told: list[Result] = []
        ends: dict[Part, EpochEnd | ClientError] = yield from epoch_ends(
            {part: place.epoch for part, (place, _) in wanted.items()}
        )
        ends = yield from self._known_ends(ends)
        for part, end in ends.items():
            place, epoch = wanted[part]
            if self._places.get(part) is not place:  # it was left meanwhile, or is read from elsewhere
                continue
            if isinstance(end, ClientError):
                self._stale = True
                if action(end.code) is Action.FINAL:
                    told.append(self._failed(part, end))
                continue
            place.checked_epoch = epoch
            if 0 <= end.end_offset < place.offset:
                place.halted = True
                told.append(Diverged(*part, place.offset, end.end_offset))
        return told

    def _known_ends(self, ends: dict[Part, EpochEnd | ClientError]) -> Steps[dict[Part, EpochEnd | ClientError]]:
        """The ends of epochs, with the beginning of its log where a leader knows nothing of one: nothing behind that is
        proven to be what was read. Java's consumers begin anew then, by auto.offset.reset."""
        unknown = [part for part, end in ends.items() if isinstance(end, EpochEnd) and end.end_offset < 0]
        if not unknown:
            return ends
        begins: dict[Part, Found | ClientError] = yield from list_offsets(unknown, EARLIEST)
        return ends | {
            part: EpochEnd(-1, one.offset) if isinstance(one, Found) else one for part, one in begins.items()
        }

    def _is_unchecked(self, metadata: Metadata, part: Part) -> bool:
        """Whether there is a new leader that was not asked yet."""
        place = self._places[part]
        return place.epoch >= 0 and metadata.leader_epoch(*part) > place.checked_epoch >= 0

    # ---- requests

    def _ask(self, metadata: Metadata, node: int) -> Ask:
        parts = [
            part for part, place in self._places.items() if not place.halted and self._node(metadata, part) == node
        ]
        by_id = all(metadata.topics[topic].id != ZERO_UUID for topic, _ in parts)
        config = self._config
        return Ask(
            Node(node),
            "Fetch",
            lambda version: self._build(metadata, node, parts, version),
            timeout_ms=config.fetch_wait_ms + config.request_timeout_ms,
            purpose=Purpose.FETCH,
            versions=(4, 1 << 15 if by_id else BY_NAME_LAST),
        )

    def _build(self, metadata: Metadata, node: int, parts: list[Part], version: int) -> Any:
        config, kind = self._config, message("FetchRequest")
        session, by_id = self._sessions.setdefault(node, _Session()), version > BY_NAME_LAST
        if session.by_id is not by_id or version < SESSIONS_FIRST:
            session = self._sessions[node] = _Session()
            session.by_id = by_id
        places = {part: self._places.get(part) for part in parts}  # some may have been left since they were chosen
        wanted = {
            part: (place.offset, metadata.leader_epoch(*part))
            for part, place in places.items()
            if place is not None and not place.halted
        }
        changed = [part for part, state in wanted.items() if session.sent.get(part) != state]
        forgotten = [part for part in session.sent if part not in wanted]
        session.sent = wanted

        def topic(name: str) -> dict[str, Any]:
            return {"topic_id": self._ids[name]} if by_id else {"topic": name}

        return kind(
            replica_id=-1,
            max_wait_ms=config.fetch_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=config.isolation,
            session_id=session.id,
            session_epoch=session.epoch if version >= SESSIONS_FIRST else -1,
            rack_id=config.rack,
            topics=[
                kind.FetchTopic(
                    **topic(name),
                    partitions=[
                        kind.FetchPartition(
                            partition=one,
                            fetch_offset=wanted[name, one][0],
                            current_leader_epoch=wanted[name, one][1],
                            partition_max_bytes=config.partition_fetch_bytes,
                        )
                        for one in numbers
                    ],
                )
                for name, numbers in by_topic(changed).items()
            ],
            forgotten_topics_data=[
                kind.ForgottenTopic(**topic(name), partitions=numbers)
                for name, numbers in by_topic(forgotten).items()
                if name in self._ids or not by_id
            ],
        )

    # ---- answers

    def _take(self, metadata: Metadata, node: int, reply: Reply | ClientError) -> list[Result]:
        if isinstance(reply, ClientError):
            self._sessions.pop(node, None)
            if not isinstance(reply, Lost):
                raise reply
            self._stale = True
            for one in self._places.values():
                one.replica = -1 if one.replica == node else one.replica
            return []
        answer, session = reply.message, self._sessions.setdefault(node, _Session())
        asked = session.sent
        if answer.error_code:
            del self._sessions[node]
            if action(answer.error_code) is Action.FINAL:
                raise refused(f"Fetch at broker {node}", answer.error_code)
            # A session that was lost is begun anew at once; what refuses a new one is not asked without a pause.
            self._stale = action(answer.error_code) is Action.METADATA or not session.id or self._stale
            return []
        if answer.session_id:
            session.id = answer.session_id
            session.epoch = 1 if session.epoch == SESSION_EPOCH_MAX else session.epoch + 1
        else:
            session.id, session.epoch, session.sent = 0, 0, {}
        names = {id: name for name, id in self._ids.items()}
        told: list[Result] = []
        for topic in answer.responses:
            name = names.get(bytes(topic.topic_id)) if reply.version > BY_NAME_LAST else topic.topic
            for data in topic.partitions:
                part = name or "", data.partition_index
                sent = asked.get(part)
                place = self._places.get(part)
                if place is not None and not place.halted and sent is not None and sent[0] == place.offset:
                    result = self._partition(metadata, node, part, place, sent[1], data)
                    if result is not None:
                        told.append(result)
        return told

    def _partition(
        self, metadata: Metadata, node: int, part: Part, place: _Place, epoch: int, data: Any
    ) -> Result | None:
        """The result for one partition; None: there is nothing to tell. `epoch`: the leader epoch that was asked in."""
        if data.current_leader is not None:
            metadata.new_leader(*part, data.current_leader.leader_id, data.current_leader.leader_epoch)
        code = data.error_code
        if code:
            if node == place.replica:  # the leader is to say so, before it is believed
                place.replica = -1
                return None
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                place.halted = True
                return OutOfRange(*part, place.offset)
            if action(code) is Action.FINAL:
                return self._failed(part, refused(f"partition {part[0]}/{part[1]}", code))
            self._stale = True
            return None
        if data.preferred_read_replica >= 0 and data.preferred_read_replica != node:
            place.replica = data.preferred_read_replica
            self._stale = self._stale or place.replica not in metadata.brokers  # a broker that began since
            return None
        place.checked_epoch = max(place.checked_epoch, epoch)
        records = memoryview(data.records or b"")
        if not len(records):
            return None
        try:
            found = batches.columns(records, fields=("last_offset", "epoch"))
        except batches.CorruptBatch as error:
            return self._failed(part, ClientError(f"partition {part[0]}/{part[1]} at offset {place.offset}: {error}"))
        if not len(found["last_offset"]):
            return self._failed(
                part,
                ClientError(
                    f"partition {part[0]}/{part[1]} at offset {place.offset}: the broker sent {len(records)} bytes and "
                    f"no whole batch"
                ),
            )
        before, place.offset = place.offset, max(place.offset, int(found["last_offset"][-1]) + 1)
        place.epoch = int(found["epoch"][-1])
        aborted = tuple((one.producer_id, one.first_offset) for one in data.aborted_transactions or ())
        return Fetched(
            *part, before, records, place.offset,
            data.high_watermark, data.last_stable_offset, data.log_start_offset, aborted, place.epoch,
        )  # fmt: skip


def fetcher(config: ClientConfig, parts: Iterable[Part], offset: int) -> Fetcher:
    """A fetcher that begins everywhere at the same offset."""
    return Fetcher(config, dict.fromkeys(parts, offset))
