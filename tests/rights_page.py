"""The table of rights in docs/security.md: API by listener by who speaks, each cell as `perform` decides it.

`python -m tests.rights_page` writes it anew; `tests/unit/node/api/security/test_api_rights.py` compares.
"""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from actors.authorization.access_rules import Rule
from actors.authorization.decisions import RuleIndex
from actors.authorization.resources import CLUSTER_NAME, Operation, Pattern, Permission, Resource
from actors.authorization.rights import Checked, Right
from actors.node.api import handlers, table
from actors.node.api.perform import perform
from actors.node.api.security.authorizer import Authorizer
from actors.node.api.security.speakers import kind
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Api, Call, Listener
from actors.settings.node_config import node_config
from actors.wire import framing
from actors.wire.messages import message

PAGE = Path(__file__).parent.parent / "docs" / "security.md"
BEGIN, END = "<!-- rights: begin -->", "<!-- rights: end -->"
VOTERS, BROKERS = (1001, 1002), (1, 2)
LETTERS = {
    Listener.CLIENT: "C", Listener.INTER_BROKER: "B", Listener.CONTROL_PLANE: "P", Listener.CONTROLLER: "Q",
    Listener.BRIDGE: "Z",
}  # fmt: skip


class Speaker(NamedTuple):
    """Who asks, and through whom."""

    name: str
    principal: str
    own: int
    """The id for which it speaks rightly."""
    other: int


SPEAKERS = (
    Speaker("controller", "User:rayft-node-1001", 1001, 1002),
    Speaker("broker", "User:rayft-node-1", 1, 2),
    Speaker("newcomer", "User:rayft-node-7", 7, 1001),
    Speaker("shut out", "User:rayft-node-2", 2, 1),
    Speaker("user with the right", "User:alice", 1, 1001),
    Speaker("super user", "User:admin", 1, 1001),
    Speaker("nobody", "User:ANONYMOUS", 1, 1001),
)


class Place(NamedTuple):
    """A part of the page."""

    title: str
    served: dict[str, dict[str, Api]]
    """Letter of a listener -> the APIs that it serves, by name."""
    forwarded: bool = False


def rows(listener: Listener) -> dict[str, Api]:
    """Every API that a listener serves, of both families, pushed ones too, by name. Where both have it, as in the drafts."""
    handlers.load()
    found: dict[str, Api] = {}
    for family in reversed(table.FAMILIES):
        found |= {api.name: api for api in (table.TABLE[family][listener] | table.PUSHED[listener]).values()}
    return found


def authorizer(right: Right) -> tuple[Authorizer, list[str]]:
    """The judge of a cluster in which nodes are let in, but for one, and alice has the right of a row; and its log."""
    config = node_config(
        {
            "process.roles": "broker", "broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092",
            "controller.connect": "127.0.0.1:9093", "log.dirs": "data",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:rayft-node-1; User:rayft-node-2;User:rayft-node-7 ;User:admin",
        }
    )  # fmt: skip
    rules, lines = RuleIndex(), list[str]()
    for who, operation, permission in (
        ("User:alice", right.operation, Permission.ALLOW),
        *((("User:alice", Operation.CLUSTER_ACTION, Permission.ALLOW),) if right.door else ()),
        ("User:rayft-node-1001", Operation.CLUSTER_ACTION, Permission.ALLOW),
        ("User:rayft-node-2", Operation.CLUSTER_ACTION, Permission.DENY),
    ):
        rule = Rule(Resource.CLUSTER, CLUSTER_NAME, Pattern.LITERAL, who, "*", operation, permission)
        rules.put(rule, rule)
    told = SimpleNamespace(of_principal=lambda write, source, text: write(text))
    runtime: Any = SimpleNamespace(log=SimpleNamespace(info=lines.append, warning=lines.append), peer_lines=told)
    return Authorizer(runtime, config, lambda: rules), lines


