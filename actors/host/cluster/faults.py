"""Faults of a node that others cause, to test what they have built on a cluster: it is cut off the network, its clock jumps.

This file alone decides how a node is told. A file beside its log has what it suffers; SIGUSR1 says that the file is new, and
the node removes it when that holds. Only nodes of a `Cluster` listen, which starts them with the variable RAYFT_FAULTS: to
others the signal does what it did before. A restart ends all faults.
"""

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from actors.host.cluster.early_supervisor import FAULTS as VARIABLE
from actors.host.work import durable

if TYPE_CHECKING:
    from actors.host.loop import Loop

SIGNAL = signal.SIGUSR1


class Suffered(NamedTuple):
    """The faults of a node."""

    cut: bool = False
    """Whether nothing comes to it or leaves it over the network."""
    ahead_ms: int = 0
    """How far its time of day is ahead of the true one; below zero it is behind."""


def file(directory: Path, name: str) -> Path:
    """The file for the node of that name."""
    return directory / f"{name}.faults"


def tell(directory: Path, name: str, pid: int, suffered: Suffered) -> None:
    """Let a process have these faults and no others. Raises OSError. The file is gone as soon as they hold."""
    path = file(directory, name)
    beside = path.with_suffix(".faults-new")
    with os.fdopen(durable.private(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as written:
        json.dump(suffered._asdict(), written)
    beside.rename(path)
    os.kill(pid, SIGNAL)


def obey(loop: "Loop", directory: Path, name: str) -> None:
    """Let a loop have the faults that it is told, if it is to listen. Main thread only."""
    if os.environ.get(VARIABLE) != "1":
        return
    path = file(directory, name)
    path.unlink(missing_ok=True)

    def told() -> None:
        try:
            suffered = Suffered(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return
        loop.suffer(suffered.cut, suffered.ahead_ms)
        path.unlink(missing_ok=True)

    loop.on_signal(SIGNAL, told)
