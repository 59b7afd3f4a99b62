"""The metrics of a node's requests, its listeners and its one thread (KIP-291, KIP-402; Apache Kafka's
`kafka.network` and `socket-server-metrics`).

This file alone decides what of an API is shown. Requests of Fetch stand under three names, as in Apache Kafka: those of
consumers, those of followers, and all.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from actors.node.metrics.family import Row, Value, counter, counters, gauge, gauges, summaries, summary_of
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import QuorumReplica
from actors.node.runtime.calls import Lane
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode
from fastpath.meters.request_times import Door, RequestTimes
from fastpath.meters.spread import Spread

NETWORK = "kafka.network:type="
SERVER = "kafka.server:type="
DOORS = SERVER + "socket-server-metrics,listener=X,networkProcessor=0,name="
MS = 1_000_000.0
PROCESSOR = "0"
"""The number of the network processor: a node has one."""
PRINCIPALS_SHOWN_MAX = 20
"""How many principals are shown: those for which most is kept."""
CODES = {int(code): code.name for code in ErrorCode}


class AnyNode(NamedTuple):
    """A node of any role, as far as its metrics are read."""

    runtime: Runtime
    requests: RequestChannel
    quorum: QuorumReplica


def _times(node: AnyNode) -> Iterator[tuple[str, RequestTimes]]:
    names, at_ns = node.requests.api_names, node.runtime.stopwatch()
    for key, times in node.requests.connections.meters.items():
        name = names.get(key, str(key))
        yield name, times.whole(at_ns)
        if times.consumer is not None and times.follower is not None:
            yield name + "Consumer", times.consumer
            yield name + "Follower", times.follower


def _spread(
    part: Callable[[RequestTimes], Spread], unit: float = MS
) -> Callable[[AnyNode], Iterator[tuple[tuple[str, ...], Value]]]:
    def read(node: AnyNode) -> Iterator[tuple[tuple[str, ...], Value]]:
        at_ns = node.runtime.stopwatch()
        for name, times in _times(node):
            spread = part(times)
            if spread.count:
                yield (name,), summary_of(spread, at_ns, unit)

    return read


def _doors(part: Callable[[Door], int]) -> Callable[[AnyNode], Iterator[tuple[tuple[str, ...], Value]]]:
    def read(node: AnyNode) -> Iterator[tuple[tuple[str, ...], Value]]:
        for listener, door in node.requests.doors.items():
            yield (listener, PROCESSOR), part(door)

    return read


def _with_plane(read: Callable[[AnyNode], float]) -> Callable[[AnyNode], float | None]:
    """A number of the control plane: absent where there is none (R291-16)."""
    return lambda node: read(node) if node.runtime.config.control_plane_listener else None


API = ("request",)
LISTENER = ("listener", "networkProcessor")
REQUESTS: tuple[Row[AnyNode], ...] = (
    counters(
        "kafka_network_requestmetrics_requests_total",
        NETWORK + "RequestMetrics,name=RequestsPerSec",
        ("request", "version"),
        "Requests that were answered, by API and version.",
        lambda node: (
            ((name, str(version)), count) for name, times in _times(node) for version, count in times.by_version()
        ),
    ),
    counters(
        "kafka_network_requestmetrics_errors_total",
        NETWORK + "RequestMetrics,name=ErrorsPerSec",
        ("request", "error"),
        "Error codes in the answers that this node has made, those of their parts among them; NONE counts too.",
        lambda node: (
            ((name, CODES.get(code, str(code))), count)
            for name, times in _times(node)
            for code, count in times.by_code()
        ),
    ),
    summaries(
        "kafka_network_requestmetrics_totaltimems",
        NETWORK + "RequestMetrics,name=TotalTimeMs",
        API,
        "From the last byte of a request until its answer was handed to the kernel, in ms.",
        _spread(lambda times: times.total),
    ),
    summaries(
        "kafka_network_requestmetrics_requestqueuetimems",
        NETWORK + "RequestMetrics,name=RequestQueueTimeMs",
        API,
        "How long requests waited until they began, in ms.",
        _spread(lambda times: times.queue),
    ),
    summaries(
        "kafka_network_requestmetrics_localtimems",
        NETWORK + "RequestMetrics,name=LocalTimeMs",
        API,
        "How long requests were worked on by the node's thread, in ms.",
        _spread(lambda times: times.local),
    ),
    summaries(
        "kafka_network_requestmetrics_remotetimems",
        NETWORK + "RequestMetrics,name=RemoteTimeMs",
        API,
        "How long requests waited for followers, data, disks, controllers, or their next slice, in ms.",
        _spread(lambda times: times.remote),
    ),
    summaries(
        "kafka_network_requestmetrics_responsequeuetimems",
        NETWORK + "RequestMetrics,name=ResponseQueueTimeMs",
        API,
        "How long answers waited for earlier answers of their connection, in ms.",
        _spread(lambda times: times.response_queue),
    ),
    summaries(
        "kafka_network_requestmetrics_responsesendtimems",
        NETWORK + "RequestMetrics,name=ResponseSendTimeMs",
        API,
        "How long it took until answers were handed to the kernel, in ms. What a slow peer leaves unread is not in it.",
        _spread(lambda times: times.send),
    ),
    summaries(
        "kafka_network_requestmetrics_requestbytes",
        NETWORK + "RequestMetrics,name=RequestBytes",
        API,
        "The size of requests in bytes.",
        _spread(lambda times: times.size, 1.0),
    ),
    gauges(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        SERVER + "DelayedOperationPurgatory,name=PurgatorySize",
        ("delayedOperation",),
        "Requests that wait: for followers, for data, for other nodes, or for their time.",
        lambda node: (
            ((node.requests.api_names.get(key, str(key)),), times.waiting)
            for key, times in node.requests.connections.meters.items()
        ),
    ),
    gauge(
        "kafka_network_requestchannel_requestqueuesize",
        NETWORK + "RequestChannel,name=RequestQueueSize",
        "Requests of clients and replicas that wait for their turn.",
        lambda node: node.requests.queue.size(Lane.DATA),
    ),
    gauge(
        "kafka_network_requestchannel_controlplanerequestqueuesize",
        "KIP-291: RequestChannel,name=ControlPlaneRequestQueueSize",
        "Requests of the control-plane listener that wait for their turn.",
        _with_plane(lambda node: node.requests.queue.control_requests),
    ),
    gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        SERVER + "KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
        "The share of the last minute in which the node's thread had no client's request to work on, 0 to 1.",
        lambda node: node.requests.idle[Lane.DATA].share(node.runtime.stopwatch()),
    ),
    gauge(
        "kafka_server_kafkarequesthandlerpool_controlplanerequesthandleravgidle_percent",
        "KIP-291: KafkaRequestHandlerPool,name=ControlPlaneRequestHandlerAvgIdlePercent",
        "The same of the control-plane listener.",
        _with_plane(lambda node: node.requests.idle[Lane.CONTROL].share(node.runtime.stopwatch())),
    ),
    gauge(
        "kafka_network_socketserver_expiredconnectionskilledcount",
        NETWORK + "SocketServer,name=ExpiredConnectionsKilledCount",
        "Connections that were closed because their login was no longer good (KIP-368).",
        lambda node: node.requests.expired[0],
    ),
    gauge(
        "kafka_network_socketserver_controlplaneexpiredconnectionskilledcount",
        "KIP-291: SocketServer,name=ControlPlaneExpiredConnectionsKilledCount",
        "The same of the control-plane listener.",
        lambda node: node.requests.expired[1],
    ),
    gauges(
        "kafka_server_socket_server_metrics_connection_count",
        DOORS + "connection-count",
        LISTENER,
        "Open connections, by listener.",
        _doors(lambda door: door.opened - door.closed),
    ),
    counters(
        "kafka_server_socket_server_metrics_connection_creation_total",
        DOORS + "connection-creation-total",
        LISTENER,
        "Connections that were opened, by listener.",
        _doors(lambda door: door.opened),
    ),
    counters(
        "kafka_server_socket_server_metrics_connection_close_total",
        DOORS + "connection-close-total",
        LISTENER,
        "Connections that were closed, by listener.",
        _doors(lambda door: door.closed),
    ),
    counters(
        "kafka_server_socket_server_metrics_request_total",
        DOORS + "request-total",
        LISTENER,
        "Requests that came, by listener.",
        _doors(lambda door: door.requests),
    ),
    counters(
        "kafka_server_socket_server_metrics_response_total",
        DOORS + "response-total",
        LISTENER,
        "Answers that left, by listener.",
        _doors(lambda door: door.responses),
    ),
    counters(
        "kafka_server_socket_server_metrics_incoming_byte_total",
        DOORS + "incoming-byte-total",
        LISTENER,
        "Bytes of requests, by listener.",
        _doors(lambda door: door.bytes_in),
    ),
    counters(
        "kafka_server_socket_server_metrics_outgoing_byte_total",
        DOORS + "outgoing-byte-total",
        LISTENER,
        "Bytes of answers, by listener.",
        _doors(lambda door: door.bytes_out),
    ),
    counters(
        "kafka_server_socket_server_metrics_successful_authentication_total",
        DOORS + "successful-authentication-total",
        LISTENER,
        "Logins that succeeded (SASL), by listener.",
        _doors(lambda door: door.logins),
    ),
    counters(
        "kafka_server_socket_server_metrics_failed_authentication_total",
        DOORS + "failed-authentication-total",
        LISTENER,
        "Logins that failed (SASL), by listener.",
        _doors(lambda door: door.failed_logins),
    ),
    gauges(
        "kafka_server_socket_server_metrics_expired_connections_killed_count",
        SERVER + "socket-server-metrics,name=expired-connections-killed-count",
        LISTENER,
        "Connections that were closed because their login was no longer good, by listener.",
        _doors(lambda door: door.expired),
    ),
    gauge(
        "rayft_request_bytes_held",
        "",
        "Bytes of requests that have come and are not answered.",
        lambda node: node.requests.connections.bytes_held,
    ),
    gauge(
        "rayft_response_bytes_behind_earlier_ones",
        "",
        "Bytes of answers that wait for an earlier one of their connection.",
        lambda node: node.requests.connections.behind_bytes,
    ),
    gauge(
        "rayft_unread_record_bytes",
        "",
        "Bytes of records that were sent and that peers have not read.",
        lambda node: node.requests.connections.unread_bytes,
    ),
    gauges(
        "rayft_peer_memory_bytes",
        "",
        ("owner",),
        "Memory that is kept for peers, by what keeps it.",
        lambda node: (((owner,), size) for owner, size in node.runtime.ledger.kept()),
    ),
    counters(
        "rayft_peer_memory_refused_total",
        "",
        ("owner",),
        "How often there was no room for something of a peer, by what would have kept it.",
        lambda node: (((owner,), times) for owner, times in node.runtime.ledger.refused()),
    ),
    gauges(
        "rayft_peer_memory_principal_bytes",
        "",
        ("principal",),
        f"Memory that is kept for the {PRINCIPALS_SHOWN_MAX} principals that have most of it.",
        lambda node: (
            ((principal or "brokers of the cluster",), size)
            for principal, size in node.runtime.ledger.largest(PRINCIPALS_SHOWN_MAX)
        ),
    ),
    gauge(
        "rayft_longest_turn_ms",
        "",
        "The longest turn of the node's one thread since the start, in ms.",
        lambda node: node.runtime.steps.longest_turn_ns / MS,
    ),
    counters(
        "rayft_long_steps_total",
        "",
        ("step",),
        "Steps of work that took 4 ms or more, by API or function.",
        lambda node: (((name,), long.times) for name, long in node.runtime.steps.long.items()),
    ),
    gauges(
        "rayft_long_step_max_ms",
        "",
        ("step",),
        "The longest of them in ms.",
        lambda node: (((name,), long.longest_ns / MS) for name, long in node.runtime.steps.long.items()),
    ),
    counter(
        "rayft_failed_logins_total",
        "",
        "Logins that failed on all listeners.",
        lambda node: node.requests.failed_logins,
    ),
)
