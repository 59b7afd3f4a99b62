"""The quorum of a node over real frames and virtual disks: elections, commits, restarts, snapshots, tools."""

import errno
import json
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from actors.metadata import batches
from actors.node.api.handlers.describe_quorum import describe_quorum
from actors.node.quorum.files import DamagedFile, read_durable
from actors.node.quorum.replica import QuorumReplica
from actors.node.runtime.answers import Done, Forward
from actors.node.runtime.calls import Call, Listener
from actors.ports import DiskFull, SyncClass
from actors.raft import ReplicaKey, SnapshotId, download, election
from actors.wire.messages import message
from tests.unit.node.quorum.quorum_cluster import Cluster, Replica


def values(node: Replica) -> list[str]:
    return [value.decode(errors="replace").strip("\0 ") for value in node.role.values]


def test_commits_on_all_and_observers_follow() -> None:
    cluster = Cluster(controllers=3, brokers=1)
    cluster.start()
    leader = cluster.elect()
    for number in range(20):
        cluster.append(f"r{number}")
    assert cluster.run(200, cluster.settled)
    for node in cluster.nodes.values():
        assert values(node) == [f"r{number}" for number in range(20)]
        assert node.quorum.raft.leader_id == leader.id
        assert node.quorum.leader_address() == ("127.0.0.1", 9000 + leader.id)
    assert leader.role.events == ["gained 1"]


def test_r500_30_a_broker_that_has_everything_asks_again_and_again() -> None:
    """So the leader need not know it, and tells it nothing unasked."""
    cluster = Cluster(controllers=1, brokers=1)
    cluster.start()
    cluster.elect()
    broker = cluster.nodes[101]
    assert cluster.run(500, cluster.settled)
    asked: list[int] = []
    send = broker.quorum.transport.send

    def noted(target: int, request: Any) -> None:
        if type(request).__name__ == "FetchRequest":
            asked.append(cluster.time_ms)
        send(target, request)

    broker.quorum.transport.send = noted  # type: ignore[method-assign]
    began = cluster.time_ms
    cluster.run(10_000)
    assert asked and all(later - earlier < 1_500 for earlier, later in pairwise([began, *asked, cluster.time_ms]))
    cluster.append("after a long silence")
    assert cluster.run(1_500, cluster.settled)


def test_the_leader_knows_when_each_replica_has_fetched_last() -> None:
    cluster = Cluster(brokers=1)
    cluster.start()
    leader = cluster.elect()
    assert cluster.run(500, cluster.settled)
    gone = next(node for node in cluster.nodes.values() if node is not leader and node.id < 100)
    gone.kill()
    cluster.run(5_000)
    described = leader.quorum.raft.describe()
    now_ms = leader.now().wall_ms
    silent_ms = {one.key.id: now_ms - one.last_fetch_ms for one in (*described.voters, *described.observers)}
    assert silent_ms.pop(gone.id) > 4_000
    silent_ms.pop(leader.id)
    assert len(silent_ms) == 2 and all(0 <= ms < 2_000 for ms in silent_ms.values())


A, B = ReplicaKey(1, b"a" * 16), ReplicaKey(2, b"b" * 16)


@pytest.mark.parametrize(("voted", "who", "granted"), [(None, A, True), (A, A, True), (A, B, False)])
def test_a_voter_has_one_vote_in_an_epoch_and_gives_it_again_to_who_has_it(
    voted: ReplicaKey | None, who: ReplicaKey, granted: bool
) -> None:
    """The answer may have been lost."""
    log = SimpleNamespace(last_epoch=1, end_offset=9)
    core: Any = SimpleNamespace(log=log, leader_id=-1, hard=SimpleNamespace(voted=voted))
    request: Any = SimpleNamespace(last_epoch=1, end_offset=9, pre_vote=False, replica=who)
    assert election._may_grant(core, request) is granted
    core.leader_id = 3
    assert not election._may_grant(core, request), "who leads this epoch is known"


