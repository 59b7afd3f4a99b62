"""No request does what the access rules deny: what a node has done was allowed to that principal at that host by the
committed rules at an offset which that node had replayed while the request was with it. And nobody is refused what was
allowed.

The rules are read out of the committed metadata log here, operation by operation, and `tests/reference/access_rules.py`
decides: neither the nodes' index of rules nor their table of rights is asked. What is compared are requests and answers on
the wire (`claims.py`), so that it does not matter where in a node a check is missing. Rules:

1. A request is judged where it is done. What brokers pass on is judged at the controller, which must be told the principal
   and the address of the client whose request it is: the broker's rights count for nothing of it.
2. A fetch is judged by what its node knew in the turn of the answer, if the answer did not wait behind others: rights may
   be taken back between two fetches of a session, and while a fetch waits for records.
3. Whatever changes in the metadata log was asked for by somebody who was allowed to, whether there was an answer or not.
4. A principal that names nodes speaks for these alone.
5. Controllers judge by what is not committed yet. Their refusals are compared only once the rules rest.
"""

import ipaddress
import re
from bisect import bisect_right
from collections import Counter
from typing import Any, NamedTuple

from actors.authorization.access_rules import Rule
from actors.metadata.batches import is_control
from actors.metadata.dialects import FORMAT, dialect
from actors.metadata.image import RULE_FIELDS
from actors.metadata.ops import ConfigSet, EntityGone, EntitySet, TopicGone, TopicSet
from actors.node.runtime.calls import Api, Listener
from actors.ports import Batch
from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.messages import decode
from tests.reference import access_rules
from tests.served import TABLE
from tests.simulator.checkers.claims import (
    ALTER,
    ALTER_CONFIGS,
    BY_CONTROLLERS,
    CLAIMS,
    CREATE,
    DELETE,
    REFUSALS,
    SPEAKS,
    TOPIC_CONFIGS,
    Exchange,
    Need,
    Right,
    cluster,
    codes,
    topic,
)  # fmt: skip
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import FAMILY
from tests.simulator.clients.rules import described
from tests.simulator.cluster import OPERATOR, STOLEN, Cluster, node_principal
from tests.simulator.world import Process

ANONYMOUS = "User:ANONYMOUS"
ENVELOPE, DESCRIBE_ACLS = "Envelope", "DescribeAcls"
KEPT_US = 60_000_000
"""A request may change the metadata log for so long after it has come."""
APIS = {key: api for (listener, key), api in TABLE.items() if listener is Listener.CLIENT}
"""What clients ask of brokers, and what is in an Envelope."""
CONTROLLERS_APIS = {key: api for (listener, key), api in TABLE.items() if listener is Listener.CONTROLLER}
INTERNAL = ("__consumer_offsets", "__transaction_state")
NODE = re.compile(r"User:rayft-node((?:-[0-9]+)+)")
ANY_RULE = (1, None, 1, None, None, 1, 1)


class Asker(NamedTuple):
    """The asker of a request: the end of a connection, or the client in an Envelope."""

    principal: str
    host: str


class Asked(NamedTuple):
    """A request that a process has."""

    name: str
    version: int
    request: Any
    asker: Asker
    low: int
    """The offset up to which the process had replayed the metadata when it came."""
    inner: "Asked | None" = None
    """The request in an Envelope; None: the request is no Envelope."""


class Answer(NamedTuple):
    """An answer that is to be judged after the turn."""

    asked: Asked
    reply: Any
    low: int


