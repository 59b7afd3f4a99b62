"""A quorum of real nodes whose voters change (KIP-853)."""

from functools import partial
from typing import Any

import pytest

from actors.metadata import batches
from actors.metadata.ops import BrokerSet
from actors.node.quorum.codec import api_versions
from actors.node.runtime.storage import Storage
from actors.raft import ReplicaKey, Voter
from actors.raft.messages import ProbeRequest, ProbeResponse
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.disk import VirtualDisk
from tests.unit.node.quorum.quorum_cluster import HOST, PORT, Cluster, Replica


def _uuid(id: int) -> bytes:
    return bytes([id % 256]) * 16


def add(cluster: Cluster, id: int, **fields: Any) -> Any:
    """The answer of the active controller to AddRaftVoter."""
    cls = message("AddRaftVoterRequest")
    listeners = [cls.Listener(name="CONTROLLER", host=HOST, port=PORT + id)]
    given = {"voter_id": id, "voter_directory_id": _uuid(id), "listeners": listeners, "cluster_id": None} | fields
    return asked(cluster, "AddRaftVoter", cls(**given))


def remove(cluster: Cluster, id: int, directory: bytes | None = None) -> Any:
    """The answer of the active controller to RemoveRaftVoter."""
    request = message("RemoveRaftVoterRequest")(cluster_id=None, voter_id=id, voter_directory_id=directory or _uuid(id))
    return asked(cluster, "RemoveRaftVoter", request)


def asked(cluster: Cluster, name: str, request: Any) -> Any:
    """The answer of the active controller, asked by another node."""
    leader = cluster.elect()
    source = next(node for node in cluster.nodes.values() if node is not leader and node.alive)
    box: list[Any] = []
    address = (HOST, PORT + leader.id)
    source.input(lambda: source.node.channels.peer(("outside", 0), address, name, request, box.append, 5000))
    assert cluster.run(6000, lambda: bool(box))
    return box[0]


def voters(node: Replica) -> list[int]:
    return list(node.quorum.identity.voters.ids())


def another_leads(cluster: Cluster, id: int) -> bool:
    """Whether there is a leader, and it is not `id`."""
    leader = cluster.leader()
    return leader is not None and leader.id != id


def quorum(initial: int, controllers: int) -> Cluster:
    """A quorum of the first `initial` controllers; the others were formatted without voters."""
    cluster = Cluster(controllers=initial, spare=controllers - initial)
    cluster.start()
    cluster.elect()
    assert cluster.run(5000, cluster.settled)
    return cluster


def test_a_quorum_grows_from_one_to_three_and_shrinks_to_another_one() -> None:
    cluster = quorum(1, 3)
    for id in (2, 3):
        assert add(cluster, id).error_code == 0
        cluster.append(f"with {id}")
        assert cluster.run(5000, cluster.settled)
    assert [voters(node) for node in cluster.nodes.values()] == [[1, 2, 3]] * 3
    first = cluster.elect()
    for id in (1, 2):
        assert remove(cluster, id).error_code == 0
        assert cluster.run(5000, partial(another_leads, cluster, id))
        cluster.append(f"without {id}")
        assert cluster.run(5000, cluster.settled)
    assert first.id == 1
    assert cluster.elect().id == 3
    assert [voters(node) for node in cluster.nodes.values()] == [[3]] * 3
    cluster.nodes[1].crash()
    cluster.nodes[2].crash()
    cluster.append("alone")
    assert cluster.run(5000, cluster.settled)