@pytest.mark.parametrize(("position", "error"), [(0, 0), (100, 0), (101, 99)])
def test_a_slice_is_asked_for_inside_the_snapshot(position: int, error: int) -> None:
    said: list[Any] = []
    piece = SimpleNamespace(size=100, data=b"")
    core: Any = SimpleNamespace(
        leading=SimpleNamespace(),
        me=SimpleNamespace(id=1),
        epoch=3,
        limits=SimpleNamespace(snapshot_bytes_max=10),
        log=SimpleNamespace(reader=SimpleNamespace(read_snapshot=lambda *asked: piece)),
        say=lambda target, answer: said.append(answer),
    )
    request: Any = SimpleNamespace(serial=1, snapshot=SnapshotId(5, 1), position=position, bytes_max=10)
    download.serve(core, 2, request)
    assert [int(one.error) for one in said] == [error]


def test_r497_51_controller_0_leads_like_any_other_and_nobody_is_nobody() -> None:
    places: Any = {0: ("h0", 1), 1: ("h1", 2)}
    for leader, address in ((0, ("h0", 1)), (1, ("h1", 2)), (-1, None)):
        quorum: Any = SimpleNamespace(
            told_leader=None,
            raft=SimpleNamespace(leader_id=leader),
            identity=SimpleNamespace(addresses=SimpleNamespace(find=places.__getitem__)),
        )
        assert QuorumReplica.leader_address(quorum) == address


def test_the_durable_mark_follows_the_commits_at_a_distance() -> None:
    """On every replica, at most once a second, and never beyond what is durable and committed there."""
    cluster = Cluster(controllers=3, brokers=1)
    cluster.start()
    cluster.elect()
    written: dict[int, list[tuple[int, int]]] = {node.id: [] for node in cluster.nodes.values()}

    def watch(node: Replica) -> None:
        replace = node.disk.replace

        def seen(path: str, content: Any) -> None:
            replace(path, content)
            if path.endswith("/durable-offset"):
                offset = read_durable(bytes(content))
                assert offset <= min(node.quorum.raft.high_watermark, node.quorum.raft.durable_offset)
                written[node.id].append((cluster.time_ms, offset))

        node.disk.replace = seen  # type: ignore[method-assign]

    for node in cluster.nodes.values():
        watch(node)
    for number in range(100):
        cluster.append(f"r{number}")
        cluster.run(50, lambda: False)
    cluster.run(2500, lambda: False)
    for node in cluster.nodes.values():
        times = [at for at, _ in written[node.id]]
        assert 5 <= len(times) <= 8
        assert all(later - earlier >= 999 for earlier, later in pairwise(times))
        assert written[node.id][-1][1] == node.quorum.raft.high_watermark


def test_first_batch_names_the_voters() -> None:
    cluster = Cluster()
    cluster.start()
    leader = cluster.elect()
    first = leader.quorum.store.log.read(0, 1)
    assert first is not None
    kinds = [type(control) for _, control in batches.controls(first[0].data)]
    assert kinds == [batches.LeaderChange, batches.KRaftVersion, batches.Voters]


def test_single_voter_leads_within_a_few_milliseconds() -> None:
    cluster = Cluster(controllers=1)
    cluster.start()
    assert cluster.run(10, lambda: cluster.leader() is not None)


def test_killed_leader_is_followed_at_once_and_comes_back_as_follower() -> None:
    cluster = Cluster(brokers=1)
    cluster.start()
    old = cluster.elect()
    cluster.append("before")
    assert cluster.run(100, cluster.settled)
    old.kill()
    began = cluster.time_ms
    new = cluster.elect()
    assert new is not old
    assert cluster.time_ms - began < 60
    assert new.quorum.raft.epoch == 2
    cluster.append("after")
    old.start()
    assert cluster.run(500, cluster.settled)
    assert [values(node) for node in cluster.nodes.values()] == [["before", "after"]] * 4


