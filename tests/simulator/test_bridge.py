"""A cluster with ZooKeeper is taken over in a world: controllers die, sessions expire, ZooKeeper is away, brokers come
and go.

At rest brokers, the metadata log and ZooKeeper have to say the same, and at no time may what a broker is told
contradict itself, /controller be empty, or its epoch go back.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from actors.authentication.delegation_tokens import TokenKey
from actors.authorization.access_rules import Rule
from actors.bridge import agreement, returning, takeover, tokens, znodes
from actors.bridge.asks import Apply
from actors.bridge.stages import Stage
from actors.bridge.subjects import rules, settings, topics
from actors.controller.principals.acls import KIND
from actors.controller.principals.delegation_tokens import create_token, expire_token
from actors.controller.state import Result
from actors.metadata.image import RULE_FIELDS
from actors.metadata.ops import ConfigSet, EntityGone, EntitySet, PartitionsSet, TopicGone, TopicSet
from actors.node.roles.controller.pusher import Pusher
from actors.node.runtime.calls import Listener
from actors.ports.zookeeper import Create, Znode
from actors.settings.node_config import node_config
from actors.wire.messages import message
from tests.simulator.cluster import CLUSTER_ID, PORT, Cluster, directory_id
from tests.simulator.ensemble import Ensemble
from tests.simulator.old_brokers import OldBroker, Part
from tests.simulator.world import World
from tests.unit.bridge.played import add_topic, notify, set_config

BRIDGE_PORT = 9300
CONFIG = {
    "rayft.metadata.push.enable": "true",
    "rayft.bridge.zookeeper.connect": "zk:2181",
    "rayft.bridge.listener.names": "PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "delegation.token.secret.key": "the key of both sides",
    "delegation.token.expiry.check.interval.ms": "1000",
    "listeners": f"CONTROLLER://c{{id}}:{PORT},PLAINTEXT://c{{id}}:{BRIDGE_PORT}",
}
NEWEST = {"transaction_version": 2, "group_version": 1, "share_version": 1, "streams_version": 1}
"""With which a quorum is formatted."""
KEY = TokenKey(CONFIG["delegation.token.secret.key"])
FAR_MS = 1 << 50
ABOUT = rules.Resource(2, "orders", 3)


class Lab:
    """Three controllers with a bridge, and three old brokers whose own controller is the first of them."""

    def __init__(self, seed: int = 1, controllers: int = 3, **more: str) -> None:
        """`more` are settings of the controllers, with _ for each dot."""
        self.world = World(seed, keep_log=True)
        self.ensemble = Ensemble(self.world)
        self.data = self.ensemble.data
        for path in ("/brokers/topics", "/config/changes", "/admin/delete_topics", "/log_dir_event_notification"):
            self.data.put(path, b"")
        for kind in ("topics", "brokers", "clients", "users", "ips"):
            self.data.put(f"/config/{kind}", b"")
        self.data.put("/cluster/id", json.dumps({"version": "1", "id": CLUSTER_ID}).encode())
        self.data.put("/controller_epoch", b"7")
        self.brokers = {id: OldBroker(self.world, self.ensemble, id) for id in (1, 2, 3)}
        for broker in self.brokers.values():
            broker.start()
        self.data.put("/controller", b'{"version":1,"brokerid":1,"timestamp":"1"}', self.brokers[1].session)
        self.cluster = Cluster(
            self.world,
            controllers,
            0,
            config=CONFIG | {name.replace("_", "."): more[name] for name in more},
            **NEWEST,
        )
        self.epoch = 7
        self.may_be_free = True
        """Whether /controller may be empty."""
        self.world.checks.append(self._check)

    def _check(self) -> None:
        epoch = int(self.data.get("/controller_epoch") or b"0")
        assert epoch >= self.epoch, "the controller's epoch goes back"
        self.epoch = epoch
        holder = self.data.get("/controller")
        if holder is not None and json.loads(holder)["brokerid"] > 1000:
            self.may_be_free = False
        assert holder is not None or self.may_be_free, "nobody is the controller"
        for broker in self.brokers.values():
            assert broker.errors == []

    @property
    def active(self) -> Any:
        return self.cluster.active()

    @property
    def bridge(self) -> Any:
        return None if self.active is None else self.active.node.controller.bridge

    def until(self, condition: Any, milliseconds_max: int = 40_000) -> None:
        reached = self.world.run_until(condition, milliseconds_max)
        assert reached, "\n".join(line for line in self.world.lines if "bridge" in line or "taken" in line)[-3000:]

    def driving(self) -> bool:
        return self.bridge is not None and self.bridge.stage is Stage.DRIVING

    def rested(self) -> bool:
        """Whether the log, ZooKeeper and every living broker say the same."""
        if not self.driving() or not self.ensemble.is_up:
            return False
        image = self.active.node.controller.image
        if self.active.node.quorum.raft.high_watermark < image.next_offset:
            return False
        if not self.agreed(image):
            return False
        names = {image.topic_name(row): row for row in image.topics()}
        living = {id for id, broker in self.brokers.items() if broker.alive}
        if {one.id for one in image.brokers()} != living:
            return False
        for name in self.data.names("/admin/delete_topics") or ():
            if not self._replicas(name) - living:
                return False
        for name, row in names.items():
            for partition in image.topic_partitions(row):
                key, state = (name, image.number(partition)), (image.leader(partition), image.leader_epoch(partition))
                for id in living:
                    broker = self.brokers[id]
                    if broker.controller != self.active.node.controller.me or broker.leaders.get(key) != state[0]:
                        return False
                    if id in image.replicas(partition) and (broker.parts.get(key) or (None, None))[:2] != state:
                        return False
        return all(not set(broker.parts) - {(n, i) for n, r in names.items() for i in range(image.partition_count(r))}
                   for broker in self.brokers.values() if broker.alive)  # fmt: skip

    def agreed(self, image: Any) -> bool:
        """Whether the log and ZooKeeper say the same."""
        held = {id: tokens.token(path, Znode(data)) for id, path, data in self._tokens()}
        if held != {id: tokens.here(image, id) for id in image.tokens}:
            return False
        names = {image.topic_name(row): row for row in image.topics()}
        if self.topics() != set(names):
            return False
        for name, row in names.items():
            if json.loads(self.data.get(f"/brokers/topics/{name}") or b"") != json.loads(topics.topic_data(image, row)):
                return False
            entity = f"topics/{name}"
            there = json.loads(self.data.get(f"/config/{entity}") or b"{}").get("config", {})
            if there != settings.here(image, entity):
                return False
        ruled, path = rules.by_resource(image), rules.path_of(ABOUT)
        data = self.data.get(path)
        return rules.rules(path, None if data is None else Znode(data)) == ruled.get(ABOUT, frozenset())

    def topics(self) -> set[str]:
        """What ZooKeeper has, but for what is deleted and waits for a broker that is away."""
        doomed = self.data.names("/admin/delete_topics") or ()
        return set(self.data.names("/brokers/topics") or ()) - set(doomed)

    def _replicas(self, name: str) -> set[int]:
        """Brokers that have a topic, as ZooKeeper says."""
        known = self.data.get(f"/brokers/topics/{name}")
        placed = {} if known is None else topics.topic(f"/brokers/topics/{name}", Znode(known)).replicas
        return {broker for replicas in placed.values() for broker in replicas}

    def _tokens(self) -> Iterator[tuple[str, str, bytes]]:
        for id in self.data.names(znodes.TOKENS) or ():
            path = tokens.path_of(id)
            yield id, path, self.data.get(path) or b""

    def kill_active(self) -> None:
        process = self.active
        process.kill()
        self.world.after(2_000_000, process.start)

    def restart(self, id: int) -> None:
        self.brokers[id].stop()
        self.world.after(1_000_000, self.brokers[id].start)

    def committed(self) -> bool:
        """Whether the active controller has committed all that it knows."""
        return (
            self.active is not None
            and self.active.node.quorum.raft.high_watermark >= self.active.node.controller.image.next_offset
        )

    def alter(self, name: str, value: str, key: str = "retention.ms") -> None:
        """An admin client has changed a setting at the active controller."""
        if self.active is not None and self.active.node.controller.image.topic(name) >= 0:
            role = self.active.node.controller
            role.submit(lambda *_: _set(name, value, key), None, _CALL)
            self.active.wake()

    def rule(self, user: str, allowed: bool) -> None:
        """An admin client has made or deleted an access rule at the active controller."""
        one = allow(user)
        op = (
            EntitySet(KIND, tuple(one), tuple(zip(RULE_FIELDS, one, strict=True))) if allowed else EntityGone(KIND, one)
        )
        if self.active is not None:
            self.active.node.controller.submit(lambda *_: Result([op], None), None, _CALL)
            self.active.wake()

    def ask(self, operation: Any, request: Any) -> Any:
        """Alice has asked the active controller about a token; the reply of a controller that is not lost."""
        replies: list[Any] = []

        def run(*given: Any) -> Any:
            result = operation(*given, requester="User:alice")
            replies.append(result.reply)
            return result

        if self.active is not None:
            self.active.node.controller.submit(run, request, _CALL)
            self.active.wake()
            self.world.run_for(20)
        return replies[0] if replies else None

    def make_token(self) -> Any:
        """A token made at the active controller, or None."""
        return self.ask(create_token, message("CreateDelegationTokenRequest")(max_lifetime_ms=-1))

    def end_token(self, id: str, after_ms: int = -1) -> Any:
        """Let a token expire at the active controller."""
        kind = message("ExpireDelegationTokenRequest")
        return self.ask(expire_token, kind(hmac=KEY.hmac(id), expiry_time_period_ms=after_ms))


def allow(user: str) -> Rule:
    return Rule(ABOUT.kind, ABOUT.name, ABOUT.pattern, f"User:{user}", "*", 3, 3)


def put_rules(lab: Lab, *users: str) -> None:
    """An old broker has written the rules of a resource."""
    path = rules.path_of(ABOUT)
    if users:
        lab.data.put(path, rules.data(frozenset(map(allow, users))))
    elif lab.data.get(path) is not None:
        lab.data.remove(path)
    if lab.data.get(znodes.RULE_CHANGES) is None:
        lab.data.put(znodes.RULE_CHANGES, b"")
    lab.data.multi(0, [Create(f"{znodes.RULE_CHANGES}/acl_changes_", b"TOPIC:orders", sequential=True)])


def _set(name: str, value: str, key: str) -> Any:
    return Result([ConfigSet(2, name, key, value)], None)


class _Call:
    listener = Listener.CONTROLLER
    connection = 0
    forwarded = False
    principal = client_id = ""
    api_version = 0


_CALL: Any = _Call()


def put_token(lab: Lab, id: str, expires_ms: int | None) -> None:
    """An old broker has made or renewed a token, or, with None, ended it."""
    if expires_ms is not None:
        owner = "User:bob"
        found = tokens.Token(owner, owner, ("User:alice",), 1, FAR_MS, expires_ms)
        lab.data.put(tokens.path_of(id), tokens.data(id, found))
    elif lab.data.get(tokens.path_of(id)) is not None:
        lab.data.remove(tokens.path_of(id))
    if lab.data.get(znodes.TOKEN_CHANGES) is None:
        lab.data.put(znodes.TOKEN_CHANGES, b"")
    lab.data.multi(0, [Create(f"{znodes.TOKEN_CHANGES}/token_change_", id.encode(), sequential=True)])


def begun(seed: int = 1, **more: Any) -> Lab:
    lab = Lab(seed, **more)
    add_topic(lab.data, "orders", [[1, 2], [2, 3], [3, 1]])
    set_config(lab.data, "topics/orders", retention_ms="1000")
    lab.cluster.start()
    lab.until(lab.rested)
    return lab


def test_brokers_are_told_what_zookeeper_had_under_higher_epochs() -> None:
    lab = begun()
    assert lab.brokers[1].parts[("orders", 0)][:3] == (1, 5, (1, 2))
    assert lab.epoch == 8 and {broker.controller_epoch for broker in lab.brokers.values()} == {8}


def test_old_brokers_can_read_what_coordinators_write() -> None:
    lab = begun()
    features = lab.active.node.controller.image.features()
    assert [features.get(name.replace("_", "."), 0) for name in NEWEST] == [0] * 4 and features["metadata.format"] == 2


def test_the_next_active_controller_goes_on_under_a_higher_epoch() -> None:
    lab = begun()
    before = lab.active.node.controller.me
    lab.kill_active()
    lab.until(lambda: lab.active is not None and lab.active.node.controller.me != before and lab.rested())
    assert lab.epoch == 9


def test_a_broker_of_rayft_names_the_controller_that_old_brokers_name() -> None:
    """A broker of rayft hears of the controller with its heartbeats, and names the one before until the next one
    drives."""
    lab = begun()
    settings = {
        "process.roles": "broker",
        "broker.id": "9",
        "controller.connect": ",".join(f"{id}@c{id}:{PORT}" for id in lab.cluster.controllers),
        "listeners": f"PLAINTEXT://b9:{PORT}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": "data",
    }
    joined = lab.cluster._process("b9", node_config(settings), directory_id(9))
    lab.cluster.brokers[9] = joined
    joined.start()

    def named() -> int:
        found = None if joined.node is None else joined.node.broker.driving.controller
        return -1 if found is None else found.id

    lab.until(lambda: lab.driving() and named() == lab.active.node.controller.me)
    first = named()
    assert [(one.name, one.host, one.port) for one in joined.node.broker.driving.controller.endpoints] == [
        ("PLAINTEXT", f"c{first}", BRIDGE_PORT)
    ]
    seen = set()
    lab.world.checks.append(lambda: seen.add(named()))
    lab.ensemble.stop()
    lab.kill_active()
    lab.until(lambda: lab.active is not None)
    lab.world.run_for(10_000)
    assert seen == {first}
    lab.ensemble.start()
    lab.until(lambda: lab.driving() and named() == lab.active.node.controller.me)


def test_a_broker_that_stops_leads_nothing_and_comes_back() -> None:
    lab = begun()
    lab.brokers[1].stop()
    lab.until(lab.rested)
    assert lab.brokers[2].leaders[("orders", 0)] == 2
    lab.brokers[1].start()
    lab.until(lab.rested)


def test_zookeeper_is_away_for_half_a_minute_and_nobody_is_fenced() -> None:
    lab = begun()
    lab.ensemble.stop()
    told = {id: dict(broker.parts) for id, broker in lab.brokers.items()}
    lab.world.run_for(30_000)
    assert {id: dict(broker.parts) for id, broker in lab.brokers.items()} == told
    lab.alter("orders", "2000")
    lab.world.run_for(1_000)
    lab.ensemble.start()
    lab.until(lab.rested)
    assert json.loads(lab.data.get("/config/topics/orders") or b"")["config"] == {"retention.ms": "2000"}


def test_a_session_that_expires_makes_no_gap() -> None:
    lab = begun()
    lab.ensemble.expire(lab.active)
    add_topic(lab.data, "meanwhile", [[1, 2]], states=False)
    lab.until(lambda: lab.rested() and "meanwhile" in (lab.data.names("/brokers/topics") or ()))
    assert ("meanwhile", 0) in lab.brokers[1].parts


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_broker_that_dies_is_fenced_at_once_whatever_takes_long(
    comes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next active controller compares all topics with a ZooKeeper that is slow."""
    lab = begun()
    for number in range(30):
        create(lab, f"t-{number}", [(1, 2), (2, 3)])
    lab.until(lab.rested)
    monkeypatch.setattr(agreement, "TOPICS_AT_ONCE", 1)
    lab.ensemble.slow_us = 200_000
    lab.kill_active()
    lab.until(lambda: lab.bridge is not None and lab.bridge.stage is Stage.WRITING)
    lab.brokers[2].stop()
    lab.world.run_for(1000)
    image = lab.active.node.controller.image
    assert {one.id for one in image.brokers()} == {1, 3}
    assert all(image.leader(row) in (1, 3) for topic in image.topics() for row in image.topic_partitions(topic))
    if comes_back:
        lab.brokers[2].start()
        lab.world.run_for(1000)
        assert {one.id for one in image.brokers()} == {1, 2, 3}
    assert lab.bridge.stage is Stage.WRITING, "all that has not waited for the comparison"
    lab.until(lab.rested, 120_000)


