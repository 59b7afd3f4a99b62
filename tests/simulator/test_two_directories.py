"""A broker with two log directories: a partition is in one of them. Copies made by hand are recognized, or refused."""

from actors.node.runtime.storage import Storage
from actors.settings.node_config import node_config
from tests.simulator.cluster import CLUSTER_ID, PORT, Client, Cluster, directory_id
from tests.simulator.disk import VirtualDisk
from tests.simulator.test_strays import Alone
from tests.simulator.world import Process, World

NAME = "t-0"


class Twice(Alone):
    """A single broker, as in Alone, with the directories `one` and `two`."""

    def __init__(self, **given: str) -> None:
        self.world = World(1)
        self.cluster = Cluster(self.world, 1, 1)
        self.second = VirtualDisk()
        settings = {
            "process.roles": "broker",
            "broker.id": "1",
            "controller.connect": f"1001@c1001:{PORT}",
            "listeners": f"PLAINTEXT://b1:{PORT}",
            "log.dirs": "one,two",
            **{name.replace("_", "."): value for name, value in given.items()},
        }

        def storage(first: VirtualDisk) -> Storage:
            ids = [directory_id(1), directory_id(2)]
            return Storage(CLUSTER_ID, "drafts", 2, [first, self.second], ids, ["one", "two"])

        self.broker = self.cluster.brokers[1] = Process(self.world, "b1", node_config(settings), storage)
        self.world.add(self.broker)
        self.cluster.start()
        assert self.world.run_until(self.cluster.ready, 60_000)
        self.client = Client(self.world, "client")
        self.create()

    def holders(self) -> list[VirtualDisk]:
        return [disk for disk in (self.broker.disk, self.second) if disk.exists(NAME)]

    def other(self, disk: VirtualDisk) -> VirtualDisk:
        return self.second if disk is self.broker.disk else self.broker.disk


def copy(source: VirtualDisk, target: VirtualDisk) -> None:
    for name in source.names(NAME):
        path = f"{NAME}/{name}"
        file = source.open(path)
        target.replace(path, bytes(file.read(0, file.size) or b""))


def held(disk: VirtualDisk) -> dict[str, bytes]:
    return {path: bytes(inode.data) for path, inode in disk.files.items() if path.startswith(f"{NAME}/")}


def test_one_partition_in_both_is_refused_and_neither_is_touched() -> None:
    world = Twice()
    world.produce()
    (home,) = world.holders()
    world.broker.kill()
    copy(home, world.other(home))
    kept = [held(disk) for disk in world.holders()]
    assert len(kept) == 2
    world.broker.start()
    assert world.broker.stopped_with is not None
    assert world.broker.stopped_with == (1, "t-0 is in one and in two: take the copy away that is out of date")
    assert [held(disk) for disk in world.holders()] == kept


def test_the_copy_of_a_topic_that_went_is_retired_and_the_log_stays_where_it_is() -> None:
    for reverse in (False, True):
        world = Twice()
        world.produce()
        (home,) = world.holders()
        old = VirtualDisk()
        copy(home, old)
        world.delete()
        world.create()
        world.produce()
        (home,) = world.holders()
        world.broker.kill()
        if reverse:  # whichever is read last
            moved = world.other(home)
            copy(home, moved)
            for path in held(home):
                del home.files[path]
            home = moved
        copy(old, world.other(home))
        assert len(world.holders()) == 2
        world.broker.start()
        assert world.world.run_until(world.cluster.ready, 60_000)
        world.world.run_for(1_000)
        log = world.broker.node.broker.replicas.get("t", 0).log
        assert world.holders() == [home] and log.disk is home and log.log_end_offset == 1


def test_a_directory_of_the_metadata_log_alone_is_not_registered_as_one_of_partitions() -> None:
    world = Twice(metadata_log_dir="one", log_dirs="two")
    assert world.broker.node.broker.cache.image.broker(1).log_dirs == (directory_id(2),)