def test_power_cut_of_all_keeps_what_was_committed() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.elect()
    for number in range(10):
        cluster.append(f"r{number}")
    assert cluster.run(100, cluster.settled)
    for node in cluster.nodes.values():
        node.power_cut()
    cluster.start()
    assert cluster.elect().quorum.raft.epoch == 2
    assert cluster.run(500, cluster.settled)
    assert all(values(node) == [f"r{number}" for number in range(10)] for node in cluster.nodes.values())


def test_resigning_hands_over() -> None:
    cluster = Cluster()
    cluster.start()
    old = cluster.elect()
    old.input(old.quorum.resign)
    assert old.role.events[-1] == "lost"
    assert cluster.run(50, lambda: cluster.leader() is not None)
    assert cluster.leader() is not old


def test_r631_046_a_leader_that_is_silent_is_followed_and_what_it_committed_stays() -> None:
    """Its connections hold and nothing comes: only time tells."""
    cluster = Cluster()
    cluster.start()
    old = cluster.elect()
    cluster.append("before")
    assert cluster.run(100, cluster.settled)
    old.freeze()
    others = [node for node in cluster.nodes.values() if node is not old]
    assert cluster.run(10_000, lambda: any(node.role.active for node in others))
    new = next(node for node in others if node.role.active)
    assert new.quorum.raft.epoch > 1 and values(new) == ["before"]
    old.thaw()
    assert cluster.run(5_000, lambda: not old.role.active and cluster.settled())


def test_held_replies_hear_of_the_lost_leadership() -> None:
    cluster = Cluster()
    cluster.start()
    leader = cluster.elect()
    heard: list[bool] = []
    leader.waiting.hold(cluster.append("x"), heard.append)
    assert heard == []
    cluster.run(20)
    assert heard == [True]
    leader.waiting.hold(leader.quorum.raft.log_end_offset, heard.append)
    leader.input(leader.quorum.resign)
    assert heard == [True, False]


def snapshot(node: Replica) -> None:
    """The role's snapshot of all that it has replayed, padded beyond one slice."""
    end = node.role.next_offset
    epoch = node.quorum.raft.epochs.epoch_at(end)
    voters = node.quorum.voters_at(end)
    assert voters is not None
    head = batches.control_batch(0, epoch, 5, [batches.SnapshotHeader(5), batches.KRaftVersion(1), voters])
    filler = [batches.control_batch(3 + place, epoch, 5, [batches.Voters(voters.voters)]) for place in range(20)]
    foot = batches.control_batch(23, epoch, 5, [batches.SnapshotFooter()])
    node.input(lambda: node.quorum.snapshot(end, epoch, [part.data for part in (head, *filler, foot)]))


def grow(cluster: Cluster, leader: Replica, rounds: int) -> None:
    """Thirty batches a round, and a snapshot behind them."""
    for round_ in range(rounds):
        for number in range(30):
            cluster.append(f"{round_}.{number}", size=300)
        assert cluster.run(200, cluster.settled)
        snapshot(leader)
        cluster.run(20)


def test_snapshot_cuts_the_log_and_reaches_a_late_replica() -> None:
    cluster = Cluster(brokers=1)
    cluster.start(1, 2, 3)
    leader = cluster.elect()
    grow(cluster, leader, 3)
    assert len(leader.quorum.store.checkpoints.ids) == 2
    assert leader.quorum.store.log.start_offset > 0
    assert leader.quorum.store.bytes_since_snapshot == 0
    names = leader.disk.names("__kafka_metadata-0")
    assert not [name for name in names if name.endswith(".deleted")]
    cluster.start(101)
    cluster.append("last")
    assert cluster.run(1000, cluster.settled)
    assert cluster.nodes[101].role.events == [f"load {leader.quorum.store.checkpoints.latest.end_offset}-1"]
    assert values(cluster.nodes[101])[1:] == ["last"]
    for node in cluster.nodes.values():
        node.kill()
        node.start()
        assert node.lines[-1].startswith("metadata log")
    cluster.elect()
    assert cluster.run(500, cluster.settled)


