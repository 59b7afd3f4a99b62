"""Machines of their own as network namespaces: each has its loopback and one address that the others reach.

Nothing outside changes: the namespaces belong to sleeping processes that this file starts, and go with them. What runs on a
machine is started by `Machine.run`; `Machine.inside` lets the calling thread dial from it.
"""

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

NEW_NETWORK = 0x40000000
"""CLONE_NEWNET, for setns."""
_libc = ctypes.CDLL(None, use_errno=True)


class Machine:
    """One namespace, and the sleeper that keeps it."""

    def __init__(self) -> None:
        self._sleeper = subprocess.Popen(["unshare", "-n", "sleep", "100000"], stderr=subprocess.PIPE)
        self.address = ""
        self.pid = self._sleeper.pid
        until_s = time.monotonic() + 10
        while os.readlink(f"/proc/{self.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            if self._sleeper.poll() is not None or time.monotonic() > until_s:
                raise OSError("no network namespace can be made")
            time.sleep(0.01)

    def words(self, *words: str) -> list[str]:
        """A command that runs there."""
        return ["nsenter", "-t", str(self.pid), "-n", *words]

    def do(self, *words: str) -> None:
        """Run a command there to its end. Raises OSError."""
        done = subprocess.run(self.words(*words), capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")

    def run(self, words: Sequence[str], **given: Any) -> "subprocess.Popen[bytes]":
        """Start a process there."""
        return subprocess.Popen(self.words(*words), **given)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets that this thread makes meanwhile are of that machine."""
        with open("/proc/self/ns/net") as own, open(f"/proc/{self.pid}/ns/net") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(own.fileno())

    def close(self) -> None:
        self._sleeper.kill()
        self._sleeper.communicate()


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    """A switch, and machines 10.9.0.1, 10.9.0.2, ... on it. Raises OSError where this machine allows none."""

    def __init__(self, count: int) -> None:
        self.machines: list[Machine] = []
        self.switch = Machine()
        try:
            self.switch.do("ip", "link", "add", "name", "switch", "type", "bridge")
            self.switch.do("ip", "addr", "add", "10.9.0.254/24", "dev", "switch")
            self.switch.do("ip", "link", "set", "switch", "up")
            for number in range(1, count + 1):
                self._join(number)
        except BaseException:
            self.close()
            raise

    def _join(self, number: int) -> None:
        machine, port = Machine(), f"port{number}"
        self.machines.append(machine)
        self.switch.do(
            "ip", "link", "add", "name", port, "type", "veth", "peer", "name", "net", "netns", str(machine.pid)
        )
        self.switch.do("ip", "link", "set", port, "master", "switch", "up")
        machine.address = f"10.9.0.{number}"
        machine.do("ip", "link", "set", "lo", "up")
        machine.do("ip", "addr", "add", f"{machine.address}/24", "dev", "net")
        machine.do("ip", "link", "set", "net", "up")

    def close(self) -> None:
        for machine in (*self.machines, self.switch):
            machine.close()
