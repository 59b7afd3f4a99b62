"""Over, rolling restarts of everybody, changes at both sides while no controller of rayft is there, and back: with Apache
Kafka's own brokers.

Before each outage ZooKeeper is held still, so that what clients of rayft have changed is in the log alone; then the
controllers are killed. Old brokers change the same subjects meanwhile, and their notifications are removed, as those of a
long outage are. In the end both sides say what either has acknowledged, and every record is there.
"""

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from actors.bridge.subjects import rules, settings
from actors.bridge.znodes import CONFIG_CHANGES, RULE_CHANGES
from actors.command.output import screen
from actors.host.bridge.zookeeper_session import Session
from actors.host.cluster import plan, probe
from actors.host.cluster.access import Access
from actors.ports.zookeeper import Children, Create, Delete, Get, Write
from actors.wire.messages import message
from tests.integration.bridge.golden import AUTHORIZER
from tests.integration.bridge.test_whole_way import brokers_of, controller_of, in_sync, states_of
from tests.integration.bridge.way import PARTITIONS, TOPIC, Load, bridged, rayft, until, written
from tests.integration.bridge.zookeeper_mode import COORDINATORS, ZooKeeper, ZooKeeperBrokers

RESTARTS = int(os.environ.get("RAYFT_BRIDGE_RESTARTS", "10"))
"""Rounds: in each every old broker and one controller is restarted, and in every second one all controllers are away."""
BROKERS = (1, 2)
ABOUT = rules.Resource(2, TOPIC, 3)
RAYFTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
RULES, ALICE, SETTINGS = rules.path_of(ABOUT), "/config/users/alice", f"/config/topics/{TOPIC}"


class Side:
    """Where one side's clients change what both have: an old broker, or the active controller of rayft."""

    def __init__(self, door: Callable[[], Access], setting: str, quota: str, user: str) -> None:
        self._door = door
        self._at: Access | None = None
        self.setting, self.quota, self.user = setting, quota, user
        self.wanted: dict[str, str] = {}
        """Of the topic's settings and alice's quota."""
        self.allowed: set[str] = set()
        self.denied: set[str] = set()

    def look(self) -> None:
        """Find out where to ask."""
        self._at = self._door()

    def change(self, round: int) -> None:
        """Another value for each, a rule more, and the rule of the round before is gone."""
        value = str(1_000_000 * (round + 1))
        kind = message("IncrementalAlterConfigsRequest")
        one = kind.AlterableConfig(name=self.setting, config_operation=0, value=value)
        resource = kind.AlterConfigsResource(resource_type=2, resource_name=TOPIC, configs=[one])
        done(self._ask("IncrementalAlterConfigs", kind(resources=[resource]), 0).responses)
        kind = message("AlterClientQuotasRequest")
        entry = kind.EntryData(
            entity=[kind.EntityData(entity_type="user", entity_name="alice")],
            ops=[kind.OpData(key=self.quota, value=float(value), remove=False)],
        )
        done(self._ask("AlterClientQuotas", kind(entries=[entry]), 0).entries)
        self.wanted |= {self.setting: value, self.quota: value}
        self._rule(f"User:{self.user}-{round}", 3 if round % 2 else 2)
        if round > 0:
            self._no_rule(f"User:{self.user}-{round - 1}")

    def _rule(self, principal: str, permission: int) -> None:
        kind = message("CreateAclsRequest")
        one = kind.AclCreation(
            resource_type=2, resource_name=TOPIC, resource_pattern_type=3, principal=principal, host="*", operation=3,
            permission_type=permission,
        )  # fmt: skip
        done(self._ask("CreateAcls", kind(creations=[one]), 2).results)
        (self.allowed if permission == 3 else self.denied).add(principal)

    def _no_rule(self, principal: str) -> None:
        kind = message("DeleteAclsRequest")
        one = kind.DeleteAclsFilter(
            resource_type_filter=2, resource_name_filter=TOPIC, pattern_type_filter=3, principal_filter=principal,
            host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        done(self._ask("DeleteAcls", kind(filters=[one]), 2).filter_results)
        self.allowed.discard(principal)
        self.denied.discard(principal)

    def _ask(self, name: str, request: Any, version: int) -> Any:
        return probe.ask(self._at or self._door(), name, request, version, 20.0)


def done(results: Any) -> None:
    assert results and {one.error_code for one in results} == {0}, results


def changed(side: Side, round: int) -> None:
    """Change what a side has, as a client does: it asks again where the controller has changed or a session has expired."""
    end = time.monotonic() + 60
    while True:
        try:
            side.look()
            side.change(round)
            return
        except (AssertionError, probe.NoAnswer):
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def active(cluster: plan.Plan) -> Access:
    """The active controller, where old brokers and their clients reach it."""
    leader = until(lambda: leader_of(cluster), "a controller is active")
    listener = next(one for one in cluster.member(leader).config.listeners if one.name == "PLAINTEXT")
    return Access(listener.host or "127.0.0.1", listener.port)


def leader_of(cluster: plan.Plan) -> int:
    with suppress(Exception):
        found = screen.state(cluster.directory)
        return max(0, int(found["leader_id"]))
    return 0


def processes(cluster: plan.Plan) -> dict[int, int]:
    """Controller -> its process."""
    return {row["id"]: row["pid"] for row in screen.state(cluster.directory)["controllers"] if row["pid"]}


def change_password(door: Access, password: str) -> None:
    """Alice's, for SCRAM-SHA-512, at the active controller of rayft."""
    kind = message("AlterUserScramCredentialsRequest")
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), b"salt", 4096)
    new = kind.ScramCredentialUpsertion(
        name="alice", mechanism=2, iterations=4096, salt=b"salt", salted_password=salted
    )
    done(probe.ask(door, "AlterUserScramCredentials", kind(deletions=[], upsertions=[new]), 0, 20.0).results)


