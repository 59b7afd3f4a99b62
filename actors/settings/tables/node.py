"""Settings of a process: its roles and ids, listeners, controllers, and the memory that it keeps for peers."""

from actors.settings.keys import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    Check,
    ConfigKey,
    at_least,
    idle,
    key,
    one_of,
)

_PORT_LIST = Check(
    "NAME:PROTOCOL pairs separated by commas", lambda value: all(":" in p for p in value.split(",") if p)
)
_NO_ZK = "ids are never handed out automatically"

ROWS: tuple[ConfigKey, ...] = (
    key("process.roles", LIST, None, None, "Roles of this process: broker, controller or both."),
    key("broker.id", INT, -1, None, "Id of the broker in this process. One id space with controllers."),
    key("controller.id", INT, -1, None, "Id of the controller in this process. One id space with brokers."),
    key("node.id", INT, -1, None, "The one id of a process with one role; stands for broker.id or controller.id."),
    key("listeners", LIST, None, None, "Sockets to open: NAME://host:port, separated by commas."),
    key("advertised.listeners", LIST, None, None, "What clients and other controllers are told instead of listeners."),
    key("listener.security.protocol.map", STRING, None, _PORT_LIST,
        "Security protocol of each listener name."),
    key("inter.broker.listener.name", STRING, None, None, "Listener that brokers use among themselves."),
    key("security.inter.broker.protocol", STRING, "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "Picks the inter-broker listener by its protocol; not together with inter.broker.listener.name."),
    key("control.plane.listener.name", STRING, None, None, "Listener of a broker's control plane (KIP-291)."),
    key("rayft.metadata.push.enable", BOOLEAN, False, None,
        "Controllers: tell brokers that do not pull the metadata log what changes, with LeaderAndIsr, UpdateMetadata "
        "and StopReplica."),
    key("rayft.metadata.source", STRING, "log", one_of("log", "push"),
        "Brokers: log: pull the metadata log. push: be told by the active controller."),
    key("rayft.bridge.listener.names", LIST, None, None,
        "Controllers: listeners for Apache Kafka's brokers in ZooKeeper mode and their clients, named as those brokers "
        "name their own."),
    key("rayft.bridge.zookeeper.connect", STRING, "", None,
        "Controllers: the ZooKeeper of a cluster to take over, as its brokers have it in zookeeper.connect (extra "
        "`bridge`)."),
    key("rayft.bridge.zookeeper.session.timeout.ms", INT, 18000, at_least(1000),
        "Controllers: after this time without them ZooKeeper forgets their session."),
    key("controller.listeners", LIST, None, None, "Listeners of the controller role; the first one is dialled."),
    key("controller.connect", LIST, None, None, "Controllers to contact at start: [id@]host:port."),
    key("rayft.kept.room.bytes", LONG, 16777216, at_least(0),
        "Room kept back in each log directory for what makes room when its disk is full: names, checkpoints, snapshots "
        "and the metadata log; an eighth of the disk at most. 0 keeps none."),
    key("rayft.disk.sync", BOOLEAN, True, None,
        "Whether what counts as durable is on the device. false: the kernel has it, so that a kill takes nothing, and a "
        "loss of power may. For tests: it saves their nodes the time of the disk."),
    key("rayft.peer.memory.bytes", LONG, 536870912, at_least(1 << 20),
        "Memory for what is kept for peers beyond their requests: fetch and share sessions, members of groups, parked "
        "requests, metrics of clients. What becomes of more, `Memory for requests and answers` says."),
    key("rayft.peer.memory.principal.bytes", LONG, 268435456, at_least(1 << 20),
        "The part of that which one principal may have. Peers that nobody has asked who they are have no such bound."),
    key("rayft.metrics.listen", STRING, None, None,
        "host:port at which Prometheus finds the metrics of this process."),
    key("rayft.metrics.otlp.endpoint", STRING, None, None,
        "URL of an OpenTelemetry collector to which the same metrics are sent, for example "
        "http://localhost:4318/v1/metrics (extra `otlp`)."),
    key("rayft.metrics.otlp.interval.ms", INT, 60000, at_least(1000), "How often they are sent."),
    key("rayft.metrics.otlp.headers", PASSWORD, None, None,
        "Headers of those requests, NAME=VALUE with commas between: a token, say."),
    key("rayft.logging.config", STRING, None, None,
        "File for Python's logging.config.dictConfig, in JSON: where the lines of this process's log go."),
    key("rayft.logging.format", STRING, "text", one_of("text", "json"),
        "What a line of this process's log is: text, or an object in JSON with time, level, logger, node and message."),
    key("telemetry.max.bytes", INT, 1048576, at_least(1),
        "What a client may push of its metrics at once, compressed (KIP-714)."),
    key("broker.rack", STRING, None, None, "Rack of the broker; replicas are spread over racks."),
    idle("broker.id.generation.enable", BOOLEAN, False, None, _NO_ZK),
    idle("reserved.broker.max.id", INT, 1000, None, _NO_ZK),
)  # fmt: skip