def asked(name: str, id: int) -> Any:
    """A request that speaks for a node, if it can."""
    for prefix in ("v28:", ""):
        if prefix and not framing.is_draft(name):
            continue
        cls = message(f"{prefix}{name}Request")
        for field, values in (("PartitionData", ("leader_id", "replica_id")),):
            for value in values if name in ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch") else ():
                part = getattr(cls, field)
                if value in part.__slots__:
                    return cls(
                        topics=[cls.TopicData(topic_name="t", partitions=[part(partition_index=0, **{value: id})])]
                    )
        for value in ("voter_id", "broker_id", "controller_id", "replica_id"):
            if value in cls.__slots__:
                return cls(**{value: id})
        return cls()
    raise AssertionError(name)


def places() -> Iterable[Place]:
    """All that is served, and what an Envelope may hold."""
    for title, listeners in (
        ("On listeners of controllers", (Listener.CONTROLLER, Listener.BRIDGE)),
        ("On listeners of brokers", (Listener.CLIENT, Listener.INTER_BROKER, Listener.CONTROL_PLANE)),
    ):
        letters = ", ".join(f"{LETTERS[one]}: {one.value}" for one in listeners)
        yield Place(f"{title} ({letters})", {LETTERS[one]: rows(one) for one in listeners})
    enveloped = {api.name: api for api in table.ENVELOPED.values()}
    yield Place("In an Envelope of a registered broker, by whom it names (E)", {"E": enveloped}, forwarded=True)


def cell(api: Api, speaker: Speaker, *, forwarded: bool) -> str:
    """What becomes of a request."""
    right = api.right
    if right.checked is not Checked.WHOLE and not right.door:
        return {Checked.OPEN: "yes", Checked.EACH: "each", Checked.PASSED_ON: "passed on"}[right.checked]
    judge, _ = authorizer(right)
    context: Any = SimpleNamespace(authorizer=judge, kind=lambda id: kind(id, VOTERS, BROKERS.__contains__, late=False))
    place = 1, Listener.CONTROLLER, "L", api.key, 0, None
    call = Call(*place, "192.0.2.9", speaker.principal, memoryview(b""), forwarded=forwarded)
    row = api._replace(handler=lambda *_: Done("reached"))
    reached = Done("reached")
    may = [perform(context, row, asked(api.name, id), call) == reached for id in (speaker.own, speaker.other)]
    if may == [True, True] and right.checked is Checked.EACH:
        return "each"
    return {(True, True): "yes", (True, False): "own", (False, False): "no", (False, True): "OTHERS"}[may[0], may[1]]


def asks(right: Right) -> str:
    """The right of a row, in words."""
    if right.door:
        own = asks(right._replace(door=False))
        return "CLUSTER_ACTION CLUSTER" + ("" if own == "nothing" else f" and {own}")
    if right.checked is Checked.OPEN:
        return "nothing"
    if right.checked is Checked.PASSED_ON:
        return "as on the controller"
    what = f"{right.operation.name} {right.resource.name}"
    return what if right.also is None else f"{what} or {right.also.name}"


def lines() -> Iterable[str]:
    """The tables, a line each."""
    for title, served, forwarded in places():
        yield from ("", f"**{title}**", "")
        yield f"| API | where | asks for | {' | '.join(one.name for one in SPEAKERS)} |"
        yield f"|{'---|' * (len(SPEAKERS) + 3)}"
        for name in sorted({name for found in served.values() for name in found}):
            merged: dict[tuple[str, ...], str] = {}
            for letter, found in served.items():
                if name in found:
                    api = found[name]
                    cells = (asks(api.right), *(cell(api, one, forwarded=forwarded) for one in SPEAKERS))
                    merged[cells] = merged.get(cells, "") + letter
            for cells, where in merged.items():
                yield f"| {name} | {where} | {' | '.join(cells)} |"
    yield ""


def page() -> str:
    """docs/security.md with the table as it is now."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + "\n".join(lines()) + "\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page())
