"""The drivers of the client with real sockets: names with several addresses, connections that ended unnoticed."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.client.asks import AnyNode, Ask, Know, Steps
from actors.client.errors import ClientError
from actors.client.operations import topics
from actors.host.client import asynchronous
from actors.host.client.blocking import Kafka, connect, settings
from actors.wire.messages import message
from tests.unit.client.listening import Listening

SILENT = {"socket.connection.setup.timeout.ms": 200}


@pytest.fixture
def deaf() -> Iterator[tuple[str, int]]:
    """An address that neither takes a connection nor refuses it."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for one in fillers:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        yield full.getsockname()
        for one in fillers:
            one.close()


def named(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", one) for one in addresses]
    known = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *some, **more: found if "two" in host else known(host, *some, **more)
    )


def test_another_address_is_tried_after_one_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, deaf: tuple[str, int]
) -> None:
    with Listening({}, t=[1]) as server:
        named(monkeypatch, deaf, ("127.0.0.1", server.server.port))
        with connect("two.example:9092", SILENT) as kafka:
            assert set(kafka.run(topics.describe(), 3)) == {"t"}


def test_another_address_is_tried_beside_one_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, deaf: tuple[str, int]
) -> None:
    async def described(server: Listening) -> Any:
        async with asynchronous.connect("two.example:9092") as kafka:
            return await kafka.run(topics.describe(), 3)

    with Listening({}, t=[1]) as server:
        named(monkeypatch, deaf, ("127.0.0.1", server.server.port))
        assert set(asyncio.run(described(server))) == {"t"}


