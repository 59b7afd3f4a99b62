"""Metadata (3), versions 0 to 13: brokers that are not fenced, and topics by name or id.

Behaviour: a topic that does not exist is made, if the request allows it and `auto.create.topics.enable` says so; the
answer waits a moment for it. One that would name a leader which may just have died waits a moment too
(`SuspectedLeaders`). Fenced brokers are left out soon (`RecentlyFenced`); their replicas stand in `offline_replicas` at
once. The controller that is named is this broker, which forwards what only a controller can do; or, beside brokers in
ZooKeeper mode, the one that drives them, which shows the same to their clients (`api/shown_cluster.py`).

Version notes: 1 null means all, 4 auto creation, 5 offline replicas, 8 authorized operations, 10 topic ids, 12 by id,
13 top-level error.

Errors: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION,
LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND; INVALID_REQUEST of every topic where an id stands in versions
10 and 11, or neither a name nor an id.
"""

import re
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.controller.partitions.topics import create_topics
from actors.metadata.topic_names import INTERNAL_TOPICS
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.security.authorizer import NOT_ASKED, cluster_operations
from actors.node.api.security.topic_rights import TopicRights
from actors.node.api.shown_cluster import NOT_DRIVING, ClusterView, shown_by_controller, with_controller
from actors.node.api.table import rpc
from actors.node.api.topics_shown import ShownTopics
from actors.node.roles.broker.metadata_cache import LEADERS_KEY, TOPICS_KEY
from actors.node.runtime.answers import Answer, Close, Done, Parked
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import ENTRIES_A_SLICE, SliceCount, Steps, go_on, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import encode, message
from fastpath.messages.encoder import Encoded

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import MetadataRequest, MetadataResponse

NULL_IS_ALL_FROM = 1
AUTO_CREATE_FROM = 4
IDS_FROM = 12
"""The field is there from version 10 on, but means something from here on only."""
TOP_ERROR_FROM = 13
CREATE_WAIT_MS = 1000
CREATED_MAX = 1000
"""Topics that one request makes. Of the others it says that they do not exist; the next request makes the next."""
NO_ID = bytes(16)
Wanted = list[tuple[str | None, bytes]] | None
"""Topics by name or id, each once; None: all."""
Found = int | tuple[str | None, bytes]
"""The row of a topic, or the name and the id by which none was found."""
SENSELESS: Wanted = [(None, NO_ID)]
"""Stands for a request that names a topic in a way that its version does not know."""
LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@rpc(
    3,
    "Metadata",
    range(0, 14),
    listeners=(Listener.CLIENT, Listener.INTER_BROKER),
    lane=Lane.DATA,
    reads=Subject.METADATA,
)
@in_slices
def metadata(context: BrokerContext, request: "MetadataRequest", call: Call) -> Steps:
    """Describe the cluster and the topics asked for."""
    if not context.availability.serving:
        return Close("this broker is fenced")
    wanted = yield from _wanted(request, call.api_version)
    if wanted is SENSELESS:
        return (yield from _refusal(request, call.api_version))
    missing = yield from _missing(context, request, call, wanted)
    if not missing:
        return _settled(context, request, call, wanted)
    context.topics.create(missing, call)
    return _Wait(context, request, call, wanted, missing, context.runtime.now.mono_ms + CREATE_WAIT_MS).again(False)


@rpc(3, "Metadata", range(0, 14), listeners=[Listener.BRIDGE], lane=Lane.DATA)
@in_slices
def on_a_controller(context: ControllerContext, request: "MetadataRequest", call: Call) -> Steps:
    """Describe the cluster to clients of brokers in ZooKeeper mode. A topic that does not exist is made: the next request
    finds it."""
    wanted = yield from _wanted(request, call.api_version)
    if wanted is SENSELESS:
        return (yield from _refusal(request, call.api_version))
    shown = shown_by_controller(context)
    if shown is None:
        return NOT_DRIVING
    missing = yield from _missing(shown, request, call, wanted)
    if missing:
        kind = message("CreateTopicsRequest")
        made = [kind.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in missing]
        context.role.submit(create_topics, kind(topics=made), call)
    return (yield from _reply(shown, request, call, wanted))


def _wanted(request: "MetadataRequest", version: int) -> Generator[None, None, Wanted]:
    """What a request asks for; SENSELESS: it cannot be said."""
    if request.topics is None or not (request.topics or version >= NULL_IS_ALL_FROM):
        return None
    named: dict[tuple[str | None, bytes], None] = {}
    pace = SliceCount()
    for one in request.topics:
        if _senseless(one.name, one.topic_id, version):
            return SENSELESS
        named[one.name, one.topic_id] = None
        if pace.over():
            yield
    return list(named)