def test_a_controller_that_is_deleted_is_claimed_again() -> None:
    lab = begun()
    lab.may_be_free = True
    lab.world.checks.remove(lab._check)
    lab.data.remove("/controller")
    lab.data.put("/controller_epoch", b"9")
    lab.data.put("/controller", b'{"version":1,"brokerid":2,"timestamp":"1"}', lab.brokers[2].session)
    lab.until(lambda: lab.rested() and {broker.controller_epoch for broker in lab.brokers.values()} == {10})


def test_it_is_handed_back_and_taken_again() -> None:
    lab = begun()
    lab.may_be_free = True
    lab.world.checks.remove(lab._check)
    lab.data.put("/rayft_bridge/wanted", b"back")
    lab.until(lambda: lab.bridge is not None and lab.bridge.stage is Stage.RETURNED)
    assert lab.data.get("/controller") is None
    state = json.loads(lab.data.get(topics.state_path("orders", 0)) or b"")
    known = lab.brokers[1].parts[("orders", 0)]
    assert state["leader_epoch"] == known.leader_epoch + 1
    assert lab.data.entries[topics.state_path("orders", 0)].version >= known.partition_epoch
    lab.data.put("/controller_epoch", b"9")
    lab.data.put("/controller", b'{"version":1,"brokerid":2,"timestamp":"1"}', lab.brokers[2].session)
    lab.alter("orders", "5")
    lab.world.run_for(40_000)
    assert {broker.controller_epoch for broker in lab.brokers.values()} == {8}, "brokers are told nothing more"
    lab.data.remove("/rayft_bridge/wanted")
    lab.until(lab.rested)
    assert lab.epoch <= 10 == int(lab.data.get("/controller_epoch") or b"")


