"""Directories: formatting, meta.properties, locks. Every error is a sentence that says what to do."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.command import cli
from actors.host import storage
from actors.host.storage import StorageError, Voter
from actors.host.work import locks
from actors.host.work.locks import Lock
from actors.host.work.system_random import SystemRandom, uuid_bytes, uuid_text
from actors.settings.node_config import NodeConfig, node_config
from actors.settings.properties import properties

CLUSTER = "3Db5QLSqSZieL3rJBUUegA"
OTHER = "4L6g3nShT-eMCtK--X86sw"


def broker(*paths: Path, id: int = 1) -> NodeConfig:
    return node_config(
        {
            "process.roles": "broker",
            "broker.id": str(id),
            "controller.connect": "1001@h:1",
            "log.dirs": ",".join(map(str, paths)),
        }
    )


def controller(path: Path, connect: str = "1001@h:1") -> NodeConfig:
    return node_config(
        {
            "process.roles": "controller",
            "controller.id": "1001",
            "controller.connect": connect,
            "controller.listeners": "C",
            "listeners": "C://h:1",
            "log.dirs": str(path),
        }
    )


def format(config: NodeConfig, cluster: str = CLUSTER, **options: object) -> list[storage.Directory]:
    return storage.format_node(config, cluster, **({"voters": None} | options))  # type: ignore[arg-type]


def test_meta_properties(tmp_path: Path) -> None:
    format(broker(tmp_path))
    values = properties((tmp_path / "meta.properties").read_text())
    assert values.pop("directory.id") == uuid_text(storage.check(broker(tmp_path))[0].directory_id)
    assert values == {
        "version": "1",
        "cluster.id": CLUSTER,
        "rayft.metadata.family": "drafts",
        "rayft.metadata.format": "2",
        "rayft.transaction.version": "2",
        "rayft.group.version": "1",
        "rayft.share.version": "1",
        "rayft.streams.version": "1",
        "broker.id": "1",
        "node.id": "1",
    }


def test_storage_of_software_without_transactions_says_no_version_of_them(tmp_path: Path) -> None:
    format(broker(tmp_path))
    assert storage.check(broker(tmp_path))[0].transaction_version == 2
    file = tmp_path / "meta.properties"
    file.write_text(file.read_text().replace("rayft.transaction.version=2\n", ""))
    assert storage.check(broker(tmp_path))[0].transaction_version == 0
    file.write_text(file.read_text().replace("rayft.group.version=1\n", ""))
    assert storage.check(broker(tmp_path))[0].group_version == 0, "and of software with classic groups only"
    file.write_text(file.read_text().replace("rayft.share.version=1\n", ""))
    assert storage.check(broker(tmp_path))[0].share_version == 0, "and of software without share groups"


def test_a_combined_node_has_two_ids_and_no_node_id(tmp_path: Path) -> None:
    combined = node_config(
        {
            "process.roles": "broker,controller",
            "broker.id": "1",
            "controller.id": "1001",
            "controller.connect": "1001@h:2",
            "controller.listeners": "C",
            "listeners": "PLAINTEXT://h:1,C://h:2",
            "log.dirs": str(tmp_path),
        }
    )
    assert format(combined)[0].ids == {"broker.id": 1, "controller.id": 1001}


def test_the_first_checkpoint_names_the_voters(tmp_path: Path) -> None:
    from actors.metadata import batches
    from fastpath.records import batch

    random = SystemRandom()
    voters = [Voter(1002, "h2", 2, random.uuid()), Voter(1001, "h1", 1, random.uuid())]
    format(controller(tmp_path), voters=voters, directory_id=voters[1].directory_id)
    data = (tmp_path / "__kafka_metadata-0" / "00000000000000000000-0000000000.checkpoint").read_bytes()
    head, foot = batch.headers(data)
    assert (head.base_offset, head.count, foot.base_offset, foot.count) == (0, 3, 3, 1)
    assert all(one.attributes & batches.CONTROL for one in (head, foot))
    _, kraft, members = (control for _, control in batches.controls(data))
    assert kraft == batches.KRaftVersion(1)
    assert [(m.id, m.directory_id, m.endpoints) for m in members.voters] == [
        (1001, voters[1].directory_id, (("CONTROLLER", "h1", 1),)),
        (1002, voters[0].directory_id, (("CONTROLLER", "h2", 2),)),
    ]
    assert storage.check(controller(tmp_path))[0].directory_id == voters[1].directory_id


def standalone(path: Path, listener: str, connect: str) -> int:
    """`rayft format --standalone` of a controller."""
    file = path / "controller.properties"
    file.write_text(
        "process.roles=controller\ncontroller.id=1001\ncontroller.listeners=CONTROLLER\n"
        f"listeners=CONTROLLER://{listener}\ncontroller.connect={connect}\nlog.dirs={path / 'data'}\n"
    )
    return cli.main(["format", "--config", str(file), "--cluster-id", CLUSTER, "--standalone"])


@pytest.mark.parametrize("host", ["0.0.0.0", "", "[::]"])
@pytest.mark.parametrize("connect", ["outside:19093", "1001@outside:19093"])
def test_a_controller_on_every_interface_votes_under_the_address_that_others_dial(
    tmp_path: Path, host: str, connect: str
) -> None:
    """Nobody can dial 0.0.0.0: brokers on other machines would look for the leader at home."""
    from actors.metadata import batches

    assert standalone(tmp_path, f"{host}:9093", connect) == 0
    data = (tmp_path / "data" / "__kafka_metadata-0" / "00000000000000000000-0000000000.checkpoint").read_bytes()
    _, _, members = (control for _, control in batches.controls(data))
    assert members.voters[0].endpoints == (("CONTROLLER", "outside", 19093),)


def test_an_address_that_nobody_can_dial_is_not_formatted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert standalone(tmp_path, "0.0.0.0:9093", "one:9093,two:9093") == 1
    assert "advertised.listeners=CONTROLLER://host:9093" in capsys.readouterr().err
    assert storage.read(str(tmp_path / "data")) is None


def test_a_brokers_id_is_no_voters(tmp_path: Path) -> None:
    """Its heartbeats would be refused."""
    with pytest.raises(StorageError, match=r"has 1, which is this process's broker\.id"):
        storage.agree(broker(tmp_path), [Voter(1, "h", 1, bytes(16))])
    storage.agree(broker(tmp_path), [Voter(1001, "h", 1, bytes(16))])


def test_brokers_have_no_checkpoint(tmp_path: Path) -> None:
    format(broker(tmp_path), voters=[Voter(1001, "h", 1, SystemRandom().uuid())])
    assert sorted(os.listdir(tmp_path)) == [".lock", "meta.properties"]


def test_not_formatted(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is not formatted: run `rayft format`"):
        storage.check(broker(tmp_path))


def test_formatting_twice(tmp_path: Path) -> None:
    first = format(broker(tmp_path))
    with pytest.raises(StorageError, match=f"formatted already, for cluster {CLUSTER}"):
        format(broker(tmp_path))
    assert format(broker(tmp_path), ignore_formatted=True) == first
    with pytest.raises(StorageError, match=f"belongs to cluster {CLUSTER}, not to {OTHER}"):
        format(broker(tmp_path), OTHER, ignore_formatted=True)


def test_a_directory_of_another_node(tmp_path: Path) -> None:
    format(broker(tmp_path))
    with pytest.raises(StorageError, match=r"belongs to the node with broker\.id=1, and this node has broker\.id=2"):
        storage.check(broker(tmp_path, id=2))
    with pytest.raises(StorageError, match=r"broker\.id=1, and this node has broker\.id=none"):
        storage.check(controller(tmp_path))


def test_directories_of_two_clusters(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    format(broker(one))
    format(broker(two), OTHER)
    with pytest.raises(StorageError, match="must come from one cluster"):
        storage.check(broker(one, two))


def test_a_copied_directory(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    format(broker(one))
    two.mkdir()
    (two / "meta.properties").write_bytes((one / "meta.properties").read_bytes())
    with pytest.raises(StorageError, match=r"same directory\.id"):
        storage.check(broker(one, two))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version=0\nbroker.id=1\n", "with ZooKeeper"),
        (f"version=1\ncluster.id={CLUSTER}\nnode.id=1\ndirectory.id={OTHER}\n", "written by Apache Kafka"),
        ("version=1\nrayft.metadata.family=drafts\n", "damaged"),
        (f"version=1\nrayft.metadata.family=drafts\ncluster.id={CLUSTER}\ndirectory.id=x\n", "damaged"),
    ],
)
def test_foreign_and_damaged_directories(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(StorageError, match=words):
        storage.check(broker(tmp_path))


def test_a_locked_directory_names_its_holder_and_is_free_after_kill(tmp_path: Path) -> None:
    code = (
        "import sys; from actors.host.work.locks import Lock; lock = Lock(sys.argv[1]); "
        "print('held', flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(StorageError, match=f"in use by process {process.pid}"):
            Lock(str(tmp_path))
        assert locks.holder(str(tmp_path)) == locks.Holder(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert locks.holder(str(tmp_path)) is None
    Lock(str(tmp_path)).close()


def test_voters_on_the_command_line() -> None:
    text = f"1001@h1:9093:{OTHER},1002@[::1]:9093:{CLUSTER}"
    assert storage.voters(text, "C") == [
        Voter(1001, "h1", 9093, uuid_bytes(OTHER), "C"),
        Voter(1002, "::1", 9093, uuid_bytes(CLUSTER), "C"),
    ]
    with pytest.raises(StorageError, match="ID@HOST:PORT:DIRID"):
        storage.voters("1001@h1:9093", "C")
    for number in (f"1001@h1:65536:{OTHER}", f"2147483648@h1:9093:{OTHER}"):
        with pytest.raises(StorageError, match="too large"):
            storage.voters(number, "C")
    with pytest.raises(StorageError, match=r"1002@h3.*is there twice"):  # a majority of three would be of two
        storage.voters(f"1001@h1:9093:{OTHER},1002@h2:9093:{CLUSTER},1002@h3:9093:{CLUSTER}", "C")


def test_voters_agree_with_controller_connect(tmp_path: Path) -> None:
    quorum = [Voter(1001, "h", 1, uuid_bytes(OTHER))]
    storage.agree(controller(tmp_path), quorum)
    storage.agree(controller(tmp_path, "h:1,h:2"), quorum)
    with pytest.raises(StorageError, match=r"\[1001\], and controller.connect names \[1001, 1002\]"):
        storage.agree(controller(tmp_path, "1001@h:1,1002@h:2"), quorum)


def test_ids_are_never_reserved_ones_and_never_look_like_options() -> None:
    random = SystemRandom()
    for _ in range(1000):
        value = random.uuid()
        assert uuid_bytes(uuid_text(value)) == value
        assert not uuid_text(value).startswith("-")
        assert int.from_bytes(value, "big") >= 100


@pytest.mark.parametrize(
    "content, words",
    [
        ("version=0\nbroker.id=1\n", "as clusters with ZooKeeper write it"),
        ("version=7\n", "has version 7, and only 1 is known here"),
        ("\x00\xff garbage\n", "is damaged"),
        ("version=one\n", "is damaged"),
        ("", "is damaged"),
    ],
)
def test_other_versions_and_garbage_are_told_apart(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "meta.properties").write_text(content, "latin-1")
    with pytest.raises(StorageError, match=words):
        storage.read(str(tmp_path))


@contextmanager
def no_room(beyond: int = 0) -> Iterator[None]:
    """No file can grow beyond so many bytes, as on a full disk. Not a fixture: what the run prints may go to a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (beyond, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_does_not_keep_a_node_from_its_directory(tmp_path: Path) -> None:
    """Who cannot start cannot delete anything either. The lock was written when the directory was formatted."""
    Lock(str(tmp_path)).close()
    with no_room(locks.HOLDER_BYTES):
        lock = Lock(str(tmp_path))
        with pytest.raises(StorageError, match="in use"):
            Lock(str(tmp_path))
        lock.close()


def test_the_number_of_a_former_holder_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1234567890\n")
    lock = Lock(str(tmp_path))
    assert locks.holder(str(tmp_path)) == locks.Holder(os.getpid())
    lock.close()
    assert locks.holder(str(tmp_path)) is None


def test_a_directory_can_be_taken_while_somebody_asks_who_holds_it(tmp_path: Path) -> None:
    """`rayft status` looks at the lock of every node, and a node that starts must not take that for another node."""
    Lock(str(tmp_path)).close()
    looking = os.open(tmp_path / ".lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    done = threading.Timer(0.02, os.close, (looking,))
    done.start()
    Lock(str(tmp_path)).close()
    done.join()


def test_a_small_file_is_written_whole_or_is_an_error(tmp_path: Path) -> None:
    """The kernel takes what there is room for, and only the next write is refused."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, before[1]))
    try:
        with pytest.raises(OSError):
            format(broker(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert storage.read(str(tmp_path)) is None
    assert [one.cluster_id for one in format(broker(tmp_path))] == [CLUSTER]
