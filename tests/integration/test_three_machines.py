"""Three controllers on machines of their own, and what their operators do wrong: the quorum always has a leader again.

Each machine is a network namespace, so `localhost` is somewhere else for each. A round draws joins with wrong and right
addresses, restarts, copied directories and typing errors in UpdateRaftVoter.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from actors.host import storage
from actors.host.cluster import probe
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.integration.conftest import ROOT, command
from tests.integration.networks import Network

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
PORT, OTHER_PORT = 9093, 9094
NOWHERE = "10.9.0.99:9093"
IDS = (1001, 1002, 1003)
WAIT_S = 60
COPIED = b"its directory was copied"
QUICK_ROUNDS, SLOW_ROUNDS = 1, 50


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    try:
        made = Network(len(IDS))
    except OSError as error:
        pytest.skip(f"this machine allows no network namespaces: {error}")
    yield made
    made.close()


class Round:
    """One cluster, from nothing."""

    def __init__(self, network: Network, home: Path, seed: int) -> None:
        self.network = network
        self.home = home
        self.random = Random(seed)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.told: list[str] = []
        """What was done, for whoever reads a failure."""

    def address(self, id: int) -> str:
        return self.network.machines[id - IDS[0]].address

    def write(self, id: int, advertised: str, *, name: str = "", port: int = PORT) -> None:
        """The properties of a controller, or of a copy of it with a `name` of its own."""
        name = name or str(id)
        lines = {
            "process.roles": "controller",
            "controller.id": str(id),
            "listeners": f"CONTROLLER://0.0.0.0:{port}",
            "advertised.listeners": f"CONTROLLER://{advertised}",
            "controller.listeners": "CONTROLLER",
            "controller.connect": f"{self.address(IDS[0])}:{PORT}",
            "controller.quorum.auto.join.enable": "true",
            "log.dirs": str(self.home / name),
        }
        (self.home / f"{name}.properties").write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def right(self, id: int) -> str:
        return f"{self.address(id)}:{PORT}"

    def wrong(self, id: int) -> str:
        """An address that leads to nobody, to itself on each machine, or to somebody else."""
        others = [self.right(other) for other in IDS if other != id]
        return self.random.choice(["localhost:9093", "127.0.0.1:9093", NOWHERE, *others])

    def format(self, id: int, *words: str) -> None:
        done = command("format", "--config", str(self.home / f"{id}.properties"), "--cluster-id", CLUSTER_ID, *words)
        assert done.returncode == 0, done.stderr

    def start(self, id: int, *, name: str = "", machine: int | None = None) -> None:
        name = name or str(id)
        words = [sys.executable, "-m", "actors.command.cli", "node", "--config", str(self.home / f"{name}.properties")]
        with (self.home / f"{name}.log").open("ab") as log:
            place = self.network.machines[(id if machine is None else machine) - IDS[0]]
            self.running[name] = place.run(words, cwd=ROOT, stdout=log, stderr=log)

    def end(self, name: str, *, kill: bool) -> None:
        process = self.running.pop(name)
        if kill:
            process.kill()
        else:
            process.terminate()
        process.wait(WAIT_S)

    def log(self, name: str) -> bytes:
        return (self.home / f"{name}.log").read_bytes()

    # -- questions

    def ask(self, id: int, name: str, request: Any, version: int) -> Any:
        with self.network.switch.inside():
            return probe.ask((self.address(id), PORT), name, request, version, 5)

    def described(self) -> Any | None:
        """The partition as its leader describes it; None: nobody leads."""
        cls = message("DescribeQuorumRequest")
        topic = cls.TopicData(topic_name=probe.TOPIC, partitions=[cls.PartitionData(partition_index=0)])
        for id in IDS:
            try:
                reply = self.ask(id, "DescribeQuorum", cls(topics=[topic]), 2)
            except probe.NoAnswer:
                continue
            (part,) = reply.topics[0].partitions
            if not part.error_code and part.leader_id == id and part.high_watermark >= 0:
                return part
        return None

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        end_s = time.monotonic() + WAIT_S
        while True:
            found = holds()
            if found:
                return found
            logs = b"\n".join(self.log(str(id))[-1500:] for id in IDS if (self.home / f"{id}.log").exists())
            assert time.monotonic() < end_s, f"{what}; after {self.told}\n{logs.decode(errors='replace')}"
            time.sleep(0.2)

    def leads(self) -> int:
        """Who leads; waits for one whose records are committed."""
        return self.until(self.described, "nobody leads").leader_id

    def votes(self, *ids: int) -> None:
        """Wait until these vote, and no others."""

        def so() -> bool:
            part = self.described()
            return part is not None and sorted(one.replica_id for one in part.current_voters) == sorted(ids)

        self.until(so, f"{ids} do not vote")

    # -- what happens

    def join(self, id: int, *, before: tuple[int, ...]) -> None:
        """It joins by itself: perhaps first with a wrong address, which gives it no vote."""
        self.write(id, self.right(id))
        self.format(id, "--no-initial-controllers")
        if self.random.randrange(2):
            advertised = self.wrong(id)
            self.told.append(f"{id} joins as {advertised}")
            self.write(id, advertised)
            self.start(id)
            self.until(lambda: b"metadata log: observer" in self.log(str(id)), f"{id} does not start")
            time.sleep(4)
            self.votes(*before)
            self.end(str(id), kill=True)
            self.write(id, self.right(id))
        self.told.append(f"{id} joins")
        self.start(id)
        self.votes(*before, id)

    def restart(self) -> None:
        leader = self.leads()
        id = self.random.choice([leader, *IDS])
        self.told.append(f"{id} restarts")
        self.end(str(id), kill=bool(self.random.randrange(2)))
        time.sleep(self.random.random() * 2)
        self.start(id)

    def restart_with_wrong_address(self) -> None:
        """A voter says that it is elsewhere: it is not written down, and stays where it was."""
        id = self.random.choice(IDS)
        self.told.append(f"{id} says that it is elsewhere")
        self.end(str(id), kill=True)
        self.write(id, self.wrong(id))
        self.start(id)
        time.sleep(3)
        self.leads()
        self.end(str(id), kill=True)
        self.write(id, self.right(id))
        self.start(id)

    def mistype(self) -> None:
        """An UpdateRaftVoter that names another voter's address, or nobody's."""
        leader = self.leads()
        id = self.random.choice([one for one in IDS if one != leader])
        host, _, port = self.wrong(id).rpartition(":")
        self.told.append(f"somebody types {host}:{port} for {id}")
        found = storage.read(str(self.home / str(id)))
        part = self.described()
        if part is None or part.leader_id != leader:
            return
        assert found is not None
        cls = message("UpdateRaftVoterRequest")
        request = cls(
            cluster_id=CLUSTER_ID,
            current_leader_epoch=part.leader_epoch,
            voter_id=id,
            voter_directory_id=found.directory_id,
            listeners=[cls.Listener(name="CONTROLLER", host=host, port=int(port))],
            k_raft_version_feature=cls.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        )
        try:
            reply = self.ask(leader, "UpdateRaftVoter", request, 0)
        except probe.NoAnswer:
            return
        assert reply.error_code != ErrorCode.NONE, self.told

    def copy(self) -> None:
        """Somebody starts a copy of a directory on another machine: one of the two ends and says why."""
        leader = self.leads()
        id = self.random.choice([leader, *IDS])
        machine = self.random.choice([one for one in IDS if one != id])
        name = f"copy-of-{id}-{len(self.told)}"
        shutil.copytree(self.home / str(id), self.home / name, ignore=shutil.ignore_patterns(".lock"))
        elsewhere = bool(self.random.randrange(2))
        self.told.append(
            f"a copy of {id}{' (the leader)' * (id == leader)} runs on {machine}, says its place: {elsewhere}"
        )
        self.write(
            id, f"{self.address(machine)}:{OTHER_PORT}" if elsewhere else self.right(id), name=name, port=OTHER_PORT
        )
        self.start(id, name=name, machine=machine)
        pair = (str(id), name)
        ended = self.until(lambda: [one for one in pair if self.running[one].poll() is not None], f"both {pair} go on")
        for one in ended:
            assert COPIED in self.log(one), (self.told, self.log(one)[-1500:])
            self.running.pop(one).wait()
        if name in self.running:
            self.end(name, kill=True)
        if str(id) in ended:
            self.start(id)

    def run(self) -> None:
        first, *rest = IDS
        self.write(first, self.right(first))
        self.format(first, "--standalone")
        self.start(first)
        self.votes(first)
        for place, id in enumerate(rest):
            self.join(id, before=IDS[: place + 1])
        events = [self.restart, self.restart_with_wrong_address, self.mistype, self.copy]
        self.random.shuffle(events)
        for event in (*events, self.random.choice(events)):
            event()
            self.leads()
        self.votes(*IDS)
        right = {id: [(self.address(id), PORT)] for id in IDS}
        self.until(lambda: self._places() == right, "somebody is said to be elsewhere")

    def _places(self) -> dict[int, list[tuple[str, int]]]:
        """Where the leader looks for each of them; empty: nobody leads."""
        part = self.described()
        if part is None:
            return {}
        cls = message("DescribeQuorumRequest")
        topic = cls.TopicData(topic_name=probe.TOPIC, partitions=[cls.PartitionData(partition_index=0)])
        try:
            reply = self.ask(part.leader_id, "DescribeQuorum", cls(topics=[topic]), 2)
        except probe.NoAnswer:
            return {}
        return {one.node_id: [(at.host, at.port) for at in one.listeners] for one in reply.nodes}

    def close(self) -> None:
        for name in list(self.running):
            self.end(name, kill=True)


def play(network: Network, home: Path, seed: int) -> None:
    home.mkdir()
    one = Round(network, home, seed)
    try:
        one.run()
    finally:
        one.close()
        print(f"round {seed}: {'; '.join(one.told)}")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(QUICK_ROUNDS))
def test_the_quorum_has_a_leader_again(network: Network, tmp_path: Path, seed: int) -> None:
    play(network, tmp_path / "round", seed)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(QUICK_ROUNDS, QUICK_ROUNDS + SLOW_ROUNDS))
def test_the_quorum_has_a_leader_again_fifty_times(network: Network, tmp_path: Path, seed: int) -> None:
    play(network, tmp_path / "round", seed)