@pytest.mark.parametrize("ends", [False, True], ids=["", "and the first that claims ends"])
def test_what_is_made_in_an_emergency_stays_when_controllers_come_back(ends: bool) -> None:
    lab = begun()
    lab.world.checks.remove(lab._check)
    processes = [one for one in lab.world.processes.values() if one.node is not None]
    for one in processes:
        one.kill()
    lab.world.run_for(8_000)
    lab.data.remove("/controller")
    lab.data.put("/controller_epoch", b"9")
    lab.data.put("/controller", b'{"version":1,"brokerid":2,"timestamp":"1"}', lab.brokers[2].session)
    id = add_topic(lab.data, "invoices", [[1, 2, 3]], leader_epoch=0)
    set_config(lab.data, "topics/invoices", retention_ms="9")
    for broker in lab.brokers.values():
        broker.controller_epoch = 9
        broker.parts["invoices", 0] = Part(1, 0, (1, 2, 3), id, 0)
    lab.world.run_for(60_000)
    for one in processes:
        one.start()
    if ends:
        lab.until(lambda: lab.data.get("/controller_epoch") == b"10")
        lab.kill_active()
    lab.until(lab.rested)
    assert lab.topics() == {"orders", "invoices"}
    assert all(broker.stopped == [] for broker in lab.brokers.values())