def test_what_a_leader_objects_to_has_kafkas_codes_and_sentences() -> None:
    cluster = quorum(1, 3)
    again = add(cluster, 1)
    assert again.error_code == ErrorCode.DUPLICATE_VOTER
    assert again.error_message.startswith("The voter id for ReplicaKey(id=1, directoryId=AQEBAQ")
    stranger = remove(cluster, 1, _uuid(9))
    assert stranger.error_code == ErrorCode.VOTER_NOT_FOUND
    assert stranger.error_message.startswith("Cannot remove voter ReplicaKey(id=1, directoryId=CQkJCQ")
    assert remove(cluster, 1).error_code == ErrorCode.INVALID_REQUEST
    nobody = add(cluster, 7)
    assert nobody.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "since API_VERSIONS returned an error BROKER_NOT_AVAILABLE" in nobody.error_message
    cluster.nodes[2].crash()
    cluster.nodes[2].settings["controller.connect"] = f"{HOST}:1"
    cluster.nodes[2].replace_disk(_uuid(8))
    cluster.nodes[2].start()
    lagging = add(cluster, 2, voter_directory_id=_uuid(8))
    assert lagging.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert lagging.error_message.endswith("since it is lagging behind")
    assert add(cluster, 2, cluster_id="BBBBBBBBBBBBBBBBBBBBBB").error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert add(cluster, -1).error_code == ErrorCode.INVALID_REQUEST
    assert add(cluster, 2, listeners=[]).error_code == ErrorCode.INVALID_REQUEST
    many = message("AddRaftVoterRequest").Listener
    crowd = [many(name="CONTROLLER", host=HOST, port=1), *(many(name=f"L{one}", host="h", port=1) for one in range(40))]
    assert add(cluster, 2, listeners=crowd).error_code == ErrorCode.INVALID_REQUEST
    assert voters(cluster.elect()) == [1]


def test_who_serves_no_vote_is_no_voter() -> None:
    """A broker answers ApiVersions too. Named as a voter it would count, and never vote."""
    cls = message("ApiVersionsResponse")
    own: Any = None
    asked = ProbeRequest(5, Voter(ReplicaKey(101)), 3)
    kraft = cls.SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    vote = cls.ApiVersion(api_key=52, min_version=0, max_version=2)
    controller = cls(api_keys=[vote], supported_features=[kraft])
    assert api_versions.read_reply(own, asked, controller) == ProbeResponse(5, (0, 1))
    assert api_versions.read_reply(own, asked, cls(api_keys=[vote])) == ProbeResponse(5, None)
    broker = api_versions.read_reply(own, asked, cls(supported_features=[kraft]))
    assert broker.failed is not None
    assert api_versions.read_reply(own, asked, cls(error_code=35)) == ProbeResponse(5, None, "UNSUPPORTED_VERSION")


def test_no_removal_leaves_a_quorum_without_a_live_majority() -> None:
    cluster = quorum(3, 3)
    leader = cluster.elect()
    others = [id for id in cluster.nodes if id != leader.id]
    cluster.nodes[others[0]].crash()
    cluster.run(2500)
    refused = remove(cluster, others[1])
    assert refused.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "have not fetched for 2000 ms" in refused.error_message
    assert remove(cluster, others[0]).error_code == 0
    assert voters(leader) == sorted({leader.id, others[1]})


def test_a_restarted_controller_knows_the_voters_from_its_log_and_from_its_checkpoint() -> None:
    cluster = quorum(1, 2)
    assert add(cluster, 2).error_code == 0
    leader = cluster.elect()
    end = leader.role.next_offset
    epoch = leader.quorum.raft.epochs.epoch_at(end)
    named = leader.quorum.voters_at(end)
    assert named is not None
    assert [voter.id for voter in named.voters] == [1, 2]
    before = leader.quorum.voters_at(end - 1)
    assert before is not None
    assert [voter.id for voter in before.voters] == [1]
    head = [batches.SnapshotHeader(5), batches.KRaftVersion(1), named]
    data = bytes(batches.control_batch(0, epoch, 5, head).data)
    data += bytes(batches.control_batch(3, epoch, 5, [batches.SnapshotFooter()]).data)
    leader.input(lambda: leader.quorum.snapshot(end, epoch, data))
    cluster.run(1000)
    for node in cluster.nodes.values():
        node.crash()
    cluster.start()
    cluster.elect()
    cluster.append("again")
    assert cluster.run(5000, cluster.settled)
    assert [voters(node) for node in cluster.nodes.values()] == [[1, 2]] * 2


