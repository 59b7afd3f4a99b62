"""The metrics of a node's replica of the metadata log (KIP-595, KIP-630, KIP-836, KIP-853; Apache Kafka's `raft-metrics`).

This file alone decides what of the quorum is shown. Rates are of the last minute; a latency's average is that of the newest
thousand.
"""

from actors.node.metrics.family import Row, counter, gauge, gauges
from actors.node.metrics.requests import AnyNode
from actors.node.runtime.calls import Lane
from actors.raft import Role

RAFT = "kafka.server:type=raft-metrics,name="
CHANNELS = "kafka.server:type=raft-channel-metrics,name="
STATES = {
    Role.UNATTACHED: "unattached", Role.FOLLOWER: "follower", Role.PROSPECTIVE: "prospective",
    Role.CANDIDATE: "candidate", Role.LEADER: "leader", Role.RESIGNED: "resigned",
}  # fmt: skip


def _state(node: AnyNode) -> str:
    """The role in the quorum, as Apache Kafka calls it: a replica without a vote that follows is an observer."""
    raft, me = node.quorum.raft, node.quorum.identity.me
    if raft.role is Role.FOLLOWER and me not in raft.voters:
        return "observer"
    return STATES[raft.role]


QUORUM: tuple[Row[AnyNode], ...] = (
    gauges(
        "kafka_server_raftmetrics_current_state",
        RAFT + "current-state",
        ("current_state",),
        "1, with the role of this node in the quorum as a label.",
        lambda node: (((_state(node),), 1),),
    ),
    gauge(
        "kafka_server_raftmetrics_current_leader",
        RAFT + "current-leader",
        "The leader of the quorum; -1: none is known.",
        lambda node: node.quorum.leader_id,
    ),
    gauge(
        "kafka_server_raftmetrics_current_vote",
        RAFT + "current-vote",
        "The replica that this one has voted for in this epoch; -1: none.",
        lambda node: node.quorum.raft.voted,
    ),
    gauge(
        "kafka_server_raftmetrics_current_epoch",
        RAFT + "current-epoch",
        "The epoch of the quorum.",
        lambda node: node.quorum.raft.epoch,
    ),
    gauge(
        "kafka_server_raftmetrics_high_watermark",
        RAFT + "high-watermark",
        "All metadata records below this offset are committed, as far as this node knows.",
        lambda node: node.quorum.raft.high_watermark,
    ),
    gauge(
        "kafka_server_raftmetrics_log_end_offset",
        RAFT + "log-end-offset",
        "Where the metadata log ends here.",
        lambda node: node.quorum.raft.log_end_offset,
    ),
    gauge(
        "kafka_server_raftmetrics_number_unknown_voter_connections",
        RAFT + "number-unknown-voter-connections",
        "Voters whose address this node does not know.",
        lambda node: sum(
            node.quorum.identity.addresses.find(key.id) is None
            for key in node.quorum.raft.voters.keys
            if key.id != node.quorum.identity.me.id
        ),
    ),
    gauge(
        "kafka_server_raftmetrics_number_of_voters",
        "KIP-853: raft-metrics,name=number-of-voters",
        "Voters, by the newest record in the log.",
        lambda node: len(node.quorum.raft.voters),
    ),
    gauge(
        "rayft_quorum_voters_caught_up",
        "",
        "Voters that held all that this leader had at some time within controller.quorum.fetch.timeout.ms, itself among "
        "them; absent elsewhere.",
        lambda node: node.quorum.raft.voters_caught_up if node.quorum.raft.role is Role.LEADER else None,
    ),
    gauge(
        "kafka_server_raftmetrics_number_of_observers",
        "KIP-853: raft-metrics,name=number-of-observers",
        "Observers that fetch from this leader; absent elsewhere.",
        lambda node: node.quorum.raft.observers if node.quorum.raft.role is Role.LEADER else None,
    ),
    gauge(
        "kafka_server_raftmetrics_pending_add_voter",
        "KIP-853",
        "1 while this leader has a change of the voters that is not committed; absent elsewhere.",
        lambda node: int(node.quorum.raft.changing) if node.quorum.raft.role is Role.LEADER else None,
    ),
    gauge(
        "kafka_server_raftmetrics_election_latency_avg",
        RAFT + "election-latency-avg",
        "How long no leader was known before one was, in ms: the average.",
        lambda node: node.quorum.election_latency_ms.mean,
    ),
    gauge(
        "kafka_server_raftmetrics_election_latency_max",
        RAFT + "election-latency-max",
        "How long no leader was known before one was, in ms: the longest.",
        lambda node: node.quorum.election_latency_ms.quantile(1.0),
    ),
    gauge(
        "kafka_server_raftmetrics_fetch_records_rate",
        RAFT + "fetch-records-rate",
        "Metadata records a second that this replica takes in from the leader.",
        lambda node: node.quorum.fetched.rate(1, node.runtime.now.mono_ms),
    ),
    gauge(
        "kafka_server_raftmetrics_append_records_rate",
        RAFT + "append-records-rate",
        "Metadata records a second that this replica appends as the leader.",
        lambda node: node.quorum.appended.rate(1, node.runtime.now.mono_ms),
    ),
    gauge(
        "kafka_server_raftmetrics_poll_idle_ratio_avg",
        RAFT + "poll-idle-ratio-avg",
        "The share of the last minute in which nothing of controllers waited for the node's thread, 0 to 1.",
        lambda node: node.requests.idle[Lane.CONTROL].share(node.runtime.stopwatch()),
    ),
    counter(
        "kafka_server_raftchannelmetrics_request_total",
        CHANNELS + "request-total",
        "Requests to other replicas of the metadata log.",
        lambda node: node.quorum.channels.to_quorum.requests,
    ),
    counter(
        "kafka_server_raftchannelmetrics_response_total",
        CHANNELS + "response-total",
        "Their answers.",
        lambda node: node.quorum.channels.to_quorum.responses,
    ),
    counter(
        "kafka_server_raftchannelmetrics_outgoing_byte_total",
        CHANNELS + "outgoing-byte-total",
        "Bytes of requests to other replicas of the metadata log.",
        lambda node: node.quorum.channels.to_quorum.bytes_out,
    ),
    counter(
        "kafka_server_raftchannelmetrics_incoming_byte_total",
        CHANNELS + "incoming-byte-total",
        "Bytes of their answers.",
        lambda node: node.quorum.channels.to_quorum.bytes_in,
    ),
    gauge(
        "kafka_server_metadataloader_handleloadsnapshotcount",
        "kafka.server:type=MetadataLoader,name=HandleLoadSnapshotCount",
        "Snapshots of the metadata that this process has loaded.",
        lambda node: node.quorum.snapshots_loaded,
    ),
    gauge(
        "kafka_server_metadataloader_currentcontrollerid",
        "kafka.server:type=MetadataLoader,name=CurrentControllerId",
        "The active controller as this node knows it; -1: none is known.",
        lambda node: node.quorum.leader_id,
    ),
)
