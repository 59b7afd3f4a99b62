"""A cluster in the shape of Testcontainers' `KafkaContainer`, so that a suite that has one changes its import and no more.

There is no container and no image: names of images, wait strategies, networks and the like are taken and have no effect.
What the variables KAFKA_... of an image would set, is set, but for what says where the nodes listen and who they are. A port
of the host that is bound is the broker's: the one of `port` if several are, else the first.
"""

from types import TracebackType
from typing import Any

from actors.host.cluster.on_processes import Cluster
from actors.testing.wanted import QUICK

PREFIX = "KAFKA_"
STARTED = b"[KafkaServer id=1] started\n[KafkaRaftServer nodeId=1] Kafka Server started\n"
"""The lines of Apache Kafka's log that suites wait for: that of ZooKeeper's days, and today's."""
PLACED = frozenset({
    "node.id", "broker.id", "process.roles", "listeners", "advertised.listeners", "controller.quorum.voters",
    "controller.quorum.bootstrap.servers", "controller.listener.names", "listener.security.protocol.map",
    "inter.broker.listener.name", "log.dirs", "log.dir", "zookeeper.connect",
})  # fmt: skip
"""Settings that say where nodes are and what they are: the cluster decides them."""
NOT_BROKERS = ("heap.opts", "opts", "log4j", "jmx", "jvm", "cluster.id", "rest", "schema.registry")
"""Beginnings of variables that are the image's and no settings of a broker."""


class KafkaContainer:
    """A broker that is a controller too.

    >>> with KafkaContainer() as kafka:
    ...     connect(kafka.get_bootstrap_server())
    """

    def __init__(self, image: str = "", port: int = 9093, **ignored: Any) -> None:
        """`port`: the one by which `get_exposed_port` is asked; the real one is free and chosen at the start."""
        self.image, self.port = image, port
        self.env: dict[str, str] = {}
        self._bound: dict[str, int] = {}
        """Ports of the host, by the image's own."""
        self._cluster: Cluster | None = None

    def with_env(self, key: str, value: str) -> "KafkaContainer":
        """Set a variable of the image, as in KAFKA_AUTO_CREATE_TOPICS_ENABLE."""
        self.env[key] = str(value)
        return self

    def with_envs(self, **variables: str) -> "KafkaContainer":
        """Set several variables."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_bind_ports(self, container: int | str, host: Any = None) -> "KafkaContainer":
        """Let the broker have the port `host`. It may be said as for Docker: a text, or behind an address, which has no
        effect. None and 0: a free one. Raises ValueError."""
        port = host[-1] if isinstance(host, tuple | list) else host
        self._bound[str(container).removesuffix("/tcp")] = int(port or 0)
        return self

    @property
    def bound_port(self) -> int:
        """The port that the broker is to have; 0: a free one."""
        return self._bound.get(str(self.port)) or next(filter(None, self._bound.values()), 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("with_"):
            return lambda *ignored, **named: self
        raise AttributeError(f"a KafkaContainer of rayft has no {name!r}")

    def start(self, timeout: float = 60.0) -> "KafkaContainer":
        """Start it, and return when it serves. `timeout`: s. Raises ClusterError, and ConfigError for a variable that is no
        setting."""
        if self._cluster is None:
            config = QUICK | broker_settings(self.env)
            self._cluster = Cluster(1, 1, config=config, combined=True, port=self.bound_port, start_timeout_s=timeout)
            try:
                self._cluster.start()
            except BaseException:
                self.stop()
                raise
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop it, and remove its files."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.stop()

    @property
    def cluster(self) -> Cluster:
        """The cluster, to kill and freeze it. Raises RuntimeError before the start."""
        if self._cluster is None:
            raise RuntimeError("the KafkaContainer is not started: call start(), or use it in a with statement")
        return self._cluster

    def get_bootstrap_server(self) -> str:
        """HOST:PORT of the broker."""
        return self.cluster.bootstrap_servers

    def get_container_host_ip(self) -> str:
        """The host of the broker."""
        return self.get_bootstrap_server().rpartition(":")[0]

    def get_exposed_port(self, port: int | None = None) -> int:
        """The port of the broker, whichever is asked for."""
        return int(self.get_bootstrap_server().rpartition(":")[2])

    def get_logs(self) -> tuple[bytes, bytes]:
        """What the node has logged, and nothing. A log ends in the lines by which suites know that Apache Kafka serves."""
        return self.cluster.log(1).encode() + STARTED, b""

    def __enter__(self) -> "KafkaContainer":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def broker_settings(env: dict[str, str]) -> dict[str, str]:
    """The settings that the variables of an image stand for: KAFKA_LOG_RETENTION_MS is log.retention.ms; two underlines are
    a hyphen, three an underline."""
    found = {}
    for key, value in env.items():
        if not key.startswith(PREFIX):
            continue
        name = key.removeprefix(PREFIX).lower()
        name = name.replace("___", "\0").replace("__", "-").replace("_", ".").replace("\0", "_")
        if name not in PLACED and not name.startswith(NOT_BROKERS):
            found[name] = value
    return found
