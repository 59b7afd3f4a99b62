"""A cluster of local processes: started, watched, queried and stopped from Python.

This file alone decides what a program that starts a cluster sees of it. The processes belong to the supervisor, which
is a process of its own, so nothing is ever forked from the caller's program, whatever threads that has. This side keeps
the supervisor's standard input open, and the cluster ends when that closes.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from actors.host import storage
from actors.host.cluster import early_supervisor, existing_directory, faults, local_controllers, probe, secure_cluster
from actors.host.cluster import plan as plans
from actors.host.cluster.access import node_access
from actors.host.cluster.early_supervisor import EarlySupervisor
from actors.host.cluster.ended import ends_within, has_ended
from actors.host.cluster.faults import Suffered
from actors.host.cluster_error import ClusterError
from actors.host.work import kernel, locks
from actors.printable import html_table
from actors.settings.keys import ConfigError

LAST_WORDS_MAX = 300
START_TIMEOUT_S = 60.0
SCAN_BYTES_PER_S = 10 << 20
"""A start reads existing records at least at this speed, with several nodes on one slow disk."""
PROGRESS = ("started", "listening")
"""The events by which a node reports progress of its start."""
STOP_TIMEOUT_S = 30.0
KILLED_S = PARTING_S = 5.0
"""How long in s a supervisor that was killed, and the thread that listens to one that has ended, are waited for."""
ENDED_BY_OTHERS = (0, -signal.SIGTERM)
"""The exit codes of a supervisor that was told to stop, before it listens to signals too."""


class Cluster:
    """Controllers and brokers on this machine.

    >>> with rayft.Cluster(controllers=3, brokers=3) as cluster:
    ...     print(cluster.bootstrap_servers)

    It may stand behind `async with` too; its methods wait in the calling thread. `dir`: its directory; None: a new
    directory that is removed with the cluster. `config`: settings of every node. `host`: the address to bind and advertise
    (127.0.0.1). `port`: the first broker's; 0 for free ones. `combined`: the first controllers and brokers share processes.
    `format_level`: metadata.format, 1 or 2 (2). `secure`: whether nodes and clients encrypt and say who they are; None: if
    other machines may reach `host`. `client_settings` is then how a client logs in. An existing directory is started as it
    is, and arguments that do not fit it are refused. `start_timeout_s`: after this time a start has failed. By default a
    new cluster has a minute. A cluster with data has a minute and a second for every 10 MiB of it, counted from the last
    progress of any node, because after a crash all of it may have to be read. `early`: a process that was started ahead, for
    a cluster without `dir` that is not detached; it is the cluster's from here on.
    """

    def __init__(
        self,
        controllers: int | None = None,
        brokers: int | None = None,
        dir: str | os.PathLike[str] | None = None,
        config: Mapping[str, str] | None = None,
        *,
        host: str | None = None,
        port: int | None = None,
        combined: bool = False,
        format_level: int | None = None,
        detached: bool = False,
        secure: bool | None = None,
        start_timeout_s: float | None = None,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        early: EarlySupervisor | None = None,
    ) -> None:
        if early is not None and (dir is not None or detached):
            raise ValueError("an early supervisor has a directory of its own, and ends with this program")
        self._wanted = (controllers, brokers)
        self._temporary = dir is None
        if dir is None:
            dir = tempfile.mkdtemp(prefix="rayft-") if early is None else early.directory
        self.dir, self._early = Path(dir), early
        self._config = {name: str(value) for name, value in (config or {}).items()}
        self._host, self._port, self._combined, self._level = host, port, combined, format_level
        self._secure = secure
        self._detached, self._start_timeout_s, self._on_event = detached, start_timeout_s, on_event
        self._process: subprocess.Popen[bytes] | None = None
        self._log_position = 0
        """Where the present supervisor's part of the log file begins."""
        self._listener: threading.Thread | None = None
        self._changed = threading.Condition()
        self._plan: plans.Plan
        self._forget()

    # ---- life

    def start(self) -> "Cluster":
        """Create what is missing, start every node, and return once clients can be served; at once if the cluster runs
        already. Raises ClusterError, and what `plan` raises for a directory or a port that cannot be used."""
        if self.running:
            return self
        _refuse_rays(self.dir)
        found = plans.load(self.dir)
        timeout_s, patient = self._start_timeout_s or START_TIMEOUT_S, False
        if found is not None and self._start_timeout_s is None:
            timeout_s, patient = START_TIMEOUT_S + _record_bytes(found) / SCAN_BYTES_PER_S, True
        self._plan = self._planned(found)
        if self._process is not None:
            self._part(self._process)
        self._forget()
        self._process = process = self._supervisor()
        self._listener = threading.Thread(target=self._listen, args=(process,), name="rayft-cluster", daemon=True)
        self._listener.start()
        self._wait_started(timeout_s, patient)
        if not self._all_ready:
            late = sorted({member.name for member in self._plan.members} - self._ready)
            since = "with no progress for" if patient else "after"
            why = self._failure or (
                f"it was not ready {since} {timeout_s:.0f} s: it waits for {', '.join(late) or 'its supervisor'}; its logs "
                f"are in {self.dir}."
            )
            self._temporary = False
            self.stop(timeout_s=1.0)
            raise ClusterError(why)
        return self

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Shut down the brokers in a controlled way, then the controllers. A node that takes longer is killed. Those that
        are frozen or cut off go on, since they could not end in good order. May be called again: after an interruption the
        next call goes on, with its own time limit."""
        if self._early is not None:
            self._process, self._early = self._early.process, None
        process = self._process
        if process is not None:
            if not has_ended(process):
                for name in list(self._suffered):
                    self._reconnect(name)
                self._tell(process, do="stop", timeout_s=timeout_s)
                if not ends_within(process, 2 * timeout_s + 5):
                    process.kill()
                    ends_within(process, KILLED_S)
            self._part(process)
        if self._temporary:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self) -> "Cluster":
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> "Cluster":
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    @property
    def running(self) -> bool:
        """Whether the cluster was started and has not been stopped, by this program or by another."""
        return self._process is not None and not has_ended(self._process)

    def refuse_crash(self) -> None:
        """Check that the supervisor is there or was told to stop. Raises ClusterError if it has ended otherwise."""
        if self._process is None or not has_ended(self._process):
            return
        if self._listener is not None:
            self._listener.join(PARTING_S)
        if code := self._process.returncode:
            raise ClusterError(f"the supervisor ended with code {code}; {self.dir / 'supervisor.log'} may say why.")

    # ---- what it is

    @property
    def served(self) -> str:
        """The addresses that clients connect to, as a sentence goes on."""
        return self._plan.served

    @property
    def bootstrap_servers(self) -> str:
        """The addresses that clients connect to; empty where there are no brokers."""
        return self._plan.bootstrap_servers

    @property
    def secure(self) -> bool:
        """Whether nodes and clients encrypt and say who they are, as `rayft up` sets it up."""
        return self._plan.secure

    @property
    def client_settings(self) -> dict[str, str]:
        """Settings with which a client of librdkafka connects as the operator."""
        if not self._plan.secure:
            return {"bootstrap.servers": self.bootstrap_servers}
        return secure_cluster.librdkafka(self.dir)

    @property
    def bootstrap_controllers(self) -> str:
        """The addresses for tools that connect to controllers."""
        return self._plan.bootstrap_controllers

    @property
    def cluster_id(self) -> str:
        """The cluster id, 22 characters."""
        return storage.check(self._plan.members[0].config)[0].cluster_id

    @property
    def controller_ids(self) -> list[int]:
        """Ids of the controllers."""
        return [member.config.controller_id for member in self._plan.controllers]

    @property
    def broker_ids(self) -> list[int]:
        """Ids of the brokers."""
        return [member.config.broker_id for member in self._plan.brokers]

    @property
    def pids(self) -> dict[int, int]:
        """Process ids of the running nodes, by broker id and by controller id."""
        with self._changed:
            return {
                id: self._pids[member.name]
                for member in self._plan.members
                for id in member.ids
                if member.name in self._pids
            }

    @property
    def states(self) -> dict[tuple[int, ...], str]:
        """The state of each node's process, by the ids of its broker and its controller: `serves`, `starts`, `cut` (off the
        network), `frozen` or `down`."""
        with self._changed:
            return {member.ids: self._state(member) for member in self._plan.members}

    def _repr_html_(self) -> str:
        """The nodes with their addresses and states, as a notebook shows them."""
        if "_plan" not in vars(self):
            return html_table(
                ("node", "roles", "address", "state"), (), 0, f"A cluster that was not started, in {self.dir}"
            )
        brokers, states = set(self.broker_ids), self.states
        rows = [
            (
                " and ".join(map(str, ids)),
                ", ".join("broker" if id in brokers else "controller" for id in ids),
                "{}:{}".format(*self.address(ids[0])),
                state,
            )
            for ids, state in states.items()
        ]
        words = f"Cluster {self.cluster_id} at {self.bootstrap_servers}, in {self.dir}"
        return html_table(("node", "roles", "address", "state"), rows, len(rows), words)

    def _state(self, member: plans.Member) -> str:
        if member.name not in self._pids:
            return "down"
        if self._frozen.intersection(member.ids):
            return "frozen"
        pid, suffered = self._suffered.get(member.name, (0, Suffered()))
        if suffered.cut and pid == self._pids[member.name]:  # a process that came after it has its network
            return "cut"
        return "serves" if member.name in self._ready else "starts"

    def log(self, node_id: int) -> str:
        """The log of a node so far."""
        return (self.dir / f"{self._plan.member(node_id).name}.log").read_text(errors="replace")

    def address(self, node_id: int) -> tuple[str, int]:
        """(host, port) of a node: a broker's client listener, a controller's controller listener."""
        return self._plan.member(node_id).address("client" if node_id in self.broker_ids else "controller")

    def quorum(self) -> probe.QuorumSummary:
        """The active controller's description of its quorum. Raises probe.NoAnswer."""
        return probe.quorum([node_access(member.config, controller=True) for member in self._plan.controllers])

    def leader_id(self, timeout_s: float = 10.0) -> int:
        """The active controller's id. Raises ClusterError if none is found in time."""
        until = time.monotonic() + timeout_s
        while True:
            try:
                return self.quorum().leader_id
            except probe.NoAnswer as error:
                if time.monotonic() > until:
                    raise ClusterError(f"no controller leads: {error}") from None
            time.sleep(0.02)

    # ---- what is done to it

    def kill(self, node_id: int, number: int = signal.SIGKILL, *, restart: bool = True) -> None:
        """Send a signal to a node. If that ends it, it is started again, unless `restart` is False. After SIGSTOP it
        stays stopped until SIGCONT."""
        member = self._plan.member(node_id)
        if not restart:
            self._held.add(node_id)
            self._command("hold", node_id)
        pid = self.pids[node_id]
        os.kill(pid, number)
        if number == signal.SIGKILL:
            self._frozen.difference_update(member.ids)
            self._wait(lambda: self._pids.get(member.name) != pid, 10)
        elif number == signal.SIGSTOP:
            self._frozen.add(node_id)
        elif number == signal.SIGTERM:
            self._ending[member.name] = pid

    def restart(self, node_id: int, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop a node in a controlled way, if it runs, and start it again. Returns when it serves."""
        name = self._plan.member(node_id).name
        before = self._pids.get(name)
        for done in (self._held, self._frozen, self._full):
            done.discard(node_id)
        self._reconnect(name)
        self._command("restart", node_id)
        if not self._wait(lambda: self._pids.get(name) not in (None, before) and name in self._ready, timeout_s):
            raise ClusterError(f"node {node_id} did not come back; its log is {self.dir / (name + '.log')}.")

    def start_node(self, node_id: int) -> None:
        """Start a node that was killed with `restart=False`. Does not wait."""
        self._held.discard(node_id)
        self._command("start", node_id)

    def wait_ready(self, node_id: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until a node serves."""
        name = self._plan.member(node_id).name
        self._wait(lambda: name in self._ready, timeout_s)
        if name not in self._ready:
            raise ClusterError(f"node {node_id} is not ready; its log is {self.dir / (name + '.log')}.")

    def add_controller(self, id: int | None = None) -> int:
        """Add a controller to the quorum, or give the controller with this id, whose disk is gone, a new disk and its
        vote back. Returns its id when it votes. Raises ClusterError, ConfigError, StorageError."""
        return local_controllers.add(self.dir, id)

    def remove_controller(self, id: int) -> None:
        """Take a controller's vote, end it, and remove its directory. Raises ClusterError, ConfigError."""
        local_controllers.remove(self.dir, id)

    def freeze(self, node_id: int) -> None:
        """Stop a node as if its machine stood still: it answers nobody, and its connections stay open. `thaw` ends it."""
        self.kill(node_id, signal.SIGSTOP)

    def thaw(self, node_id: int) -> None:
        """Let a frozen node go on."""
        self._frozen.difference_update(self._plan.member(node_id).ids)
        self._signal_again(node_id)

    def fill_disk(self, node_id: int) -> None:
        """Let each write of a node fail as on a full disk (EFBIG). `free_disk` ends it, and so does a restart."""
        self._full.add(node_id)
        kernel.limit_file_size(self.pids[node_id], True)

    def free_disk(self, node_id: int) -> None:
        """Give a node room on its disk again."""
        self._full.discard(node_id)
        pid = self.pids.get(node_id)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                kernel.limit_file_size(pid, False)

    def cut(self, node_id: int) -> None:
        """Cut a node off the network: nothing comes to it and nothing leaves it, whoever the peer is, and it goes on. Its
        peers see connections that are silent. `reconnect` ends it, and so does a restart. Raises ClusterError."""
        self._suffer(node_id, lambda now: now._replace(cut=True))

    def reconnect(self, node_id: int) -> None:
        """Give a node that was cut off its network back. What was sent meanwhile arrives now. Raises ClusterError."""
        self._suffer(node_id, lambda now: now._replace(cut=False))

    def jump_clock(self, node_id: int, seconds: float) -> None:
        """Let a node's time of day be ahead of the true one by so much, or behind it (below 0); 0 ends it, and so does a
        restart. Its monotonic clock goes on. Raises ClusterError."""
        self._suffer(node_id, lambda now: now._replace(ahead_ms=int(seconds * 1000)))

    def _suffer(self, node_id: int, change: "Callable[[Suffered], Suffered]") -> None:
        name = self._plan.member(node_id).name
        pid = self._pids.get(name)
        before = self._suffered.get(name, (0, Suffered()))
        wanted = change(before[1] if before[0] == pid else Suffered())
        path = faults.file(self.dir, name)
        if pid is None or not self._wait(lambda: name in self._begun, START_TIMEOUT_S):
            raise ClusterError(f"node {node_id} does not run: its log is {self.dir / (name + '.log')}.")
        faults.tell(self.dir, name, pid, wanted)
        self._suffered[name] = pid, wanted
        until = time.monotonic() + STOP_TIMEOUT_S
        while path.exists():
            if time.monotonic() > until or self._pids.get(name) != pid:
                raise ClusterError(
                    f"node {node_id} did not take it: is it frozen? Its log is {self.dir / (name + '.log')}."
                )
            time.sleep(0.002)

    def _reconnect(self, name: str) -> None:
        """Give a node its network back before it is told to end. Does not wait: the node hears of both in this order."""
        pid, suffered = self._suffered.get(name, (0, Suffered()))
        if suffered.cut and self._pids.get(name) == pid:
            suffered = suffered._replace(cut=False)
            with contextlib.suppress(OSError):  # it has ended by itself
                faults.tell(self.dir, name, pid, suffered)
            self._suffered[name] = pid, suffered

    def heal(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """End what was done to nodes: frozen ones go on, disks have room, networks are whole, clocks are right, those that
        were killed for good are started. Returns when all of them serve. Raises ClusterError."""
        for node_id in sorted(self._frozen):
            self.thaw(node_id)
        for node_id in sorted(self._full):
            self.free_disk(node_id)
        for name, (pid, suffered) in list(self._suffered.items()):
            if suffered != Suffered() and self._pids.get(name) == pid:
                self._suffer(next(one.ids[0] for one in self._plan.members if one.name == name), lambda now: Suffered())
        self._suffered.clear()
        for node_id in sorted(self._held):
            self.start_node(node_id)
        if not self._wait(lambda: not self._still_ending(), timeout_s):
            raise ClusterError(
                f"{', '.join(self._still_ending())} was told to end, and runs: its log is in {self.dir}."
            )
        self._ending.clear()
        for node_id in (*self.controller_ids, *self.broker_ids):
            self.wait_ready(node_id, timeout_s)

    def _still_ending(self) -> list[str]:
        return [name for name, pid in self._ending.items() if self._pids.get(name) == pid]

    def _signal_again(self, node_id: int) -> None:
        pid = self.pids.get(node_id)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    # ---- inside

    def _supervisor(self) -> "subprocess.Popen[bytes]":
        """The process of the supervisor, which finds its directory complete."""
        self._log_position = 0
        early, self._early = self._early, None
        if early is not None:
            self._tell(early.process, do="begin")
            return early.process
        with contextlib.suppress(FileNotFoundError):
            self._log_position = (self.dir / early_supervisor.LOG).stat().st_size
        options = [f"--{word}" for word in ("detached", "temporary") if getattr(self, f"_{word}")]
        return early_supervisor.start(str(self.dir), *options)

    def _planned(self, found: plans.Plan | None) -> plans.Plan:
        """The plan in the directory, if it fits the arguments; a new plan if the directory holds none."""
        controllers, brokers = self._wanted
        if found is None:
            try:
                return plans.create(
                    self.dir, 3 if controllers is None else controllers, 3 if brokers is None else brokers,
                    common=self._config, host=self._host or "127.0.0.1", port=self._port or 0, combined=self._combined,
                    level=self._level or 2, secure=self._secure,
                )  # fmt: skip
            except plans.AlreadyThere:
                _refuse_rays(self.dir)
                found = plans.load(self.dir)
                if found is None:
                    raise
        existing_directory.agree(
            found, self._config, controllers=controllers, brokers=brokers,
            host=self._host, port=self._port, combined=self._combined, level=self._level,
            secure=self._secure,
        )  # fmt: skip
        return found

    def _forget(self) -> None:
        """Forget what is known of the processes."""
        self._pids: dict[str, int] = {}
        self._ready: set[str] = set()
        self._all_ready = False
        self._failure = ""
        self._progress_s = 0.0
        """When a node last made progress."""
        self._done: list[tuple[str, int]] = []
        self._held: set[int] = set()
        """Nodes that were killed and are not started again."""
        self._ending: dict[str, int] = {}
        """The processes that were told to end, by the name of their node."""
        self._frozen: set[int] = set()
        self._full: set[int] = set()
        """Nodes whose writes fail."""
        self._begun: set[str] = set()
        """The names of nodes whose present process has begun to serve."""
        self._suffered: dict[str, tuple[int, Suffered]] = {}
        """name -> (the process, the faults that it was told)"""

    def _part(self, process: "subprocess.Popen[bytes]") -> None:
        """Read the rest of the events of a supervisor that has ended; they say nothing about the next one."""
        self._process = None
        listener, self._listener = self._listener, None
        if listener is not None and listener.is_alive():
            listener.join(PARTING_S)
        else:  # there is none, it has ended, or an interruption has kept it from its start
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                event = json.loads(line)
            except ValueError:  # a line that a library of the supervisor printed
                continue
            with self._changed:
                self._heard(event)
                self._changed.notify_all()
            if self._on_event is not None:
                try:
                    self._on_event(event)
                except Exception:
                    traceback.print_exc()
        code = process.wait()
        with self._changed:
            self._failure = self._failure or self._last_words(code)
            self._changed.notify_all()

    def _last_words(self, code: int) -> str:
        """The reason why the supervisor ended before all was ready: it was stopped, or the last line of its log."""
        if code in ENDED_BY_OTHERS:
            return (
                f"the cluster of {self.dir} was stopped while it started, by rayft down or a signal to its supervisor."
            )
        path = self.dir / early_supervisor.LOG
        try:
            with path.open("rb") as log:
                log.seek(self._log_position)
                lines = log.read().decode(errors="replace").split("\n")
        except OSError as error:
            lines = [str(error)]
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")
        return f"the supervisor ended with exit code {code}: {last[:LAST_WORDS_MAX]} ({path} has the whole log)."

    def _heard(self, event: dict[str, Any]) -> None:
        what, name = event["event"], event.get("name", "")
        if "pid" in event:
            self._pids[name] = event["pid"]
        if what in PROGRESS:
            self._progress_s = time.monotonic()
        if event.get("ready"):
            self._ready.add(name)
        elif what in ("forked", "ended", "refusing"):
            self._ready.discard(name)
        if what in PROGRESS:
            self._begun.add(name)
        elif what in ("forked", "ended"):
            self._begun.discard(name)
        if what == "ended":
            self._pids.pop(name, None)
        elif what == "ready":
            self._all_ready = True
        elif what == "failed":
            self._failure = f"{name}: {event['sentence']}" if name else event["sentence"]
        elif what == "planned":
            self._plan = plans.load(self.dir) or self._plan
        elif what == "done":
            self._done.append((event["do"], event["id"]))

    def _wait(self, holds: Callable[[], object], timeout_s: float | None) -> bool:
        """Whether the condition holds in time; None: wait as long as it takes."""
        with self._changed:
            return bool(self._changed.wait_for(holds, timeout_s))

    def _wait_started(self, timeout_s: float, patient: bool) -> None:
        """Wait until the cluster is ready, has failed, or the time is over. `patient`: each progress begins the time
        anew."""
        self._progress_s = time.monotonic()
        with self._changed:
            until = self._progress_s + timeout_s
            while not (self._all_ready or self._failure) and time.monotonic() < until:
                self._changed.wait(until - time.monotonic())
                if patient:
                    until = self._progress_s + timeout_s

    def _command(self, do: str, node_id: int) -> None:
        if self._process is None:
            raise ClusterError("the cluster is not running: call start() first.")
        self._plan.member(node_id)
        before = len(self._done)
        self._tell(self._process, do=do, id=node_id)
        self._wait(lambda: len(self._done) > before, 10)

    def _tell(self, process: "subprocess.Popen[bytes]", **command: Any) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write((json.dumps(command) + "\n").encode())
            process.stdin.flush()


def _record_bytes(plan: plans.Plan) -> int:
    """Bytes of the log segments that a start may have to read."""
    found = 0
    for member in plan.members:
        for path in storage.directories(member.config):
            for segment in Path(path).glob("*/*.log"):
                with contextlib.suppress(OSError):
                    found += segment.stat().st_size
    return found


def down(directory: Path, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """Stop the cluster of a directory from outside, brokers first, and kill nodes that take longer than `timeout_s`.
    Returns False if none runs. Raises ClusterError."""
    _refuse_rays(directory)
    home = [str(directory)]
    try:
        found = plans.load(directory)
    except ConfigError:
        # The cluster was started by a release that accepted these settings. Its supervisor knows the processes to stop.
        if not _signalled(home, signal.SIGTERM) or not _given_back(home, 2 * max(timeout_s, STOP_TIMEOUT_S)):
            raise
        return True
    if found is None:
        raise ClusterError(f"{directory} holds no cluster: name another with --dir.")
    any_ran = supervised = _signalled(home, signal.SIGTERM)
    brokers = [member for member in found.members if member not in found.controllers]
    for members in (brokers, found.controllers):
        paths = [member.config.metadata_log_dir for member in members]
        if not supervised:
            any_ran = _signalled(paths, signal.SIGTERM) or any_ran
        if not _given_back(paths, timeout_s):
            _signalled(paths, signal.SIGKILL)
    if not _given_back(home + [member.config.metadata_log_dir for member in found.members], 10.0):
        raise ClusterError(f"the cluster of {directory} does not stop; its logs are there.")
    return any_ran


def _signalled(paths: Sequence[str], number: int) -> bool:
    """Send a signal to the processes that hold these directories. Returns whether there were any. Raises ClusterError if one
    cannot be proved to be the holder; then none gets the signal."""
    try:
        held = [path for path in paths if locks.seen(path) is not None]
        return any([locks.send(path, number) for path in held])
    except locks.Unseen as error:
        raise ClusterError(str(error)) from None


def _given_back(paths: Sequence[str], timeout_s: float) -> bool:
    """Whether all these directories are free in time."""
    until = time.monotonic() + timeout_s
    while any(locks.holder(path) is not None for path in paths):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _refuse_rays(directory: Path) -> None:
    """Check that the nodes do not run on Ray, which would start them again. Raises ClusterError if they do."""
    if (directory / plans.RAY_JSON).exists():
        raise ClusterError(f"{directory} holds a cluster on Ray: write --ray, or take another --dir.")
