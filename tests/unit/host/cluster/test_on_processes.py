"""What somebody who runs a cluster from Python is told; the supervisor's side is played here."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from actors.command import cli
from actors.command.output import screen
from actors.host.cluster import on_processes
from actors.host.cluster import plan as plans
from actors.host.cluster.on_processes import Cluster, ClusterError, down
from actors.import_path import python_path
from actors.settings.keys import ConfigError

pytestmark = pytest.mark.long


class Supervised(Cluster):
    """A cluster whose supervisor takes every command at once."""

    def __init__(self, directory: Path) -> None:
        super().__init__(dir=directory)
        self._plan = plans.create(directory, 1, 1, common={})
        self._pids = {"controller-1001": 111, "broker-1": 112}
        self._ready = {"controller-1001", "broker-1"}
        self._process: Any = object()

    def _tell(self, process: Any, **command: Any) -> None:
        self._done.append((command["do"], command["id"]))


def test_a_kill_whose_restart_was_quicker_than_we_are_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Supervised(tmp_path)
    killed = []

    def kill(pid: int, number: int) -> None:
        killed.append(pid)
        cluster._pids["broker-1"] = 222

    monkeypatch.setattr(os, "kill", kill)
    began = time.monotonic()
    cluster.kill(1)
    assert killed == [112]
    assert time.monotonic() - began < 5


def test_a_restart_that_did_not_happen_is_an_error(tmp_path: Path) -> None:
    """The old process may be slow to stop; it is still ready then."""
    cluster = Supervised(tmp_path)
    with pytest.raises(ClusterError, match="did not come back"):
        cluster.restart(1, timeout_s=0.1)


def test_a_cluster_is_whole_when_what_was_told_to_end_has_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, sent = Supervised(tmp_path), []
    monkeypatch.setattr(os, "kill", lambda *one: sent.append(one))
    cluster.heal(0.1)
    for restart in (True, False):
        cluster.kill(1, signal.SIGTERM, restart=restart)
        with pytest.raises(ClusterError, match="broker-1 was told to end, and runs: its log is in "):
            cluster.heal(0.1)
        cluster._pids["broker-1"] += 1
        cluster.heal(0.1)
    cluster.kill(1001, signal.SIGSTOP)
    cluster.heal(0.1)
    assert sent == [(112, signal.SIGTERM), (113, signal.SIGTERM), (111, signal.SIGSTOP), (111, signal.SIGCONT)]


def test_down_kills_what_takes_too_long(tmp_path: Path) -> None:
    """A broker without its supervisor, and deaf: `rayft down --timeout` says when it is killed."""
    plans.create(tmp_path, 1, 1, common={})
    deaf = (
        "import signal, sys, time\n"
        "from actors.host.work import locks\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "lock = locks.Lock(sys.argv[1])\n"
        "print('held', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", deaf, str(tmp_path / "broker-1")],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": python_path()},
    ) as broker:
        try:
            assert broker.stdout is not None and broker.stdout.readline() == b"held\n"
            began = time.monotonic()
            assert down(tmp_path, timeout_s=0.2)
            assert time.monotonic() - began < 5
            assert broker.wait(5) == -signal.SIGKILL
        finally:
            broker.kill()


@pytest.mark.timeout(60)
def test_a_start_has_a_limit_that_grows_with_the_data_and_begins_anew_with_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash brokers read what they had not synced; a start that gets nowhere ends, and says whom it waits for."""
    said: list[str] = []
    popen = subprocess.Popen

    def supervisor(command: list[str], **how: Any) -> "subprocess.Popen[bytes]":
        return popen([sys.executable, "-c", "; ".join(["import time, sys", *said])], **how)

    def say(after_s: float, event: str) -> str:
        return f"time.sleep({after_s}); print('{{{event}}}', flush=True)"

    stay = "sys.stdin.readline()"
    monkeypatch.setattr(subprocess, "Popen", supervisor)
    monkeypatch.setattr(on_processes, "START_TIMEOUT_S", 2.0)
    said[:] = [say(4, '"event": "ready"'), stay]
    with pytest.raises(ClusterError, match="not ready after 2 s: it waits for broker-1, controller-1001; its logs"):
        Cluster(1, 1, tmp_path).start()
    with pytest.raises(
        ClusterError, match="not ready with no progress for 2 s: it waits for broker-1, controller-1001"
    ):
        Cluster(dir=tmp_path).start()

    step = say(1, '"event": "listening", "name": "controller-1001", "ready": true')
    said[:] = [step, step, step, say(1, '"event": "ready"'), stay]
    with Cluster(dir=tmp_path) as cluster:
        assert cluster.running, "four seconds, and never two without a word"
    said[:] = [step, stay]
    with pytest.raises(ClusterError, match="it waits for broker-1; its logs"):
        Cluster(dir=tmp_path).start()

    segment = tmp_path / "broker-1" / "orders-0" / f"{0:020}.log"
    segment.parent.mkdir()
    with segment.open("wb") as file:
        file.truncate(60 << 20)
    said[:] = [say(4, '"event": "ready"'), stay]
    with Cluster(dir=tmp_path) as cluster:
        assert cluster.running, "six seconds more"
    with pytest.raises(ClusterError, match="not ready after 0 s"):
        Cluster(dir=tmp_path, start_timeout_s=0.2).start()


