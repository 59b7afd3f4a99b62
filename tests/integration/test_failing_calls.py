"""One call of a real broker to its file system fails, whichever it is: nothing is lost, and no other directory is blamed.

`faults/disk_runs.py` has the runs, and is a command too. `make test` makes one run of each of four operations, the slow
tests make one for each call that does something of its own, with each kind of fault.
"""

import errno
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.host import storage
from actors.node.quorum.checkpoints import verify
from tests.integration.faults.disk_runs import OPERATIONS, Runs, distinct, faults, runs
from tests.integration.faults.failing_calls import Calls, Fault, Unavailable, compiled

SCRIPT = """
import os, sys
place = sys.argv[1]
def call(what, do):
    try:
        do()
    except OSError as error:
        print(what, error.errno)
    else:
        print(what, 0)
fd = os.open(f"{place}/a", os.O_RDWR | os.O_CREAT)
call("write", lambda: os.write(fd, b"12345678"))
call("pwritev", lambda: os.pwritev(fd, [b"1234", b"5678"], 8))
call("sync", lambda: os.fdatasync(fd))
call("directory", lambda: os.fsync(os.open(place, os.O_RDONLY)))
call("rename", lambda: os.rename(f"{place}/a", f"{place}/b"))
call("cut", lambda: os.ftruncate(fd, 3))
call("at", lambda: os.unlink("b", dir_fd=os.open(place, os.O_RDONLY)))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return compiled(tmp_path_factory.mktemp("library"))
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def rayfts(library: Path) -> Iterator[Runs]:
    with runs("rayft") as all:
        yield all


def called(library: Path, place: Path, fault: Fault | None) -> tuple[list[str], Calls]:
    """What the script prints, one of whose calls fails."""
    folder = place / "files"
    folder.mkdir(exist_ok=True)
    calls = Calls(library, place / "calls")
    calls.arm(folder, fault)
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        env=os.environ | calls.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.stdout.splitlines(), calls


def test_every_call_is_counted_and_each_can_fail(library: Path, tmp_path: Path) -> None:
    lines, calls = called(library, tmp_path, None)
    assert lines == ["write 0", "pwritev 0", "sync 0", "directory 0", "rename 0", "cut 0", "at 0"]
    made = calls.made()
    assert made == [
        "open /a", "write /a", "write /a", "sync /a", "open ", "sync ", "rename /a", "truncate /b", "open ", "unlink /b",
    ]  # fmt: skip
    for number, what in ((2, "write"), (3, "pwritev"), (4, "sync"), (6, "directory"), (7, "rename"), (10, "at")):
        lines, calls = called(library, tmp_path, Fault(number, errno.EDQUOT))
        assert f"{what} {errno.EDQUOT}" in lines and calls.failed == 1
    lines, calls = called(library, tmp_path, Fault(3, errno.ENOSPC, 2, partial=True))
    assert lines[1:3] == ["pwritev 0", f"sync {errno.ENOSPC}"] and calls.failed == 1, "the first is made by half"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "what", "end"), [
    ("cleaning", "rename", ".log"), ("retention", "rename", ".log"), ("move here", "rename", "-future"),
    ("restart", "open", ".log"),
])  # fmt: skip
def test_a_call_fails_in_the_middle(rayfts: Runs, name: str, what: str, end: str) -> None:
    made = rayfts.count(name)
    number = next(place for place, one in enumerate(made, 1) if one.startswith(what) and one.endswith(end))
    outcome = rayfts.run(name, Fault(number))
    assert outcome.call and not outcome.wrong, f"{outcome}; {outcome.sentence}"


@pytest.mark.slow
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_call_fails(rayfts: Runs, name: str) -> None:
    made, wrong = rayfts.count(name), []
    for number in distinct(made, random.Random(len(made))):
        for fault in faults(number, 1, number):
            outcome = rayfts.run(name, fault)
            print(outcome)
            if outcome.wrong:
                wrong.append(f"{outcome}; {outcome.sentence}")
    assert not wrong


RAYFT = "import rayft, sys; sys.exit(rayft.main())"
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAA"


def formatted(library: Path, place: Path, fault: Fault | None, *more: str) -> tuple[int, str, Calls]:
    """`rayft format` of a node with two directories, one of whose calls fails: exit code, what it says, the calls."""
    files = place / "files"
    files.mkdir(parents=True, exist_ok=True)
    config = place / "node.properties"
    config.write_text(
        f"process.roles=broker,controller\nbroker.id=1\ncontroller.id=3001\nlisteners=PLAINTEXT://localhost:19092,"
        f"CONTROLLER://localhost:19093\ncontroller.listener.names=CONTROLLER\n"
        f"controller.connect=3001@localhost:19093\nlog.dirs={files}/first,{files}/second\n"
    )
    calls = Calls(library, place / "calls")
    calls.arm(files, fault)
    ran = subprocess.run(
        [sys.executable, "-c", RAYFT, "format", "--config", str(config), "--cluster-id", CLUSTER_ID, "--standalone",
         "--add-scram", "SCRAM-SHA-256=[name=alice,password=alice-secret]", *more],
        env=os.environ | calls.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stdout + ran.stderr, calls


def assert_formatting_survives(library: Path, place: Path, fault: Fault) -> None:
    code, said, calls = formatted(library, place, fault)
    what = f"{fault}, {calls.made()[fault.first - 1]}: {said}"
    assert calls.failed or code, what
    assert code == 0 or (len(said.splitlines()) == 1 and str(place) in said and "Traceback" not in said), what
    code, said, _ = formatted(library, place, None, "--ignore-formatted")
    assert code == 0, f"{what}; then {said}"
    first, second = storage.read(f"{place}/files/first"), storage.read(f"{place}/files/second")
    assert first is not None and second is not None and first.cluster_id == second.cluster_id == CLUSTER_ID, what
    assert first.directory_id != second.directory_id and first.bootstrap and not second.bootstrap, what
    log = Path(first.path, storage.METADATA_DIRECTORY)
    assert [one.name for one in log.iterdir() if one.suffix != ".tmp"] == [storage.FIRST_CHECKPOINT], what
    assert verify((log / storage.FIRST_CHECKPOINT).read_bytes()) is None, what


def formatting_faults(library: Path, place: Path) -> list[Fault]:
    code, said, calls = formatted(library, place / "none", None)
    assert code == 0, said
    assert len(calls.made()) > 15
    return list(faults(len(calls.made())))


def test_formatting_when_a_call_fails(library: Path, tmp_path: Path) -> None:
    chosen = formatting_faults(library, tmp_path)
    for number, fault in enumerate(random.Random(1).sample(chosen, 4)):
        assert_formatting_survives(library, tmp_path / str(number), fault)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_formatting_when_each_call_fails(library: Path, tmp_path: Path) -> None:
    for number, fault in enumerate(formatting_faults(library, tmp_path)):
        assert_formatting_survives(library, tmp_path / str(number), fault)