class Peer:
    """One connection to a process."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.waiting: dict[int, Asked | None] = {}
        self.answered_turn = -1


class Intent(NamedTuple):
    """Somebody wants to change something in the metadata log."""

    time_us: int
    asker: Asker
    need: Need
    low: int


def _read(name: str, version: int, frame: memoryview) -> Any:
    """The message of an answer; heartbeats are answered in the layout of the level of metadata.format."""
    try:
        return framing.decode_response(name, version, frame)
    except WireError:
        _, position = framing.response_header(frame, name, version)
        reply, end = decode(f"v19:{name}Response", version, frame, position)
        assert end == len(frame)
        return reply


class NobodyDoesWhatIsDenied:
    name = "nobody_does_what_is_denied"

    def __init__(self, cluster: Cluster, counts: Counter[str]) -> None:
        self._world = cluster.world
        ids = (*cluster.controllers, *cluster.brokers, STOLEN)
        self._super = frozenset((OPERATOR, *map(node_principal, ids)))
        self._stolen = node_principal(STOLEN)
        self.resting = False
        """Whether the rules rest: nobody changes any, and every node has replayed them."""
        self._counts = counts
        self._brokers = frozenset(process.name for process in cluster.brokers.values())
        self._peers: dict[str, dict[Any, Peer]] = {}
        self._answers: list[Answer] = []
        self._before: dict[str, int] = {}
        """Process -> the offset up to which it had replayed at the end of its last turn."""
        self._passed_on: dict[str, dict[bytes, set[Asker]]] = {}
        """Broker -> requests that it may put into an Envelope."""
        self._names: dict[bytes, str] = {}
        self._deleted: set[bytes] = set()
        self._format = 0
        self._end = 0
        """What follows the last committed operation."""
        self._rules: dict[Any, Rule] = {}
        self._starts = [0]
        self._states: list[tuple[Rule, ...]] = [()]
        """From the offset in `_starts` on these rules hold."""
        self._verdicts: dict[tuple[int, Asker, Right], bool] = {}
        self._intents: dict[tuple[str, ...], list[Intent]] = {}

    # ---- the rules

    def metadata(self, image: Any, batch: Batch) -> None:
        """A batch is committed."""
        if not is_control(batch.data):
            for offset, op in dialect(self._format or FAMILY).decode(batch):
                self._replay(offset, op)
        self._end = batch.last_offset + 1
        self._format = image.feature(FORMAT) or 0

    def _replay(self, offset: int, op: Any) -> None:
        if isinstance(op, TopicSet):
            if op.deleting:
                self._gone(offset, op.id)
            elif op.id not in self._names and op.name not in INTERNAL:
                self._wanted(offset, "topic", op.name)
            self._names[op.id] = op.name
        elif isinstance(op, TopicGone):
            self._gone(offset, op.id)
        elif isinstance(op, ConfigSet):
            if op.resource_name not in INTERNAL:
                self._wanted(offset, "configs", str(op.resource_type), op.resource_name)
        elif isinstance(op, (EntitySet, EntityGone)) and op.kind == "acl":
            self._wanted(offset, "rules")
            self._rules.pop(op.key, None)
            if isinstance(op, EntitySet):
                fields = dict(op.fields)
                self._rules[op.key] = Rule(*(fields[field] for field in RULE_FIELDS))  # type: ignore[arg-type]
            self._starts.append(offset + 1)
            self._states.append(tuple(self._rules.values()))
            self._counts["access rules changed"] += 1
        elif isinstance(op, (EntitySet, EntityGone)) and op.kind != "controller":
            raise Violation(self.name, f"{op} is in the metadata log, and no client changes such a thing")

    def _gone(self, offset: int, id: bytes) -> None:
        if id not in self._deleted:
            self._deleted.add(id)
            self._wanted(offset, "gone", self._names[id])

    def _between(self, low: int, high: int) -> range:
        """The states that hold at an offset from `low` to `high`."""
        return range(bisect_right(self._starts, low) - 1, bisect_right(self._starts, max(low, high)))

    def _right(self, state: int, asker: Asker, right: Right) -> bool:
        key = state, asker, right
        known = self._verdicts.get(key)
        if known is None:
            known = self._verdicts[key] = self._decided(self._states[state], asker, right)
        return known

    def _decided(self, rules: tuple[Rule, ...], asker: Asker, right: Right) -> bool:
        if asker.principal in self._super:
            return True
        operation, resource, name = right
        if name is not None:
            return bool(access_rules.decide(rules, *asker, operation, resource, name))
        return bool(access_rules.decide(rules, *asker, operation, resource, "hardcode")) or access_rules.allows_some(
            rules, *asker, operation, resource
        )

    def _met(self, state: int, asker: Asker, need: Need) -> bool:
        return any(self._right(state, asker, right) for right in need)

    # ---- requests

    def asked(self, link: Any, process: Process, frame: memoryview) -> None:
        """A request reaches a process."""
        peers = self._peers.setdefault(process.name, {})
        peer = peers.get(link)
        if peer is None:
            other = link.other(process)
            host = getattr(other, "host", "127.0.0.1")
            peer = peers[link] = Peer(Asker(other.principal or ANONYMOUS, host))
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        correlation = int.from_bytes(frame[4:8], "big")
        controls = process.name not in self._brokers
        api = (CONTROLLERS_APIS if controls else APIS).get(key)
        name = "" if api is None else api.name
        low = process.image.next_offset if process.alive else 0
        asked = None
        principal = peer.asker.principal
        if principal not in self._super or principal == self._stolen or name in (ENVELOPE, DESCRIBE_ACLS):
            asked = self._decoded(api, version, frame, peer.asker, low)
        peer.waiting[correlation] = asked
        if name in BY_CONTROLLERS and not controls:
            known = self._passed_on.setdefault(process.name, {})
            known.setdefault(bytes(frame), set()).add(peer.asker)
        elif controls:
            if name in BY_CONTROLLERS and asked is None:
                asked = self._decoded(api, version, frame, peer.asker, low)
            if asked is not None and asked.inner is not None:
                self._opened(process, link, asked.inner, bytes(asked.request.request_data))
                self._intend(asked.inner)
            elif asked is not None and name != ENVELOPE:
                self._intend(asked)

    def _decoded(self, api: Api | None, version: int, frame: Any, asker: Asker, low: int) -> Asked | None:
        if api is None or api.name not in CLAIMS or version not in api.versions:
            return None
        name = api.name
        try:
            _, position = framing.decode_request_header(frame)
            request = framing.decode_request(name, version, memoryview(bytes(frame)), position)
            inner = self._inside(request, low) if name == ENVELOPE else None
        except (WireError, ValueError):
            return None
        return Asked(name, version, request, asker, low, inner)

    def _inside(self, envelope: Any, low: int) -> Asked | None:
        """The request in an Envelope, with the principal and the address that the Envelope names."""
        frame = memoryview(envelope.request_data)
        told = envelope.request_principal
        principal = ANONYMOUS
        if told is not None:
            data, _ = decode("DefaultPrincipalData", int.from_bytes(told[:2], "big"), memoryview(told), 2)
            principal = f"{data.type}:{data.name}"
        host = str(ipaddress.ip_address(bytes(envelope.client_host_address)))
        api, version = APIS.get(int.from_bytes(frame[:2], "big")), int.from_bytes(frame[2:4], "big")
        return self._decoded(api, version, frame, Asker(principal, host), low)

    def _opened(self, process: Process, link: Any, inner: Asked, frame: bytes) -> None:
        """An Envelope of a node is about what a client of that node has asked, as that client."""
        sender = link.other(process)
        if not isinstance(sender, Process):
            return
        askers = self._passed_on.get(sender.name, {}).get(frame, set())
        if inner.asker not in askers:
            raise Violation(
                self.name,
                f"{sender.name} passes a {inner.name} on as that of {inner.asker}, and it came from {sorted(askers)}",
            )

    # ---- answers

    def answered(self, link: Any, process: Process, frame: memoryview) -> None:
        """An answer leaves a process."""
        peer = self._peers.get(process.name, {}).get(link)
        if peer is None:
            return
        asked = peer.waiting.pop(int.from_bytes(frame[:4], "big"), None)
        turn, before = self._world.turns, peer.answered_turn
        peer.answered_turn = turn
        if asked is None:
            return
        low = asked.low
        if asked.name == "Fetch" and before < turn and process.name in self._before:
            low = max(low, self._before[process.name])
        reply = _read(asked.name, asked.version, memoryview(bytes(frame)))
        self._answers.append(Answer(asked, reply, low))

    def turned(self, process: Process) -> None:
        """Judge what has left in this turn."""
        self._judge(process)
        self._before[process.name] = process.image.next_offset

    def ended(self, process: Process) -> None:
        """The process is about to end."""
        self._judge(process)
        self._before.pop(process.name, None)
        self._peers.pop(process.name, None)

    def _judge(self, process: Process) -> None:
        if not self._answers:
            return
        answers, self._answers = self._answers, []
        high = process.image.next_offset
        controls = process.name not in self._brokers
        for asked, reply, low in answers:
            if asked.name == DESCRIBE_ACLS:
                self._described(process, asked, reply, low, high)
            if asked.inner is not None:
                if reply.error_code or reply.response_data is None:
                    continue
                data = memoryview(reply.response_data)
                inside = framing.decode_response(asked.inner.name, asked.inner.version, data)
                self._claims(process, asked.inner, inside, low, high, controls)
            elif controls or asked.name not in BY_CONTROLLERS:
                self._spoke(process, asked, reply)
                self._claims(process, asked, reply, low, high, controls)

    def _claims(self, process: Process, asked: Asked, reply: Any, low: int, high: int, controls: bool) -> None:
        if asked.name == "Fetch" and (controls or max(SPEAKS["Fetch"](asked.request)) >= 0):
            return  # `_spoke` has judged it
        if controls:
            low, high = min(low, high), max(low, high)
            if high > self._end and asked.name not in BY_CONTROLLERS:
                return  # it may rest on rules that are not committed, and changes nothing
        states = self._between(low, high)
        for claim in CLAIMS[asked.name](Exchange(asked.version, asked.request, reply, self._names)):
            self._counts["done" if claim.done else "refused"] += 1
            if claim.done:
                for need in claim.needs:
                    if not any(self._met(state, asked.asker, need) for state in states):
                        raise Violation(
                            self.name, f"{process.name} {claim.what} for {asked.asker}, which needs {need}: "
                            f"{self._states[states[-1]]} at {low} to {high}",
                        )  # fmt: skip
            elif not controls or self.resting:
                need = claim.needs[0]
                if all(self._met(state, asked.asker, need) for state in states):
                    raise Violation(
                        "what_is_allowed_is_not_refused", f"{process.name} has not {claim.what} for {asked.asker}, which "
                        f"has {need}: {self._states[states[-1]]} at {low} to {high}",
                    )  # fmt: skip

    def _spoke(self, process: Process, asked: Asked, reply: Any) -> None:
        """Check that a principal that names nodes speaks for these alone, and that any other speaks for no node."""
        speaks = SPEAKS.get(asked.name)
        if speaks is None:
            return
        match = NODE.fullmatch(asked.asker.principal)
        own = set(map(int, match[1][1:].split("-"))) if match and asked.asker.principal in self._super else set()
        found = {id for id in speaks(asked.request) if id >= 0} - own
        told = [reply] if process.name not in self._brokers or asked.name != "Fetch" else reply.responses
        given = {code for one in told for code in codes(one, asked.version)}  # a follower is refused by partition
        if found and given and REFUSALS.isdisjoint(given):
            raise Violation(self.name, f"{process.name} takes {asked.name} of {asked.asker} for one of {sorted(found)}")

    def _described(self, process: Process, asked: Asked, reply: Any, low: int, high: int) -> None:
        """Check that an asker for every rule is told those that hold."""
        request = asked.request
        filter = (
            request.resource_type_filter, request.resource_name_filter, request.pattern_type_filter,
            request.principal_filter, request.host_filter, request.operation, request.permission_type,
        )  # fmt: skip
        if filter != ANY_RULE or reply.error_code:
            return
        told = described(reply)
        if not any(told == sorted(self._states[state]) for state in self._between(low, high)):
            raise Violation("described_rules_hold", f"{process.name} tells of {told} at {low} to {high}")

    # ---- the metadata log

    def _intend(self, asked: Asked) -> None:
        """A controller is asked to change something."""
        request, name = asked.request, asked.name
        found: list[tuple[tuple[str, ...], Need]] = []
        if name == "CreateTopics":
            for one in request.topics:
                need = (*topic(CREATE, one.name), *cluster(CREATE))
                found += [(("topic", one.name), need), (("configs", str(TOPIC_CONFIGS), one.name), need)]
        elif name == "DeleteTopics":
            gone = [one.name or self._names.get(bytes(one.topic_id)) for one in request.topics or ()]
            gone += request.topic_names or ()
            found += [(("gone", one), topic(DELETE, one)) for one in gone if one is not None]
        elif name in ("AlterConfigs", "IncrementalAlterConfigs"):
            for one in request.resources:
                of_topic = one.resource_type == TOPIC_CONFIGS
                need = topic(ALTER_CONFIGS, one.resource_name) if of_topic else cluster(ALTER_CONFIGS)
                found.append((("configs", str(one.resource_type), one.resource_name), need))
        elif name in ("CreateAcls", "DeleteAcls"):
            found.append((("rules",), cluster(ALTER)))
        now_us = self._world.time_us
        for key, need in found:
            kept = [one for one in self._intents.get(key, ()) if one.time_us + KEPT_US > now_us]
            self._intents[key] = [*kept, Intent(now_us, asked.asker, need, asked.low)]

    def _wanted(self, offset: int, *key: str) -> None:
        """A change is committed at `offset`: somebody has asked for it who was allowed to."""
        intents = self._intents.get(key, ())
        for intent in intents:
            if any(self._met(state, intent.asker, intent.need) for state in self._between(intent.low, offset)):
                return
        askers = sorted({intent.asker for intent in intents})
        raise Violation(
            "changes_are_asked_for",
            f"{key} at {offset} of the metadata log: of {askers} nobody was allowed to ask for it",
        )