def test_names_that_are_not_known_cost_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    known = socket.getaddrinfo

    def found(host: str, *some: Any, **more: Any) -> Any:
        if host.endswith(".invalid"):
            raise socket.gaierror(-2, "Name or service not known")
        return known(host, *some, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    with Listening({}, t=[1]) as server:
        servers = ",".join([*(f"x{n}.invalid:1" for n in range(6)), server.address])
        begun = time.monotonic()
        with connect(servers) as kafka:
            kafka.run(topics.describe(), 30)
        assert time.monotonic() - begun < 2


def test_a_request_that_may_not_be_sent_twice_is_not_sent_on_a_connection_that_has_ended() -> None:
    kind = message("CreateTopicsResponse")
    made = kind(topics=[kind.CreatableTopicResult(name="t")])
    with Listening({"CreateTopics": made}, t=[1]) as server, connect(server.address) as kafka:
        kafka.run(topics.describe())
        server.cut()
        server.until_open(0)
        assert kafka.run(topics.create([topics.NewTopic("t")])) == {"t": None}


def test_a_child_of_a_fork_neither_uses_nor_disturbs_the_client_of_its_parent() -> None:
    with Listening({}, t=[1]) as server, connect(server.address) as kafka:
        kafka.run(topics.describe())
        child = os.fork()
        if not child:
            try:
                kafka.run(topics.describe(), 1)
            except ClientError as error:
                kafka.close()
                os._exit(3 if "another process" in str(error) else 4)
            os._exit(5)
        _, status = os.waitpid(child, 0)
        assert set(kafka.run(topics.describe(), 2)) == {"t"}
        assert os.waitstatus_to_exitcode(status) == 3


def test_defaults_count_where_neither_a_mapping_nor_a_file_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=elsewhere:1\nfetch.max.bytes=1000\n")
    defaults = {"fetch.max.bytes": 1 << 24, "max.partition.fetch.bytes": 1 << 22}
    for config in (str(file), {"fetch.max.bytes": 1000}):
        found = settings("here:9092", config, defaults)
        assert (found.bootstrap, found.fetch_max_bytes) == ((("here", 9092),), 1000)
        assert found.partition_fetch_bytes == 1 << 22


def test_a_child_of_a_fork_does_not_wait_for_what_its_parent_has_begun() -> None:
    with Listening({}, t=[1]) as server, connect(server.address) as kafka:
        task = kafka.start(topics.describe(), 2)
        child = os.fork()
        if not child:
            try:
                kafka.wait(task)
            except ClientError as error:
                kafka.close()
                os._exit(3 if "another process" in str(error) else 4)
            os._exit(5)
        _, status = os.waitpid(child, 0)
        assert set(kafka.wait(task)) == {"t"}
        assert os.waitstatus_to_exitcode(status) == 3


def unsendable(at_once: bool) -> Steps[Any]:
    """Asks what cannot be made: at once, or in a later turn."""

    def build(version: int) -> Any:
        raise ZeroDivisionError

    if not at_once:
        yield Know((), fresh=True)
    yield Ask(AnyNode(), "ListGroups", build)


def broken() -> Steps[Any]:
    """Does not get along with an answer."""
    yield Know((), fresh=True)
    raise ZeroDivisionError


@pytest.mark.parametrize("steps", [lambda: unsendable(True), lambda: unsendable(False), broken])
def test_an_operation_that_raises_ends_alone(steps: Callable[[], Steps[Any]]) -> None:
    async def described(address: str) -> Any:
        async with asynchronous.connect(address) as kafka:
            await kafka.run(topics.describe(), 30)
            other = asyncio.ensure_future(kafka.run(steps(), 30))
            assert set(await kafka.run(topics.describe(), 30)) == {"t"}
            with pytest.raises(ZeroDivisionError):
                await other
            return await kafka.run(topics.describe(), 30)

    with Listening({}, t=[1]) as server:
        assert set(asyncio.run(described(server.address))) == {"t"}
        with connect(server.address) as kafka:
            kafka.run(topics.describe(), 30)
            other = kafka.start(steps(), 30)
            assert set(kafka.run(topics.describe(), 30)) == {"t"}
            with pytest.raises(ZeroDivisionError):
                kafka.wait(other)
            assert set(kafka.run(topics.describe(), 30)) == {"t"} and not kafka.client._tasks


@pytest.mark.parametrize("in_a_request", [False, True])
def test_an_operation_that_is_interrupted_is_over(in_a_request: bool) -> None:
    """It was begun before the one that is waited for, which ends with Ctrl-C; no other is begun in its stead."""

    def build(version: int) -> Any:
        raise KeyboardInterrupt

    def steps() -> Steps[Any]:
        yield Know((), fresh=True)
        if in_a_request:
            yield Ask(AnyNode(), "ListGroups", build)
        raise KeyboardInterrupt

    with Listening({}, t=[1]) as server, connect(server.address) as kafka:
        task = kafka.start(steps(), 30)
        with pytest.raises(KeyboardInterrupt):
            kafka.run(topics.describe(), 30)
        with pytest.raises(ClientError, match="the operation was interrupted"):
            kafka.wait(task)
        assert set(kafka.run(topics.describe(), 30)) == {"t"} and not kafka.client._tasks


def asked_once() -> Steps[Any]:
    """Is not sent anew when its connection ends."""
    kind = message("MetadataRequest")
    return (yield Ask(AnyNode(), "Metadata", lambda version: kind(topics=None), again=False))


@pytest.mark.parametrize("at", ["_write", "_read"])
def test_what_is_asked_behind_an_interruption_is_answered(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that were on their way are not sent again, and those that had come are not missing in the next answer."""
    method = getattr(Kafka, at)

    def interrupted(kafka: Kafka, conn: int, found: Any) -> None:
        if at == "_write":
            parts = found.out.copy()
            method(kafka, conn, found)
            found.out = parts
        else:
            assert found.sock.recv(5)
        raise KeyboardInterrupt

    with Listening({}, t=[1]) as server, connect(server.address) as kafka:
        kafka.run(asked_once(), 10)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Kafka, at, interrupted)
            kafka.run(asked_once(), 10)
        for _ in range(3):
            assert kafka.run(asked_once(), 10).message.topics[0].name == "t"


def test_an_operation_of_asyncio_that_cannot_be_begun_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes before anybody has it."""

    def interrupted(kafka: asynchronous.Kafka) -> None:
        raise KeyboardInterrupt

    async def begun(address: str) -> None:
        async with asynchronous.connect(address) as kafka:
            with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
                patched.setattr(asynchronous.Kafka, "turn", interrupted)
                kafka.start(topics.describe())
            assert not kafka.client._tasks
            assert set(await kafka.run(topics.describe(), 10)) == {"t"}

    with Listening({}, t=[1]) as server:
        asyncio.run(begun(server.address))
