"""A pytest plugin for suites whose Kafka is a container: `rayft.KafkaContainer` stands in its place.

`BROKERS` names a Kafka that is there already, which then serves instead. What each project asks Docker for is replaced here;
its tests and its own fixtures stay as they are.
"""

import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any

SERVERS = os.environ.get("BROKERS", "").partition(",")[0]


def container(*given: Any, **named: Any) -> Any:
    """A container that is not started yet."""
    if SERVERS:
        return Running()
    import rayft

    return rayft.KafkaContainer()


class Running:
    """A broker that others start and stop."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: self

    def get_bootstrap_server(self) -> str:
        """HOST:PORT."""
        return SERVERS


def _module(name: str, **content: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(content)
    sys.modules[name] = module


# ---- quixstreams: tests/containerhelper.py makes a DockerContainer


def _quixstreams() -> None:
    class DockerContainer:
        """Testcontainers' class."""

        def __new__(cls, *given: Any, **named: Any) -> Any:
            return container(*given, **named)

    class Network:
        """Testcontainers' class: there is none."""

        def __enter__(self) -> "Network":
            return self

        def __exit__(self, *given: object) -> None:
            pass

    for name in ("testcontainers", "testcontainers.core"):
        _module(name)
    _module("testcontainers.core.container", DockerContainer=DockerContainer)
    _module("testcontainers.core.network", Network=Network)
    if SERVERS:
        from tests.containerhelper import ContainerHelper  # type: ignore[import-not-found, unused-ignore]

        ContainerHelper.create_kafka_container = staticmethod(lambda network: (Running(), SERVERS, SERVERS))
        ContainerHelper.start_kafka_container = staticmethod(lambda container: None)


# ---- faststream: a docker-compose.yaml, whose broker is at localhost:9092

_started: list[Any] = []


def _faststream() -> None:
    from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from faststream import confluent, kafka  # type: ignore[import-not-found, unused-ignore]
    from faststream.confluent import fastapi as confluent_routes
    from faststream.kafka import fastapi as kafka_routes
    from tests.brokers.confluent.settings import Settings as OfConfluent  # type: ignore[import-not-found, unused-ignore]
    from tests.brokers.kafka.settings import Settings as OfKafka  # type: ignore[import-not-found, unused-ignore]

    broker = container().start()
    _started.append(broker)
    servers = broker.get_bootstrap_server()
    kinds = (confluent.KafkaBroker, kafka.KafkaBroker, confluent_routes.KafkaRouter, kafka_routes.KafkaRouter)
    for kind in (*kinds, AIOKafkaAdminClient):
        kind.__init__ = _elsewhere(kind.__init__, servers)
    for settings in (OfConfluent, OfKafka):
        settings.__init__.__defaults__ = (servers,)


def _elsewhere(begin: Callable[..., None], servers: str) -> Callable[..., None]:
    """The same constructor, for which what is at localhost:9092 is at `servers`."""

    @functools.wraps(begin)
    def wrapped(self: Any, *given: Any, **named: Any) -> None:
        asked = given[0] if given else named.get("bootstrap_servers", "localhost")
        if asked in ("localhost", "localhost:9092", ["localhost:9092"]):
            given, named = given[1:], named | {"bootstrap_servers": servers}
        begin(self, *given, **named)

    return wrapped


def pytest_unconfigure() -> None:
    """Stop what was started here."""
    for one in _started:
        one.stop()


# ---- aiokafka: tests/conftest.py runs an image by Docker's own client


class _Image:
    """The container of aiokafka's image: it has one listener of the four, and no tools."""

    def __init__(self, environment: dict[str, Any]) -> None:
        port = environment.get("ADVERTISED_PORT")
        self._broker = container() if port else None
        if self._broker is not None:
            config = {
                "KAFKA_NUM_PARTITIONS": environment["NUM_PARTITIONS"],
                "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "true",
                "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            }
            self._broker.with_bind_ports(port, port).with_envs(**config).start()

    def exec_run(self, *given: Any, **named: Any) -> tuple[int, bytes]:
        """Run nothing."""
        return 0, b""

    def stop(self) -> None:
        """Stop the broker."""
        if self._broker is not None:
            self._broker.stop()


class _Docker:
    """Docker's client."""

    def __init__(self) -> None:
        self.containers = self.images = self

    def run(self, environment: dict[str, Any] | None = None, **named: Any) -> _Image:
        """Start a container."""
        return _Image(environment or {})

    def pull(self, image: str) -> None:
        """There is none."""

    def close(self) -> None:
        """There is nothing to close."""


def _aiokafka() -> None:
    models = types.SimpleNamespace(containers=types.SimpleNamespace(Container=_Image))
    _module("docker", from_env=_Docker, models=models)
    from tests import _testutil  # type: ignore[import-not-found, unused-ignore]

    _testutil.KerberosUtils.create_keytab = lambda self: None


class _Ports:
    """In place of `socket` in aiokafka's conftest, where it is asked for free ports: the broker's is the first."""

    AF_INET = SOCK_STREAM = 0

    def __init__(self) -> None:
        self._ports = iter([int(SERVERS.rpartition(":")[2]), 1, 2, 3])

    def socket(self, *given: int) -> "_Ports":
        """A socket."""
        return self

    def __enter__(self) -> "_Ports":
        return self

    def __exit__(self, *given: object) -> None:
        pass

    def bind(self, address: tuple[str, int]) -> None:
        """Choose the next port."""

    def getsockname(self) -> tuple[str, int]:
        """The address that was bound."""
        return "127.0.0.1", next(self._ports)


# ---- which of them it is


def pytest_configure() -> None:
    """Replace what is asked for later than the project's conftest is read."""
    if PROJECT == "faststream":
        _faststream()
    elif PROJECT == "aiokafka" and SERVERS:
        from tests import conftest  # type: ignore[import-not-found, unused-ignore]

        conftest.socket = _Ports()


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep those tests that ask for the container."""
    wanted = WANTED.get(PROJECT)
    if wanted is not None:
        kept = [one for one in items if wanted.intersection(one.fixturenames)]
        config.hook.pytest_deselected(items=[one for one in items if one not in kept])
        items[:] = kept


WANTED = {"quixstreams": {"kafka_container", "kafka_container_factory"}, "aiokafka": {"kafka_server"}}
"""The fixtures behind which the container is. faststream has a mark."""
PROJECT = os.environ["SUITE"]
if PROJECT == "quixstreams":
    _quixstreams()
elif PROJECT == "aiokafka":
    _aiokafka()
