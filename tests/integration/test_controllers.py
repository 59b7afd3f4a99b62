"""Controllers of a running cluster are added, lose their disks and are removed, by one command each."""

import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

import rayft
from actors.command.output import screen
from actors.host import storage
from actors.host.cluster import controllers, local_controllers, probe, quorum_changes
from actors.host.cluster.access import operator_access
from actors.host.cluster.on_processes import Cluster
from actors.wire.messages import message
from tests.integration.conftest import command, until

pytestmark = pytest.mark.timeout(240)
VOTE_SECONDS_MAX = 15.0
"""What a controller without a disk may need until it votes again, on a machine that does other things too. It takes half a
second; on a machine of its own 5 s are promised."""
VOTES = re.compile(r"controller (\d+) votes, (\d+\.\d) s after the command\n")


def voters(cluster: Cluster) -> list[int]:
    """The ids that vote, as the active controller has them."""
    return sorted(quorum_changes.members(controllers.asked(cluster._plan), 30).voters)


def states(cluster: Cluster) -> dict[int, str]:
    """What `rayft status` says of the controllers."""
    return {row["id"]: row["state"] for row in screen.state(cluster.dir)["controllers"]}


def added(cluster: Cluster, *id: str) -> tuple[int, float]:
    """Add a controller by the command: its id, and how long it took until it voted, in seconds."""
    ran = command("up", "--dir", str(cluster.dir), "--add-controller", *id)
    assert ran.returncode == 0, ran.stderr
    match = VOTES.fullmatch(ran.stdout)
    assert match is not None, ran.stdout
    return int(match[1]), float(match[2])


def lose_disk(cluster: Cluster, id: int) -> None:
    """Take a controller's directory away at once, as a disk goes, though its process may be making a file there."""
    path = cluster.dir / f"controller-{id}"
    shutil.rmtree(path.rename(path.with_name(f"lost-{id}")))


@contextmanager
def topics_made(cluster: Cluster) -> Iterator[list[str]]:
    """Topics that were made, one after another, while the block ran."""
    made: list[str] = []
    over = threading.Event()

    def make() -> None:
        admin = AdminClient(cluster.client_settings | {"log_level": 0})
        while not over.is_set():
            name = f"made-{len(made)}"
            try:
                admin.create_topics([NewTopic(name, 1, 1)], request_timeout=10)[name].result(15)
            except KafkaException as error:
                if "already exists" not in str(error):  # the answer to the first try was lost
                    continue
            made.append(name)

    thread = threading.Thread(target=make)
    thread.start()
    try:
        yield made
    finally:
        over.set()
        thread.join()


def grown(made: list[str]) -> None:
    before = len(made)
    until(lambda: len(made) > before)


def test_a_quorum_grows_loses_disks_and_shrinks_by_one_command_each() -> None:
    with rayft.Cluster(controllers=1, brokers=1) as cluster, topics_made(cluster) as made:
        until(lambda: bool(made))
        assert [added(cluster)[0] for _ in range(2)] == [1002, 1003]
        assert voters(cluster) == [1001, 1002, 1003] == cluster.controller_ids
        assert cluster.add_controller() == 1004
        assert set(states(cluster).values()) == {"leader", "follower"}

        lose_disk(cluster, 1002)
        os.kill(cluster.pids[1002], signal.SIGKILL)
        id, seconds = added(cluster, "1002")
        print(f"a follower that lost its disk votes again {seconds} s after the command")
        assert seconds < VOTE_SECONDS_MAX and id == 1002 and voters(cluster) == [1001, 1002, 1003, 1004]
        grown(made)

        leader = cluster.leader_id()
        lose_disk(cluster, leader)
        _, seconds = added(cluster, str(leader))
        print(f"a leader whose directory was removed while it ran votes again {seconds} s after the command")
        assert seconds < VOTE_SECONDS_MAX and voters(cluster) == [1001, 1002, 1003, 1004]
        refused = command("up", "--dir", str(cluster.dir), "--add-controller", "1003")
        assert refused.returncode == 1 and "controller 1003 votes with the disk that it has" in refused.stderr
        grown(made)

        leader = cluster.leader_id()
        ran = command("down", "--dir", str(cluster.dir), "--node", str(leader), "--remove")
        assert ran.stdout == f"controller {leader} votes no more, and is gone\n", ran.stderr
        rest = [id for id in (1001, 1002, 1003, 1004) if id != leader]
        assert voters(cluster) == rest == cluster.controller_ids
        assert not (cluster.dir / f"controller-{leader}").exists()
        grown(made)

        cluster.kill(cluster.leader_id())
        grown(made)
        until(lambda: set(states(cluster).values()) == {"leader", "follower"})
        kept, admin = set(made), AdminClient(cluster.client_settings)
        until(lambda: kept <= set(admin.list_topics(timeout=30).topics))


def test_a_cluster_that_was_changed_starts_again_as_it_was(tmp_path: Path) -> None:
    with rayft.Cluster(controllers=3, brokers=0, dir=tmp_path) as cluster:
        assert cluster.add_controller() == 1004
        cluster.remove_controller(1001)
        assert voters(cluster) == [1002, 1003, 1004]
    with rayft.Cluster(dir=tmp_path) as cluster:
        until(lambda: set(states(cluster).values()) == {"leader", "follower"})
        assert voters(cluster) == [1002, 1003, 1004] == cluster.controller_ids