@pytest.mark.parametrize("seed", range(1, 7))
def test_each_side_keeps_what_it_has_acknowledged_while_nobody_watched(seed: int) -> None:
    """Controllers reach ZooKeeper no more, or die, while both sides change rules and settings, each those of its own. The
    next controller has nothing but what is in the log and in ZooKeeper."""
    lab = begun(seed)
    random, users = lab.world.random, {"a", "b", "c"}
    theirs, ours = {"a"}, set[str]()
    put_rules(lab, "a")
    lab.until(lab.rested)
    retention, segment = "1000", None
    for step in range(8):
        away = random.random() < 0.7
        if away:
            lab.ensemble.stop()
        for _ in range(random.randint(1, 4)):
            what = random.randint(0, 4)
            if what == 0:
                lab.kill_active()
                lab.until(lambda: lab.active is not None)
            elif what == 1:
                theirs = set(random.sample(sorted(users), random.randint(0, 3)))
                data = lab.data.get(rules.path_of(ABOUT))
                path = rules.path_of(ABOUT)
                found = rules.rules(path, None if data is None else Znode(data))
                put_rules(lab, *theirs, *({one.principal.removeprefix("User:") for one in found} - users))
            elif what == 2:
                retention = str(step + 1)
                now = json.loads(lab.data.get("/config/topics/orders") or b"")["config"] | {"retention.ms": retention}
                lab.data.put("/config/topics/orders", settings.data(now))
                notify(lab.data, "topics/orders")
            elif what == 3:
                user = random.choice("xyz")
                ours ^= {user}
                lab.rule(user, user in ours)
                lab.until(lab.committed)
            else:
                segment = str(step + 1)
                lab.alter("orders", segment, "segment.ms")
                lab.until(lab.committed)
            if away and random.random() < 0.5:  # nobody obeys a notification for so long that it has gone
                for folder in (znodes.CONFIG_CHANGES, znodes.RULE_CHANGES):
                    for name in lab.data.names(folder) or ():
                        lab.data.remove(f"{folder}/{name}")
        if away:
            lab.kill_active()
            lab.ensemble.start()
        lab.until(lab.rested, 120_000)
        image = lab.active.node.controller.image
        held = {one.principal.removeprefix("User:") for one in rules.by_resource(image).get(ABOUT, ())}
        assert held == theirs | ours, "a rule that one side has acknowledged"
        wanted = {"retention.ms": retention} | ({} if segment is None else {"segment.ms": segment})
        assert image.config(2, "orders") == wanted, "a setting that one side has acknowledged"


