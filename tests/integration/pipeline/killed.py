"""Spark's programs, which end with SIGKILL at a step of the sink's protocol.

Those of the driver that open a sink or decide a batch load this file with the source `Killed`, and the tasks with PySpark's
daemon (`spark.python.daemon.module`). The file in RAYFT_KILLS has the number of steps that are left until one is killed:
steps are what a driver asks of the brokers, before and behind it, and what a task does (a batch that is taken, the last
acknowledgement, the message). If there is a file with the suffix `.whole`, the JVM whose id it has dies too; with one that
ends in `.executor`, the JVM of a task's executor.
"""

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import daemon

from actors.pipeline.sink import attempts
from actors.pipeline.sink.driver import EFFECTS
from actors.pipeline.spark import Rayft
from actors.replay import workers


class Killed(Rayft):
    """The source `rayft`, whose programs end."""


def step(is_task: bool) -> None:
    """Count a step, and end if it is the last."""
    path = os.environ.get("RAYFT_KILLS", "")
    if not path:
        return  # the program of the rounds itself
    with open(path, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        left = int(file.read() or 0)
        if left <= 0:
            return
        file.seek(0)
        file.truncate()
        file.write(str(left - 1))
        file.flush()
    if left == 1:
        whole = Path(f"{path}.whole")
        if whole.exists():
            os.kill(int(whole.read_text()), signal.SIGKILL)
        if is_task and Path(f"{path}.executor").exists():
            daemon_id = os.getppid()
            executor_id = int(Path(f"/proc/{daemon_id}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(executor_id, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def counted(carry_out: Callable[..., Any], is_task: bool) -> Callable[..., Any]:
    """The same function, with a step before and one behind it."""

    def run(*given: Any) -> Any:
        step(is_task)
        found = carry_out(*given)
        step(is_task)
        return found

    return run


for _kind, _carry_out in list(EFFECTS.items()):
    EFFECTS[_kind] = counted(_carry_out, False)
for _name in ("add", "finish", "attempt"):
    setattr(attempts._Task, _name, counted(getattr(attempts._Task, _name), True))

if __name__ == "__main__":
    daemon.worker = workers.worker
    daemon.manager()
