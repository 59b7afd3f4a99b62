"""The parent of a local cluster's processes: `python -m actors.host.cluster DIR`.

It imports everything once and forks each node from that, so that the nodes share the memory of code and schemas. It
starts a crashed node again on the same port and directory, and keeps `cluster.json` up to date. It keeps every port
reserved all the time, so that no other program gets one while its node is down.

Rules:

1. Exit code 0 (as asked) and 78 (another process holds the id) are final. After any other code the node is started
   again: at once the first time, then with a growing pause while it keeps ending within ten seconds. Until the cluster
   is ready for the first time, a final end is a failed start, and so are a few other ends, however slow.
2. Commands come as lines of JSON on standard input. Events go as lines of JSON to standard output. The end of input
   means that the program that started the cluster is gone: then everything stops, unless the cluster is detached; and
   where the directory is a temporary one, it is removed, as nobody else will.
3. Each node that is started again, or is not, gets a line with the reason in the supervisor's log (standard error).
4. A stop ends the brokers first (controlled shutdown needs controllers), then the rest. A node that takes too long is
   killed.
5. SIGHUP means that the files of the directory have changed (`local_controllers.py`): nodes that are new are started, those
   that are gone are ended, and one whose directory is another one, or that waits to be started again, is started now.
6. What the system refuses now (a process, room for cluster.json) is tried again. The supervisor must not end because of
   it, since its nodes would end with it.
7. With --early the files of the directory are made meanwhile: the first line of input says that they are there, or that
   they are not wanted.
"""

import contextlib
import gc
import json
import os
import selectors
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actors.host import storage
from actors.host.cluster import plan as plans
from actors.host.cluster import secure_cluster
from actors.host.cluster.child_process import Child, directory_id, reason
from actors.host.cluster.early_supervisor import EARLY
from actors.host.net.server import PortTaken
from actors.host.work import durable, kernel
from actors.host.work.journal import FORMAT, Journal, shut_down
from actors.host.work.locks import Lock
from actors.settings.keys import ConfigError
from actors.settings.properties import has_secrets

QUICK_S = 10.0
PAUSES_S = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
GIVE_UP_BEFORE_READY = 4
STOP_TIMEOUT_S = 30.0
FINAL_CODES = (0, 78)
PUBLISH_AGAIN_S = 1.0