def test_a_connect_string_that_leads_to_another_cluster_changes_nothing_there() -> None:
    lab = begun()
    lab.world.checks.remove(lab._check)
    lab.data.put("/cluster/id", b'{"version":"1","id":"AnotherClusterAltogeth"}')
    lab.data.remove("/brokers/topics/orders")
    lab.data.remove("/controller")
    lab.data.put("/controller_epoch", b"3000")
    lab.data.put("/controller", b'{"version":1,"brokerid":2,"timestamp":"1"}', lab.brokers[2].session)
    add_topic(lab.data, "payments", [[1, 2, 3]])
    before = {broker.id: dict(broker.parts) for broker in lab.brokers.values()}
    lab.kill_active()
    lab.world.run_for(20_000)
    assert lab.bridge.stage is Stage.REFUSED and lab.data.get("/controller_epoch") == b"3000"
    assert lab.topics() == {"payments"}
    assert all(broker.stopped == [] for broker in lab.brokers.values())
    assert {broker.id: dict(broker.parts) for broker in lab.brokers.values()} == before


def test_a_topic_that_a_broker_has_kept_in_an_offline_directory_is_not_given_up() -> None:
    lab = begun()
    lab.brokers[1].offline.add("orders")
    role = lab.active.node.controller
    role.apply(Result([TopicGone(role.image.topic_id(role.image.topic("orders")), "orders")], None))
    lab.active.wake()
    lab.world.run_for(20_000)
    assert lab.data.names("/admin/delete_topics") == ("orders",) and ("orders", 0) in lab.brokers[1].parts
    assert ("orders", 1) not in lab.brokers[2].parts
    lab.brokers[1].offline.clear()
    lab.restart(1)
    lab.until(lambda: lab.rested() and lab.data.names("/admin/delete_topics") == ())
    assert ("orders", 0) not in lab.brokers[1].parts


def handed_back(lab: Lab) -> None:
    """The operator wants the old controller back, in the moment in which something was committed."""
    lab.world.checks.remove(lab._check)

    def returned() -> bool:
        if lab.data.get(znodes.WANTED) is None:  # now, or again after a refusal: a broker has just come back
            lab.data.put(znodes.WANTED, b"back")
        return lab.bridge is not None and lab.bridge.stage is Stage.RETURNED

    lab.until(returned, 120_000)
    assert lab.data.get("/controller") is None and lab.agreed(lab.active.node.controller.image)


def test_the_old_cluster_has_what_was_committed_just_before_it_is_handed_back() -> None:
    lab = begun()
    lab.alter("orders", "5")
    lab.rule("alice", True)
    handed_back(lab)
    assert json.loads(lab.data.get("/config/topics/orders") or b"")["config"] == {"retention.ms": "5"}
    assert lab.data.get(rules.path_of(ABOUT)) is not None


def test_the_old_cluster_has_a_topic_that_was_made_just_before_it_is_handed_back() -> None:
    lab = begun()
    create(lab, "late", [(1, 2)])
    handed_back(lab)
    assert lab.data.get(topics.state_path("late", 0)) is not None


def test_what_zookeeper_refuses_while_the_cluster_is_handed_back_is_tried_again() -> None:
    lab = begun()
    true = returning.agree

    def made_behind(here: Any) -> Any:
        yield from true(here)
        if here.image.topic("late") < 0:
            id = b"late" + bytes(12)
            yield Apply([[TopicSet("late", id), PartitionsSet(id, [0], [(1, 2)], [(1, 2)])]])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(returning, "agree", made_behind)
        handed_back(lab)
    assert lab.data.get(topics.state_path("late", 0)) is not None


