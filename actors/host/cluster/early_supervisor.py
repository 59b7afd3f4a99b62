"""A supervisor that is started before its cluster is planned, so that both processes import their code at the same time.

This file alone decides how such a process begins. It imports nothing that takes time. The process learns by its first line
of input that its directory is complete (`supervisor.py`, rule 7); when its input ends instead, it removes the directory.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

from actors.import_path import python_path

LOG = "supervisor.log"
EARLY = "--early"
FAULTS = "RAYFT_FAULTS"
"""The variable that lets nodes listen to what faults they are to have (`faults.py`)."""


class EarlySupervisor(NamedTuple):
    """A process that waits for its directory to be complete."""

    directory: str
    """A new directory, which is removed with the cluster."""
    process: "subprocess.Popen[bytes]"


def begin() -> EarlySupervisor:
    """Start a supervisor in a new directory. Raises OSError."""
    directory = tempfile.mkdtemp(prefix="rayft-")
    try:
        return EarlySupervisor(directory, start(directory, "--temporary", EARLY))
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def start(directory: str, *options: str) -> "subprocess.Popen[bytes]":
    """Start the supervisor of a directory, whose log it appends to. Raises OSError."""
    command = [sys.executable, "-P", "-m", __package__, directory, *options]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": python_path(), FAULTS: "1"}
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    log = os.open(os.path.join(directory, LOG), flags, 0o600)
    try:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True
        )
    finally:
        os.close(log)
