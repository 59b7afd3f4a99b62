"""A schema registry, read over HTTP (the API of Confluent's, which others have too): schemas by the ids in values.

This file alone decides how long a registry may take, and what its answers may be. A registry that is away costs one wait of
ANSWER_S in AWAY_S, and a sentence: records are shown as bytes then. A schema never changes and is kept; that there is none
is asked again after AWAY_S, as it may be registered, or a login allowed, meanwhile. Redirections are not followed. The
login is sent to the registry alone and is in no message.
"""

import asyncio
import base64
import json
import ssl
import time
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit

from actors.printable import printable

ANSWER_S = 3.0
AWAY_S = 15.0
"""How long a registry that did not answer, or has no such schema, is not asked again, s."""
ANSWER_BYTES_MAX = 2 << 20
HEAD_BYTES_MAX = 16 << 10
KEPT_MAX, KEPT_CHARS_MAX = 10_000, 64 << 20
REFERENCES_MAX = 64
SENTENCE_MAX = 500
"""How many characters a sentence may have: a schema names what it refers to as it likes, and each value has the sentence."""
AT_ONCE = 8
PASSING = (408, 429)
"""What a server that has too much to do answers."""


Id = TypeVar("Id", int, str)
"""What names a schema: an id, or a GUID as text."""


class Written(NamedTuple):
    """A schema as the registry has it."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    others: dict[str, str]
    """The schemas that it refers to, by the names that it has for them, each behind those that it refers to itself."""


class Absent(Exception):
    """The registry does not give a schema. The text is one sentence, without characters that a terminal obeys."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text[:SENTENCE_MAX]))


class NoSuch(Absent):
    """The registry says that it has no such schema."""


class TooLarge(Absent):
    """The registry has the schema, and it is more than is taken."""


class Unknown(str):
    """The sentence for a schema that the registry does not have, or that is too large: that is a fact about the values which
    were written with it. Any other sentence is one about the registry, and may be another one in a while."""