def test_a_block_that_is_not_entered_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python does not leave what it has not entered, and a notebook goes on for hours."""
    refused = Cluster(config={"no.such.setting": "1"})
    with pytest.raises(ConfigError), refused:
        raise AssertionError("entered")
    assert not refused.dir.exists()
    interrupted = Cluster(1, 1)
    popen = subprocess.Popen
    quiet = "import sys; sys.stdin.readline()"
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: popen([sys.executable, "-c", quiet], **how))
    monkeypatch.setattr(interrupted, "_wait_started", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt), interrupted:
        raise AssertionError("entered")
    assert not interrupted.running and not interrupted.dir.exists()


def test_up_shows_addresses_and_directories_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Brackets are also how the screen is told of colours, and a long line may be somebody's input."""
    servers = ",".join(f"[fd00::{n}:1234:5678:9abc]:9092" for n in range(5))
    monkeypatch.setattr(on_processes, "Cluster", Mock(return_value=Mock(served=servers, secure=False)))
    monkeypatch.setattr(screen, "state", Mock())
    monkeypatch.setattr(screen, "table", Mock(return_value=""))
    directory = tmp_path / "[a]" / "x[" / "b]"
    assert cli.main(["up", "--detach", "--dir", str(directory)]) == 0
    told = capsys.readouterr().out
    assert servers in told and f"rayft down --dir {directory}\n" in told


@pytest.mark.parametrize(("last", "code"), [("", 0), ("sys.exit(1)", 1), ("os.kill(os.getpid(), 9)", 1)])
def test_up_says_whether_its_cluster_was_stopped_or_broke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], last: str, code: int
) -> None:
    """Whoever supervises the command may start it again."""
    life = f'import os, sys, time; print(\'{{"event": "ready"}}\', flush=True); time.sleep(0.5); {last}'
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: popen([sys.executable, "-c", life], **how))
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert cli.main(["up", "--controllers", "1", "--brokers", "1", "--port", "0", "--dir", str(tmp_path)]) == code
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ("supervisor.log" in capsys.readouterr().err) == (code == 1)


def test_ctrl_c_ends_a_command_without_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, inside = os.pipe()
    read = []

    def sleep(seconds: float) -> None:
        read.append(os.read(out, 100))  # whoever is behind a pipe has it by now
        raise KeyboardInterrupt

    monkeypatch.setattr(screen, "state", Mock(return_value={"leader_id": 1}))
    with monkeypatch.context() as patch, open(inside, "w") as stream:
        os.set_blocking(out, False)
        patch.setattr(sys, "stdout", stream)
        patch.setattr(time, "sleep", sleep)
        assert cli.main(["status", "--watch", "--json", "--dir", str(tmp_path)]) == 0
    assert b"leader_id" in read[0]
    monkeypatch.setattr(on_processes, "down", Mock(side_effect=KeyboardInterrupt))
    assert cli.main(["down", "--dir", str(tmp_path)]) == 130
    os.close(out)


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "soon"])
def test_a_time_that_never_comes_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a number would wait for ever for a node that hangs."""
    with pytest.raises(SystemExit):
        cli.main(["down", "--dir", str(tmp_path), "--timeout", text])
    assert f"{text!r} is not a number of seconds, 0 or more" in capsys.readouterr().err


def test_a_listener_that_breaks_does_not_make_the_cluster_deaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody would read what the supervisor says, and it would wait for that in the end."""
    told = (
        "import sys; [print('{\"event\": \"%s\"}' % what, flush=True) for what in ('x', 'ready')]; sys.stdin.readline()"
    )
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: popen([sys.executable, "-c", told], **how))
    with Cluster(1, 1, on_event=Mock(side_effect=KeyError("mine")), start_timeout_s=5.0) as cluster:
        assert cluster.running
    assert "KeyError: 'mine'" in capsys.readouterr().err