class Supervisor:
    """The processes of one directory."""

    def __init__(self, plan: plans.Plan, detached: bool) -> None:
        self.plan = plan
        self._changed = False
        """Whether the files of the directory have to be read anew."""
        self.children = [Child(member) for member in plan.members]
        self._detached = detached
        self._pid = os.getpid()
        self._log = Journal(sys.stderr)
        if all(one.config.value(FORMAT) == "json" for one in plan.members):
            self._log.for_programs(None)
            self._log.take_standard_error()
        self._cluster_id = storage.check(plan.members[0].config)[0].cluster_id
        self._selector = selectors.DefaultSelector()
        self._input = b""
        self._ready_told = False
        self.is_left = False
        """Whether the program that started the cluster is gone without having stopped it."""
        self._stopping: Iterator[float] | None = None
        self._stop_due_s = 0.0
        self._kill_due_s = 0.0
        """The time at which the processes of the present phase of a stop that still run are killed."""
        self._publish_due_s: float | None = None
        """The time at which cluster.json, for which there was no room, is written again."""

    def run(self) -> int:
        """Start everything and stay until all is stopped."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.stop(STOP_TIMEOUT_S))
        signal.signal(signal.SIGHUP, lambda *_: self._look())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._selector.register(wake_read, selectors.EVENT_READ, None)
        os.set_blocking(0, False)
        try:
            self._selector.register(0, selectors.EVENT_READ, self)
        except PermissionError:  # a file such as /dev/null: its end says nothing about the parent
            if not self._detached:
                tell(event="failed", name="", sentence="Standard input must be a pipe or a terminal: add --detached.")
                return 3
        for path in secure_cluster.secret_files(self.plan.directory):
            warning = storage.secret_open_to_others(path)
            if warning is not None:
                self._log.warning(warning)
        for child in self.children:
            self._fork(child)
        self._publish()
        while self._stopping is None or any(child.pid for child in self.children):
            self._wait()
            self._reap()
            now = time.monotonic()
            for child in self.children:
                if child.due_s is not None and child.due_s <= now and self._stopping is None and self._fork(child):
                    self._log.warning(f"{child.member.name} is started again, as process {child.pid}: {child.why}")
                    self._publish()
            self._retry()
            if self._changed and self._stopping is None:
                self._read_plan()
            self._kill_late(now)
            if self._stopping is not None and now >= self._stop_due_s:
                self._stop_due_s = now + next(self._stopping, 1e9)
            if not self._ready_told and all(child.ready for child in self.children):
                self._ready_told = True
                tell(event="ready")
        tell(event="stopped")
        (self.plan.directory / plans.CLUSTER_JSON).unlink(missing_ok=True)
        return 0

    def stop(self, timeout_s: float) -> None:
        """Begin to stop everything. A second call only shortens the time."""
        kill_due_s = time.monotonic() + timeout_s
        if self._stopping is None or kill_due_s < self._kill_due_s:
            self._stopping, self._kill_due_s = self._stop(timeout_s), kill_due_s
            self._stop_due_s = 0.0

    # ---- files that change

    def _look(self) -> None:
        self._changed = True

    def _read_plan(self) -> None:
        """Make the processes what the files say."""
        self._changed = False
        try:
            plan = plans.load(self.plan.directory)
        except (ConfigError, OSError) as error:
            self._log.warning(f"the nodes stay as they are, for their files cannot be read: {error}")
            return
        if plan is None:
            return
        before = {child.member.name: child for child in self.children}
        self.plan = plan
        for member in plan.members:
            child = before.pop(member.name, None)
            if child is None:
                self._come(member)
            else:
                self._compare(child, member)
        for child in before.values():
            self._go(child)
        tell(event="planned")
        self._publish()

    def _come(self, member: plans.Member) -> None:
        child = Child(member)
        try:
            child.reserve()
        except PortTaken as error:
            self._log.warning(f"{member.name} is not started: {error}")
            return
        self.children.append(child)
        self._fork(child)
        self._log.info(f"{member.name} is new, as process {child.pid}")

    def _compare(self, child: Child, member: plans.Member) -> None:
        child.member = member
        other = child.directory_id != directory_id(member)
        if child.pid and other:
            child.restart, child.held = True, False
            self._signal(child, signal.SIGKILL)
        elif not child.pid and (other or child.due_s is not None):
            child.crashes, child.due_s, child.why = 0, 0.0, "its files have changed"

    def _go(self, child: Child) -> None:
        child.gone = True
        if child.pid:
            child.kill_s = time.monotonic() + STOP_TIMEOUT_S
            self._signal(child, signal.SIGTERM)
        else:
            self._gone(child)

    def _gone(self, child: Child) -> None:
        self.children.remove(child)
        child.release()
        self._log.info(f"{child.member.name} is no part of the cluster any more")

    def _kill_late(self, now: float) -> None:
        for child in self.children:
            if child.kill_s is not None and child.kill_s <= now:
                child.kill_s = None
                self._signal(child, signal.SIGKILL)

    # ---- processes

    def _fork(self, child: Child) -> bool:
        """Start a node. Returns False if the system has no process or descriptor left; then the node is tried again
        later."""
        ends: tuple[int, ...] = ()
        try:
            read, write = ends = os.pipe()
            # The signal waits until the child has a handler of its own. The inherited handler would swallow it.
            signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
            pid = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
            for end in ends:
                os.close(end)
            self._refused(child, error)
            return False
        if pid == 0:
            code = 1
            try:
                code = self._become(child, write)
            except BaseException:
                traceback.print_exc()
            finally:
                try:
                    shut_down()
                finally:
                    os._exit(code)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        os.close(write)
        os.set_blocking(read, False)
        child.pid, child.pipe, child.pending = pid, read, b""
        child.started_s, child.due_s, child.running, child.held = time.monotonic(), None, False, False
        child.sentence, child.directory_id = "", directory_id(child.member)
        child.listening.clear()
        self._selector.register(read, selectors.EVENT_READ, child)
        tell(event="forked", ids=child.member.ids, name=child.member.name, pid=pid)
        return True

    def _refused(self, child: Child, error: OSError) -> None:
        sentence = f"no process can be made for it ({error.strerror})"
        child.crashes += 1
        self._log.warning(f"{child.member.name} is not started, and tried again: {sentence}")
        self._again(child, sentence)

    def _again(self, child: Child, sentence: str, *, hopeless: bool = False) -> None:
        """Start the node again after a pause that grows with its crashes. Before the cluster is ready, enough crashes
        are a failure."""
        if not self._ready_told and (hopeless or child.crashes >= GIVE_UP_BEFORE_READY):
            tell(event="failed", name=child.member.name, sentence=sentence)
        child.due_s = time.monotonic() + PAUSES_S[min(child.crashes, len(PAUSES_S) - 1)]

    def _become(self, child: Child, write: int) -> int:
        """Become the node in the new process: keep nothing of the parent's but its memory."""
        from actors.host.cluster import faults
        from actors.host.serve import serve

        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        if not self._detached and not kernel.end_with_parent(self._pid, signal.SIGKILL):
            return 1
        kernel.call_process(child.member.name)
        directory = self.plan.directory
        log = os.open(directory / f"{child.member.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, durable.FILE_MODE)
        null = os.open(os.devnull, os.O_RDONLY)
        for old, new in ((null, 0), (log, 1), (log, 2)):
            os.dup2(old, new)
        self._selector.close()
        os.closerange(3, write)
        os.closerange(write + 1, 1 << 10)

        def event(what: str, listener: str) -> None:
            with contextlib.suppress(OSError):
                os.write(write, f"{what} {listener}\n".encode(errors="backslashreplace"))

        file = str(directory / f"{child.member.name}.properties")
        secret = [file] if has_secrets(child.member.written) else []
        code, sentence = serve(
            child.member.config, Journal(sys.stdout), event, secret_files=secret,
            looping=lambda loop: faults.obey(loop, directory, child.member.name),
        )  # fmt: skip
        event("ended", sentence.replace("\n", " "))
        return code

    def _reap(self) -> None:
        changed = False
        for child in list(self.children):
            if not child.pid:
                continue
            try:
                found, status = os.waitpid(child.pid, os.WNOHANG)
            except ChildProcessError:
                found, status = child.pid, 1 << 8
            if found:
                self._ended(child, os.waitstatus_to_exitcode(status))
                changed = True
        if changed:
            self._publish()

    def _ended(self, child: Child, code: int) -> None:
        self._hear(child)
        self._selector.unregister(child.pipe)
        os.close(child.pipe)
        child.pid, child.running = 0, False
        child.listening.clear()
        tell(event="ended", ids=child.member.ids, name=child.member.name, code=code, sentence=child.sentence)
        child.why = "a command asked for it" if child.restart else reason(code, child.sentence)
        if self._stopping is not None:
            return
        if child.gone:
            self._gone(child)
            return
        if child.held or (code in FINAL_CODES and not child.restart):
            self._log.warning(f"{child.member.name} is not started again: {reason(code, child.sentence)}")
            if not self._ready_told:
                tell(event="failed", name=child.member.name, sentence=reason(code, child.sentence))
            return
        child.restart = False
        early = not self._ready_told or time.monotonic() - child.started_s < QUICK_S
        quick = code not in FINAL_CODES and early
        child.crashes = child.crashes + 1 if quick else 0
        self._again(child, child.sentence or f"it ended with code {code}", hopeless=code == 3)

    def _publish(self) -> None:
        pids = {child.member.name: child.pid for child in self.children if child.pid}
        told, self._publish_due_s = self._publish_due_s is not None, None
        try:
            plans.write_json(self.plan.directory / plans.CLUSTER_JSON, self.plan.describe(self._cluster_id, pids))
        except OSError as error:
            if not told:
                self._log.warning(f"{plans.CLUSTER_JSON} is out of date until it can be written: {error}")
            self._publish_due_s = time.monotonic() + PUBLISH_AGAIN_S

    def _retry(self) -> None:
        if self._publish_due_s is not None and self._publish_due_s <= time.monotonic():
            self._publish()

    def _signal(self, child: Child, number: int) -> None:
        if child.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, number)
                os.kill(child.pid, signal.SIGCONT)

    def _stop(self, timeout_s: float) -> Iterator[float]:
        """Signal the processes of each phase, and yield how long to wait. A phase ends early when its processes are
        gone."""
        brokers = [child for child in self.children if "controller" not in child.member.config.roles]
        rest = [child for child in self.children if child not in brokers]
        for phase in (brokers, rest):
            for child in phase:
                self._signal(child, signal.SIGTERM)
            self._kill_due_s = time.monotonic() + timeout_s
            while any(child.pid for child in phase) and time.monotonic() < self._kill_due_s:
                yield 0.01
            for child in phase:
                self._signal(child, signal.SIGKILL)
            while any(child.pid for child in phase):
                yield 0.01

    # ---- inputs

    def _wait(self) -> None:
        times = [self._publish_due_s, *(due for child in self.children for due in (child.due_s, child.kill_s))]
        dues = [due for due in times if due is not None]
        if self._stopping is not None:
            dues = [self._stop_due_s]
        timeout = max(0.0, min(dues) - time.monotonic()) if dues else None
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    os.read(key.fd, 4096)
            elif key.data is self:
                self._commands()
            else:
                self._hear(key.data)

    def _hear(self, child: Child) -> None:
        """Read the events of a node."""
        try:
            data = os.read(child.pipe, 65536)
        except BlockingIOError:
            return
        *lines, child.pending = (child.pending + data).split(b"\n")
        for line in lines:
            what, _, text = line.decode().partition(" ")
            if what == "started":
                child.running = True
            elif what == "listening":
                child.listening.add(text)
            elif what == "refusing":
                child.listening.discard(text)
            else:
                child.sentence = text
            if what != "ended":
                tell(event=what, ids=child.member.ids, name=child.member.name, listener=text, ready=child.ready)

    def _commands(self) -> None:
        try:
            data = os.read(0, 65536)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(0)
            if not self._detached:
                self.is_left = self._stopping is None
                self.stop(STOP_TIMEOUT_S)
            return
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            self._command(**json.loads(line))

    def _command(self, do: str, id: int = -1, timeout_s: float = STOP_TIMEOUT_S) -> None:
        if do == "stop":
            self.stop(timeout_s)
        for child in self.children:
            if id not in child.member.ids:
                continue
            if do == "hold":
                child.held = True
            elif do == "start" and not child.pid:
                child.held, child.due_s, child.why = False, 0.0, "a command asked for it"
            elif do == "start" and child.held:  # the process is about to end
                child.held, child.restart = False, True
            elif do == "restart":
                child.held, child.restart = False, True
                if child.pid:
                    self._signal(child, signal.SIGTERM)
                else:
                    child.due_s, child.why = 0.0, "a command asked for it"
        tell(event="done", do=do, id=id)