def change_other_password(zookeeper: ZooKeeper, password: str) -> str:
    """Alice's, for SCRAM-SHA-256, as kafka-configs.sh --zookeeper of 2.8 does: no broker takes it while there is no
    controller. Returns what the znode has then."""
    text = f"salt=c2FsdA==,stored_key={password},server_key={password},iterations=4096"
    with Session(zookeeper.address) as session:
        (found,) = session.read([Get(ALICE)])
        now = settings.settings(ALICE, found) | {"SCRAM-SHA-256": text}
        notice = b'{"version":2,"entity_path":"users/alice"}'
        session.change(
            [
                Write(ALICE, settings.data(now), found.version),
                Create(f"{CONFIG_CHANGES}/config_change_", notice, sequential=True),
            ]
        )
    return text


def killed(pids: list[int]) -> None:
    """Every controller, and what would start them again."""
    parents = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in pids}
    for pid in [*parents - {os.getpid()}, *pids]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not any(lives(pid) for pid in pids), "they are gone")


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def znode(zookeeper: ZooKeeper, path: str) -> Any:
    with Session(zookeeper.address) as session:
        return session.read([Get(path)])[0]


def forget_notifications(zookeeper: ZooKeeper) -> None:
    """Those of a long outage are removed by the brokers, after fifteen minutes."""
    with Session(zookeeper.address) as session:
        for folder in (CONFIG_CHANGES, RULE_CHANGES):
            (names,) = session.read([Children(folder)])
            session.change([Delete(f"{folder}/{name}") for name in names or ()])


def make_topic(zookeeper: ZooKeeper, name: str) -> None:
    """As kafka-topics.sh --zookeeper of 2.8 makes one: its settings first, and no id."""
    replicas = {"0": list(BROKERS), "1": list(reversed(BROKERS))}
    data = {"version": 2, "partitions": replicas, "adding_replicas": {}, "removing_replicas": {}}
    with Session(zookeeper.address) as session:
        session.change([Create(f"/config/topics/{name}", settings.data({"cleanup.policy": "compact"}))])
        session.change([Create(f"/brokers/topics/{name}", json.dumps(data).encode())])