class Content:
    """A snapshot that is made while it is written."""

    def __init__(self) -> None:
        self.made = self.released = 0

    def __iter__(self) -> Iterator[bytes]:
        assert not self.released, "what it is made from is gone"
        self.made += 1
        for controls in ([batches.SnapshotHeader(5)], [batches.SnapshotFooter()]):
            yield batches.control_batch(len(controls) * self.made, 1, 5, controls).data

    def release(self) -> None:
        self.released += 1


def test_what_a_snapshot_is_made_from_is_let_go_when_nobody_writes_it_any_more() -> None:
    cluster = Cluster()
    cluster.start(1, 2, 3)
    leader = cluster.elect()
    cluster.append("x")
    assert cluster.run(200, cluster.settled)
    early, later, full = Content(), Content(), Content()
    end = leader.role.next_offset
    leader.input(lambda: leader.quorum.snapshot(end + 100, 1, early))
    cluster.run(20)
    assert (early.made, early.released) == (0, 0), "its end is not committed"
    leader.input(lambda: leader.quorum.snapshot(end, 1, later))
    assert early.released == 1, "another has its place"
    cluster.run(20)
    assert (later.made, later.released) == (1, 1) and leader.quorum.store.checkpoints.ids
    cluster.append("y")
    assert cluster.run(200, cluster.settled)
    leader.disk.replace_full = lambda path: path.endswith(".checkpoint")
    leader.input(lambda: leader.quorum.snapshot(leader.role.next_offset, 1, full))
    cluster.run(20)
    assert (full.made, full.released) == (1, 0), "it is tried again"
    leader.disk.replace_full = None
    assert cluster.run(120_000, lambda: full.released == 1) and full.made == 2


def test_what_is_being_written_is_let_go_behind_it_and_what_waits_at_once() -> None:
    cluster = Cluster()
    cluster.start(1, 2, 3)
    leader = cluster.elect()
    cluster.append("x")
    assert cluster.run(200, cluster.settled)
    end = leader.role.next_offset
    first, second, third = Content(), Content(), Content()
    plain, held = leader.sync, []
    leader.sync = lambda *args: held.append(args)  # type: ignore[func-returns-value]
    for content in (first, second, third):
        leader.input(lambda content=content: leader.quorum.snapshot(end, 1, content))  # type: ignore[misc]
        cluster.run(5)
    assert (first.released, second.released, third.released) == (0, 1, 0)
    leader.sync = plain
    for args in held:
        plain(*args)
    leader.wake()
    cluster.run(20)
    assert (first.made, first.released) == (1, 1) and second.made == 0
    assert (third.made, third.released) == (0, 1), "of the same state"


def test_a_snapshot_that_was_given_up_is_not_missed() -> None:
    """Its sync takes so long that another leader has begun to send it anew: the file is gone when it could be verified."""
    cluster = Cluster(brokers=1)
    cluster.start(1, 2, 3)
    leader = cluster.elect()
    broker = cluster.nodes[101]
    grow(cluster, leader, 1)
    for node in cluster.nodes.values():
        if node.alive and node is not leader:
            snapshot(node)
    cluster.run(20)
    plain, held = broker.sync, []

    def sync(files: Any, replacements: Any, then: Any, kind: Any = None) -> None:
        if not held and any(file.path.endswith(".part") for file in files):
            held.append((files, replacements, then))
        else:
            plain(files, replacements, then)

    broker.sync = sync  # type: ignore[method-assign]
    broker.start()
    assert cluster.run(1000, lambda: bool(held))
    broker.disk.unreadable = lambda path, position, size: path not in broker.disk.files
    leader.kill()
    ((part,), _, _) = held[0]
    assert cluster.run(5000, lambda: part.path not in broker.disk.files)
    plain(*held[0])
    cluster.elect()
    cluster.append("last")
    assert cluster.run(5000, cluster.settled)
    assert broker.stopped is None
    assert values(broker)[-1] == "last"