def test_a_stop_that_was_interrupted_can_be_hurried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second Ctrl-C of `rayft up`: it kills, and the command does not say before that all is stopped."""
    cluster, told = Supervised(tmp_path), []
    process = subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)

    def tell(process: "subprocess.Popen[bytes]", **command: object) -> None:
        told.append(command)
        if len(told) == 2:
            assert process.stdin is not None
            process.stdin.close()

    cluster._process, cluster._tell = process, tell  # type: ignore[method-assign]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(on_processes, "ends_within", Mock(side_effect=KeyboardInterrupt))
        cluster.stop()
    assert process.returncode is None
    cluster.stop(timeout_s=10.0)
    assert told == [{"do": "stop", "timeout_s": 30.0}, {"do": "stop", "timeout_s": 10.0}]
    assert process.returncode == 0 and not cluster.running
    cluster.stop()
    assert len(told) == 2


def test_a_cluster_that_is_started_again_is_waited_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = 'import sys, time; time.sleep(0.3); print(\'{"event": "ready"}\', flush=True); sys.stdin.readline()'
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: popen([sys.executable, "-c", slow], **how))
    cluster = Cluster(1, 1, tmp_path)
    for _ in range(2):
        began = time.monotonic()
        cluster.start()
        assert time.monotonic() - began > 0.25
        process = cluster._process
        with cluster:
            assert cluster._process is process, "it runs already"
        assert not cluster.running


def test_what_an_earlier_supervisor_said_is_not_taken_for_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended by itself, and whoever listens has not heard all of it yet when the cluster is started again."""
    says = 'import sys; [print(\'{"event": "%s"}\' % what, flush=True) for what in sys.argv[1:]]; '
    lives = [
        says + "input()",
        says + 'import time; time.sleep(0.6); print(\'{"event": "ready"}\', flush=True); input()',
    ]
    popen = subprocess.Popen
    told = [["ready", "late"], []]
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **how: popen([sys.executable, "-c", lives.pop(0), *told.pop(0)], **how)
    )

    def slow(event: dict[str, Any]) -> None:
        time.sleep(0.3 if event["event"] == "late" else 0)

    cluster = Cluster(1, 1, tmp_path, on_event=slow).start()
    first = cluster._process
    assert first is not None and first.stdin is not None
    first.stdin.close()
    first.wait(10)
    with cluster:
        assert cluster.running


def test_who_starts_a_cluster_that_somebody_stops_is_told_so(tmp_path: Path) -> None:
    """The supervisor's log has nothing to say then, and an exit code is no reason."""
    cluster = Cluster(dir=tmp_path)
    for code in (0, -signal.SIGTERM):
        assert cluster._last_words(code) == (
            f"the cluster of {tmp_path} was stopped while it started, by rayft down or a signal to its supervisor."
        )
    (tmp_path / "supervisor.log").write_text("one\nlast\n\n")
    assert "exit code 3: last" in cluster._last_words(3)
    assert "exit code -9: last" in cluster._last_words(-signal.SIGKILL)


def test_a_notebook_shows_the_nodes_before_and_behind_the_start(tmp_path: Path) -> None:
    shown = Supervised(tmp_path)._repr_html_()
    assert shown.count("<tr>") == 3 and "<td>1001</td><td>controller</td>" in shown and "<td>serves</td>" in shown
    with Cluster(controllers=1, brokers=1, dir=tmp_path / "<b>", combined=True) as real:
        made = real._repr_html_()
        assert "<td>1 and 1001</td><td>broker, controller</td>" in made and real.bootstrap_servers in made
        assert "&lt;b&gt;" in made and "<b>" not in made
    assert "<td>down</td>" in real._repr_html_()
    assert "not started" in Cluster(dir=tmp_path / "new")._repr_html_()
