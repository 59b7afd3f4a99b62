"""Which API is served where: one table, filled by the files of `api/handlers/`, one file an API.

Key of the table: metadata family, listener, API key. The drafts of KIP-631 use numbers that released Kafka gave to
other APIs (50, 51, 56), so a number alone says nothing: the family of the cluster and the listener decide, never the
body (reading A01).
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from actors.node.api.security.api_rights import ON_BROKERS, ON_CONTROLLERS, TO_CLIENTS, at_the_door
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Api, Call, Lane, Listener, Subject
from actors.wire.messages import Message

FAMILIES = ("drafts", "released")
DRAFTS = ("drafts",)
"""The families of an API whose number means another one in released Kafka."""
TABLE: dict[str, dict[Listener, dict[int, Api]]] = {
    family: {listener: {} for listener in Listener} for family in FAMILIES
}
ENVELOPED: dict[int, Api] = {}
"""API key -> what a controller does with a client's request in an Envelope. Its numbering is always that of released Kafka,
so it may hold an API whose number means another one on the controllers' own listener."""
BETWEEN_BROKERS = frozenset({50, 51})
"""Numbers that the drafts use on a separate inter-broker listener. What clients ask under them is served on their own
listeners only."""
CLIENTS_OWN: set[int] = set()
"""What a separate inter-broker listener serves to clients only: those that live beside the brokers use it too."""

PUSHED: dict[Listener, dict[int, Api]] = {listener: {} for listener in Listener}
"""What nodes serve besides where controllers push metadata (rayft.metadata.source=push, rayft.metadata.push.enable)."""

ON_A_CONTROLLER = frozenset({Listener.CONTROLLER, Listener.BRIDGE})

H = TypeVar("H", bound=Callable[[Any, Any, Call], Answer])


def rpc(
    key: int,
    name: str,
    versions: range,
    *,
    listeners: Sequence[Listener],
    lane: Lane = Lane.DATA,
    families: Sequence[str] = FAMILIES,
    advertised: range | None = None,
    reads: Subject = Subject.NOTHING,
    writes: Subject = Subject.NOTHING,
    pipelined: bool = False,
    enveloped: bool = False,
    pushed: bool = False,
    broken: Callable[[], Any] | None = None,
    carries_longer: Callable[[Any, int], bool] | None = None,
) -> Callable[[H], H]:
    """Register a handler for each of (`families`, `listeners`, `key`). `name` is the schema's: `CreateTopics` for
    `CreateTopicsRequest` and `CreateTopicsResponse`. `enveloped`: it is a client's request that brokers pass on, and that
    clients of brokers in ZooKeeper mode send to the controller itself. `pushed`: it is served only where controllers push
    metadata. `broken`, `carries_longer`: see `Api`. Registering a place twice is a mistake in the source: ValueError."""

    def register(handler: H) -> H:
        on_controllers = enveloped or set(listeners) <= ON_A_CONTROLLER
        to_clients = tuple(listeners) == (Listener.BRIDGE,)
        rights = ON_CONTROLLERS if on_controllers else ON_BROKERS
        right = TO_CLIENTS[name] if to_clients and name in TO_CLIENTS else rights[name]
        subjects = reads | Subject.LOGIN
        row = Api(
            key,
            name,
            versions,
            advertised or versions,
            lane,
            handler,
            subjects,
            writes,
            pipelined,
            right,
            broken,
            carries_longer,
        )
        if pushed:
            for listener in listeners:
                PUSHED[listener][key] = row
            return handler
        clients_own = Listener.CLIENT in listeners and Listener.INTER_BROKER not in listeners
        clients_own = clients_own and key not in BETWEEN_BROKERS
        if clients_own:
            CLIENTS_OWN.add(key)
        if enveloped:
            ENVELOPED[key] = row
        for family in families:
            more = (Listener.INTER_BROKER,) * clients_own + (Listener.BRIDGE,) * enveloped
            for listener in (*listeners, *more):
                rows = TABLE[family][listener]
                if key in rows:
                    raise ValueError(f"{family} {listener} {key} is served by {rows[key].name} already")
                guarded = family in DRAFTS and listener is Listener.CONTROLLER
                rows[key] = row._replace(right=at_the_door(name, right)) if guarded else row
        return handler

    return register


def controllers_own(
    key: int,
    name: str,
    versions: range,
    *,
    listeners: Sequence[Listener] = (Listener.CLIENT, Listener.INTER_BROKER),
    controllers: Sequence[Listener] = (Listener.CONTROLLER,),
    reads: Subject = Subject.NOTHING,
    writes: Subject = Subject.NOTHING,
    pipelined: bool = False,
    refuse: Callable[[Any, Any, Call], Answer | None] | None = None,
) -> Callable[[H], H]:
    """Register what the active controller does for clients, with both its rows: on `controllers` and in an Envelope the
    handler; on the `listeners` of a broker, which passes the request on (KIP-590). `refuse`: the answer to what neither a
    broker nor a controller takes; None: go on."""

    def register(handler: H) -> H:
        def decide(context: Any, request: Message, call: Call) -> Answer:
            refused = None if refuse is None else refuse(context, request, call)
            return handler(context, request, call) if refused is None else refused

        def forward(context: Any, request: Message, call: Call) -> Answer:
            refused = None if refuse is None else refuse(context, request, call)
            return Forward() if refused is None else refused

        rpc(key, name, versions, listeners=controllers, enveloped=True)(handler if refuse is None else decide)
        rpc(key, name, versions, listeners=listeners, reads=reads, writes=writes, pipelined=pipelined)(forward)
        return handler

    return register


def served(family: str, pushed: bool) -> dict[Listener, dict[int, Api]]:
    """The rows that a node serves. `pushed`: it tells, or is told, of metadata by LeaderAndIsr and its like."""
    rows = TABLE[family]
    return {listener: of | PUSHED[listener] for listener, of in rows.items()} if pushed else rows