def test_tokens_of_both_sides_are_on_both_sides() -> None:
    lab = Lab()
    put_token(lab, "before", FAR_MS)
    lab.cluster.start()
    lab.until(lab.rested)
    made = lab.make_token()
    put_token(lab, "meanwhile", FAR_MS)
    held = lambda: set(lab.data.names(znodes.TOKENS) or ())  # noqa: E731
    lab.until(lambda: held() == {"before", "meanwhile", made.token_id} and lab.rested())
    image = lab.active.node.controller.image
    assert set(image.tokens) == held() and tokens.here(image, made.token_id).requester == "User:alice"  # type: ignore[union-attr]
    put_token(lab, made.token_id, None)
    lab.end_token("before")
    lab.kill_active()
    lab.until(lambda: lab.rested() and held() == {"meanwhile"})
    now_ms = lab.active.node.runtime.now.wall_ms
    put_token(lab, "short", now_ms + 3_000)
    lab.until(lambda: lab.rested() and held() == {"meanwhile", "short"})
    lab.until(lambda: lab.rested() and held() == {"meanwhile"}, 10_000)


def test_a_controller_without_a_key_removes_tokens_whose_time_is_over() -> None:
    lab = Lab(delegation_token_secret_key="")
    put_token(lab, "kept", FAR_MS)
    put_token(lab, "over", 1)
    lab.cluster.start()
    lab.until(lambda: lab.rested() and lab.data.names(znodes.TOKENS) == ("kept",), 10_000)
    assert any("this node has no delegation.token.secret.key" in line for line in lab.world.lines)


SEEDS = 12


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_whatever_happens_all_agree_in_the_end(seed: int) -> None:
    lab = Lab(seed)
    add_topic(lab.data, "orders", [[1, 2], [2, 3], [3, 1]])
    add_topic(lab.data, "quiet", [[1, 2, 3]])
    lab.cluster.start()
    random = lab.world.random
    made, claimed = 0, False
    for step in range(14):
        lab.world.run_for(random.randint(20, 3000))
        claimed = claimed or b'"brokerid":100' in (lab.data.get(znodes.CONTROLLER) or b"")
        what = random.randint(0, 14)
        if what == 0 and lab.active is not None:
            lab.kill_active()
        elif what == 1 and lab.active is not None:
            lab.ensemble.expire(lab.active)
        elif what == 2 and lab.active is not None:
            lab.ensemble.cut(lab.active)
        elif what == 3 and lab.ensemble.is_up:
            lab.ensemble.stop()
            lab.world.after(random.randint(100, 30_000) * 1000, lab.ensemble.start)
        elif what in (4, 5):
            broker = random.choice([1, 2, 3])
            if lab.brokers[broker].alive and lab.ensemble.is_up:
                lab.restart(broker)
        elif what == 6 and lab.ensemble.is_up:
            made += 1
            id = base64.b32encode(random.randbytes(10))
            # Who has seen the entry of a controller takes it for a broker, and may place a replica there.
            add_topic(lab.data, f"made-{made}", [[1001 + made % 3 if claimed else 1, 2], [3, 1]], id=id, states=False)
        elif what == 7 and lab.ensemble.is_up:
            set_config(lab.data, "topics/quiet", retention_ms=str(step))
        elif what == 8:
            lab.alter("orders", str(step))
        elif what == 9 and lab.ensemble.is_up and lab.driving() and made:
            name = f"made-{made}"
            if lab.data.get(f"/brokers/topics/{name}") is not None and not lab.data.get(f"/admin/delete_topics/{name}"):
                lab.data.multi(0, [Create(f"/admin/delete_topics/{name}")])
        elif what == 10 and lab.ensemble.is_up:
            put_token(lab, f"theirs-{random.randint(1, 2)}", random.choice([None, FAR_MS, FAR_MS + step]))
        elif what == 11:
            lab.make_token()
        elif what == 12 and (held := lab.data.names(znodes.TOKENS)):
            lab.end_token(random.choice(held), random.choice([-1, 10**9 + step]))
        elif what == 13 and lab.ensemble.is_up:
            put_rules(lab, *random.sample(["a", "b", "c"], random.randint(0, 3)))
        elif what == 14:
            lab.rule(random.choice("abc"), random.random() < 0.6)
    lab.until(lab.rested, 120_000)
    lab.alter("quiet", "77")
    lab.rule("d", True)
    lab.rule(random.choice("abc"), False)
    lab.world.run_for(random.randint(0, 5))
    handed_back(lab)


def create(lab: Lab, name: str, replicas: list[tuple[int, ...]], id: bytes = b"") -> None:
    """An admin client has made a topic at the active controller."""
    id = id or (name.encode() + bytes(16))[:16]
    ops = [TopicSet(name, id), PartitionsSet(id, range(len(replicas)), replicas, replicas)]
    lab.active.node.controller.submit(lambda *_: Result(ops, None), None, _CALL)
    lab.active.wake()


