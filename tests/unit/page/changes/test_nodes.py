"""The page's side of the socket to the command that started the nodes."""

import asyncio
import json
import socket

import pytest

from actors.page.changes import nodes as module
from actors.page.changes.given import Given
from actors.page.changes.nodes import Nodes


def test_a_late_answer_is_not_that_of_the_next_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.3)
    mine, other = socket.socketpair()

    def answer(lines: list[bytes], said: str) -> None:
        number = json.loads(lines[-1])["number"]
        other.sendall(json.dumps({"said": said, "number": number}).encode() + b"\n")

    async def run() -> None:
        found = Nodes(mine.detach())
        with pytest.raises(ValueError, match="did not answer within"):
            await found.do("restart", Given(b'{"node": 1}'))
        answer(other.recv(1_000).splitlines(), "Node 1 was stopped in good order, and serves again.")
        monkeypatch.setattr(module, "ANSWER_S", 30.0)
        asking = asyncio.create_task(found.do("kill", Given(b'{"node": 2}')))
        lines = await asyncio.to_thread(other.recv, 1_000)
        answer(lines.splitlines(), "Node 2 was killed.")
        assert await asking == "Node 2 was killed."
        other.close()
        with pytest.raises(ValueError, match="is gone"):
            await found.states()

    asyncio.run(asyncio.wait_for(run(), 60))
