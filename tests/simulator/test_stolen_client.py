"""A stolen client does what its access rules say and nothing else, whichever request it tries.

The metadata, the quorum and every broker's logs are compared before and after. What the rules say is read by the slow twin
of the index, from a list of rights that is not the code's. Every world is drawn from a seed.
"""

import os
from random import Random
from typing import Any

import pytest

from actors.authorization.access_rules import Rule
from actors.authorization.resources import OPERATIONS, Operation, Pattern, Permission, Resource
from actors.node.runtime import peer_lines
from actors.node.runtime.calls import Listener
from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.messages import message
from tests.integration.answers.dialogue import request
from tests.served import TABLE
from tests.simulator.strangers import HOST
from tests.simulator.thief import (
    DEEDS,
    DENIED,
    KNOWN_NODE,
    THIEF,
    Deed,
    Scene,
    envelope,
    error_codes,
    node_requests,
    records,
)
from tests.unit.wire.generator import NOTHING, random_message

SEEDS = int(os.environ.get("THIEF_SEEDS", "8"))
NAMES = {
    Resource.TOPIC: ("t", "*", "made-", "victim-", "v", "other"),
    Resource.GROUP: ("g", "*", "other"),
    Resource.TRANSACTIONAL_ID: ("x", "id-", "*"),
    Resource.CLUSTER: ("kafka-cluster",),
}
MOVED = {6, 14, 15, 16, 41, 51}
"""Errors with which a broker sends to another one, or asks for patience."""


def rule(kind: Resource, name: str, operation: Operation, **more: Any) -> Rule:
    pattern, permission = more.get("pattern", Pattern.LITERAL), more.get("permission", Permission.ALLOW)
    return Rule(kind, name, pattern, more.get("who", THIEF), more.get("host", "*"), operation, permission)


def drawn(rng: Random) -> list[Rule]:
    """Some rules, drawn at random: mostly for the thief, mostly allowing."""
    found = []
    for _ in range(rng.randint(3, 12)):
        kind = rng.choice(list(NAMES))
        name = rng.choice(NAMES[kind])
        literal = kind is Resource.CLUSTER or name == "*" or rng.randrange(2)
        found.append(
            rule(
                kind,
                name,
                rng.choice([Operation.ALL, *OPERATIONS[kind]]),
                pattern=Pattern.LITERAL if literal else Pattern.PREFIXED,
                permission=Permission.DENY if not rng.randrange(5) else Permission.ALLOW,
                who=rng.choice((THIEF, THIEF, THIEF, "User:*", "User:other")),
                host=rng.choice(("*", "*", "*", HOST, "10.1.1.1")),
            )
        )
    return list(dict.fromkeys(found))


def tried(scene: Scene, deed: Deed, number: int) -> tuple[bool, bool, set[int]]:
    """(whether the rules allow it, whether something is another, the errors in the answer)."""
    body = request(deed.api, **deed.body(scene, number))
    scene.world.run_for(300)
    before, found = scene.state(), {-1}
    for process in ("b1", "b2", "b3"):
        told = scene.ask(process, deed.api, deed.version, body)
        assert told is not None, (deed.api, "closed")
        found = error_codes(deed.api, deed.version, told)
        if not found & MOVED:
            break
    scene.world.run_for(300)
    return scene.may(deed.enough(number)), scene.state() != before, found


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_deed_with_random_rights(scene: Scene, seed: int) -> None:
    rng = Random(seed)
    scene.set_rules(drawn(rng))
    deeds = list(DEEDS)
    rng.shuffle(deeds)
    for number, deed in enumerate(deeds, 100 * seed):
        allowed, changed, errors = tried(scene, deed, number)
        what = (deed.api, number, errors, scene.rules)
        assert allowed or (not changed and errors - {0}), what
        assert not (allowed and errors & DENIED), what
        assert changed or not (allowed and deed.changes), what


def test_every_deed_with_exactly_the_rights_that_it_needs_and_with_one_less(scene: Scene) -> None:
    for number, deed in enumerate(DEEDS, 10_000):
        rights = next(iter(deed.enough(number)))
        rules = [rule(*right) for right in rights]
        for left_out in (*range(len(rules)), None):
            scene.set_rules(one for place, one in enumerate(rules) if place != left_out)
            allowed, changed, errors = tried(scene, deed, number)
            what = (deed.api, left_out, errors)
            assert allowed is (left_out is None), what
            assert allowed is not bool(errors & DENIED), what
            assert changed is False or allowed, what
            assert changed or not (allowed and deed.changes), what