def test_what_was_left_half_written_goes_at_the_next_start() -> None:
    cluster = Cluster(controllers=1)
    cluster.start()
    node = cluster.elect()
    node.kill()
    left = [f"{3:020d}-{1:010d}.checkpoint{end}" for end in (".tmp", ".part", ".deleted")]
    for name in [*left, "quorum-state.tmp"]:
        node.disk.replace(cluster.path(name), b"half")
    node.start()
    assert not [name for name in node.disk.names("__kafka_metadata-0") if name in left or name.endswith(".tmp")]


def test_lost_disk_makes_an_observer() -> None:
    cluster = Cluster()
    cluster.start()
    leader = cluster.elect()
    cluster.append("x")
    assert cluster.run(100, cluster.settled)
    lost = next(node for node in cluster.nodes.values() if node is not leader)
    lost.kill()
    lost.disk.files.clear()
    lost.storage = lost.storage._replace(directory_ids=[b"n" * 16])
    lost.start()
    assert cluster.run(500, cluster.settled)
    described = leader.quorum.raft.describe()
    assert [state.key.directory_id for state in described.observers] == [b"n" * 16]
    leader.kill()
    assert not cluster.run(3000, lambda: cluster.leader() is not None)


def test_files_are_kafkas() -> None:
    cluster = Cluster(controllers=1)
    cluster.start()
    cluster.elect()
    cluster.run(10)
    disk = cluster.nodes[1].disk
    assert {path.partition("/")[0] for path in disk.files} == {"__kafka_metadata-0"}

    def text(name: str) -> str:
        return bytes(disk.files[cluster.path(name)].data).decode()

    assert json.loads(text("quorum-state")) == {
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": 1,
        "votedDirectoryId": "AQEBAQEBAQEBAQEBAQEBAQ",
        "data_version": 1,
    }
    assert text("leader-epoch-checkpoint") == "0\n1\n1 0\n"
    assert text("partition.metadata") == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


def test_controller_connect_must_agree_with_the_disk() -> None:
    cluster = Cluster()
    cluster.nodes[1].settings["controller.connect"] = "1@127.0.0.1:9001,4@127.0.0.1:9004"
    with pytest.raises(DamagedFile, match=r"names the controllers \[1, 4\].*formatted for \[1, 2, 3\]"):
        cluster.start(1)


class Refused:
    """A disk that refuses an operation on paths with an ending three times. `paths`: those that it has refused."""

    def __init__(self, operation: str, ending: str, error: int) -> None:
        self._operation, self._ending, self._error = operation, ending, error
        self.paths: list[str] = []

    def fault(self, done: str, path: str) -> int:
        """The number of the error with which an operation fails; 0: it does not."""
        if done != self._operation or not path.endswith(self._ending) or len(self.paths) > 2:
            return 0
        self.paths.append(path)
        return self._error


def waited(broker: Any) -> None:
    """A broker has waited for room, and has said so once."""
    assert broker.stopped is None
    assert len([line for line in broker.lines if "metadata is not taken in until there is room" in line]) == 1


def test_a_broker_waits_for_room_and_goes_on_where_it_was() -> None:
    cluster = Cluster(controllers=3, brokers=1)
    cluster.start()
    cluster.elect()
    broker = cluster.nodes[101]
    cluster.append("before")
    assert cluster.run(1000, cluster.settled)
    broker.disk.room = 150
    for number in range(20):
        cluster.append(f"r{number}")
        cluster.run(50)
    assert broker.stopped is None
    have = values(broker)
    assert 1 < len(have) < 21, "one batch found room, the rest did not"
    waited(broker)
    assert broker.quorum.deadline_ms() > cluster.time_ms, "it does not spin"
    broker.disk.room = None
    assert cluster.run(3000, cluster.settled)
    assert values(broker) == ["before", *(f"r{number}" for number in range(20))]
    broker.kill()
    broker.start()
    assert cluster.run(3000, cluster.settled)
    assert values(broker)[-1] == "r19", "what it wrote is whole"


