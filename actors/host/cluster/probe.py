"""Questions to a running cluster from outside: one request and one answer over a connection of its own.

This file alone decides how `status` and `Cluster` learn which controller leads. It uses Kafka's own RPCs, so any node
of the cluster that answers will do. An address is (host, port), or an `Access` where TLS or a login is needed.
"""

import contextlib
import math
import socket
import urllib.request
from collections.abc import Iterable
from http.client import HTTPException
from typing import Any, NamedTuple

from actors.authentication.client import Login
from actors.authentication.exchange import Rejected
from actors.host.cluster.access import Access
from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.messages import Message, message

TIMEOUT_S = 2.0
TOPIC = "__cluster_metadata"
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # a node is never behind a web proxy


Address = tuple[str, int] | Access


class NoAnswer(Exception):
    """No node answered, or the answer could not be used."""


class QuorumSummary(NamedTuple):
    """The quorum in short, as DescribeQuorum answers. `ends`: log end offset by replica id; `observers`: the same for
    brokers."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    ends: dict[int, int]
    observers: dict[int, int]


class Partitions(NamedTuple):
    """Counts of a cluster's partitions by their state."""

    topics: int
    partitions: int
    under_replicated: int
    offline: int


def ask(address: Address, name: str, request: Message, version: int, timeout_s: float = TIMEOUT_S) -> Any:
    """Send one request on a connection of its own. Raises NoAnswer."""
    access = Access(*address)
    try:
        with contextlib.ExitStack() as kept:
            sock = kept.enter_context(socket.create_connection(access.address, timeout=timeout_s))
            sock.settimeout(timeout_s)
            if access.tls is not None:
                sock = kept.enter_context(access.tls.wrap_socket(sock, server_hostname=access.host))
            found = access.login()
            if found is not None:
                _log_in(sock, *found)
            return _exchange(sock, name, request, version)
    except (OSError, WireError, Rejected) as error:
        raise NoAnswer(f"{access.host}:{access.port} did not answer {name}: {error}") from None


def _exchange(sock: socket.socket, name: str, request: Message, version: int) -> Any:
    sock.sendall(b"".join(framing.encode_request(name, version, 1, "rayft-status", request)))
    size = int.from_bytes(_exactly(sock, 4), "big", signed=True)
    return framing.decode_response(name, version, memoryview(_exactly(sock, size)))


def _log_in(sock: socket.socket, mechanism: str, login: Login) -> None:
    """Log in on a connection. Raises Rejected if the login is refused."""
    told = _exchange(sock, "SaslHandshake", message("SaslHandshakeRequest")(mechanism=mechanism), 1)
    token: bytes | None = login.first()
    while token is not None and not told.error_code:
        told = _exchange(sock, "SaslAuthenticate", message("SaslAuthenticateRequest")(auth_bytes=token), 2)
        token = None if told.error_code else login.next(bytes(told.auth_bytes))
    if told.error_code:
        raise Rejected(f"its login was refused with error {told.error_code}")


def _exactly(sock: socket.socket, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(min(1 << 20, size - len(data)))
        if not part:
            raise OSError("connection closed")
        data += part
    return data


def quorum(addresses: Iterable[Address], timeout_s: float = TIMEOUT_S) -> QuorumSummary:
    """The quorum, as the first address that knows a leader tells it. Raises NoAnswer."""
    cls = message("DescribeQuorumRequest")
    request = cls(topics=[cls.TopicData(topic_name=TOPIC, partitions=[cls.PartitionData(partition_index=0)])])
    last = NoAnswer("no address is known to ask")
    for address in addresses:
        try:
            reply = ask(address, "DescribeQuorum", request, 1, timeout_s)
            if reply.error_code:
                raise NoAnswer(f"{address[0]}:{address[1]} answered error {reply.error_code}")
            part = reply.topics[0].partitions[0]
            if part.error_code or part.leader_id < 0:
                raise NoAnswer(f"{address[0]}:{address[1]} knows no leader")
            return QuorumSummary(
                part.leader_id,
                part.leader_epoch,
                part.high_watermark,
                {voter.replica_id: voter.log_end_offset for voter in part.current_voters},
                {observer.replica_id: observer.log_end_offset for observer in part.observers},
            )
        except (NoAnswer, IndexError) as error:
            last = error if isinstance(error, NoAnswer) else NoAnswer(f"{address[0]}:{address[1]} answered nothing")
    raise last


def partitions(addresses: Iterable[Address], timeout_s: float = TIMEOUT_S) -> Partitions:
    """Count partitions as one broker's Metadata answer shows them. Raises NoAnswer."""
    last = NoAnswer("no address is known to ask")
    for address in addresses:
        try:
            reply = ask(address, "Metadata", message("MetadataRequest")(topics=None), 9, timeout_s)
        except NoAnswer as error:
            last = error
            continue
        rows = [row for topic in reply.topics for row in topic.partitions]
        return Partitions(
            len(reply.topics),
            len(rows),
            sum(len(row.isr_nodes) < len(row.replica_nodes) for row in rows),
            sum(row.leader_id < 0 for row in rows),
        )
    raise last


def metrics(address: tuple[str, int]) -> dict[str, float]:
    """A node's metrics by their Prometheus names, labels included. Raises NoAnswer."""
    host = f"[{address[0]}]" if ":" in address[0] else address[0] or "127.0.0.1"
    try:
        with _direct(f"http://{host}:{address[1]}/metrics", timeout=TIMEOUT_S) as reply:
            lines = reply.read().decode().split("\n")
        pairs = [line.rpartition(" ") for line in lines if line and not line.startswith("#")]
        return {name: number for name, _, text in pairs if not math.isnan(number := float(text))}
    except (OSError, ValueError, HTTPException) as error:
        raise NoAnswer(f"{address[0]}:{address[1]} showed no metrics: {error}") from None


def serves(address: Address) -> bool:
    """Whether a node answers clients at an address. A fenced broker's port accepts a connection too, but closes it at
    once."""
    try:
        ask(address, "ApiVersions", message("ApiVersionsRequest")(), 0)
    except NoAnswer:
        return False
    return True
