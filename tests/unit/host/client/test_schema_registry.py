"""A schema registry over HTTP: what it gives, what it refuses, and that one that is away costs a sentence and no more."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from actors.host.client import schema_registry as module
from actors.host.client.schema_registry import ANSWER_BYTES_MAX, Registry, Written
from actors.page.decoding.decoded import BYTES_LISTED, Decoded, decoder, schema_id

PERSON = {"schema": '{"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}]}'}
PROTO = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; package p; message M { string s = 1; }'}
ANSWERS = {
    "/schemas/ids/1": PERSON,
    "/schemas/ids/2": PROTO,
    "/schemas/ids/3": {"schemaType": "JSON", "schema": "{}"},
    "/schemas/ids/4": {
        "schema": '{"type": "array", "items": "Person"}',
        "references": [{"name": "Person", "subject": "a/b", "version": 2}],
    },
    "/subjects/a%2Fb/versions/2": PERSON,
    "/schemas/ids/5": {"schema": "{", "references": [{"name": "r", "subject": "loop", "version": 1}]},
    "/subjects/loop/versions/1": {"schema": "1", "references": [{"name": "s", "subject": "loop", "version": 1}]},
    "/schemas/ids/6": {"schema": '{"type": "broken"}'},
    "/schemas/ids/7": [],
    "/schemas/ids/8": {"schema": "x" * (ANSWER_BYTES_MAX + 1)},
}
Serve = Callable[[str, dict[str, str], asyncio.StreamWriter], Awaitable[None]]


class Served:
    """A registry that answers, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []
        self.logins: set[str] = set()