def _missing(
    context: ClusterView, request: "MetadataRequest", call: Call, wanted: Wanted
) -> Generator[None, None, list[str]]:
    """Topics that a request is to make."""
    missing: list[str] = []
    if not wanted or not _makes(context, request, call.api_version):
        return missing
    pace = SliceCount()
    for name, topic_id in wanted:
        if pace.over():
            yield
        if name is not None and topic_id == NO_ID and context.cache.image.topic(name) < 0 and legal(name):
            if not _may_make(context, call, name):
                continue
            missing.append(name)
            if len(missing) == CREATED_MAX:
                break
    return missing


def _settled(
    context: BrokerContext, request: "MetadataRequest", call: Call, wanted: Wanted, room_until_ms: int = 0
) -> Answer:
    """The answer, once no leader in it is in doubt. `room_until_ms`: as of `_reply`."""
    now_ms = context.runtime.now.mono_ms
    until_ms = max(
        (until_ms for broker, until_ms in context.suspected_leaders.now(now_ms) if _names(context, broker, wanted)),
        default=0,
    )
    if until_ms <= now_ms:
        return go_on(_reply(context, request, call, wanted, room_until_ms))

    def again(expired: bool) -> Answer:
        if not context.availability.serving:
            return Close("this broker is fenced")
        if expired:
            return go_on(_reply(context, request, call, wanted, room_until_ms))
        return _settled(context, request, call, wanted, room_until_ms)

    return Parked([LEADERS_KEY], until_ms, again)


def _names(context: BrokerContext, leader: int, wanted: Wanted) -> bool:
    """Whether the answer would name that leader. Of a long answer it is assumed."""
    image = context.cache.image
    if wanted is None or len(wanted) > ENTRIES_A_SLICE:
        return image.counts(leader)[1] > 0
    rows = (image.topic_by_id(topic_id) if topic_id != NO_ID else image.topic(name or "") for name, topic_id in wanted)
    return any(image.leader(part) == leader for row in rows if row >= 0 for part in image.topic_partitions(row))


def _senseless(name: str | None, topic_id: bytes, version: int) -> bool:
    return (name is None or topic_id != NO_ID) if version < IDS_FROM else (name is None and topic_id == NO_ID)


def _refusal(request: "MetadataRequest", version: int) -> Steps:
    kind = message("MetadataResponse")
    code = ErrorCode.INVALID_REQUEST
    reply = kind(brokers=[], topics=[], error_code=code if version >= TOP_ERROR_FROM else ErrorCode.NONE)
    pace = SliceCount()
    for one in request.topics or ():
        reply.topics.append(
            kind.MetadataResponseTopic(error_code=code, name=one.name or "", topic_id=one.topic_id, partitions=[])
        )
        if pace.over():
            yield
    return Done(reply)


class _Wait:
    """A request whose topics are being made."""

    def __init__(
        self,
        context: BrokerContext,
        request: "MetadataRequest",
        call: Call,
        wanted: Wanted,
        missing: list[str],
        deadline_ms: int,
    ) -> None:
        self._context, self._request, self._call = context, request, call
        self._wanted, self._missing, self._deadline_ms = wanted, missing, deadline_ms

    def again(self, expired: bool) -> Answer:
        """Answer when the topics are there, or their creation has ended otherwise, or the time is over."""
        context = self._context
        if not context.availability.serving:
            return Close("this broker is fenced")
        waiting = any(context.cache.image.topic(name) < 0 and name in context.topics.creating for name in self._missing)
        if waiting and not expired:
            return Parked([TOPICS_KEY], self._deadline_ms, self.again)
        return go_on(_reply(context, self._request, self._call, self._wanted))


def legal(name: str) -> bool:
    """Whether a topic may be called so."""
    return LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


def _reply(
    context: ClusterView, request: "MetadataRequest", call: Call, wanted: Wanted, room_until_ms: int = 0
) -> Steps:
    """The brokers, and the topics asked for. `room_until_ms`: until when the request waits for room for a list of all
    topics, if it has waited; else 0."""
    kind = message("MetadataResponse")
    version = call.api_version
    brokers = []
    present = context.cache.image.unfenced_brokers()
    lingering = context.recently_fenced.lingering(context.runtime.now.mono_ms)
    shown, controller = with_controller(context, call.listener_name, (*present, *lingering))
    for broker in sorted(shown, key=lambda broker: broker.id):
        endpoint = next((one for one in broker.endpoints if one.name == call.listener_name), None)
        if endpoint is not None:
            brokers.append(
                kind.MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            )
    reply: Any = kind(brokers=brokers, cluster_id=context.cluster_id, controller_id=controller, topics=[])
    if version >= 8 and request.include_cluster_authorized_operations:
        reply.cluster_authorized_operations = cluster_operations(context.authorizer, call)
    asked = version >= 8 and request.include_topic_authorized_operations
    if wanted is None:
        every = yield from _every(context, call, asked)
        if every is None:
            assert context.topic_lists is not None, "only its lists leave no room"
            return context.topic_lists.wait(partial(_once_more, context, request, call, wanted), room_until_ms)
        reply.topics = every
        return Done(reply)
    topics, pace = ShownTopics(context, call, version), SliceCount()
    judged = context.authorizer.looked(Resource.TOPIC) if asked else int(context.authorizer.enabled)
    for name, topic_id in wanted:
        found = _found(context.cache.image, name, topic_id)
        denied = _denied(context, kind, request, call, found, name is None) if context.authorizer.enabled else None
        if denied is None and isinstance(found, int):
            text = context.cache.image.topic_name(found)
            operations = context.authorizer.operations(call, Resource.TOPIC, text) if asked else NOT_ASKED
            yield from topics.topic(text, found, operations, pace)
        else:
            topics.put(encode(denied or _absent(kind, *found), version))  # type: ignore[misc]
        if pace.over(topics.looked() + judged):
            yield
    reply.topics = topics.encoded()
    return Done(reply)


