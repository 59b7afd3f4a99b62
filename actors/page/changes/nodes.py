"""Faults for demonstration, at a local cluster that `rayft up --ui --allow-changes` has made.

The page does nothing to nodes itself: it asks the command that started them, over a socket that this gave to it
(`actors/command/by_address/page_faults.py`), which decides what may be done.
"""

import asyncio
import json
import socket
from typing import Any

from actors.page.changes.given import Given

ANSWER_S = 60.0
LINE_BYTES_MAX = 1 << 20
DEEDS = ("kill", "freeze", "thaw", "cut", "reconnect", "restart", "start")


class Nodes:
    """The page's side of the socket."""

    def __init__(self, number: int) -> None:
        """`number`: the file descriptor of the socket. Raises OSError for one that is none."""
        self._sock = socket.socket(fileno=number)
        self._turn = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._asked = 0
        """How many questions were asked. Each has a number, so that a late answer is not taken for that of the next one."""

    async def states(self) -> list[dict[str, Any]]:
        """The nodes: their ids and roles, their state, and what may be done to each. Raises ValueError."""
        found: list[dict[str, Any]] = (await self._ask({"do": "nodes"}))["nodes"]
        return found

    async def do(self, deed: str, given: Given) -> str:
        """Do something to a node: `node`, its id. Returns what was done, as a sentence. Raises ValueError."""
        node = given.number("node")
        given.end()
        return str((await self._ask({"do": deed, "node": node}))["said"])

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        async with self._turn:
            if self._streams is None:
                self._streams = await asyncio.open_connection(sock=self._sock, limit=LINE_BYTES_MAX)
            reader, writer = self._streams
            self._asked += 1
            answer: dict[str, Any] = {}
            try:
                async with asyncio.timeout(ANSWER_S):
                    writer.write(json.dumps({**question, "number": self._asked}).encode() + b"\n")
                    await writer.drain()
                    while answer.get("number") != self._asked and (line := await reader.readline()):
                        answer = json.loads(line)
            except TimeoutError:
                raise ValueError(
                    f"The command that started the nodes did not answer within {ANSWER_S:.0f} s."
                ) from None
            except (OSError, ValueError):
                answer = {}
        if answer.get("number") != self._asked:
            raise ValueError("The command that started the nodes is gone.")
        if "error" in answer:
            raise ValueError(f"{answer['error'][:1].upper()}{answer['error'][1:]}.")
        return answer