@asynccontextmanager
async def served(serve: Serve | None = None) -> AsyncIterator[Served]:
    """A registry on this machine."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readline()).split()[1].decode()
            headers = {}
            while line := (await reader.readline()).strip():
                name, _, value = line.decode().partition(": ")
                headers[name.lower()] = value
            found.asked.append(path)
            found.logins.add(headers.get("authorization", ""))
            await (serve or answer)(path, headers, writer)
            await writer.drain()
        except (OSError, IndexError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    found = Served(f"http://127.0.0.1:{port}/base/")
    try:
        yield found
    finally:
        server.close()


async def answer(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
    told = ANSWERS.get(path.removeprefix("/base"))
    status = "404 Not Found" if told is None else "200 OK"
    writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n".encode() + json.dumps(told).encode())


def value(id: int, data: bytes) -> bytes:
    return b"\0" + id.to_bytes(4, "big") + data


async def read(registry: Registry, *values: bytes, is_whole: bool = False) -> list[Decoded | None]:
    found = await decoder(registry, values, is_whole)
    return [found.read(one) for one in values]


def test_values_are_read_by_the_schemas_that_they_name() -> None:
    async def run() -> None:
        async with served() as there:
            registry = Registry(there.url)
            values = [
                value(1, b"\x06Bob"),
                value(2, b"\0\x0a\x01x"),
                value(3, b"[1]"),
                value(4, b"\x02\x06Bob\0"),
                b"plain",
            ]
            assert await read(registry, *values) == [
                Decoded('{"name": "Bob"}', "Person, Avro, schema 1"), Decoded('{"s": "x"}', "p.M, Protobuf, schema 2"),
                Decoded("[1]", "JSON, schema 3"), Decoded('[{"name": "Bob"}]', "Avro, schema 4"), None,
            ]  # fmt: skip
            before = len(there.asked)
            await read(registry, *values)
            assert len(there.asked) == before == 5, "what is known is not asked for again"

    asyncio.run(run())


def test_what_cannot_be_read_is_told_in_a_sentence() -> None:
    async def run() -> None:
        async with served() as there:
            registry = Registry(there.url)
            ids = (1, 5, 6, 7, 8, 99)
            told = await read(registry, *(value(id, b"\x06B") for id in ids), value(1, b"\0" * BYTES_LISTED))
            found = {
                id: one.schema for id, one in zip((*ids, 0), told, strict=True) if one is not None and not one.text
            }
            assert "it ends in the middle" in found[1] and "refers to too many" in found[5]
            assert "its Avro schema cannot be read" in found[6] and "cannot be read" in found[7]
            assert "too long" in found[8] and found[99] == "the schema registry has no schema 99"
            assert found[0] == f"it has {BYTES_LISTED + 5:,} bytes: open it"
            many = b"\x06Bob" * 400
            other = value(4, b"\xa0\x06" + many + b"\0")
            (listed,), (whole,) = await read(registry, other), await read(registry, other, is_whole=True)
            assert listed is not None and whole is not None and len(json.loads(whole.text)) == 400
            assert listed == Decoded("", "it is larger than 1,000 parts: open it")

    asyncio.run(run())


def test_a_login_goes_to_the_registry_and_into_no_name() -> None:
    async def run() -> None:
        async with served() as there:
            for one in (Registry(there.url, "me:se cret"), Registry(there.url.replace("://", "://me:se%20cret@"))):
                assert isinstance((await one.schemas([1]))[1], Written)
                assert "secret" not in one.name and "me" not in one.name
            assert there.logins == {"Basic " + base64.b64encode(b"me:se cret").decode()}

    asyncio.run(run())


async def silence(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def drip(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x: y\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


async def broken(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 No\r\n\r\n")


async def redirected(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n")


async def refusing(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 422 Unprocessable Entity\r\n\r\n{}")


@pytest.mark.parametrize(("serve", "words"), [(redirected, "elsewhere"), (refusing, "answers with 422")])
def test_what_one_schema_is_refused_with_says_nothing_of_others(serve: Serve, words: str) -> None:
    async def odd(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        await (answer if path.endswith("/1") else serve)(path, headers, writer)

    async def run() -> None:
        async with served(odd) as there:
            registry = Registry(there.url)
            (told,) = await read(registry, value(2, b""))
            assert told is not None and told.text == "" and words in told.schema
            (told,) = await read(registry, value(1, b"\x06Bob"))
            assert told is not None and told.text == '{"name": "Bob"}'
            assert there.asked == ["/base/schemas/ids/2", "/base/schemas/ids/1"]

    asyncio.run(run())


async def half(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\n\r\n{"schema":')


async def missing(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n{}")


@pytest.mark.parametrize(("serve", "words"), [(half, "cannot be read"), (missing, "has no schema 1")])
def test_a_schema_that_there_was_not_is_asked_for_again(
    serve: Serve, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serves = [serve]

    async def first(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        await serves[-1](path, headers, writer)

    async def run() -> None:
        async with served(first) as there:
            registry = Registry(there.url)
            for _ in range(2):
                (told,) = await read(registry, value(1, b"\x06Bob"))
                assert told is not None and told.text == "" and words in told.schema
            assert len(there.asked) == 1, "not for each look"
            serves.append(answer)  # it is registered
            now_s = time.monotonic() + module.AWAY_S
            monkeypatch.setattr(module.time, "monotonic", lambda: now_s)
            (told,) = await read(registry, value(1, b"\x06Bob"))
            assert told is not None and told.text == '{"name": "Bob"}'

    asyncio.run(run())


def test_what_is_kept_of_a_registry_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    large = json.dumps("s" * 500)

    async def any(path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps({"schema": large}).encode())

    async def run() -> None:
        async with served(any) as there:
            registry = Registry(there.url)
            for at in range(0, 60, 6):
                found = await registry.schemas(range(at, at + 6))
                assert len(found) == 6 and all(isinstance(one, Written) for one in found.values())
            kept = sum(len(one.text) for one in registry._known.values())
            assert 0 < kept <= 10_000

    monkeypatch.setattr(module, "KEPT_CHARS_MAX", 10_000)
    asyncio.run(run())


@pytest.mark.parametrize("serve", [silence, drip, broken])
def test_a_registry_that_is_away_is_asked_once_in_a_while(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.3)

    async def run() -> None:
        async with served(serve) as there:
            registry = Registry(there.url)
            for _ in range(3):
                (told,) = await read(registry, value(1, b""))
                assert told is not None and told.text == "" and "does not answer" in told.schema
            assert len(there.asked) == 1, "nobody waits for it again and again"
            monkeypatch.setattr(registry, "_away_until_s", 0.0)
            await read(registry, value(1, b""))
            assert len(there.asked) == 2

    asyncio.run(asyncio.wait_for(run(), 30))


def test_nobody_at_the_address() -> None:
    async def run() -> None:
        async with served() as there:
            gone = Registry(there.url)
        (told,) = await read(gone, value(1, b""))
        assert told == Decoded("", f"the schema registry {gone.name} does not answer")

    asyncio.run(run())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8081",
        "ftp://localhost",
        "http://",
        "http://a?b=c",
        "file:///etc/passwd",
        "http://a:b",
        "http://[a",
    ],
)
def test_what_is_no_registry_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="has to be a URL"):
        Registry(url)


@pytest.mark.parametrize("data", [None, b"", b"\0\0\0\0", b"\x01\0\0\0\x01x"])
def test_values_without_a_schema(data: bytes | None) -> None:
    assert schema_id(data) is None
    assert schema_id(b"\0\xff\xff\xff\xff") == 0xFFFFFFFF