def test_who_is_written_down_has_answered_at_that_address_itself() -> None:
    """No address of the leader, a third controller, another directory or another cluster is one of this voter."""
    cluster = quorum(1, 3)
    assert add(cluster, 2).error_code == 0
    listener = message("AddRaftVoterRequest").Listener

    def at(port: int) -> dict[str, Any]:
        return {"listeners": [listener(name="CONTROLLER", host=HOST, port=port)]}

    for port in (PORT + cluster.elect().id, PORT + 2):
        refused = add(cluster, 3, **at(port))
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert refused.error_message.endswith(f"since at {HOST}:{port} there is another controller")
    other_disk = add(cluster, 3, voter_directory_id=_uuid(9))
    assert (other_disk.error_code, other_disk.error_message[-18:]) == (ErrorCode.INVALID_REQUEST, "another controller")
    cluster.nodes[3].crash()
    cluster.nodes[3].storage = Storage("BBBBBBBBBBBBBBBBBBBBBB", "drafts", 2, [VirtualDisk()], [_uuid(3)], ["memory"])
    cluster.nodes[3].start()
    foreign = add(cluster, 3)
    assert foreign.error_code == ErrorCode.INVALID_REQUEST
    assert foreign.error_message.endswith("a controller of another cluster")
    assert voters(cluster.elect()) == [1, 2]
    assert add(cluster, 7).error_code == ErrorCode.REQUEST_TIMED_OUT, "and no refusal holds up the next change"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0:0:0:0:0:0:0:0", "[::0]", "::ffff:0.0.0.0", "0"])
def test_an_address_that_is_everybodys_own_is_no_voters(host: str) -> None:
    """Whoever dials it reaches its own machine: on the leader's that may be the voter, on others it is not."""
    cluster = quorum(2, 3)
    cls = message("AddRaftVoterRequest")
    refused = add(cluster, 3, listeners=[cls.Listener(name="CONTROLLER", host=host, port=PORT + 3)])
    assert refused.error_code == ErrorCode.INVALID_REQUEST and "cannot be used" in refused.error_message
    assert updated(cluster, 2, ("CONTROLLER", host, PORT + 2)).error_code == ErrorCode.INVALID_REQUEST


def test_a_brokers_id_is_no_voters() -> None:
    """With it the controller would have each heartbeat of that broker refused."""
    cluster = quorum(1, 2)
    leader = cluster.elect()
    controller = leader.node.dispatch.controller
    controller.role.image.replay(0, BrokerSet(2, 7))
    refused = add(cluster, 2)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "is that of a registered broker" in refused.error_message
    assert voters(leader) == [1]


