"""A peer that is no node: it connects to listeners of simulated processes, and draws nothing from the world's
randomness.

What it sends arrives at once. Answers to it are counted and otherwise dropped.
"""

import contextlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from actors.node.quorum.files import TOPIC_ID, TOPICS
from actors.node.runtime.calls import Listener
from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.messages import message
from tests.integration.answers.dialogue import request
from tests.served import TABLE
from tests.simulator.cluster import Cluster
from tests.simulator.world import Process, World, frames
from tests.unit.wire.generator import random_message

Told = Iterator[tuple[str, int, Any]]
"""The requests that a stranger tells a node, as (name, version, body)."""
HOST = "10.0.0.66"
TOPIC = TOPICS["drafts"]
LARGEST, LARGEST_LONG = (1 << 31) - 1, (1 << 63) - 1
EXTREME = (-(1 << 31), -1, 0, 1 << 30, LARGEST - 1, LARGEST)
NOBODY = (-(1 << 31), -1, 0, 77, 5000, LARGEST)
PAUSES_MS = (0, 100, 500, 2_000)
"""The average time between two messages; 0: this world has no strangers."""
CONNECTIONS_MAX = 6
EFFECTIVE = frozenset({
    "CreateTopics", "DeleteTopics", "UnregisterBroker", "UpdateFeatures", "AlterConfigs", "IncrementalAlterConfigs",
    "BrokerHeartbeat", "AllocateProducerIds",
})  # fmt: skip
"""Requests that any client, or any new broker, may send."""
PREFERRED, UNCLEAN = 0, 1
"""Election types of ElectLeaders."""


class Connection:
    """One connection to a listener of a process. To the process it looks like a `Link`."""

    name = "stranger"
    host = HOST

    def __init__(self, world: World, process: Process, listener: str, principal: str | None = None) -> None:
        """`principal` is the one that the stranger's certificate names; None: it shows none."""
        self.process = process
        self.principal = principal
        self.open = True
        self.answers: list[bytes] = []
        process._next_conn += 1
        self.conn = process._next_conn
        self._life = process.life
        self._world = world
        process.peers[self.conn] = self  # type: ignore[assignment]
        self._asked = 0
        process.input(lambda: process.node and process.node.connected(self.conn, listener, HOST, 0, principal))

    @property
    def usable(self) -> bool:
        """Whether the process still reads it."""
        return self.open and self._life == self.process.life and self.process.alive

    def tell(self, frame: bytes) -> None:
        """Deliver a frame, given without its length."""
        process, life = self.process, self._life
        self._world.note(process.name, frame)
        if self.usable:
            data = memoryview(bytearray(frame))
            for function in self._world.asked:
                function(self, process, memoryview(frame))
            process.input(lambda: process.node and process.life == life and process.node.received(self.conn, data))

    def ask(self, name: str, version: int, body: Any) -> None:
        """Deliver a request to the process."""
        self._asked += 1
        self.tell(b"".join(framing.encode_request(name, version, self._asked, "stranger", body))[4:])

    def other(self, process: Process) -> "Connection":
        """The end that is not the process."""
        return self

    def leave(self) -> None:
        """The stranger closes it."""
        if self.usable:
            self._end()

    def _end(self) -> None:
        process, life = self.process, self._life
        self.open = False
        if life == process.life and process.peers.pop(self.conn, None) is not None:
            process.input(lambda: process.node and process.life == life and process.node.closed(self.conn, False))

    # ---- what the process calls

    def send(self, process: Process, data: bytes) -> None:
        self.answers.append(data)
        if self._world.answered:
            for frame in frames(data):
                for function in self._world.answered:
                    function(self, process, frame)

    def close(self, process: Process) -> None:
        self.open = False

    cut = close

    def cut_here(self, process: Process) -> None:
        """A fault has reset the connection, and the process is told."""
        self._end()