def difference(zookeeper: ZooKeeper, sides: list[Side], passwords: dict[str, str]) -> str:
    """What ZooKeeper lacks, or has too much, of what either side has acknowledged; empty: nothing."""
    there = settings.settings(SETTINGS, znode(zookeeper, SETTINGS))
    alice = settings.settings(ALICE, znode(zookeeper, ALICE))
    found = rules.rules(RULES, znode(zookeeper, RULES))
    wanted: dict[str, str] = {}
    allowed, denied = set[str](), set[str]()
    for side in sides:
        wanted |= side.wanted
        allowed, denied = allowed | side.allowed, denied | side.denied
    values = {name: (there | alice).get(name, "").removesuffix(".0") for name in wanted}
    held = (
        {one.principal for one in found if one.permission == 3},
        {one.principal for one in found if one.permission == 2},
    )
    wrong = [name for name, text in passwords.items() if text not in alice.get(name, "")]
    if values == wanted and held == (allowed, denied) and not wrong:
        return ""
    return f"{values} and not {wanted}; {held} and not {(allowed, denied)}; wrong passwords {wrong}"


def log_differs(cluster: plan.Plan, sides: list[Side]) -> str:
    """The same of the log, as the active controller describes it."""
    door = active(cluster)
    kind = message("DescribeConfigsRequest")
    resource = kind.DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=None)
    (reply,) = probe.ask(door, "DescribeConfigs", kind(resources=[resource]), 1, 20.0).results
    values = {one.name: one.value for one in reply.configs}
    kind = message("DescribeClientQuotasRequest")
    part = kind.ComponentData(entity_type="user", match_type=0, match="alice")
    quotas = probe.ask(door, "DescribeClientQuotas", kind(components=[part], strict=True), 0, 20.0).entries
    values |= {one.key: str(int(one.value)) for entry in quotas for one in entry.values}
    kind = message("DescribeAclsRequest")
    wanted_rules = kind(
        resource_type_filter=2, resource_name_filter=TOPIC, pattern_type_filter=3, principal_filter=None, host_filter=None,
        operation=1, permission_type=1,
    )  # fmt: skip
    held = {
        one.principal
        for found in probe.ask(door, "DescribeAcls", wanted_rules, 2, 20.0).resources
        for one in found.acls
    }
    wanted = {name: value for side in sides for name, value in side.wanted.items()}
    users = {user for side in sides for user in side.allowed | side.denied}
    if {name: values.get(name) for name in wanted} == wanted and held == users:
        return ""
    return f"{values} and not {wanted}; {held} and not {users}"


def agree(
    zookeeper: ZooKeeper, cluster: plan.Plan | None, sides: list[Side], passwords: dict[str, str], when: str
) -> None:
    """Wait until both sides say what either has acknowledged."""
    end = time.monotonic() + 90
    while True:
        try:
            found = difference(zookeeper, sides, passwords) or (
                log_differs(cluster, sides) if cluster is not None else ""
            )
        except probe.NoAnswer as error:
            found = str(error)
        if not found:
            return
        assert time.monotonic() < end, f"{when}: {found}"
        time.sleep(0.5)