@pytest.mark.parametrize("moment", ["while it is asked", "when it has answered"])
def test_an_id_that_a_broker_takes_meanwhile_is_no_voters(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker comes between AddRaftVoter and its record."""
    cluster = quorum(1, 2)
    cluster.append("the other one has the whole log")
    assert cluster.run(5000, cluster.settled)
    leader = cluster.elect()
    role = leader.node.dispatch.controller.role
    raft = leader.quorum.raft
    step, write = raft.step, raft.write_change

    def comes() -> None:
        role.image.replay(0, BrokerSet(2, 7))

    def stepped(source: int, message: Any, now: Any) -> None:
        if isinstance(message, ProbeResponse):
            comes()
        step(source, message, now)

    def written() -> bool:
        comes()
        return write()

    if moment == "while it is asked":
        monkeypatch.setattr(raft, "step", stepped)
    else:
        monkeypatch.setattr(raft, "write_change", written)
    refused = add(cluster, 2)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "is that of a registered broker" in refused.error_message
    assert voters(leader) == [1] == [key.id for key in raft.voters.keys]
    assert not raft.change_due, "and the next change is not held up"


def updated(cluster: Cluster, other: int, *places: tuple[str, str, int], **fields: Any) -> Any:
    """The answer to a voter that says where it is."""
    cls = message("UpdateRaftVoterRequest")
    given = {
        "cluster_id": None,
        "voter_id": other,
        "voter_directory_id": _uuid(other),
        "current_leader_epoch": cluster.elect().quorum.raft.epoch,
        "listeners": [cls.Listener(name=name, host=host, port=port) for name, host, port in places],
        "k_raft_version_feature": cls.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    } | fields
    return asked(cluster, "UpdateRaftVoter", cls(**given))


def test_an_update_says_where_a_voter_is_and_names_the_leader() -> None:
    cluster = quorum(2, 2)
    leader = cluster.elect()
    other = next(id for id in cluster.nodes if id != leader.id)
    cluster.world.addresses["moved", 7] = cluster.world.addresses[HOST, PORT + other]
    moved = [("SECOND", "h", 5), ("CONTROLLER", "moved", 7)]
    answer = updated(cluster, other, *moved)
    assert answer.error_code == 0
    assert (answer.current_leader.leader_id, answer.current_leader.port) == (leader.id, PORT + leader.id)
    member = leader.quorum.raft.voters.member(leader.quorum.raft.voters.keys[other - 1])
    assert member is not None
    assert member.endpoints == (("CONTROLLER", "moved", 7), ("SECOND", "h", 5))
    assert leader.quorum.identity.addresses.find(other) == ("moved", 7)
    versions = message("UpdateRaftVoterRequest").KRaftVersionFeature(min_supported_version=0, max_supported_version=0)
    assert updated(cluster, other, *moved, k_raft_version_feature=versions).error_code == ErrorCode.INVALID_REQUEST
    assert updated(cluster, other, *moved, current_leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_an_update_to_an_address_of_somebody_else_or_of_nobody_is_refused() -> None:
    """With it the voter would be out of reach for good, and a quorum of two without a leader."""
    cluster = quorum(3, 3)
    leader = cluster.elect()
    other, third = (id for id in cluster.nodes if id != leader.id)
    before = leader.quorum.raft.voters
    for port, code in (
        (PORT + leader.id, ErrorCode.INVALID_REQUEST),
        (PORT + third, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.REQUEST_TIMED_OUT),
    ):
        assert updated(cluster, other, ("CONTROLLER", HOST, port)).error_code == code
    assert cluster.elect() is leader and leader.quorum.raft.voters == before


def hole(cluster: Cluster, nobody: int) -> tuple[str, int]:
    """An address at which nobody answers, and where nobody refuses either: that of a node behind a broken network."""
    for id in cluster.nodes:
        if id != nobody:
            cluster.world.block(f"n{id}", f"n{nobody}")
    cluster.world.addresses["hole", 9] = cluster.world.addresses[HOST, PORT + nobody]
    return "hole", 9


@pytest.mark.parametrize("joins", [False, True])
def test_a_controller_that_nobody_reaches_keeps_no_other_change_out(joins: bool) -> None:
    """It says where it is again and again, as long as the log does not, and each time the leader asks there for seconds."""
    settings = {"controller.quorum.auto.join.enable": "true"} if joins else {}
    cluster = Cluster(controllers=3, spare=2, settings=settings)
    cluster.start(1, 2, 3)
    leader = cluster.elect()
    assert cluster.run(5000, cluster.settled)
    unreached = 5 if joins else next(id for id in (1, 2, 3) if id != leader.id)
    host, port = hole(cluster, 4)
    cluster.nodes[unreached].crash()
    cluster.nodes[unreached].settings["advertised.listeners"] = f"CONTROLLER://{host}:{port}"
    cluster.run(1000)
    cluster.nodes[unreached].start()
    cluster.run(5000)
    codes = []
    for wait_ms in range(100, 2100, 400):
        cluster.run(wait_ms)
        codes.append(remove(cluster, 9).error_code)
    assert set(codes) == {ErrorCode.VOTER_NOT_FOUND}, "the leader looks at each"
    if not joins:
        assert remove(cluster, unreached).error_code == 0, "and so its vote can be taken from it"


def test_of_two_new_voters_that_are_asked_together_one_is_written_down() -> None:
    cluster = quorum(1, 3)
    leader = cluster.elect()
    cluster.append("both have the whole log")
    assert cluster.run(5000, cluster.settled)
    cls = message("AddRaftVoterRequest")
    found: list[Any] = []
    for id in (2, 3):
        place = cls.Listener(name="CONTROLLER", host=HOST, port=PORT + id)
        request = cls(voter_id=id, voter_directory_id=_uuid(id), listeners=[place], cluster_id=None)
        address, then = (HOST, PORT + 1), found.append
        leader.input(partial(leader.node.channels.peer, ("outside", id), address, "AddRaftVoter", request, then, 5000))
    assert cluster.run(6000, lambda: len(found) == 2)
    assert sorted(one.error_code for one in found) == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    assert len(voters(leader)) == 2


def test_what_a_leader_says_where_it_asks_is_true_when_it_leads_no_more() -> None:
    """The voter would believe in a second leader of that epoch, and write it down."""
    cluster = quorum(3, 3)
    leader = cluster.elect()
    third, other = (cluster.nodes[id] for id in cluster.nodes if id != leader.id)
    cluster.world.addresses["moved", 7] = cluster.world.addresses[HOST, PORT + other.id]
    cls = message("UpdateRaftVoterRequest")
    request = cls(
        cluster_id=None,
        voter_id=other.id,
        voter_directory_id=_uuid(other.id),
        current_leader_epoch=leader.quorum.raft.epoch,
        listeners=[cls.Listener(name="CONTROLLER", host="moved", port=7)],
        k_raft_version_feature=cls.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    box: list[Any] = []
    address = (HOST, PORT + leader.id)
    third.input(lambda: third.node.channels.peer(("outside", 0), address, "UpdateRaftVoter", request, box.append, 5000))
    assert cluster.run(100, lambda: ("moved", 7) in [one.address for one in leader.node.channels._by_purpose.values()])
    other.freeze()
    for one in (third.name, other.name), (other.name, third.name):
        cluster.world.block(*one)  # so that only the leader of before is heard
    leader.input(leader.quorum.resign)
    assert cluster.run(5000, lambda: third.role.active and leader.quorum.raft.leader_id == third.id)
    other.thaw()
    believed = set()
    for _ in range(100):
        cluster.run(1)
        believed.add((other.quorum.raft.epoch, other.quorum.raft.leader_id))
    assert (2, leader.id) not in believed
    cluster.world.heal()
    assert cluster.run(5000, lambda: other.quorum.raft.leader_id == third.id)


def test_a_change_is_answered_however_long_the_quorum_may_take() -> None:
    """A controller that is frozen is asked for fifteen seconds."""
    cluster = Cluster(controllers=1, spare=1, settings={"controller.quorum.request.timeout.ms": "15000"})
    cluster.start()
    leader = cluster.elect()
    cluster.nodes[2].freeze()
    box: list[Any] = []
    cls = message("AddRaftVoterRequest")
    request = cls(
        voter_id=2, voter_directory_id=_uuid(2), listeners=[cls.Listener(name="CONTROLLER", host=HOST, port=PORT + 2)],
        cluster_id=None,
    )  # fmt: skip
    channels = leader.node.channels
    ask = partial(channels.peer, ("outside", 0), (HOST, PORT + 1), "AddRaftVoter", request, box.append, 60_000)
    leader.input(ask)
    assert cluster.run(40_000, lambda: bool(box))
    assert getattr(box[0], "error_code", box[0]) == ErrorCode.REQUEST_TIMED_OUT


def test_who_led_under_a_wrong_address_is_asked_for_votes_where_it_is() -> None:
    """It is elected, and nobody reaches it where it says that it is; then it is put right, and is no leader."""
    cluster = quorum(3, 3)
    first = cluster.elect()
    first.crash()
    cluster.elect()
    first.settings["advertised.listeners"] = f"CONTROLLER://{HOST}:1"
    first.start()
    cluster.run(1500)
    for other in cluster.nodes.values():
        if other is not first:
            other.input(partial(other.quorum.identity.addresses.learn, first.id, HOST, 1))
    leader = cluster.elect()
    assert leader is not first
    leader.input(leader.quorum.resign)
    cluster.run(4000)
    leader = cluster.elect()
    others = [node for node in cluster.nodes.values() if node is not first]
    assert [node.quorum.identity.addresses.find(first.id) for node in others] == [(HOST, PORT + first.id)] * 2


def test_a_controller_that_gets_no_vote_says_why() -> None:
    """It listens where the leader listens too, so that its address leads to the leader."""
    cluster = Cluster(controllers=1, spare=1, settings={"controller.quorum.auto.join.enable": "true"})
    cluster.nodes[2].settings["advertised.listeners"] = f"CONTROLLER://{HOST}:{PORT + 1}"
    cluster.start()
    why = f"since at {HOST}:{PORT + 1} there is another controller"
    assert cluster.run(10_000, lambda: any(line.endswith(why) for line in cluster.nodes[2].lines))
    assert voters(cluster.elect()) == [1]


def test_a_controller_joins_by_itself_and_so_does_one_that_was_formatted_anew() -> None:
    cluster = Cluster(controllers=3, spare=1, settings={"controller.quorum.auto.join.enable": "true"})
    cluster.start()
    cluster.elect()
    assert cluster.run(5000, lambda: all(voters(node) == [1, 2, 3, 4] for node in cluster.nodes.values()))
    cluster.append("with four")
    assert cluster.run(5000, cluster.settled)
    lost = next(node for node in cluster.nodes.values() if node is not cluster.elect())
    lost.replace_disk(_uuid(77))
    lost.start()
    back = lost.quorum.identity.me
    assert back.directory_id == _uuid(77)
    assert cluster.run(10_000, lambda: all(back in node.quorum.raft.voters for node in cluster.nodes.values()))
    assert [voters(node) for node in cluster.nodes.values()] == [[1, 2, 3, 4]] * 4


def removed_and_back(*, behind: bool) -> Cluster:
    """Controller 4 has joined by itself, was removed, and starts again with its disk. `behind`: it has not seen its removal,
    and loads a checkpoint instead of both records."""
    cluster = Cluster(controllers=3, spare=1, settings={"controller.quorum.auto.join.enable": "true"})
    cluster.start()
    cluster.elect()
    assert cluster.run(5000, lambda: all(voters(node) == [1, 2, 3, 4] for node in cluster.nodes.values()))
    cluster.append("with four")
    assert cluster.run(5000, cluster.settled)
    cluster.run(1000)
    joined = cluster.nodes[4]
    if cluster.elect() is joined:
        joined.input(joined.quorum.resign)
        assert cluster.run(5000, lambda: another_leads(cluster, 4))
    if behind:
        joined.crash()
    assert remove(cluster, 4).error_code == 0
    if not behind:
        cluster.append("without it")
        assert cluster.run(5000, cluster.settled)
        cluster.run(10_000)
        assert voters(cluster.elect()) == [1, 2, 3], "and not while it runs either"
        joined.crash()
    leader = cluster.elect()
    if behind:
        end, epoch = leader.role.next_offset, leader.quorum.raft.epoch
        named = leader.quorum.voters_at(end)
        assert named is not None
        head = [batches.SnapshotHeader(5), batches.KRaftVersion(1), named]
        data = bytes(batches.control_batch(0, epoch, 5, head).data)
        data += bytes(batches.control_batch(3, epoch, 5, [batches.SnapshotFooter()]).data)
        leader.input(lambda: leader.quorum.snapshot(end, epoch, data))
        cluster.run(1000)
    joined.start()
    return cluster


@pytest.mark.parametrize("behind", [False, True])
def test_a_controller_that_was_removed_does_not_come_back_by_itself(behind: bool) -> None:
    """It joins once a disk, whatever of its log is left, and votes again where somebody adds it."""
    cluster = removed_and_back(behind=behind)
    cluster.run(20_000)
    assert voters(cluster.elect()) == [1, 2, 3]
    assert any("it joins once a disk" in line for line in cluster.nodes[4].lines)
    assert add(cluster, 4).error_code == 0
    assert cluster.run(5000, lambda: voters(cluster.nodes[4]) == [1, 2, 3, 4])


def test_the_mark_of_another_disk_says_nothing() -> None:
    cluster = removed_and_back(behind=False)
    file = cluster.nodes[4].disk.open(cluster.path("joined"))
    mark = bytes(file.read_cold(0, file.size))
    cluster.nodes[4].replace_disk(_uuid(44))
    cluster.nodes[4].disk.replace(cluster.path("joined"), mark)
    cluster.nodes[4].start()
    assert cluster.run(20_000, lambda: voters(cluster.nodes[4]) == [1, 2, 3, 4])


def test_a_disk_that_was_replaced_does_not_take_its_place_back() -> None:
    """Two disks of one id would remove each other for ever."""
    cluster = Cluster(controllers=3, spare=1, settings={"controller.quorum.auto.join.enable": "true"})
    cluster.start()
    cluster.elect()
    everybody = [1, 2, 3, 4]
    assert cluster.run(5000, lambda: all(voters(node) == everybody for node in cluster.nodes.values()))
    cluster.run(1000)
    node = cluster.nodes[4]
    disk, storage = node.disk, node.storage
    node.replace_disk(_uuid(44))
    node.start()
    new = node.quorum.identity.me
    assert cluster.run(20_000, lambda: all(new in one.quorum.raft.voters for one in cluster.nodes.values()))
    node.crash()
    node.disk, node.storage = disk, storage
    node.start()
    cluster.run(20_000)
    assert new in cluster.elect().quorum.raft.voters


def test_nobody_joins_unasked() -> None:
    cluster = quorum(1, 2)
    cluster.run(20_000)
    assert voters(cluster.elect()) == [1]


def test_a_voter_that_moved_says_so_as_follower_and_as_leader() -> None:
    cluster = quorum(3, 3)
    moved = {id: f"CONTROLLER://{HOST}:{PORT + 50 + id}" for id in cluster.nodes}
    for id, node in cluster.nodes.items():
        node.crash()
        places = cluster.world.addresses
        places[HOST, PORT + 50 + id] = places.pop((HOST, PORT + id))
        node.settings |= {
            "listeners": moved[id],
            "controller.connect": ",".join(f"{HOST}:{PORT + 50 + id}" for id in cluster.nodes),
        }
        node.start()
        cluster.run(4000)

    def known() -> bool:
        leader = cluster.leader()
        if leader is None:
            return False
        return [one.endpoints[0][2] for one in leader.quorum.raft.voters.members] == [PORT + 51, PORT + 52, PORT + 53]

    assert cluster.run(20_000, known)


def replaced() -> Cluster:
    """Controllers 1, 2 and 3, of which 3 was replaced by 4 while two brokers followed; these were told of 1, 2 and 3."""
    cluster = Cluster(controllers=3, brokers=2, spare=1)
    cluster.start()
    cluster.elect()
    cluster.append("before")
    assert cluster.run(5000, cluster.settled)
    assert add(cluster, 4).error_code == 0
    assert remove(cluster, 3).error_code == 0
    cluster.elect()
    cluster.nodes[3].crash()
    cluster.append("after")
    assert cluster.run(5000, cluster.settled)
    return cluster


def test_r631_214_a_controller_is_replaced_and_the_brokers_follow() -> None:
    cluster = replaced()
    assert [voters(node) for node in cluster.nodes.values() if node.alive] == [[1, 2, 4]] * 5


def test_r631_039_r631_216_brokers_follow_to_members_that_their_list_never_named() -> None:
    """Broker 102 is restarted with the new list, broker 101 goes on with the old one. Then all that the old one names go."""
    cluster = replaced()
    second = cluster.nodes[102]
    second.crash()
    second.settings["controller.connect"] = ",".join(f"{HOST}:{PORT + id}" for id in (1, 2, 4))
    second.start()
    for id in (1, 2):
        assert remove(cluster, id).error_code == 0
        assert cluster.run(5000, partial(another_leads, cluster, id))
        cluster.nodes[id].crash()
        cluster.append(f"without {id}")
        assert cluster.run(5000, cluster.settled)
    assert cluster.elect().id == 4
    assert [voters(cluster.nodes[id]) for id in (101, 102)] == [[4]] * 2


def test_r631_215_a_broker_is_restarted_with_the_new_list() -> None:
    cluster = replaced()
    for id in (101, 102):
        broker = cluster.nodes[id]
        broker.crash()
        broker.settings["controller.connect"] = f"{HOST}:{PORT + 4}"
        broker.start()
        cluster.append(f"restarted {id}")
        assert cluster.run(5000, cluster.settled)


def test_r631_039_r631_216_a_broker_that_slept_while_all_changed_finds_who_leads() -> None:
    """It asks those that its list names, who vote no more, and follows the leader that they name."""
    cluster = Cluster(controllers=3, brokers=2, spare=1)
    cluster.start()
    cluster.elect()
    assert cluster.run(5000, cluster.settled)
    asleep = cluster.nodes[101]
    asleep.crash()
    assert add(cluster, 4).error_code == 0
    for id in (1, 2, 3):
        assert remove(cluster, id).error_code == 0
        assert cluster.run(5000, partial(another_leads, cluster, id))
        cluster.append(f"without {id}")
        assert cluster.run(5000, cluster.settled)
    assert cluster.elect().id == 4
    asleep.start()
    assert cluster.run(1000, cluster.settled)
    assert voters(asleep) == [4]
