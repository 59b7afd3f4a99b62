"""What controllers push, and what brokers obey (KIP-291, push mode; rows R291-36, R291-37, R291-60, R291-61 and R291-64).

1. Only an active controller pushes, under its own epoch, and only states of partitions that were committed.
2. A controller has one request to a broker in flight, as long as their connection lasts.
3. A broker hears of a state of a partition by UpdateMetadata, and has answered it, before LeaderAndIsr names that state.
4. A broker obeys no controller of an older epoch than one that it has obeyed.
5. In the end each broker that is told knows what is committed, as the others do.
"""

from typing import Any

from actors.metadata.image import Image
from actors.wire import framing
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import MetadataLog, partitions
from tests.simulator.cluster import Cluster

NAMES = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata"}
NOTHING = frozenset[Any]()
Call = tuple[Any, ...]
"""(controller, its life, its connection, correlation id)"""
Asked = tuple[str, Any]
"""A request as (name, body)."""


class PushedMetadata:
    name = "pushed_metadata"

    def __init__(self, log: MetadataLog, cluster: Cluster) -> None:
        self._log = log
        self._cluster = cluster
        self.requests = 0
        """How many were pushed, for tests."""
        self._committed: dict[tuple[bytes, int], set[Any]] = {}
        """Partition -> the states that it has had."""
        self._asked: dict[Call, Asked] = {}
        self._in_flight: dict[tuple[str, int, str], tuple[Any, Call]] = {}
        """(controller, its life, broker) -> (connection, call) that is not answered yet."""
        self._told: dict[tuple[str, int], set[Any]] = {}
        """(broker, its life) -> states of partitions that UpdateMetadata has told it."""
        self._obeyed: dict[tuple[str, int], int] = {}
        """(broker, its life) -> the highest controller epoch that it has obeyed."""
        self._fresh: list[tuple[str, Any]] = []
        """Requests of the turn that runs."""

    def metadata(self, image: Any, batch: Any) -> None:
        """A batch is committed."""
        for key, row in partitions(image):
            self._committed.setdefault(key, set()).add(
                (
                    image.leader(row),
                    image.leader_epoch(row),
                    image.partition_epoch(row),
                    image.isr(row),
                    image.replicas(row),
                )
            )

    def sent(self, link: Any, sender: Any, frame: memoryview) -> None:
        """Look at a frame that leaves: a pushed request, or the answer to one."""
        conn = link.conns[sender.name]
        if conn >= 0:
            if self._asked:
                self._answered(link, sender, frame)
            return
        key = int.from_bytes(frame[:2], "big")
        if key in NAMES and sender.name.startswith("c") and sender.name[1:].isdigit():
            header, position = framing.decode_request_header(frame)
            request = framing.decode_request(NAMES[key], header.api_version, frame, position)
            self._pushed(link, sender, (sender.name, sender.life, conn, header.correlation_id), NAMES[key], request)

    def turned(self, process: Any) -> None:
        """What the turn has committed is known now."""
        fresh, self._fresh = self._fresh, []
        for controller, request in fresh:
            for topic in request.topic_states:
                for state in topic.partition_states:
                    self._is_committed(controller, topic, state)

    def finish(self) -> None:
        """The cluster is healthy and quiet."""
        wanted = _known(self._log.image)
        for broker in self._cluster.brokers.values():
            if broker.alive and broker.config.is_pushed:
                found = _known(broker.image)
                if found != wanted:
                    more = {key: (found.get(key), wanted.get(key)) for key in {*found, *wanted}}
                    wrong = {key: pair for key, pair in more.items() if pair[0] != pair[1]}
                    raise Violation(self.name, f"{broker.name} knows and is to know: {wrong}")

    # ---- inside

    def _pushed(self, link: Any, sender: Any, call: Call, name: str, request: Any) -> None:
        self.requests += 1
        role, broker = sender.node.controller, link.other(sender)
        if not role.active or role.epoch != request.controller_epoch or role.me != request.controller_id:
            raise Violation(
                self.name, f"{sender.name} pushes {name} of epoch {request.controller_epoch}, active: {role.active}"
            )
        place = sender.name, sender.life, broker.name
        before = self._in_flight.get(place)
        if before is not None and before[0] is link and link.open:
            raise Violation(
                self.name, f"{sender.name} sends {broker.name} {name} and has had no answer to a request before"
            )
        self._in_flight[place] = link, call
        self._asked[call] = name, request
        if name == "StopReplica":
            return
        self._fresh.append((sender.name, request))
        if name == "LeaderAndIsr":
            # The process may have ended, and the controller is about to learn it.
            told = self._told.get((broker.name, link.lives[broker.name]), NOTHING)
            for topic in request.topic_states:
                for state in topic.partition_states:
                    if (one := _named(topic, state, state.partition_epoch)) not in told:
                        raise Violation(
                            self.name, f"{broker.name} is to act on {one}, and UpdateMetadata has not told it of that"
                        )

    def _is_committed(self, controller: str, topic: Any, state: Any) -> None:
        if state.leader == -2:
            return
        version = state.zk_version if hasattr(state, "zk_version") else state.partition_epoch
        found = state.leader, state.leader_epoch, version, tuple(state.isr), tuple(state.replicas)
        if found not in self._committed.get((topic.topic_id, state.partition_index), NOTHING):
            raise Violation(
                self.name, f"{controller} pushes {topic.topic_name}-{state.partition_index} as {found}: never committed"
            )

    def _answered(self, link: Any, sender: Any, frame: memoryview) -> None:
        asker = link.other(sender)
        call = asker.name, asker.life, link.conns[asker.name], int.from_bytes(frame[:4], "big")
        asked = self._asked.pop(call, None)
        if asked is None:
            return
        name, request = asked
        place = asker.name, asker.life, sender.name
        if self._in_flight.get(place) == (link, call):
            del self._in_flight[place]
        if framing.decode_response(name, framing.latest_version(name), frame).error_code:
            return
        broker = sender.name, sender.life
        if request.controller_epoch < self._obeyed.get(broker, -1):
            raise Violation(
                self.name,
                f"{sender.name} obeys {asker.name} in epoch {request.controller_epoch} after epoch {self._obeyed[broker]}",
            )
        self._obeyed[broker] = request.controller_epoch
        if name == "UpdateMetadata":
            self._told.setdefault(broker, set()).update(
                _named(topic, state, state.zk_version)
                for topic in request.topic_states
                for state in topic.partition_states
            )


def _named(topic: Any, state: Any, version: int) -> tuple[Any, ...]:
    return topic.topic_name, topic.topic_id, state.partition_index, state.leader, version


def _known(image: Image) -> dict[Any, Any]:
    """What an image holds, as far as it is pushed."""
    found: dict[Any, Any] = {
        key: (image.leader(row), image.leader_epoch(row), image.isr(row), image.replicas(row))
        for key, row in partitions(image)
    }
    found |= {("topic", image.topic_name(row)): image.config(2, image.topic_name(row)) for row in image.topics()}
    found |= {("broker", one.id): (one.epoch, one.endpoints, one.rack) for one in image.unfenced_brokers()}
    return found | {("level", name): level for name, level in image.features().items()}