@pytest.mark.slow
@pytest.mark.timeout(300 + 120 * RESTARTS)
@pytest.mark.parametrize("release", ["2.8.2", "3.3.2", "3.6.2", "3.9.1"])
def test_restarts_of_everybody_and_changes_at_both_sides(
    release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, every = tmp_path / "rayft", set(BROKERS)
    file = written(tmp_path / "nodes.properties", COORDINATORS | RAYFTS)
    with ZooKeeper() as zookeeper, ZooKeeperBrokers(zookeeper, release, len(BROKERS), AUTHORIZER) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, len(BROKERS))]).values():
            future.result(60)
        theirs = Side(lambda: Access("127.0.0.1", kafka.ports[1]), "retention.ms", "producer_byte_rate", "theirs")
        changed(theirs, 0)
        load = Load(kafka.bootstrap_servers)
        until(lambda: len(load.read) > 200, "the group reads before the takeover")
        options = ("--zookeeper", zookeeper.address, "--dir", str(directory))
        outages = 0
        with bridged(zookeeper, directory, 0, "--config", file) as cluster:
            ours = Side(lambda: active(cluster), "segment.ms", "consumer_byte_rate", "ours")
            ours.change(0)
            passwords: dict[str, str] = {}
            sides = [theirs, ours]
            agree(zookeeper, cluster, sides, passwords, "taken over")
            for round in range(1, RESTARTS + 1):
                for id in BROKERS:
                    kafka.terminate(id)
                    kafka.start(id)
                    until(lambda id=id: id in brokers_of(zookeeper), "a broker comes back")
                    until(lambda: in_sync(zookeeper) == every, "it is in sync again")
                if round % 2 == 0:
                    os.kill(processes(cluster)[until(lambda: leader_of(cluster), "one is active")], signal.SIGKILL)
                    changed(theirs, round)
                    changed(ours, round)
                else:
                    ours.look()
                    change_password(active(cluster), f"password {round}")
                    passwords["SCRAM-SHA-512"] = "iterations=4096"
                    pids = list(processes(cluster).values())
                    zookeeper.signal(0, signal.SIGSTOP)
                    try:
                        ours.change(round)  # in the log alone
                        killed(pids)
                    finally:
                        zookeeper.signal(0, signal.SIGCONT)
                    until(lambda: brokers_of(zookeeper) >= every, "no broker has lost its session for good")
                    changed(theirs, round)
                    passwords["SCRAM-SHA-256"] = change_other_password(zookeeper, f"{round:04d}")
                    make_topic(zookeeper, f"made-{round}")
                    forget_notifications(zookeeper)
                    outages += 1
                    rayft("bridge", *options)
                    until(
                        lambda round=round: f"made-{round}" in led(kafka), "a topic that was made meanwhile has leaders"
                    )
                agree(zookeeper, cluster, sides, passwords, f"round {round}")
                load.goes_on(200, f"in round {round}")
            rayft("bridge", *options, "--back")
            until(lambda: controller_of(zookeeper) in every, "an old broker is the controller")
        agree(zookeeper, None, sides, passwords, "handed back")
        load.goes_on(200, "after the way back")
        kafka.kill(2)
        until(lambda: in_sync(zookeeper) == {1}, "ISRs shrink")
        load.goes_on(200, "with one of two in sync")
        kafka.start(2)
        until(lambda: in_sync(zookeeper) == every, "ISRs grow")
        kafka.terminate(1)
        until(lambda: all(one["leader"] == 2 for one in states_of(zookeeper)), "another one is elected")
        load.goes_on(200, "under leaders that the old controller has elected")
        load.stop()
        assert load.failed == [] and sorted(load.read) == list(range(load.sent)), "nothing acknowledged is lost"
        with capsys.disabled():
            print(
                f"\n{release}: {RESTARTS} restarts of {len(BROKERS)} brokers, {outages} outages of all controllers; "
                f"{load.sent} records, 0 lost, the producer stopped for {load.longest_s:.2f} s at most"
            )


def led(kafka: ZooKeeperBrokers) -> set[str]:
    """Topics all of whose partitions have leaders, as a broker shows them."""
    with suppress(probe.NoAnswer):
        reply = probe.ask(("127.0.0.1", kafka.ports[1]), "Metadata", message("MetadataRequest")(topics=None), 9, 10.0)
        return {one.name for one in reply.topics if all(part.leader_id > 0 for part in one.partitions)}
    return set()