@pytest.mark.parametrize("room", [0, 500, 1500])
def test_a_broker_waits_for_room_for_a_snapshot(room: int) -> None:
    cluster = Cluster(controllers=3, brokers=1)
    cluster.start()
    leader = cluster.elect()
    cluster.append("before")
    assert cluster.run(1000, cluster.settled)
    broker = cluster.nodes[101]
    broker.kill()
    grow(cluster, leader, 2)
    broker.disk.room = room
    broker.start()
    cluster.run(5000)
    waited(broker)
    assert broker.quorum.deadline_ms() > cluster.time_ms, "it does not spin"
    broker.disk.room = None
    cluster.append("last")
    assert cluster.run(5000, cluster.settled)
    assert values(broker)[-1] == "last"


@pytest.mark.parametrize(("operation", "ending", "error"), [
    ("rename", ".checkpoint.part", errno.ENOSPC), ("rename", ".log", errno.ENOSPC), ("create", ".log", errno.EMFILE),
    ("create", ".log", errno.EDQUOT),
])  # fmt: skip
def test_a_broker_waits_for_room_for_the_name_of_a_received_snapshot(operation: str, ending: str, error: int) -> None:
    cluster = Cluster(controllers=3, brokers=1)
    cluster.start()
    leader = cluster.elect()
    broker = cluster.nodes[101]
    broker.kill()
    grow(cluster, leader, 2)
    refused = Refused(operation, ending, error)
    broker.start()
    broker.disk.fault = refused.fault
    assert cluster.run(30_000, lambda: len(refused.paths) > 2 and cluster.settled())
    assert len(set(refused.paths)) == 1
    waited(broker)
    cluster.append("last")
    assert cluster.run(5000, cluster.settled)
    assert values(broker)[-1] == "last"


@pytest.mark.parametrize(("operation", "ending", "error"), [
    ("truncate", ".log", errno.ENOSPC), ("truncate", ".log", errno.EMFILE), ("rename", ".log", errno.EDQUOT),
    ("settle", "", errno.EMFILE),
])  # fmt: skip
def test_a_broker_waits_for_room_to_cut_its_log(operation: str, ending: str, error: int) -> None:
    """It has records of a leader that never were committed; they fill several segments."""
    cluster = Cluster(controllers=3, brokers=1)
    cluster.start()
    leader = cluster.elect()
    cluster.append("before")
    assert cluster.run(1000, cluster.settled)
    broker, others = cluster.nodes[101], [cluster.nodes[id] for id in (1, 2, 3) if id != leader.id]
    for node in others:
        node.kill()
    for number in range(6):
        cluster.append(f"lost{number}", 2000)
        assert cluster.run(500, lambda: broker.quorum.raft.log_end_offset == leader.quorum.raft.log_end_offset)
    leader.kill()
    assert len(broker.quorum.store.log.segments) > 2
    refused = Refused(operation, ending, error)
    broker.disk.fault = refused.fault
    for node in others:
        node.start()
    assert cluster.run(30_000, lambda: len(refused.paths) > 2 and cluster.settled())
    assert len(set(refused.paths)) == 1
    waited(broker)
    for number in range(3):
        cluster.append(f"last{number}")
    assert cluster.run(5000, cluster.settled)
    assert values(broker) == ["before", "last0", "last1", "last2"]
    broker.kill()
    broker.start()
    assert cluster.run(5000, cluster.settled)
    assert values(broker) == ["before", "last0", "last1", "last2"]


def test_a_broker_whose_small_files_find_no_room_tries_again_with_the_newest() -> None:
    cluster = Cluster(controllers=3, brokers=1)
    cluster.start()
    first = cluster.elect()
    broker = cluster.nodes[101]
    cluster.append("before")
    assert cluster.run(1000, cluster.settled)
    plain, full = broker.sync, True

    def sync(files: object, replacements: object, then: object, kind: object = None) -> None:
        if full:
            broker.later(lambda: then(DiskFull(28, "no room", "quorum-state")))  # type: ignore[operator]
        else:
            plain(files, replacements, then)  # type: ignore[arg-type]

    broker.sync = sync  # type: ignore[method-assign, assignment]
    first.kill()
    cluster.elect()
    cluster.append("after")
    cluster.run(3000)
    assert broker.stopped is None
    full = False
    assert cluster.run(3000, lambda: broker.quorum.raft.durable_offset == broker.quorum.raft.log_end_offset)
    state = json.loads(bytes(broker.disk.files[cluster.path("quorum-state")].data))
    assert state["leaderEpoch"] == broker.quorum.raft.epoch


