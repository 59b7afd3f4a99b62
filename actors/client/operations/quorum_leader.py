"""Which controller leads the quorum, and where: what has to be known before the metadata log can be fetched.

Rules:

1. At first a bootstrap server is asked (DescribeQuorum): a broker passes that on to the leader, and the leader answers it
   itself. A controller that follows is asked as in rule 2.
2. Once addresses of controllers are known, these are asked, one after the other, and the bootstrap servers when all of them
   have failed. The question is a Fetch in an epoch that has no leader: each controller answers it with the leader that it
   knows, its epoch and, from version 17 on, its address (KIP-595, KIP-853).
3. An older epoch does not replace a newer one: controllers learn of a new leader one after the other.
4. The log is served by controllers alone, at their own listener. Where that cannot be reached, or the right is missing, one
   sentence says what to do.

KIP-595 (the quorum), KIP-836 (DescribeQuorum), KIP-853 (addresses of controllers).
"""

from typing import Any, NamedTuple

from actors.client.asks import Address, AnyNode, Ask, Pause, Purpose, Reply, Steps
from actors.client.connection import Lost
from actors.client.errors import ClientError, refused
from actors.client.operations.cluster import METADATA_TOPIC
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

TOPIC_ID = bytes(15) + b"\x01"
"""The id of the metadata log's topic, in every cluster."""
FETCHES = (13, 1 << 15)
"""The versions of Fetch that name topics by id, as controllers want it."""
NOBODYS_EPOCH = 0
"""An epoch in which nobody leads: the first leader's epoch is 1."""
ROUNDS_MAX = 3
"""How often all controllers are asked before it is believed that none can be reached from here, if none ever was."""
CONTROLLERS_MAX = 100
"""How many controllers' addresses are remembered; if more are named, the first ones are forgotten."""
INSTEAD = (
    "or run `rayft replay` on a controller's directory; `rayft topic` and `rayft group` ask brokers, and need neither"
)


class Leader(NamedTuple):
    """The leader of the quorum in an epoch."""

    id: int
    epoch: int
    address: Address

    @property
    def server(self) -> str:
        """The leader as text for errors."""
        return self.address.server


