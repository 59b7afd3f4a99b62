"""The state of share partitions, as this broker asks share coordinators to keep it (KIP-932).

What is asked is one entry of an InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState,
DeleteShareGroupState or ReadShareGroupStateSummary; what comes back is the entry of the answer. This file alone decides
which broker is asked, what shares a request, and what is tried again. Rules:

1. The leader of the key's partition of `__share_group_state` is asked; this broker asks itself without a connection.
   Without the topic the controller is asked to make it.
2. A broker has one request at a time of an API and a group. What comes up meanwhile shares the next one,
   `ENTRIES_A_REQUEST` entries at most where one alone has no more. Requests leave at the end of a turn.
3. Of one share partition one entry of an API is under way; the others follow in their order, also where it is tried
   again. So states are written in the order in which they came about. What begins and what ends it stand in one line, so
   that no removal comes behind the beginning that followed it.
4. A coordinator that cannot be reached, is still loading or is no more the coordinator is asked again: soon, and then twice
   as late each time, up to `RETRY_MS_MAX`, until `GIVEN_UP_MS` have passed. The caller then hears the last error. What was
   written and not answered is written again: it says the same.
5. `then` is called once, with a result of the coordinator or one that is made here, and never within the call that asks.
6. What nobody wants any more, as the group has another coordinator, is not asked, and not asked again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from actors.broker.coordinators.coordination import partition_of
from actors.broker.groups.share.delivery.in_flight import StateBatch
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.metadata.topic_names import SHARE_STATE_TOPIC
from actors.node.net.channels import ChannelError, Channels
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.calls import Lane
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import message

CODES = {int(code): code for code in ErrorCode}
RETRY_MS, RETRY_MS_MAX = 20, 1_000
GIVEN_UP_MS = 30_000
TIMEOUT_MS = 30_000
ENTRIES_A_REQUEST = 10_000
"""The most entries of a request: a partition is one entry, and each of its state batches."""
TRANSIENT = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
    )
)
"""The errors with which the coordinator cannot tell now. UNKNOWN_TOPIC_OR_PARTITION: its metadata is behind this
broker's."""

Wanted = Callable[[], bool]
"""A function that says whether the caller still wants what it has asked for."""
Then = Callable[[Any], None]
"""A function that gets the `PartitionResult` of the answer, or one that this broker has made: with an error code and
its text."""


class _Api(NamedTuple):
    """One API of share coordinators: how its entries are called in its request."""

    name: str
    topic: str
    line: str
    """The name of the APIs that share a line: they are asked about a share partition in the order in which they came
    up, one at a time."""

    def request(self, group: str, asks: "Sequence[_Ask]") -> Any:
        """One request for several share partitions of a group."""
        kind = message(f"{self.name}Request")
        topics: dict[bytes, list[Any]] = {}
        for ask in asks:
            topics.setdefault(ask.key.topic_id, []).append(ask.data)
        data = getattr(kind, self.topic)
        return kind(group_id=group, topics=[data(topic_id=id, partitions=found) for id, found in topics.items()])

    def failed(self, number: int, code: ErrorCode, why: str) -> Any:
        """The result of a share partition if no coordinator has said anything of it."""
        return message(f"{self.name}Response").PartitionResult(partition=number, error_code=code, error_message=why)


INITIALIZE = _Api("InitializeShareGroupState", "InitializeStateData", "life")
READ = _Api("ReadShareGroupState", "ReadStateData", "read")
WRITE = _Api("WriteShareGroupState", "WriteStateData", "write")
DELETE = _Api("DeleteShareGroupState", "DeleteStateData", "life")
SUMMARY = _Api("ReadShareGroupStateSummary", "ReadStateSummaryData", "summary")


class _Ask:
    """One entry on its way. `until_ms`: it is not tried again from then on."""

    __slots__ = ("api", "data", "entries", "key", "place", "retry_ms", "then", "until_ms", "wanted")

    def __init__(
        self, api: _Api, key: SharePartitionKey, data: Any, entries: int, then: Then, until_ms: int, wanted: Wanted
    ) -> None:
        self.api = api
        self.key = key
        self.data = data
        self.entries = entries
        self.then = then
        self.until_ms = until_ms
        self.wanted = wanted
        self.retry_ms = RETRY_MS
        self.place = key.coordinator_key