class Registry:
    """The schemas of one registry that were asked for."""

    def __init__(self, url: str, login: str = "", away_s: float = AWAY_S) -> None:
        """`login`: name:password; empty: none but what the URL has. `away_s`: how long one that did not answer is not asked
        again, s. Raises ValueError for a URL that is none."""
        wrong = ValueError("the schema registry has to be a URL, as http://localhost:8081.")
        try:
            split = urlsplit(url)
            port = split.port
        except ValueError:
            raise wrong from None
        if split.scheme not in ("http", "https") or not split.hostname or split.query or split.fragment:
            raise wrong
        self.is_secure = split.scheme == "https"
        self.host = split.hostname
        self.port = port or (443 if self.is_secure else 80)
        self._path = split.path.rstrip("/")
        named = f"{unquote(split.username)}:{unquote(split.password or '')}" if split.username else ""
        self._login = base64.b64encode((login or named).encode()).decode() if login or named else ""
        self._known: dict[int | str, Written] = {}
        self._chars = 0
        """The characters of those."""
        self._absent: dict[int | str, tuple[float, str]] = {}
        """When a schema is asked for again, and why there is none."""
        self._away_s = away_s
        self._away_until_s = 0.0
        self._why = ""
        self._turns = asyncio.Semaphore(AT_ONCE)

    @property
    def name(self) -> str:
        """The address, without a login."""
        return f"{'https' if self.is_secure else 'http'}://{self.host}:{self.port}{self._path}"

    async def schemas(self, ids: Iterable[Id]) -> dict[Id, Written | str]:
        """Each schema, or the sentence that says why there is none. `ids`: ids, or GUIDs as text. Takes at most ANSWER_S."""
        now_s = time.monotonic()
        found: dict[Id, Written | str] = {}
        for id in set(ids):
            again_s, why = self._absent.get(id, (0.0, ""))
            if id in self._known:
                found[id] = self._known[id]
            elif now_s < again_s:
                found[id] = why
        new = set(ids) - found.keys()
        if new and now_s < self._away_until_s:
            return found | dict.fromkeys(new, self._why)
        return found | (await self._fetched(new) if new else {})

    async def version(self, subject: str, version: str = "latest") -> int:
        """The id of a version of a subject. Raises Absent, and OSError and EOFError for a registry that is away."""
        what = f"{subject}, version {version}"
        async with asyncio.timeout(ANSWER_S):
            found = await self._get(f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}", what)
        id = found.get("id")
        if type(id) is not int or not 0 <= id < 1 << 32:
            raise Absent(f"the answer of the schema registry {self.name} cannot be read")
        return id

    async def _fetched(self, ids: set[Id]) -> dict[Id, Written | str]:
        """Some schemas, which are kept, or why there is none."""
        tasks = {id: asyncio.create_task(self._schema(id)) for id in ids}
        try:
            async with asyncio.timeout(ANSWER_S):
                await asyncio.wait(tasks.values())
        except TimeoutError:
            pass
        found: dict[Id, Written | str] = {}
        for id, task in tasks.items():
            if not task.done():
                task.cancel()
                found[id] = self._gone(f"the schema registry {self.name} does not answer within {ANSWER_S:.0f} s")
            elif (error := task.exception()) is None:
                found[id] = self._keep(id, task.result())
            elif isinstance(error, OSError | EOFError):
                found[id] = self._gone(f"the schema registry {self.name} does not answer")
            else:
                is_told = isinstance(error, Absent)
                why = str(error) if is_told else f"the answer of the schema registry {self.name} cannot be read"
                found[id] = self._miss(id, Unknown(why) if isinstance(error, NoSuch | TooLarge) else why)
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        return found

    def _keep(self, id: int | str, schema: Written) -> Written:
        chars = len(schema.text) + sum(map(len, schema.others.values()))
        if len(self._known) >= KEPT_MAX or self._chars + chars > KEPT_CHARS_MAX:
            self._known.clear()
            self._chars = 0
        self._known[id] = schema
        self._chars += chars
        return schema

    def _miss(self, id: int | str, why: str) -> str:
        if len(self._absent) >= KEPT_MAX:
            self._absent.clear()
        self._absent[id] = time.monotonic() + self._away_s, why
        return why

    def _gone(self, why: str) -> str:
        self._away_until_s, self._why = time.monotonic() + self._away_s, why
        return why

    async def _schema(self, id: int | str) -> Written:
        async with self._turns:
            found = await self._get(f"/schemas/{'ids' if isinstance(id, int) else 'guids'}/{id}", f"schema {id}")
            others: dict[str, str] = {}
            await self._referred(found, others, [REFERENCES_MAX, ANSWER_BYTES_MAX])
            return Written(str(found.get("schemaType") or "AVRO"), str(found["schema"]), others)

    async def _referred(self, schema: dict[str, Any], others: dict[str, str], left: list[int]) -> None:
        """Ask for what a schema refers to, those first to which that refers."""
        for one in schema.get("references") or ():
            name, subject, version = str(one["name"]), str(one["subject"]), int(one["version"])
            if name in others:
                continue
            left[0] -= 1
            if left[0] < 0:
                raise TooLarge("its schema refers to too many others")
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            found = await self._get(path, f"{subject}, version {version}")
            text = str(found["schema"])
            left[1] -= len(text)
            if left[1] < 0:
                raise TooLarge("the schemas that its schema refers to are too long")
            await self._referred(found, others, left)
            others[name] = text

    async def _get(self, path: str, what: str) -> dict[str, Any]:
        """The answer to a question. Raises Absent, OSError, EOFError, and others for an answer that is none."""
        context = ssl.create_default_context() if self.is_secure else None
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=context, limit=HEAD_BYTES_MAX)
        try:
            login = f"Authorization: Basic {self._login}\r\n" if self._login else ""
            host = f"[{self.host}]" if ":" in self.host else self.host
            writer.write(
                f"GET {self._path}{path} HTTP/1.0\r\nHost: {host}:{self.port}\r\nAccept: application/json\r\n{login}"
                f"Connection: close\r\n\r\n".encode()
            )
            status = int((await reader.readline()).split()[1])
            while (await reader.readline()).strip():
                pass
            data = bytearray()
            while more := await reader.read(1 << 16):
                data += more
                if len(data) > ANSWER_BYTES_MAX:
                    raise TooLarge(f"the schema registry's answer for {what} is too long")
        finally:
            writer.close()
        if status in (401, 403):
            raise Absent(f"the schema registry does not give {what} without a login, or not to this one")
        if status == 404:
            raise NoSuch(f"the schema registry has no {what}")
        if 300 <= status < 400:
            raise Absent(f"the schema registry sends us elsewhere for {what}: name the address of the registry itself")
        if 400 <= status < 500 and status not in PASSING:
            raise Absent(f"the schema registry does not give {what}: it answers with {status}")
        if status != 200:
            raise ConnectionError(f"{status}")
        found = json.loads(data)
        if not isinstance(found, dict):
            raise TypeError
        return found