@pytest.mark.parametrize(
    ("principal", "rules"),
    [
        (THIEF, []),
        (THIEF, [rule(Resource.TOPIC, "*", Operation.ALL), rule(Resource.GROUP, "*", Operation.ALL)]),
        (THIEF, [rule(Resource.CLUSTER, "kafka-cluster", one) for one in OPERATIONS[Resource.CLUSTER] if one != 9]),
        (KNOWN_NODE, [rule(Resource.CLUSTER, "kafka-cluster", Operation.CLUSTER_ACTION, who=KNOWN_NODE)]),
    ],
    ids=["no-rights", "all-data", "the-cluster", "another-node"],
)
def test_what_nodes_ask_changes_nothing(
    scene: Scene, principal: str, rules: list[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.set_rules(rules)
    before = scene.state()
    monkeypatch.setattr(peer_lines, "LINES_A_PRINCIPAL", peer_lines.LINES_MAX)
    for process, api, version, body, node in list(node_requests(scene)):
        name = f"v28:{api}" if framing.is_draft(api) else api
        said: list[str] = []
        log = scene.world.processes[process].node.runtime.log
        monkeypatch.setattr(log, "info", said.append)
        monkeypatch.setattr(log, "warning", said.append)
        told = scene.ask(process, api, version, body, principal)
        assert told is not None and told.error_code == 31, (name, told)
        lines = [line for line in said if principal in line]
        bound = f"{principal} at {HOST} speaks for node {node} in {api}: refused"
        wanted = bound if principal == KNOWN_NODE else f"{principal} is denied CLUSTER_ACTION from {HOST} on CLUSTER:"
        assert len(lines) == 1 and lines[0].startswith(wanted), (api, lines)
        assert scene.state() == before, api
    if principal == THIEF:
        assert scene.ask(scene.active, "Envelope", 0, envelope("smuggled")).error_code == 31
        assert scene.ask("b1", "Envelope", 0, envelope("smuggled")) is None, "a broker serves none"
    scene.world.run_for(3_000)
    assert scene.state() == before


def test_the_same_requests_of_a_node_do_change_something(scene: Scene) -> None:
    """The test above tries requests that matter, for a node changes something with the same ones."""
    everything = rule(Resource.CLUSTER, "kafka-cluster", Operation.CLUSTER_ACTION)
    scene.set_rules([everything])
    answers = {api: scene.ask(process, api, version, body) for process, api, version, body, _ in node_requests(scene)}
    assert not [api for api, told in answers.items() if told is not None and told.error_code == 31]


def test_a_client_acknowledges_nothing_in_the_name_of_a_follower() -> None:
    scene = Scene()
    scene.set_rules([rule(Resource.TOPIC, "*", Operation.ALL)])
    leader = scene.t.leader
    end = scene.t.log(leader).log_end_offset
    for id, process in scene.cluster.brokers.items():
        if id != leader:
            process.freeze()
    part = {"index": 0, "records": records()}
    fields = {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "t", "partition_data": [part]}]}
    assert error_codes("Produce", 9, scene.ask(f"b{leader}", "Produce", 9, request("Produce", **fields))) == {0}
    partition = scene.t.partition(leader)
    assert partition.log.log_end_offset == end + 1
    for id in scene.cluster.brokers:
        asked = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": end + 1, "partition_max_bytes": 1000}
        body = request("Fetch", replica_id=id, topics=[{"topic": "t", "partitions": [asked]}])
        told = scene.ask(f"b{leader}", "Fetch", 12, body)
        assert error_codes("Fetch", 12, told) >= {29}
    assert partition.high_watermark == end


def test_random_bodies_of_somebody_without_rights_change_nothing(scene: Scene) -> None:
    scene.set_rules([])
    before, rng = scene.state(), Random(3)
    for (listener, _), api in sorted(TABLE.items(), key=lambda row: (row[0][1], row[0][0].value)):
        if listener in (Listener.CLIENT, Listener.CONTROLLER):
            process = "b1" if listener is Listener.CLIENT else scene.active
            kind = message(f"v28:{api.name}Request" if framing.is_draft(api.name) else f"{api.name}Request")
            for version in {api.versions[0], api.versions[-1]}:
                try:
                    scene.tell(process, api.name, version, random_message(kind, version, rng, pick))
                except WireError:
                    continue
    scene.world.run_for(1_000)
    assert scene.state() == before


def pick(field: Any, rng: Random) -> Any:
    """Names and numbers that mean something here."""
    if field.type in ("int8", "int16", "int32", "int64"):
        return rng.choice((-1, 0, 1, 2, 3, 1001, 1002))
    return rng.choice(("t", "g", "x", "", "__consumer_offsets", "PLAINTEXT")) if field.type == "string" else NOTHING