def _once_more(
    context: ClusterView, request: "MetadataRequest", call: Call, wanted: Wanted, room_until_ms: int
) -> Answer:
    """The answer, now that there is room for a list of all topics."""
    assert isinstance(context, BrokerContext), "only brokers share lists"
    if not context.availability.serving:
        return Close("this broker is fenced")
    return _settled(context, request, call, wanted, room_until_ms)


def _every(context: ClusterView, call: Call, asked: bool) -> Generator[None, None, Encoded | None]:
    """All topics that are shown, written together with others who ask for the same. None: there is no room for them yet."""
    rights, version, lists = TopicRights(context.authorizer, call, asked), call.api_version, context.topic_lists

    def begin() -> tuple[Generator[None, None, Encoded], Callable[[], int]]:
        shown = ShownTopics(context, call, version)
        return _written(shown, rights), lambda: shown.size

    if lists is None:
        return (yield from begin()[0])
    me = call.principal, call.client_host
    while True:
        image = context.cache.image
        credentials = image.credentials
        key = (version, call.listener_name, credentials, rights.shared_by(image.order) or object())
        found = lists.find((image.changes, frozenset(context.cluster.unfenced)), key, me, begin)
        if found is None:
            return None
        # What another one writes is by his rights: these are ours no longer when a rule has changed.
        while found.writer == me or context.cache.image.credentials == credentials:
            if found.whole is not None:
                lists.reads(call.connection, found)
                return found.whole
            if not lists.go_on(found):
                return None
            if found.whole is None:
                yield


def _written(shown: ShownTopics, rights: TopicRights) -> Generator[None, None, Encoded]:
    yield from shown.every(rights, SliceCount())
    return shown.encoded()


def _makes(context: ClusterView, request: "MetadataRequest", version: int) -> bool:
    """Whether topics that do not exist are to be made."""
    wanted: bool = version < AUTO_CREATE_FROM or request.allow_auto_topic_creation
    return wanted and context.config.value("auto.create.topics.enable")  # type: ignore[no-any-return]


def _may_make(context: ClusterView, call: Call, name: str) -> bool:
    may = context.authorizer
    return may.shown(call, Operation.DESCRIBE, Resource.TOPIC, name) and (
        may.shown(call, Operation.CREATE, Resource.CLUSTER) or may.allowed(call, Operation.CREATE, Resource.TOPIC, name)
    )


def _denied(
    context: ClusterView,
    kind: "type[MetadataResponse]",
    request: "MetadataRequest",
    call: Call,
    found: Found,
    by_id: bool,
) -> Any | None:
    """What is said of a topic that the principal may not describe. None: it may. A principal that may not describe a topic
    does not learn whether it exists, nor which name an id has."""
    image = context.cache.image
    if isinstance(found, int):
        name, topic_id = image.topic_name(found), image.topic_id(found) or NO_ID
    else:
        given, topic_id = found
        if given is None:
            return None
        name = given
    if not context.authorizer.allowed(call, Operation.DESCRIBE, Resource.TOPIC, name):
        if by_id:
            return kind.MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        return kind.MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, is_internal=name in INTERNAL_TOPICS
        )
    if not isinstance(found, int) and _makes(context, request, call.api_version) and not _may_make(context, call, name):
        return kind.MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    return None


def _found(image: Any, name: str | None, topic_id: bytes) -> Found:
    """The row of a topic, or what it was asked by if there is none."""
    row = image.topic_by_id(topic_id) if topic_id != NO_ID else image.topic(name or "")
    return row if row >= 0 else (name, topic_id)


def _absent(
    kind: "type[MetadataResponse]", name: str | None, topic_id: bytes
) -> "MetadataResponse.MetadataResponseTopic":
    if topic_id != NO_ID:
        return kind.MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal(name or "") else ErrorCode.INVALID_TOPIC_EXCEPTION
    return kind.MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)