def tell(**event: Any) -> None:
    """Write one event to standard output."""
    with contextlib.suppress(OSError):
        os.write(1, (json.dumps(event) + "\n").encode())


def _import_all() -> None:
    """Import everything a node needs, once for all of them, and let no collection look at it, not even the first: it would
    find 662 objects, in a tenth of the time to the first node."""
    import actors.host.serve
    import actors.host.work.disk
    import actors.node.node  # noqa: F401

    gc.freeze()
    gc.enable()


def _is_wanted() -> bool:
    """Wait for the first line of input. Returns whether it says that the files are there."""
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := os.read(0, 1)):
            return False
        line += byte
    return bool(json.loads(line)["do"] == "begin")


def main(arguments: list[str]) -> int:
    """Run the cluster of a directory."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.umask(0o077)
    directory, detached = Path(arguments[0]), "--detached" in arguments[1:]
    if EARLY in arguments[1:]:
        _import_all()
        if not _is_wanted():
            shutil.rmtree(directory, ignore_errors=True)
            return 0
    try:
        plan = plans.load(directory)
        if plan is None:
            raise storage.StorageError(f"{directory} holds no cluster: run `rayft up --dir {directory}`.")
        told = Supervisor(plan, detached)
        lock = Lock(str(directory))
        for child in told.children:
            child.reserve()
    except (ConfigError, storage.StorageError, PortTaken, OSError) as error:
        tell(event="failed", name="", sentence=str(error))
        return 3
    _import_all()
    try:
        return told.run()
    finally:
        lock.close()
        for child in told.children:
            child.release()
        if told.is_left and "--temporary" in arguments[1:]:
            shutil.rmtree(directory, ignore_errors=True)