def test_topics_of_both_sides_are_on_both_sides() -> None:
    lab = begun()
    create(lab, "of-a-client", [(1, 2), (2, 3)])
    add_topic(lab.data, "of-a-broker", [[1001, 2], [2, 3]], states=False)
    lab.until(lambda: lab.rested() and lab.active.node.controller.image.topic_count == 3)
    image = lab.active.node.controller.image
    for row in image.topic_partitions(image.topic("of-a-broker")):
        assert set(image.replicas(row)) <= {1, 2, 3} and image.leader(row) in (1, 2, 3)
    assert lab.data.names("/brokers/topics") == ("of-a-broker", "of-a-client", "orders")


def test_a_zookeeper_that_takes_less_in_a_request_leaves_out_what_is_larger_alone() -> None:
    """jute.maxbuffer may be less than its default, and ZooKeeper does not say so: it closes the connection."""
    lab = begun()
    lab.ensemble.bytes_max = 45_000
    wide = [(1, 2, 3)] * 1_500
    create(lab, "wide", wide, b"w" * 16)  # in several transactions, of which none is too large in the end
    for user in range(1_500):
        lab.rule(f"{user:06d}", True)
    lab.alter("orders", "5")
    path = rules.path_of(ABOUT)

    def written() -> bool:
        numbers = lab.data.names("/brokers/topics/wide/partitions") or ()
        config = json.loads(lab.data.get("/config/topics/orders") or b"{}").get("config", {})
        told = any("access rules of" in line and "left out" in line for line in lab.world.lines)
        return told and lab.driving() and len(numbers) == len(wide) and config == {"retention.ms": "5"}

    lab.until(written)
    assert lab.data.get(path) is None


def test_a_request_that_was_answered_in_between_is_not_too_large() -> None:
    """A connection may be lost at any time, with the same large request in flight too."""
    lab = begun()
    for user in range(300):
        lab.rule(f"{user:0100d}", True)

    def written(has: bool) -> bool:
        text = lab.data.get(rules.path_of(ABOUT)) or b""
        return lab.driving() and len(text) > 40_000 and (b"one-more" in text) is has

    lab.until(lambda: written(False))
    for _ in range(3):
        lost = len(lines_of(lab, "is lost"))
        lab.ensemble.bytes_max = 40_000
        lab.rule("one-more", True)
        lab.until(lambda lost=lost: len(lines_of(lab, "is lost")) > lost)  # type: ignore[misc]
        lab.ensemble.bytes_max = 1 << 20
        lab.until(lambda: written(True))
        lab.rule("one-more", False)
        lab.until(lambda: written(False))
    assert not lines_of(lab, "left out")


def lines_of(lab: Lab, words: str) -> list[str]:
    return [line for line in lab.world.lines if words in line]


def test_a_topic_deleted_by_a_tool_goes_everywhere() -> None:
    lab = begun()
    lab.data.put("/admin/delete_topics/orders", b"")
    lab.until(lambda: lab.rested() and lab.active.node.controller.image.topic_count == 0)
    assert all(broker.parts == {} for broker in lab.brokers.values())
    assert lab.data.names("/admin/delete_topics") == ()


def deleted_while_away(lab: Lab) -> None:
    """Broker 3 is away, and a topic of which it has partitions is deleted."""
    lab.brokers[3].stop()
    lab.until(lab.rested)
    lab.data.put("/admin/delete_topics/orders", b"")
    lab.until(lambda: lab.rested() and lab.active.node.controller.image.topic_count == 0)
    assert {name for name, _ in lab.brokers[3].parts} == {"orders"}
    assert lab.brokers[1].parts == {} == lab.brokers[2].parts


def test_a_broker_that_was_away_gives_up_a_topic_that_was_deleted_meanwhile() -> None:
    lab = begun()
    deleted_while_away(lab)
    lab.world.run_for(10_000)
    assert lab.data.names("/admin/delete_topics") == ("orders",) == lab.data.names("/brokers/topics")
    lab.brokers[3].start()
    lab.until(lambda: lab.brokers[3].parts == {} and lab.data.names("/brokers/topics") == ())
    assert lab.data.names("/admin/delete_topics") == () and lab.rested()


def test_the_next_controller_and_no_broker_at_all_remember_what_was_deleted() -> None:
    lab = begun()
    deleted_while_away(lab)
    lab.kill_active()
    lab.brokers[1].stop()
    lab.brokers[2].stop()
    lab.until(lab.rested)
    for broker in lab.brokers.values():
        broker.start()
    lab.until(
        lambda: lab.rested() and lab.data.names("/brokers/topics") == () == lab.data.names("/admin/delete_topics")
    )


def test_a_topic_that_an_admin_client_deletes_waits_for_a_broker_that_is_away() -> None:
    lab = begun()
    lab.brokers[3].stop()
    lab.until(lab.rested)
    delete(lab, "orders")
    lab.until(lambda: lab.rested() and lab.data.names("/admin/delete_topics") == ("orders",))
    lab.kill_active()
    lab.until(lab.rested)
    lab.brokers[3].start()
    lab.until(lambda: lab.rested() and lab.data.names("/brokers/topics") == ())