def test_a_snapshot_without_room_is_tried_again_by_itself() -> None:
    """Nothing more is written meanwhile: the next snapshot may be hours away."""
    cluster = Cluster(controllers=1)
    cluster.start()
    node = cluster.elect()
    for number in range(5):
        cluster.append(f"r{number}")
    assert cluster.run(1000, cluster.settled)
    node.disk.replace_full = lambda path: path.endswith(".checkpoint")
    end = node.role.next_offset
    snapshot(node)
    cluster.run(15_000, lambda: False)
    assert node.quorum.store.checkpoints.latest == SnapshotId(0, 0)
    node.disk.replace_full = None
    assert cluster.run(10_100, lambda: node.quorum.store.checkpoints.latest.end_offset == end)  # type: ignore[union-attr]


def test_a_snapshot_that_cannot_be_made_stops_nobody_and_a_newer_one_is_stored() -> None:
    """All controllers have the image that cannot be said, so all of them would stop, and again after each start."""
    cluster = Cluster(controllers=1)
    cluster.start()
    node = cluster.elect()
    cluster.append("x")
    assert cluster.run(1000, cluster.settled)

    class Broken(Content):
        def __iter__(self) -> Iterator[bytes]:
            yield next(super().__iter__())
            raise ValueError("a topic without a name")

    broken, end = Broken(), node.role.next_offset
    node.input(lambda: node.quorum.snapshot(end, 1, broken))
    cluster.run(25_000, lambda: False)
    assert node.stopped is None and (broken.made, broken.released) == (1, 1)
    assert len([line for line in node.lines if "cannot be made" in line and "a topic without a name" in line]) == 1
    cluster.append("y")
    assert cluster.run(1000, cluster.settled)
    sound = Content()
    node.input(lambda: node.quorum.snapshot(node.role.next_offset, 1, sound))
    assert cluster.run(15_000, lambda: sound.released == 1)
    assert node.quorum.store.checkpoints.latest == SnapshotId(node.role.next_offset, 1)


def test_a_controller_without_room_stops_so_that_another_leads() -> None:
    cluster = Cluster(controllers=3)
    cluster.start()
    leader = cluster.elect()
    leader.disk.room = 10
    cluster.append("x")
    cluster.run(10)
    assert leader.stopped is not None and "no room" in leader.stopped
    assert cluster.elect() is not leader


OTHER = "BBBBBBBBBBBBBBBBBBBBBB"


@pytest.mark.parametrize("who", [3, 101])
def test_a_directory_of_another_cluster_stops_its_node_and_nobody_else(who: int) -> None:
    """Who is alone among controllers that all say so is wrong; who meets one such controller is not."""
    cluster = Cluster(controllers=3, brokers=2)
    stranger = cluster.nodes[who]
    stranger.storage = stranger.storage._replace(cluster_id=OTHER)
    cluster.start()
    cluster.elect()
    assert cluster.run(5000, lambda: stranger.stopped is not None)
    assert stranger.stopped is not None
    assert f"another cluster than this node, whose directory belongs to {OTHER}" in stranger.stopped
    cluster.append("x")
    assert cluster.run(1000, cluster.settled)
    if who == 3:
        stranger.start()
        for other in (1, 2):
            cluster.nodes[other].kill()
            cluster.start(other)
        assert cluster.run(5000, lambda: not stranger.alive and cluster.settled())
    for node in cluster.nodes.values():
        if node is not stranger:
            assert node.stopped is None
            assert len([line for line in node.lines if "is not of cluster" in line]) <= 2, "once a life"


