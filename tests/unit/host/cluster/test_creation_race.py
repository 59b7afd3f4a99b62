"""Several commands on one new directory at once: one cluster is made, and no other one takes anything of it away."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from actors.host import storage
from actors.host.cluster import local_controllers, secure_cluster
from actors.host.cluster import plan as plans
from actors.host.cluster_error import ClusterError
from actors.host.security import certificates
from actors.host.security import security_directory as files
from actors.host.work import durable, locks
from actors.import_path import python_path
from actors.settings.keys import ConfigError

MAKES = """
import sys
from pathlib import Path
from actors.host.cluster import plan as plans
print("there", flush=True)
sys.stdin.readline()
try:
    plans.create(Path(sys.argv[1]), 1, 1, common={}, combined=True)
    print("made")
except Exception as error:
    print(f"{type(error).__name__} {error}")
"""
"""Makes a cluster in a process of its own, once it is told to begin."""


@pytest.mark.long
def test_of_five_that_make_a_cluster_one_does(tmp_path: Path) -> None:
    for turn in range(2):
        home = tmp_path / str(turn)
        makers = [
            subprocess.Popen(
                [sys.executable, "-c", MAKES, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env=os.environ | {"PYTHONPATH": python_path()},
            )
            for _ in range(5)
        ]  # fmt: skip
        try:
            for maker in makers:
                assert maker.stdout is not None and maker.stdout.readline() == "there\n"
            for maker in makers:
                assert maker.stdin is not None
                maker.stdin.write("begin\n")
                maker.stdin.flush()
            said = sorted(maker.communicate(timeout=60)[0].strip() for maker in makers)
        finally:
            for maker in makers:
                maker.kill()
                maker.wait()
        assert said[4] == "made", said
        assert all(one.startswith("AlreadyThere") and "holds a cluster already" in one for one in said[:4]), said
        found = plans.load(home)
        assert found is not None
        assert [storage.check(member.config)[0].path for member in found.members] == [str(home / "node-1")]
        assert not list(home.rglob("*.tmp"))


def test_what_failed_takes_nothing_of_another_cluster_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the failure somebody formats the directory with other means."""
    other = storage.format_node

    def taken(config: object, cluster_id: str, **given: object) -> object:
        other(config, "BBBBBBBBBBBBBBBBBBBBBB", voters=None)  # type: ignore[arg-type]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "format_node", taken)
    with pytest.raises(OSError):
        plans.create(tmp_path, 1, 0, common={})
    left = storage.read(str(tmp_path / "controller-1001"))
    assert left is not None and left.cluster_id == "BBBBBBBBBBBBBBBBBBBBBB"
    assert plans.load(tmp_path) is None


def test_a_command_waits_for_the_one_that_makes_a_cluster(tmp_path: Path) -> None:
    with locks.alone(tmp_path):
        with pytest.raises(ClusterError, match="another command changes the cluster"), locks.alone(tmp_path):
            pass
        waits = threading.Thread(target=plans.create, args=(tmp_path, 1, 0), kwargs={"common": {}})
        waits.start()
        waits.join(0.2)
        assert waits.is_alive() and plans.load(tmp_path) is None
    waits.join(30)
    assert plans.load(tmp_path) is not None


def test_what_is_removed_is_a_nodes_own(tmp_path: Path) -> None:
    """A directory of another cluster or node stays, one that a process holds too, and so does every file of a user."""
    plan = plans.create(tmp_path, 2, 0, common={})
    first, second = (member.config for member in plan.controllers)
    cluster_id, path = storage.check(first)[0].cluster_id, Path(first.metadata_log_dir)
    ids = storage.ids_of(first)
    before = sorted(path.rglob("*"))
    assert not storage.discard(str(path), "BBBBBBBBBBBBBBBBBBBBBB", ids)
    assert not storage.discard(str(path), cluster_id, storage.ids_of(second))
    held = locks.Lock(str(path))
    assert not storage.discard(str(path), cluster_id, ids)
    held.close()
    assert sorted(path.rglob("*")) == before
    (path / "notes.txt").write_text("mine")
    assert storage.discard(str(path), cluster_id, ids)
    assert [one.name for one in path.iterdir()] == ["notes.txt"]
    assert storage.discard(second.metadata_log_dir, cluster_id, storage.ids_of(second))
    assert not Path(second.metadata_log_dir).exists()
    assert storage.discard(str(tmp_path / "gone"), cluster_id, ids)


def test_files_that_two_write_at_once_do_not_meet(tmp_path: Path) -> None:
    """As nodes of one machine do that write `ca.pem` at their start on Ray."""
    (tmp_path / "a").write_text("before")
    (tmp_path / "a").chmod(0o644)
    failed: list[BaseException] = []

    def writing(number: int) -> None:
        try:
            for turn in range(30):
                durable.replace_files(str(tmp_path), {"a": b"%d" % number * 500, "b": b"%d" % turn})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=writing, args=(number,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed
    data = (tmp_path / "a").read_bytes()
    assert len(data) == 500 and len(set(data)) == 1
    assert sorted(os.listdir(tmp_path)) == ["a", "b"] and (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_processes_that_write_one_certificate_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from actors.host.security import certificates\n"
        "for turn in range(60): certificates.write(Path(sys.argv[1]) / 'ca.pem', b'x' * 1000)\n"
    )
    around = os.environ | {"PYTHONPATH": python_path()}
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=around) for _ in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert os.listdir(tmp_path) == ["ca.pem"]


def test_what_was_not_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(OSError):
        durable.replace_files(str(tmp_path), {"a": b"1", "b": b"2"})
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_certificate_stays_until_another_one_is_issued(tmp_path: Path) -> None:
    home = tmp_path / secure_cluster.DIRECTORY
    files.make_authority(home, "rayft")
    path = files.make_node(home, [1001], ["10.0.0.1"])
    before = path.read_bytes()
    (home / files.CA_KEY).rename(tmp_path / "offline")
    with pytest.raises(ConfigError, match=r"ca\.key cannot be read"):
        secure_cluster.certify(tmp_path, (1001,), "10.0.0.2")
    assert path.read_bytes() == before and sorted(os.listdir(home)) == ["ca.pem", "rayft-node-1001.pem"]
    secure_cluster.certify(tmp_path, (1001,), "10.0.0.1")
    assert path.read_bytes() == before, "it names the host"
    (tmp_path / "offline").rename(home / files.CA_KEY)
    secure_cluster.certify(tmp_path, (1001,), "10.0.0.2")
    assert certificates.said(path.read_bytes()).hosts == ("10.0.0.2",)


def test_no_vote_is_given_up_before_the_new_disk_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of a replacement, in their order."""
    plans.create(tmp_path, 1, 0, common={})
    steps: list[str] = []
    kept = [("members", "members"), ("wait_for_observer", "follows"), ("remove", "old vote"), ("add", "new vote")]
    from actors.host.cluster import controllers, quorum_changes

    (key,) = [quorum_changes.MetadataReplica(1001, b"n" * 16)]
    members = quorum_changes.Members(1001, 5, {1001: quorum_changes.MetadataReplica(1001, b"o" * 16)}, {key: 5})
    for name, step in kept:
        monkeypatch.setattr(
            quorum_changes,
            name,
            lambda *given, step=step: steps.append(step) or (members if step == "members" else None),
        )
    plan = plans.load(tmp_path)
    assert plan is not None
    controllers.vote(plan, key, 1.0)
    assert [step for step in steps if step != "members"] == ["follows", "old vote", "new vote"]
    assert local_controllers.POLL_S > 0