def test_a_controller_that_dies_before_it_tells_of_a_deletion_leaves_that_to_the_next() -> None:
    lab = begun()
    killed: list[Any] = []

    def committed(process: Any) -> None:
        role = process.node.controller
        if role.active and not killed and role.pusher.image is not None and role.pusher.image.topic_count == 0:
            killed.append(process)
            lab.world.after(1, lab.kill_active)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Pusher, "_deliver", lambda *_: None)
        delete(lab, "orders")
        lab.world.turned.append(committed)
        lab.until(lambda: bool(killed) and killed[0].node is None)
    assert lab.brokers[1].parts and lab.brokers[1].leaders[("orders", 0)] == 1
    lab.until(lambda: lab.rested() and lab.data.names("/brokers/topics") == ())
    assert all(set(broker.leaders.values()) == {-2} for broker in lab.brokers.values())


def test_a_new_topic_under_the_name_of_a_deleted_one_is_not_deleted() -> None:
    lab = begun()
    deleted_while_away(lab)
    create(lab, "orders", [(1, 2)], bytes(range(16)))
    lab.until(lambda: lab.rested() and lab.data.names("/admin/delete_topics") == ())
    for _ in range(2):
        lab.kill_active()
        lab.until(lab.rested)
        assert lab.active.node.controller.image.topic_count == 1
    assert lab.topics() == {"orders"} and lab.brokers[1].parts.keys() == {("orders", 0)}


def test_a_broker_that_was_away_begins_a_new_topic_under_the_name_of_a_deleted_one() -> None:
    lab = begun()
    deleted_while_away(lab)
    create(lab, "orders", [(1, 2), (2, 3)], bytes(range(16)))
    lab.until(lambda: lab.rested() and lab.data.names("/admin/delete_topics") == ())
    lab.brokers[3].start()
    lab.until(lab.rested)
    stopped = len(lab.brokers[3].stopped)
    for _ in range(2):
        lab.restart(3)
        lab.world.run_for(500)
        lab.until(lab.rested)
    assert len(lab.brokers[3].stopped) == stopped, "it keeps the new topic"


@pytest.mark.parametrize("after_ms", [0, 1, 2, 3, 5, 8])
def test_a_broker_gives_nothing_up_but_what_was_deleted(after_ms: int) -> None:
    lab = begun()
    lab.brokers[1].stop()
    lab.until(lab.rested)
    delete(lab, "orders")
    lab.world.run_for(after_ms)
    create(lab, "orders", [(3, 2)], bytes(range(16)))
    lab.until(lab.rested)
    stopped = len(lab.brokers[3].stopped)
    lab.restart(3)
    lab.world.run_for(500)
    lab.until(lab.rested)
    assert len(lab.brokers[3].stopped) == stopped
    lab.brokers[1].start()
    lab.until(lab.rested)
    assert lab.topics() == {"orders"} and lab.data.names("/admin/delete_topics") == ()


def test_the_old_cluster_goes_on_with_a_deletion_that_waits() -> None:
    lab = begun()
    deleted_while_away(lab)
    handed_back(lab)
    assert lab.data.names("/admin/delete_topics") == ("orders",) == lab.data.names("/brokers/topics")


def test_brokers_are_driven_on_where_the_way_back_is_wanted_no_more() -> None:
    """Brokers are driven on even with a deletion that waits, which would forbid a takeover from the beginning."""
    lab = begun()
    deleted_while_away(lab)
    true, begun_back = returning.agree, []

    def withdrawn(here: Any) -> Any:
        yield from true(here)
        begun_back.append(here.me)
        lab.data.remove(znodes.WANTED)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(returning, "agree", withdrawn)
        lab.data.put(znodes.WANTED, b"back")
        lab.until(lambda: bool(begun_back))
        lab.until(lab.rested)
    lab.brokers[3].start()
    lab.until(lambda: lab.rested() and lab.brokers[3].parts == {})


def delete(lab: Lab, name: str) -> None:
    """An admin client has deleted a topic at the active controller."""
    role = lab.active.node.controller
    id = role.image.topic_id(role.image.topic(name))
    role.submit(lambda *_: Result([TopicGone(id, name)], None), None, _CALL)
    lab.active.wake()


def test_a_takeover_that_stops_half_way_is_begun_anew() -> None:
    lab, topics_ = Lab(1), 60
    for number in range(topics_):
        add_topic(lab.data, f"t{number}", [[1, 2]])
    killed = []

    def half_way(process: Any) -> None:
        role = process.node.controller
        committed = process.node.quorum.raft.high_watermark
        if role.active and not killed and role.bridge.stage is Stage.WRITING and committed > 8:
            killed.append(role.image.topic_count)
            lab.world.after(1, lab.kill_active)

    lab.world.turned.append(half_way)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(takeover, "PARTITIONS_A_PORTION", 1)
        lab.cluster.start()
        lab.until(lambda: lab.rested() and lab.active.node.controller.image.topic_count == topics_, 8_000)
    assert 0 < killed[0] < topics_
