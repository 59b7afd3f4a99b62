"""Settings of connections and requests, of client quotas, and of threads that are not needed here."""

from actors.settings.keys import CLUSTER, INT, LONG, MAX_INT, ONE_THREAD, STRING, ConfigKey, at_least, idle, key

_SCHEDULE = "work is scheduled by the node itself"

ROWS: tuple[ConfigKey, ...] = (
    key("socket.request.max.bytes", INT, 104857600, at_least(1),
        "Largest request; a larger one closes the connection."),
    key("socket.listen.backlog.size", INT, 50, at_least(1), "Connections that wait to be accepted."),
    key("socket.send.buffer.bytes", INT, 102400, at_least(-1), "SO_SNDBUF when given; else the system decides."),
    key("socket.receive.buffer.bytes", INT, 102400, at_least(-1),
        "SO_RCVBUF when given; else the system decides."),
    key("queued.max.requests", INT, 500, at_least(1), "Requests waiting in the data lane before reading stops."),
    key("queued.max.request.bytes", LONG, -1, None, "Bytes waiting in the data lane; -1 for no limit."),
    key("connections.max.idle.ms", LONG, 600000, None, "A connection without traffic for this long is closed."),
    key("max.connections", INT, MAX_INT, at_least(0),
        "Connections of a node; more are closed on arrival.", CLUSTER),
    key("max.connections.per.ip", INT, MAX_INT, at_least(0), "Connections of one address.", CLUSTER),
    key("max.connections.per.ip.overrides", STRING, "", None,
        "address:number pairs, before the general limit."),
    idle("max.connection.creation.rate", INT, MAX_INT, at_least(0), "accepting is not throttled", CLUSTER),
    idle("request.timeout.ms", INT, 30000, at_least(1), "each request to another node has a limit of its own"),
    idle("controller.socket.timeout.ms", INT, 30000, at_least(1),
         "each request to a controller has a limit of its own"),
    key("fetch.max.bytes", INT, 57671680, at_least(1024), "Largest answer to a fetch."),
    key("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0), "Fetch sessions kept."),
    key("max.request.partition.size.limit", INT, 2000, at_least(1),
        "Partitions in a DescribeTopicPartitions answer."),
    # --- client quotas
    key("quota.window.num", INT, 11, at_least(1), "Samples over which the rates of client quotas are taken."),
    key("quota.window.size.seconds", INT, 1, at_least(1), "How long each of these samples lasts."),
    key("controller.quota.window.num", INT, 11, at_least(1),
        "Samples for which a client may save up changes of the controller that its quota allows."),
    key("controller.quota.window.size.seconds", INT, 1, at_least(1), "How long each of these samples lasts."),
    idle("num.network.threads", INT, 3, at_least(1), ONE_THREAD, CLUSTER),
    idle("num.io.threads", INT, 8, at_least(1), ONE_THREAD, CLUSTER),
    idle("background.threads", INT, 10, at_least(1), ONE_THREAD, CLUSTER),
    idle("num.recovery.threads.per.data.dir", INT, 2, at_least(1), ONE_THREAD, CLUSTER),
    key("num.replica.alter.log.dirs.threads", INT, None, None,
        "How many replicas are moved between log directories at once; unset: as many as there are directories."),
    idle("fetch.purgatory.purge.interval.requests", INT, 1000, None, _SCHEDULE),
    idle("producer.purgatory.purge.interval.requests", INT, 1000, None, _SCHEDULE),
    idle("delete.records.purgatory.purge.interval.requests", INT, 1, None, _SCHEDULE),
    key("connection.failed.authentication.delay.ms", INT, 100, at_least(0),
        "How long a login that failed waits for its answer and the end of its connection."),
)  # fmt: skip