class KnownQuorum:
    """What is known of the quorum: where its controllers are, and who leads it."""

    def __init__(self) -> None:
        self.leader: Leader | None = None
        """The leader; None: it has to be found."""
        self._addresses: dict[int, Address] = {}
        self._epoch = 0
        self._reached = False
        """Whether a controller has ever answered at an address of its own."""
        self._failed_rounds = 0
        """How often all controllers were asked in vain."""

    def find(self) -> Steps[Leader]:
        """The leader, which is looked for until it is found. Raises ClientError if that cannot succeed: no right, no way to
        a controller, or a cluster without a quorum."""
        attempt = 0
        while self.leader is None:
            if attempt:
                yield Pause(attempt=attempt - 1)
            if not self._addresses:
                yield from self._ask_bootstrap()
            elif not (yield from self._ask_controllers()):
                self._failed_rounds += 1
                if not self._reached and self._failed_rounds >= ROUNDS_MAX:
                    raise self._unreachable()
                yield from self._ask_bootstrap()
            attempt += 1
        return self.leader

    def reached(self) -> None:
        """Note that the leader has answered at its own address."""
        self._reached = True

    def lost(self) -> None:
        """Note that the leader does not lead, or does not answer, any more. It is asked last when it is looked for."""
        if self.leader is not None:
            self._addresses[self.leader.id] = self._addresses.pop(self.leader.id, self.leader.address)
        self.leader = None

    def answered(self, id: int, epoch: int, endpoints: Any) -> bool:
        """Take in the leader that a controller names: its id, -1 if it knows none, its epoch, and the endpoints in the
        answer. Returns whether the leader is known now."""
        for one in endpoints or ():
            if one.node_id == id:
                self._learn(one.node_id, one.host, one.port)
        if epoch < self._epoch or id not in self._addresses:
            return False
        self._epoch = epoch
        self.leader = Leader(id, epoch, self._addresses[id])
        return True

    def check(self, server: str, what: str, code: int) -> None:
        """Raise the ClientError for an error code of a whole answer, unless it is 0."""
        if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise ClientError(
                f"{server} does not give this login the metadata log: grant it CLUSTER_ACTION on the cluster "
                f"(rayft acl add --cluster --operation cluster_action --principal User:NAME), {INSTEAD}",
                code,
            )
        if code:
            raise refused(f"{what} at {server}", code)

    # ---- questions

    def _ask_bootstrap(self) -> Steps[None]:
        kind = message("DescribeQuorumRequest")
        request = kind(
            topics=[kind.TopicData(topic_name=METADATA_TOPIC, partitions=[kind.PartitionData(partition_index=0)])]
        )
        reply = yield Ask(AnyNode(), "DescribeQuorum", lambda version: request)
        told = reply.message
        self.check("the quorum", "DescribeQuorum", told.error_code)
        part = told.topics[0].partitions[0]
        for one in told.nodes:
            if one.listeners:
                self._learn(one.node_id, one.listeners[0].host, one.listeners[0].port)
        if not part.error_code:
            if reply.version < 2:
                raise ClientError("this Kafka does not tell where its controllers are: that needs Kafka 3.9 or newer")
            self.answered(part.leader_id, part.leader_epoch, ())
        elif part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            reply = yield Ask(AnyNode(), "Fetch", _question, purpose=Purpose.ORDINARY, versions=FETCHES)
            self._take("a bootstrap server", reply)
        elif part.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
            raise refused("the quorum", part.error_code, part.error_message)

    def _ask_controllers(self) -> Steps[bool]:
        """Ask one controller after the other who leads. Returns whether any of them has answered."""
        some = False
        for address in list(self._addresses.values()):
            (found,) = yield [Ask(address, "Fetch", _question, purpose=Purpose.ORDINARY, versions=FETCHES)]
            if isinstance(found, ClientError):
                if not isinstance(found, Lost):
                    raise not_as_brokers(found)
                continue
            some = self._reached = True
            if self._take(address.server, found):
                break
        return some

    def _take(self, server: str, reply: Reply) -> bool:
        self.check(server, "Fetch", reply.message.error_code)
        part = only(server, reply.message.responses)
        if part.error_code == ErrorCode.UNKNOWN_TOPIC_ID:  # a broker, where a controller was before
            return False
        if part.current_leader is None:
            return False
        return self.answered(
            part.current_leader.leader_id, part.current_leader.leader_epoch, reply.message.node_endpoints
        )

    def _learn(self, id: int, host: str, port: int) -> None:
        self._addresses[id] = Address(host, port, f"controller {id}")
        if len(self._addresses) > CONTROLLERS_MAX:
            del self._addresses[next(iter(self._addresses))]

    def _unreachable(self) -> ClientError:
        places = ", ".join(f"{one.host}:{one.port}" for one in self._addresses.values())
        return ClientError(
            f"no controller can be reached from here, and controllers alone serve the metadata log, at their own listener "
            f"({places}): open it to this machine, {INSTEAD}"
        )


def only(server: str, topics: Any) -> Any:
    """The one partition of an answer. Raises ClientError if it has another number of them."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise ClientError(f"{server} was asked for one partition, and answers with another number of them")
    return topics[0].partitions[0]


def not_as_brokers(error: ClientError) -> ClientError:
    """The error of a controller that does not let this client in, with what is often the reason."""
    return ClientError(
        f"{error}: controllers may ask for another login or TLS than brokers, so give a controller's address as "
        f"--bootstrap, and the properties of its listener",
        error.code,
    )


def _question(version: int) -> Any:
    return fetch_request(version, 0, 0, NOBODYS_EPOCH, 0, 0, 1)


def fetch_request(
    version: int, offset: int, last_epoch: int, epoch: int, high_watermark: int, max_wait_ms: int, bytes_max: int,
    cluster_id: str | None = None,
) -> Any:  # fmt: skip
    """A Fetch of the metadata log by an observer without an id, of which the leader keeps nothing. `epoch`: the leader's;
    `last_epoch`: that of the record before `offset`; `cluster_id`: the cluster that has to answer; None: any."""
    kind = message("FetchRequest")
    asked = kind.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=bytes_max,
        high_watermark=high_watermark,
    )
    return kind(
        cluster_id=cluster_id,
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        max_bytes=bytes_max,
        topics=[kind.FetchTopic(topic_id=TOPIC_ID, partitions=[asked])],
    )