def test_a_process_ends_before_its_new_disk_is_formatted_and_lives_on_with_a_disk_that_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process whose directory was removed goes on writing by name: into the new one. One that has its disk and no vote, as
    an interrupted command leaves it, is given the vote."""
    with rayft.Cluster(controllers=3, brokers=0) as cluster:
        id = next(id for id in cluster.controller_ids if id != cluster.leader_id())
        old = cluster.pids[id]
        at_format: list[bool] = []
        format_node = storage.format_node

        def noting(*given: Any, **more: Any) -> Any:
            at_format.append(Path(f"/proc/{old}").exists())
            return format_node(*given, **more)

        monkeypatch.setattr(storage, "format_node", noting)
        cluster.freeze(id)  # else it might end by itself, at its next write
        lose_disk(cluster, id)
        assert cluster.add_controller(id) == id and at_format == [False]
        ask = controllers.asked(cluster._plan, id)
        until(lambda: cluster.pids.get(id, old) != old)
        new = cluster.pids[id]
        quorum_changes.remove(ask, quorum_changes.members(ask, 30).voters[id], 30)
        assert id not in voters(cluster)
        assert cluster.add_controller(id) == id and len(voters(cluster)) == 3
        assert cluster.pids[id] == new and len(at_format) == 1


def test_no_command_leaves_a_quorum_without_a_majority_that_is_alive() -> None:
    with rayft.Cluster(controllers=3, brokers=0) as cluster:
        dead, first, _ = sorted(cluster.controller_ids, key=lambda id: id == cluster.leader_id())
        cluster.kill(dead, restart=False)
        time.sleep(3)  # a leader knows of a dead voter when it has not fetched for a fetch timeout
        with pytest.raises(
            rayft.ClusterError, match=f"controller {first} keeps its vote after 2 s: Cannot remove voter"
        ):
            controllers.take_vote(cluster._plan, first, 2)
        assert voters(cluster) == cluster.controller_ids
        cluster.remove_controller(dead)
        assert voters(cluster) == sorted({1001, 1002, 1003} - {dead})


def test_a_controller_of_a_secure_cluster_is_let_in_and_shut_out(tmp_path: Path) -> None:
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path, secure=True) as cluster:
        assert cluster.add_controller() == 1002
        assert cluster.add_controller() == 1003
        shutil.rmtree(tmp_path / "controller-1002")
        assert added(cluster, "1002")[0] == 1002
        cluster.kill(cluster.leader_id())
        until(lambda: set(states(cluster).values()) == {"leader", "follower"})
        kept = (tmp_path / "security" / "rayft-node-1003.pem").read_text()
        a_broker = (tmp_path / "security" / "rayft-node-1.pem").read_text()
        leader = cluster._plan.member(cluster.leader_id()).config
        described = quorum_changes.members(controllers.asked(cluster._plan), 30).voters
        key, changes_rules = described[1003], message("CreateAclsRequest")
        removal = message("RemoveRaftVoterRequest")(voter_id=key.id, voter_directory_id=key.directory_id)
        for pem in (a_broker, kept):  # another node's business, and an operator's
            door = operator_access(leader, pem)
            reply = probe.ask(door, "CreateAcls", changes_rules(creations=[anybody(changes_rules)]), 3)
            assert reply.results[0].error_code == 31
        assert probe.ask(operator_access(leader, a_broker), "RemoveRaftVoter", removal, 0).error_code == 31
        cluster.remove_controller(1003)
        leader = cluster._plan.member(cluster.leader_id()).config
        quorum = described_quorum()
        assert probe.ask(operator_access(leader, a_broker), "DescribeQuorum", quorum, 2).error_code == 0
        assert probe.ask(operator_access(leader, kept), "DescribeQuorum", quorum, 2).error_code == 31
        assert not (tmp_path / "security" / "rayft-node-1003.pem").exists()
        admin = AdminClient(cluster.client_settings)
        rules = [str(rule) for rule in _rules(admin)]
        assert any("User:rayft-node-1002" in rule for rule in rules)
        (shut_out,) = [rule for rule in rules if "User:rayft-node-1003" in rule]
        assert "DENY" in shut_out
        assert cluster.add_controller() == 1003  # the id is free again, for a new certificate
        assert not any("DENY" in str(rule) for rule in _rules(admin))
    with rayft.Cluster(dir=tmp_path) as cluster:
        until(lambda: voters(cluster) == [1001, 1002, 1003])


def test_a_removal_that_is_interrupted_leaves_nobody_with_a_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the files are gone it cannot be given again: what a saved certificate could do it could do for ever."""
    with rayft.Cluster(controllers=3, brokers=1, dir=tmp_path, secure=True) as cluster:
        id = next(id for id in cluster.controller_ids if id != cluster.leader_id())
        kept = (tmp_path / "security" / f"rayft-node-{id}.pem").read_text()

        def interrupted(directory: Path) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(local_controllers, "_wake", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cluster.remove_controller(id)
        assert not (tmp_path / f"controller-{id}.properties").exists()
        leader = cluster._plan.member(cluster.leader_id()).config
        assert probe.ask(operator_access(leader, kept), "DescribeQuorum", described_quorum(), 2).error_code == 31
        (shut_out,) = [str(rule) for rule in _rules(AdminClient(cluster.client_settings)) if str(id) in str(rule)]
        assert "DENY" in shut_out
        assert voters(cluster) == sorted({1001, 1002, 1003} - {id})


def anybody(cls: Any) -> Any:
    """A rule that lets everybody do everything."""
    return cls.AclCreation(
        resource_type=4, resource_name="kafka-cluster", principal="User:*", host="*", operation=2, permission_type=3
    )


def described_quorum() -> Any:
    cls = message("DescribeQuorumRequest")
    return cls(topics=[cls.TopicData(topic_name=probe.TOPIC, partitions=[cls.PartitionData(partition_index=0)])])


def _rules(admin: AdminClient) -> list[object]:
    every = AclBindingFilter(
        ResourceType.BROKER, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return list(admin.describe_acls(every).result(30))