_Line = tuple[int, _Api, str]
"""The key of a line of requests: (broker, API, group)."""


class SharePersister:
    """The requests of one broker to share coordinators."""

    def __init__(
        self,
        runtime: Runtime,
        channels: Channels,
        cache: MetadataCache,
        create: Callable[[Iterable[str]], None],
    ) -> None:
        """A persister with nothing asked. `create`: have the controller make topics."""
        self._runtime = runtime
        self._channels = channels
        self._cache = cache
        self._create = create
        self._listener = runtime.config.inter_broker_listener
        self._waiting: dict[tuple[str, SharePartitionKey], deque[_Ask]] = {}
        """The entries that wait, by the API's line and the key: the one that is under way and those behind it.
        Invariant: none is empty."""
        self._lines: dict[_Line, deque[_Ask]] = {}
        """The entries that a broker is asked next. Invariant: none is empty."""
        self._asked: set[_Line] = set()
        """The lines of which a request is under way."""
        self._due: list[_Ask] = []
        """The entries that are placed at the end of the turn."""
        self._again: dict[int, list[_Ask]] = {}
        """The entries that are tried again, by time. A timer runs for each time."""

    # ---- what callers ask

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, then: Then, wanted: Wanted = lambda: True
    ) -> None:
        """Begin a share partition. `start_offset` -1: where `share.auto.offset.reset` says, once it is read."""
        data = message("InitializeShareGroupStateRequest").PartitionData(
            partition=key.number, state_epoch=state_epoch, start_offset=start_offset
        )
        self._ask(INITIALIZE, key, data, 1, then, wanted)

    def read(self, key: SharePartitionKey, leader_epoch: int, then: Then) -> None:
        """Read the whole state of a share partition, for the leader of that epoch: the coordinator refuses earlier
        leaders from then on."""
        data = message("ReadShareGroupStateRequest").PartitionData(partition=key.number, leader_epoch=leader_epoch)
        self._ask(READ, key, data, 1, then)

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        then: Then,
    ) -> None:
        """Write what has changed of a share partition since the last write. Errors that end a leadership:
        FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH."""
        kind = message("WriteShareGroupStateRequest")
        data = kind.PartitionData(
            partition=key.number,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=[kind.StateBatch(**one._asdict()) for one in batches],
        )
        self._ask(WRITE, key, data, 1 + len(batches), then)

    def delete(self, key: SharePartitionKey, then: Then, wanted: Wanted = lambda: True) -> None:
        """Forget a share partition."""
        data = message("DeleteShareGroupStateRequest").PartitionData(partition=key.number)
        self._ask(DELETE, key, data, 1, then, wanted)

    def summary(self, key: SharePartitionKey, leader_epoch: int, then: Then, wanted: Wanted = lambda: True) -> None:
        """Read the epochs of a share partition, its start offset and its count of completed deliveries."""
        data = message("ReadShareGroupStateSummaryRequest").PartitionData(
            partition=key.number, leader_epoch=leader_epoch
        )
        self._ask(SUMMARY, key, data, 1, then, wanted)

    # ---- on its way

    def _ask(
        self,
        api: _Api,
        key: SharePartitionKey,
        data: Any,
        entries: int,
        then: Then,
        wanted: Wanted = lambda: True,
    ) -> None:
        ask = _Ask(api, key, data, entries, then, self._runtime.now.mono_ms + GIVEN_UP_MS, wanted)
        line = self._waiting.setdefault((api.line, key), deque())
        line.append(ask)
        if len(line) == 1:
            self._due.append(ask)

    @property
    def gathers(self) -> bool:
        """Whether `end_turn` has something to do."""
        return bool(self._due)

    def end_turn(self) -> None:
        """Send what has come up in the turn."""
        if self._due:
            due, self._due = self._due, []
            for ask in due:
                self._place(ask)
            self._send()

    def _place(self, ask: _Ask) -> None:
        if not ask.wanted():
            self._unwanted(ask)
            return
        leader = self._leader(ask.place)
        if leader < 0:
            self._retry(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, "no share coordinator is known")
        else:
            self._lines.setdefault((leader, ask.api, ask.key.group), deque()).append(ask)

    def _leader(self, place: str) -> int:
        image = self._cache.image
        topic = image.topic(SHARE_STATE_TOPIC)
        if topic < 0:
            self._create([SHARE_STATE_TOPIC])
            return -1
        row = image.partition(topic, partition_of(place, len(image.topic_partitions(topic))))
        leader = image.leader(row) if row >= 0 else -1
        return leader if leader >= 0 and self._cache.endpoint(leader, self._listener) is not None else -1

    def _send(self) -> None:
        for line in [one for one in self._lines if one not in self._asked]:
            self._send_line(line)

    def _send_line(self, line: _Line) -> None:
        asks = self._take(line)
        broker, api, group = line
        if not asks:
            return
        endpoint = self._cache.endpoint(broker, self._listener)
        if endpoint is None:
            for ask in asks:
                self._retry(ask, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the share coordinator cannot be reached")
            return

        def answered(reply: Any) -> None:
            self._asked.discard(line)
            self._answered(asks, reply)
            self._send()

        self._asked.add(line)
        if broker == self._runtime.config.broker_id:
            self._channels.itself(api.name, api.request(group, asks), answered, TIMEOUT_MS)
            return
        self._channels.peer(
            ("share state", broker),
            (endpoint.host, endpoint.port),
            api.name,
            api.request(group, asks),
            answered,
            TIMEOUT_MS,
            lane=Lane.DATA,
        )

    def _take(self, line: _Line) -> list[_Ask]:
        """The next entries of a line that are still wanted."""
        queue, entries = self._lines[line], 0
        taken: list[_Ask] = []
        while queue and (not taken or entries + queue[0].entries <= ENTRIES_A_REQUEST):
            ask = queue.popleft()
            if ask.wanted():
                taken.append(ask)
                entries += ask.entries
            else:
                self._unwanted(ask)
        if not queue:
            del self._lines[line]
        return taken

    def _answered(self, asks: Sequence[_Ask], reply: Any) -> None:
        if isinstance(reply, ChannelError):
            for ask in asks:
                self._retry(ask, ErrorCode.NETWORK_EXCEPTION, str(reply))
            return
        results = {(topic.topic_id, one.partition): one for topic in reply.results for one in topic.partitions}
        for ask in asks:
            result = results.get((ask.key.topic_id, ask.key.number))
            if result is None:
                why = "the share coordinator's answer leaves it out"
                self._end(ask, ask.api.failed(ask.key.number, ErrorCode.UNKNOWN_SERVER_ERROR, why))
            elif CODES.get(result.error_code) in TRANSIENT:
                self._retry(ask, CODES[result.error_code], result.error_message)
            else:
                self._end(ask, result)

    def _retry(self, ask: _Ask, code: ErrorCode, why: str | None) -> None:
        now_ms = self._runtime.now.mono_ms
        if now_ms + ask.retry_ms > ask.until_ms:
            self._end(ask, ask.api.failed(ask.key.number, code, why or text(code)))
            return
        due_ms = now_ms + ask.retry_ms
        ask.retry_ms = min(2 * ask.retry_ms, RETRY_MS_MAX)
        if due_ms not in self._again:
            self._again[due_ms] = []
            self._runtime.waiting.timers.at(due_ms, lambda: self._due.extend(self._again.pop(due_ms)))
        self._again[due_ms].append(ask)

    def _unwanted(self, ask: _Ask) -> None:
        self._end(ask, ask.api.failed(ask.key.number, ErrorCode.NOT_COORDINATOR, text(ErrorCode.NOT_COORDINATOR)))

    def _end(self, ask: _Ask, result: Any) -> None:
        line = self._waiting[ask.api.line, ask.key]
        line.popleft()
        if line:
            self._due.append(line[0])
        else:
            del self._waiting[ask.api.line, ask.key]
        ask.then(result)