class Strangers:
    """The messages that peers which are no nodes send to the nodes of a world, drawn from a random stream of their own.

    Every message is well formed. Messages with a node's exact identity are not sent: a voter that leads or stands for
    the next epochs, a broker under its live epoch, a new process of a broker.
    """

    def __init__(self, world: World, cluster: Cluster, choose: Random) -> None:
        self.world = world
        self.cluster = cluster
        self.choose = choose
        self.over = True
        self.sent = 0
        self._open: list[Connection] = []
        self._pause_ms = choose.choice(PAUSES_MS)

    def begin(self) -> None:
        """Let strangers come from now on, in most worlds."""
        self.over = self._pause_ms == 0
        if not self.over:
            self._next()

    def end(self) -> None:
        """Let all strangers go."""
        self.over = True
        for connection in self._open:
            connection.leave()
        self._open.clear()

    def _next(self) -> None:
        self.world.after(self.choose.randint(1, 2 * self._pause_ms) * 1000, self._one)

    def _one(self) -> None:
        if self.over:
            return
        controllers, brokers = list(self.cluster.controllers.values()), list(self.cluster.brokers.values())
        process = self.choose.choice(controllers if self.choose.randrange(4) else brokers)
        principal, told = self._drawn(process in controllers)
        if process.alive:
            for name, version, body in told:
                self._connection(process, principal).ask(name, version, body)
                self.sent += 1
        self._next()

    def _drawn(self, to_a_controller: bool) -> tuple[str | None, Told]:
        """(the principal of the next stranger, its requests)."""
        return None, self.choose.choice(TO_A_CONTROLLER if to_a_controller else TO_A_BROKER)(self)

    def _connection(self, process: Process, principal: str | None) -> Connection:
        self._open = [one for one in self._open if one.usable]
        for one in self._open:
            if one.process is process and one.principal == principal and self.choose.randrange(4):
                return one
        if len(self._open) >= CONNECTIONS_MAX:
            self._open.pop(self.choose.randrange(len(self._open))).leave()
        listener = process.config.listeners[0].name
        made = Connection(self.world, process, listener, principal)
        self._open.append(made)
        return made

    # ---- values

    def _epoch(self) -> int:
        """Extreme, or near the present one."""
        known = [one.node.quorum.raft.epoch for one in self.cluster.controllers.values() if one.node is not None] or [0]
        return self.choose.choice((*EXTREME, max(known) + self.choose.randint(-1, 3)))

    def _far_epoch(self) -> int:
        return self.choose.choice((1_000_000, 1 << 30, LARGEST - 1, LARGEST))

    def _offset(self) -> int:
        return self.choose.choice((-(1 << 63), -1, 0, 1, 10, 1 << 40, LARGEST_LONG))

    def _voter(self) -> int:
        return self.choose.choice(list(self.cluster.controllers))

    def _broker(self) -> int:
        return self.choose.choice(list(self.cluster.brokers))

    def _led(self) -> dict[str, Any]:
        """A replica that is no voter leads an epoch, or a voter leads one that is far ahead."""
        if self.choose.randrange(3):
            return {"partition_index": 0, "leader_id": self.choose.choice(NOBODY), "leader_epoch": self._epoch()}
        return {"partition_index": 0, "leader_id": self._voter(), "leader_epoch": self._far_epoch()}

    # ---- messages

    def begin_quorum_epoch(self) -> Told:
        places = [{"name": "CONTROLLER", "host": "nowhere", "port": 1}]
        topics = [{"topic_name": TOPIC, "partitions": [self._led()]}]
        yield "BeginQuorumEpoch", 1, request("BeginQuorumEpoch", voter_id=-1, topics=topics, leader_endpoints=places)

    def end_quorum_epoch(self) -> Told:
        topics = [{"topic_name": TOPIC, "partitions": [self._led()]}]
        yield "EndQuorumEpoch", 1, request("EndQuorumEpoch", topics=topics)

    def vote(self) -> Told:
        stands = {
            "replica_id": self.choose.choice((*NOBODY, self._voter())), "replica_directory_id": b"s" * 16,
            "replica_epoch": self._epoch(), "last_offset_epoch": self._epoch(), "last_offset": self._offset(),
            "pre_vote": bool(self.choose.randrange(2)),
        }  # fmt: skip
        yield "Vote", 2, request("Vote", voter_id=-1, topics=[{"topic_name": TOPIC, "partitions": [stands]}])

    def fetch(self) -> Told:
        asked = {
            "partition": 0, "current_leader_epoch": self._epoch(), "fetch_offset": self._offset(),
            "last_fetched_epoch": self._epoch(), "replica_directory_id": b"s" * 16, "high_watermark": self._offset(),
        }  # fmt: skip
        replica = {"replica_id": self.choose.choice((*NOBODY, self._voter(), self._broker()))}
        topics = [{"topic_id": TOPIC_ID, "partitions": [asked]}]
        wait_ms = self.choose.choice((-1, 0, 500, LARGEST))
        yield "Fetch", 18, request("Fetch", replica_state=replica, max_wait_ms=wait_ms, max_bytes=-1, topics=topics)

    def fetch_snapshot(self) -> Told:
        part = {
            "partition": 0, "current_leader_epoch": self._epoch(), "position": self._offset(),
            "snapshot_id": {"end_offset": self.choose.choice((0, self._offset())), "epoch": self._epoch()},
        }  # fmt: skip
        size = self.choose.choice((-1, 0, 100, LARGEST))
        topics = [{"name": TOPIC, "partitions": [part]}]
        yield "FetchSnapshot", 1, request("FetchSnapshot", replica_id=77, max_bytes=size, topics=topics)

    def controller_heartbeat(self) -> Told:
        id = self.choose.choice((*NOBODY, self._broker()))
        yield (
            "ControllerHeartbeat",
            0,
            request("v28:ControllerHeartbeat", controller_id=id, last_snapshot_offset=self._offset()),
        )

    def broker_heartbeat(self) -> Told:
        """A heartbeat of an unknown broker, with metadata that is too old; or of a known one, under an epoch from the
        future."""
        target = self.choose.choice((-128, 0, 2, 3, 4, 127))
        values: dict[str, Any] = {
            "target_state": target, "lease_start_time_ms": self._offset(), "cur_metadata_offset": -1,
            "listeners": [{"name": "PLAINTEXT", "host": "nowhere", "port": 1}], "log_dirs": [b"s" * 16],
        }  # fmt: skip
        if self.choose.randrange(2):
            values |= {"broker_id": self.choose.choice(NOBODY), "broker_epoch": self._offset()}
        else:
            values |= {"broker_id": self._broker(), "broker_epoch": 1 << 62, "cur_metadata_offset": self._offset()}
        yield "BrokerHeartbeat", 0, request("v28:BrokerHeartbeat", **values)

    def alter_isr(self) -> Told:
        broker = self._broker()
        proposal = {
            "partition_id": 0, "leader": broker, "leader_epoch": self.choose.randint(-1, 5), "isr": [broker],
            "current_zk_version": self.choose.randint(-1, 5),
        }  # fmt: skip
        topics = [{"topic": "t0", "partitions": [proposal]}]
        epoch = self.choose.choice((-1, 0, 1 << 62))
        yield "AlterIsr", 0, request("AlterIsr", broker_id=broker, broker_epoch=epoch, topics=topics)

    def envelope(self) -> Told:
        """Garbage, a request that is not a client's, an Envelope in an Envelope."""
        name, version, body = next(self.vote())
        inside = b"".join(framing.encode_request(name, version, 1, "stranger", body))[4:]
        for frame in (inside, inside[: self.choose.randrange(len(inside))], self.choose.randbytes(40)):
            outer = request("Envelope", request_data=frame, client_host_address=b"\x7f\0\0\1")
            yield "Envelope", 0, outer
            twice = b"".join(framing.encode_request("Envelope", 0, 1, "stranger", outer))[4:]
            yield "Envelope", 0, request("Envelope", request_data=twice, client_host_address=b"\x7f\0\0\1")

    def _body(self, listener: Listener, spared: frozenset[str] = EFFECTIVE) -> Told:
        names = [key for key in TABLE if key[0] is listener and TABLE[key].name not in spared]
        api = TABLE[self.choose.choice(sorted(names, key=lambda key: key[1]))]
        version = self.choose.choice(api.versions)
        kind = message(f"v28:{api.name}Request" if framing.is_draft(api.name) else f"{api.name}Request")
        body = random_message(kind, version, self.choose)
        if api.name == "ElectLeaders" and body.election_type == UNCLEAN:
            body.election_type = PREFERRED  # any client may ask for the election that loses records
        with contextlib.suppress(WireError):  # a value that this version cannot carry
            framing.encode_request(api.name, version, 1, "stranger", body)
            yield api.name, version, body

    def body_to_a_controller(self) -> Told:
        return self._body(Listener.CONTROLLER)

    def body_to_a_broker(self) -> Told:
        return self._body(Listener.CLIENT)


class Nobody(Strangers):
    """A world without strangers."""

    def begin(self) -> None:
        pass


TO_A_CONTROLLER: tuple[Callable[[Strangers], Told], ...] = (
    Strangers.begin_quorum_epoch, Strangers.end_quorum_epoch, Strangers.vote, Strangers.fetch, Strangers.fetch_snapshot,
    Strangers.controller_heartbeat, Strangers.broker_heartbeat, Strangers.alter_isr, Strangers.envelope,
    Strangers.body_to_a_controller,
)  # fmt: skip
TO_A_BROKER: tuple[Callable[[Strangers], Told], ...] = (Strangers.body_to_a_broker,)


class Pushy(Strangers):
    """A world in which strangers come all the time."""

    def __init__(self, world: World, cluster: Cluster, choose: Random) -> None:
        super().__init__(world, cluster, choose)
        self._pause_ms = 100