def test_a_sync_counts_after_those_that_began_before_it() -> None:
    """The host finishes the later one first: what the earlier one covers may not be on the disk yet."""
    cluster = Cluster(controllers=1)
    cluster.start()
    leader = cluster.elect()
    cluster.run(100)
    plain, held = leader.sync, []

    def sync(*args: Any) -> None:
        if args[-1] is SyncClass.QUORUM:
            held.append(args)
        else:
            plain(*args)

    leader.sync = sync
    raft = leader.quorum.raft
    before = raft.durable_offset
    for text in ("earlier", "later"):
        cluster.append(text)
        cluster.run(5)
    earlier, later = held
    leader.input(lambda: plain(*later))
    cluster.run(20)
    assert raft.durable_offset == raft.high_watermark == before
    leader.input(lambda: plain(*earlier))
    assert cluster.run(20, cluster.settled)
    assert raft.durable_offset == before + 2


def test_failed_sync_stops_the_node() -> None:
    cluster = Cluster()
    cluster.start()
    leader = cluster.elect()

    def sync(files: object, replacements: object, then: object, kind: object = None) -> None:
        leader.later(lambda: then(OSError("device says no")))  # type: ignore[operator]

    leader.sync = sync  # type: ignore[method-assign, assignment]
    cluster.append("x")
    cluster.run(5)
    assert leader.stopped == "the metadata log cannot be made durable: device says no"


@pytest.mark.parametrize("name", ["__cluster_metadata", "__kafka_metadata"])
def test_describe_quorum_takes_both_names(name: str) -> None:
    cluster = Cluster(brokers=1)
    cluster.start()
    leader = cluster.elect()
    assert cluster.run(1000, cluster.settled)
    cls = message("DescribeQuorumRequest")
    request = cls(topics=[cls.TopicData(topic_name=name, partitions=[cls.PartitionData()])])

    def ask(node: Replica, listener: Listener) -> object:
        call = Call(1, listener, "", 55, 2, None, "", "", memoryview(b""))
        return describe_quorum(node, request, call)  # type: ignore[arg-type]

    answer = ask(leader, Listener.CONTROLLER)
    assert isinstance(answer, Done)
    found = answer.reply.topics[0].partitions[0]
    assert answer.reply.topics[0].topic_name == name
    assert (found.error_code, found.leader_id, found.high_watermark) == (
        0,
        leader.id,
        leader.quorum.raft.high_watermark,
    )
    assert [state.replica_id for state in found.current_voters] == [1, 2, 3]
    assert {state.log_end_offset for state in found.current_voters} == {leader.quorum.raft.log_end_offset}
    assert [state.replica_id for state in found.observers] == [101]
    assert [(node.node_id, node.listeners[0].port) for node in answer.reply.nodes] == [(1, 9001), (2, 9002), (3, 9003)]
    other = next(node for node in cluster.nodes.values() if node is not leader)
    refused = ask(other, Listener.CONTROLLER)
    assert isinstance(refused, Done)
    assert refused.reply.topics[0].partitions[0].error_code == 6
    assert isinstance(ask(cluster.nodes[101], Listener.CLIENT), Forward)


def test_r631_042_there_is_one_partition_number_0() -> None:
    cluster = Cluster(controllers=1)
    cluster.start()
    leader = cluster.elect()
    cls = message("DescribeQuorumRequest")

    def asked(number: int) -> Any:
        topic = cls.TopicData(topic_name="__kafka_metadata", partitions=[cls.PartitionData(partition_index=number)])
        call = Call(1, Listener.CONTROLLER, "", 55, 2, None, "", "", memoryview(b""))
        answer = describe_quorum(leader, cls(topics=[topic]), call)  # type: ignore[arg-type]
        assert isinstance(answer, Done)
        return answer.reply.topics[0].partitions[0]

    assert (asked(0).error_code, asked(0).leader_id) == (0, leader.id)
    assert (asked(1).partition_index, asked(1).error_code, asked(1).current_voters) == (1, 3, [])
