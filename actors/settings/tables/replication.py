"""Settings of replicas that follow leaders, and of the throttles between them."""

from actors.settings.keys import CLASS, CLUSTER, INT, LONG, MAX_LONG, Check, ConfigKey, at_least, idle, key

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_SELECTOR = Check(
    f"{RACK_AWARE}, or nothing to serve consumers from leaders; classes of your own cannot be loaded here",
    lambda value: value in ("", RACK_AWARE),
)

ROWS: tuple[ConfigKey, ...] = (
    key("replica.lag.time.max.ms", LONG, 30000, at_least(1), "A follower further behind in time leaves the ISR."),
    key("replica.fetch.max.bytes", INT, 1048576, at_least(0), "Bytes of a partition in a replica fetch."),
    key("replica.fetch.response.max.bytes", INT, 10485760, at_least(0), "Bytes of a whole replica fetch."),
    key("replica.fetch.min.bytes", INT, 1, at_least(0), "Bytes for which a replica fetch waits."),
    key("replica.fetch.wait.max.ms", INT, 500, at_least(0), "How long a replica fetch waits."),
    key("replica.alter.log.dirs.io.max.bytes.per.second", LONG, MAX_LONG, at_least(0),
        "Bytes a second for replicas that are moved between log directories, all together.", CLUSTER),
    idle("replica.fetch.backoff.ms", INT, 1000, at_least(0), "a refused fetch is tried again after 50 ms"),
    key("replica.socket.timeout.ms", INT, 30000, at_least(1), "Longest wait for an answer of another broker."),
    key("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, at_least(1),
        "How often they are written down."),
    key("leader.replication.throttled.rate", LONG, MAX_LONG, at_least(0),
        "Bytes a second that this broker sends to listed replicas that are not in sync (KIP-73).", CLUSTER),
    key("follower.replication.throttled.rate", LONG, MAX_LONG, at_least(0),
        "Bytes a second that listed replicas here that are not in sync take in (KIP-73).", CLUSTER),
    key("replication.quota.window.num", INT, 11, at_least(1), "Windows over which these rates are taken."),
    key("replication.quota.window.size.seconds", INT, 1, at_least(1), "The length of such a window."),
    key("replica.selector.class", CLASS, None, _SELECTOR,
        "Sends consumers that name their rack to a replica in it; empty: to the leader (KIP-392)."),
    idle("replica.socket.receive.buffer.bytes", INT, 65536, None, "the system sizes the buffer"),
    idle("num.replica.fetchers", INT, 1, at_least(1), "one connection a broker", CLUSTER),
)  # fmt: skip
