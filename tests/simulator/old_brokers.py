"""Brokers in ZooKeeper mode, as far as a controller has to do with them: a znode, and what they do with what they are
told.

They check what Apache Kafka's check: their own epoch, the controller's epoch, a topic's id, and the leader epoch, which
has to rise, and as those of 3.3 and later the partition epoch, which may not go back. They keep no records.
"""

import json
from typing import Any, NamedTuple

from actors.wire import framing
from actors.wire.messages import message
from tests.simulator.ensemble import Ensemble
from tests.simulator.world import Link

SERVED = {4: 5, 5: 3, 6: 7, 18: 3}
"""API key -> newest version, as 2.8.2 serves them."""
NAMES = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 18: "ApiVersions"}
STALE_CONTROLLER, STALE_BROKER, WRONG_ID, OFFLINE = 11, 77, 103, 56
PORT = 9000


class Part(NamedTuple):
    """What a broker knows of a partition that it hosts."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    topic_id: bytes
    partition_epoch: int = -1


class OldBroker:
    """A broker in ZooKeeper mode; it lives and dies with its session."""

    def __init__(self, world: Any, ensemble: Ensemble, id: int) -> None:
        self.world, self.ensemble, self.id = world, ensemble, id
        self.name = f"old{id}"
        self.life = 0
        self.principal: str | None = None
        self.peers: dict[int, Link] = {}
        self.node: Any = None
        self.answering: set[str] = set()
        self.listening: set[str] = set()
        self.session = 0
        self.epoch = -1
        """The czxid of its znode."""
        self.controller_epoch = 0
        self.controller = -1
        self.parts: dict[tuple[str, int], Part] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        """The leaders that UpdateMetadata has named."""
        self.live: frozenset[int] = frozenset()
        self.stopped: list[tuple[str, int]] = []
        """Partitions that it was told to delete."""
        self.offline: set[str] = set()
        """Topics whose log directory is offline: nothing of them can be deleted."""
        self.errors: list[str] = []
        """What no broker may ever be told."""
        self._tellers: dict[int, int] = {}
        """Controller epoch -> the controller that told it."""
        self._next_conn = 0
        world.addresses[self.name, PORT] = (self, "PLAINTEXT")

    @property
    def alive(self) -> bool:
        return self.node is not None

    def start(self) -> None:
        """Start a new process: a session, a znode, nothing in memory but its partitions."""
        self.life += 1
        self.node = self
        self.answering = self.listening = {"PLAINTEXT"}
        self.controller_epoch = 0
        self.leaders, self.live = {}, frozenset()
        self.session = self.ensemble.data.begin(lambda event: None)
        data = {
            "features": {}, "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://{self.name}:{PORT}"], "version": 5,
        }  # fmt: skip
        self.epoch = self.ensemble.data.put(f"/brokers/ids/{self.id}", json.dumps(data).encode(), self.session)

    def stop(self) -> None:
        """kill -9, and its session ends."""
        self.node = None
        self.life += 1
        self.answering = self.listening = set()
        for link in list(self.peers.values()):
            link.cut(self)
        self.peers.clear()
        self.ensemble.data.end(self.session)

    # ---- what the links call

    def accept(self, link: Link, listener: str) -> int:
        self._next_conn += 1
        self.peers[self._next_conn] = link
        return self._next_conn

    turn_away = accept

    def input(self, function: Any) -> None:
        function()

    def closed(self, conn: int, refused: bool) -> None: ...

    def received(self, conn: int, frame: memoryview) -> None:
        header, position = framing.decode_request_header(frame)
        name = NAMES[header.api_key]
        request = framing.decode_request(name, header.api_version, frame, position)
        reply = getattr(self, f"_{header.api_key}")(request)
        data = b"".join(framing.encode_response(name, header.api_version, header.correlation_id, reply))
        link = self.peers.get(conn)
        if link is not None:
            link.send(self, data)

    def _18(self, request: Any) -> Any:
        kind = message("ApiVersionsResponse")
        return kind(
            api_keys=[kind.ApiVersion(api_key=key, min_version=0, max_version=most) for key, most in SERVED.items()]
        )

    def _refused(self, request: Any) -> int:
        if request.broker_epoch != -1 and request.broker_epoch < self.epoch:
            return STALE_BROKER
        if request.controller_epoch < self.controller_epoch:
            return STALE_CONTROLLER
        teller = self._tellers.setdefault(request.controller_epoch, request.controller_id)
        if teller != request.controller_id:
            self.errors.append(
                f"two controllers in epoch {request.controller_epoch}: {teller}, {request.controller_id}"
            )
        self.controller_epoch, self.controller = request.controller_epoch, request.controller_id
        return 0

    def _6(self, request: Any) -> Any:
        code = self._refused(request)
        if code == 0:
            self.live = frozenset(one.id for one in request.live_brokers)
            for topic in request.topic_states:
                for one in topic.partition_states:
                    self.leaders[topic.topic_name, one.partition_index] = one.leader
        return message("UpdateMetadataResponse")(error_code=code)

    def _4(self, request: Any) -> Any:
        kind = message("LeaderAndIsrResponse")
        code = self._refused(request)
        reply = kind(error_code=code)
        for topic in request.topic_states if code == 0 else ():
            errors = []
            for one in topic.partition_states:
                errors.append(
                    kind.LeaderAndIsrPartitionError(
                        partition_index=one.partition_index, error_code=self._obeyed(topic, one)
                    )
                )
            reply.topics.append(kind.LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return reply

    def _obeyed(self, topic: Any, one: Any) -> int:
        key, topic_id = (topic.topic_name, one.partition_index), bytes(topic.topic_id)
        known = self.parts.get(key)
        if one.leader not in (-1, self.id) and one.leader not in self.live:
            self.errors.append(f"{key} is to follow {one.leader}, of which UpdateMetadata has not told")
        if self.id not in one.replicas:
            self.errors.append(f"{key} has no replica here")
        if known is not None and known.topic_id != topic_id:
            return WRONG_ID
        if known is not None and one.leader_epoch <= known.leader_epoch:
            if one.leader_epoch == known.leader_epoch and (one.leader, tuple(one.isr)) != (known.leader, known.isr):
                self.errors.append(f"{key}: two states in leader epoch {one.leader_epoch}")
            return STALE_CONTROLLER
        if known is not None and one.partition_epoch < known.partition_epoch:
            return STALE_CONTROLLER  # from 3.3 on
        self.parts[key] = Part(one.leader, one.leader_epoch, tuple(one.isr), topic_id, one.partition_epoch)
        return 0

    def _5(self, request: Any) -> Any:
        kind = message("StopReplicaResponse")
        code = self._refused(request)
        reply = kind(error_code=code)
        for topic in request.topic_states if code == 0 else ():
            for one in topic.partition_states:
                if topic.topic_name in self.offline:
                    reply.partition_errors.append(
                        kind.StopReplicaPartitionError(
                            topic_name=topic.topic_name, partition_index=one.partition_index, error_code=OFFLINE
                        )
                    )
                elif one.delete_partition:
                    self.stopped.append((topic.topic_name, one.partition_index))
                    self.parts.pop((topic.topic_name, one.partition_index), None)
        return reply
