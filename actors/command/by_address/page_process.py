"""The page of `rayft up --ui` and of `make demo`: `rayft ui` as a process beside the cluster, which ends with it.

No node knows of the page. A page that cannot be opened is told in a sentence, and the cluster goes on without it.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from actors.host.cluster.ended import ends_within
from actors.host.work.kernel import end_with_parent
from actors.import_path import PACKAGE, python_path

if TYPE_CHECKING:
    from actors.command.by_address.page_faults import PageFaults

OPEN_S = 30.0
"""How long the page may take until it tells its address, s."""
END_S = 5.0


@contextmanager
def page_process(directory: Path, port: int, faults: "PageFaults | None" = None) -> Iterator[tuple[str, str]]:
    """Open the page of a cluster of this machine: (its address, why there is none), of which one is empty. `faults`: it may
    change the cluster, and do that to its nodes."""
    parent = os.getpid()

    def tied() -> None:
        if not end_with_parent(parent, signal.SIGTERM):
            os._exit(1)

    number = faults.given.fileno() if faults is not None else -1
    may = ["--allow-changes", "--faults-fd", str(number)] if faults is not None else []
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", f"{PACKAGE}.command.cli", "ui", "--dir", str(directory), "--port", str(port), *may],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[number] if may else [],
        env=os.environ | {"PYTHONPATH": python_path()}, start_new_session=True, preexec_fn=tied,
    )  # fmt: skip
    try:
        told = _told(process)
        Thread(target=_hear, args=(process,), name="rayft-page", daemon=True).start()
        yield told
    finally:
        process.terminate()
        if not ends_within(process, END_S):  # a second Ctrl-C may interrupt it
            process.kill()
        process.wait()


def _told(process: "subprocess.Popen[bytes]") -> tuple[str, str]:
    """What the page says first."""
    assert process.stdout is not None
    number, said, until = process.stdout.fileno(), b"", time.monotonic() + OPEN_S
    while (left_s := until - time.monotonic()) > 0:
        if not select.select([number], [], [], left_s)[0]:
            continue
        data = os.read(number, 65536)
        said += data
        lines = said.decode(errors="replace").split("\n")
        for line in lines[:-1]:
            if line.strip().startswith("http"):
                return line.strip(), ""
        if not data:
            words = next((line for line in reversed(lines) if line.strip()), "it said nothing")
            return "", words.removeprefix("rayft: ")
    return "", f"it did not open within {OPEN_S:.0f} s"


def _hear(process: "subprocess.Popen[bytes]") -> None:
    """Take what the page says later, such as a warning of each request that is none: a full pipe would stop it."""
    assert process.stdout is not None
    with process.stdout as stream:
        while os.read(stream.fileno(), 65536):
            pass
