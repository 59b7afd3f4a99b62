"""The schemas of a registry for a thread that reads topics: it waits for them, a few times, and then says what is wrong.

This file alone decides how often a registry is asked that does not answer. A registry that is away is no bad value: it is an
error of the read, whatever was asked for bad values. That it has no such schema is a fact about the value, and is asked
again in a while: a topic may be followed for months, and a registry that copies another one comes behind.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from actors.client.errors import ClientError
from actors.host.client.schema_registry import Absent, NoSuch, Registry, Unknown, Written

TRIES = 3
PAUSE_S = 0.5
"""How long it waits before it asks again, s."""
AGAIN_S = 15.0
"""How long a registry is not asked again for a schema that it did not have, s."""
UNKNOWN_MAX = 1_000
"""How many ids a registry may not know. With more of them it is the wrong one, or the values are none."""
T = TypeVar("T")


class Schemas:
    """A registry that is asked by one thread at a time."""

    def __init__(self, url: str, login: str = "") -> None:
        """A registry that was not asked yet; `login`: name:password. Raises ValueError for a URL that is none."""
        self._registry = Registry(url, login, 0.0)
        self._unknown: dict[int | str, float] = {}
        """id or GUID -> when it was asked for, s."""

    @property
    def name(self) -> str:
        """The address, without a login."""
        return self._registry.name

    def schema(self, id: int | str) -> Written | Unknown:
        """The schema of an id, or of a GUID as text, or the sentence that there is none. Raises ClientError for a registry
        that is away, that refuses, or that does not know UNKNOWN_MAX ids."""
        why = ""
        for number in range(TRIES):
            if number:
                time.sleep(PAUSE_S)
            found = self._asked(id)
            if isinstance(found, Written):
                self._unknown.pop(id, None)
                return found
            if isinstance(found, Unknown):
                self._unknown[id] = time.monotonic()
                if len(self._unknown) > UNKNOWN_MAX:
                    raise ClientError(
                        f"the schema registry {self.name} does not know {len(self._unknown)} ids: it is not that of these "
                        f"topics"
                    )
                return found
            why = found
        raise ClientError(f"{why}: schema {id} was asked for {TRIES} times")

    def _asked(self, id: int | str) -> Written | str:
        if isinstance(id, str):
            guid = id
            return _run(lambda: self._registry.schemas([guid]))[guid]
        number = id
        return _run(lambda: self._registry.schemas([number]))[number]

    def may_be_known(self, id: int | str) -> bool:
        """Whether the registry may have a schema by now that it did not have when it was asked."""
        return id not in self._unknown or time.monotonic() - self._unknown[id] >= AGAIN_S

    def version(self, subject: str, version: str = "latest") -> int | None:
        """The id of a version of a subject; None: the registry has none. Raises ClientError as `schema` does."""
        why = ""
        for number in range(TRIES):
            if number:
                time.sleep(PAUSE_S)
            try:
                return _run(lambda: self._registry.version(subject, version))
            except NoSuch:
                return None
            except Absent as error:
                why = str(error)
            except (OSError, EOFError):  # TimeoutError is one
                why = f"the schema registry {self.name} does not answer"
            except Exception:
                why = f"the answer of the schema registry {self.name} cannot be read"
        raise ClientError(f"{why}: {subject} was asked for {TRIES} times")


def _run(asked: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a coroutine gives. It runs on a thread of its own if the caller's has an event loop, as in a notebook."""
    if asyncio._get_running_loop() is None:
        return _here(asked)
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(_here(asked))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="schema-registry", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def _here(asked: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a coroutine gives, which runs on this thread."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(asked())
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
