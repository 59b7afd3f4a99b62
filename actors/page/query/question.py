"""Asking the process that answers questions in SQL (`answerer.py`), and not waiting for it longer than ANSWER_S."""

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path

import pyarrow as pa

from actors.import_path import SAFE_PATH, python_path

ANSWER_S = 20.0
AT_ONCE = 2
TOLD = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "OPENBLAS_CORETYPE")
"""What the process is told of the environment: nothing that a password may stand in."""


class Unanswered(ValueError):
    """The question has no answer; the sentence says why."""


class Questions:
    """The place where questions are asked."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def ask(self, text: str, names: Iterable[str], table: Callable[[str], pa.Table]) -> tuple[pa.Table, bool]:
        """(answer, whether it was cut). `names`: the tables that there are, of which those are made that the text names.
        Raises Unanswered."""
        named = [one for one in names if re.search(rf"\b{one}\b", text, re.IGNORECASE)]
        async with self._turns:
            with tempfile.TemporaryDirectory(prefix="rayft-ask-") as directory:
                for one in named:
                    await asyncio.to_thread(lambda one=one: _write(Path(directory) / f"{one}.arrow", table(one)))  # type: ignore[misc]
                return _read(await _ran(directory, text))


def _write(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


async def _ran(directory: str, text: str) -> bytes:
    environment = {name: os.environ[name] for name in TOLD if name in os.environ}
    environment |= {"PYTHONPATH": python_path(), SAFE_PATH: "1", "OPENBLAS_NUM_THREADS": "1", "HOME": directory}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"{__package__}.answerer", directory, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=environment, cwd=directory,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        async with asyncio.timeout(ANSWER_S):
            process.stdin.write(text.encode("utf-8", "replace"))
            process.stdin.close()
            found = await process.stdout.read(-1)
            await process.wait()
    except TimeoutError:
        raise Unanswered(
            f"The question took longer than {ANSWER_S:.0f} s and was ended: ask for less at once."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return found


def _read(found: bytes) -> tuple[pa.Table, bool]:
    line, _, rest = found.partition(b"\n")
    if not line:
        raise Unanswered("The question ended its process: it needs more memory or time than it may have. Ask for less.")
    said = json.loads(line)
    if "error" in said:
        raise Unanswered(said["error"])
    return pa.ipc.open_stream(BytesIO(rest)).read_all(), bool(said["is_cut"])
