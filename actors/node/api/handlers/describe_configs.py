"""DescribeConfigs (32), versions 1 to 4: settings of topics, brokers, groups and subscriptions to clients' metrics, where
each value comes from, and what it does.

Behaviour: a topic shows every topic setting; a broker, asked for by its own id, every broker setting, of `UNSHOWN` only
what is set; the empty broker name shows what is set for all brokers. Sensitive values are null. Settings that clients keep
of brokers and nobody reads are shown too: tools remove what they were shown only. Whoever asks for another broker's
settings must ask that broker. The same name is answered once, however often it stands there: an answer is hundreds of times
as long. A controller answers for itself and for topics, with its own defaults (KIP-919).

Version notes: 1 source and synonyms, 3 type and documentation, 4 flexible.

Errors: TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION,
INVALID_TOPIC_EXCEPTION, INVALID_REQUEST.
"""

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.authorization.resources import Operation
from actors.metadata.image import Image
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.handlers.metadata import legal
from actors.node.api.security.authorizer import Authorizer, config_error
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done, Held
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices, portions
from actors.settings.client_metrics import CLIENT_METRICS_CONFIGS
from actors.settings.groups import GROUP_CONFIGS
from actors.settings.kept import KEPT, scope
from actors.settings.keys import CLUSTER, ConfigKey, ConfigType
from actors.settings.node_config import NodeConfig
from actors.settings.nodes import BROKER_CONFIGS, BROKER_SYNONYMS, UNSHOWN
from actors.settings.topics import TOPIC_CONFIGS, inherited
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeConfigsRequest, DescribeConfigsResponse

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
INTERNAL = "internal."
"""Settings for tests begin so: shown where somebody has set them."""
LISTENER = "listener.name."
"""Settings of a single listener begin so, then its name follows."""
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT, DYNAMIC_CLIENT_METRICS, DYNAMIC_GROUP = (
    1, 2, 3, 4, 5, 7, 8,
)  # fmt: skip


class Node(NamedTuple):
    """The node that is asked."""

    id: int
    config: NodeConfig
    image: Image
    authorizer: Authorizer


class Value(NamedTuple):
    """One place where a setting has a value."""

    name: str
    text: str | None
    source: int


class ShownSetting(NamedTuple):
    """What is shown of a setting. `synonyms`: the places where it has a value, in their own units, the strongest first."""

    text: str | None
    source: int
    synonyms: list[Value]


@rpc(32, "DescribeConfigs", range(1, 5), listeners=(Listener.CLIENT,), lane=Lane.DATA, reads=Subject.METADATA)
@in_slices
def describe_configs(context: BrokerContext, request: "DescribeConfigsRequest", call: Call) -> Steps:
    """Settings of each resource, as a broker knows them."""
    reply = yield from _describe(
        Node(context.cache.me, context.config, context.cache.image, context.authorizer), request, call
    )
    return Done(reply)


@rpc(32, "DescribeConfigs", range(1, 5), listeners=(Listener.CONTROLLER, Listener.BRIDGE), lane=Lane.DATA)
@in_slices
def describe_on_controller(context: ControllerContext, request: "DescribeConfigsRequest", call: Call) -> Steps:
    """Settings of each resource, as a controller knows them. The active one answers when what it has written is
    committed."""
    role = context.role
    reply = yield from _describe(
        Node(context.config.controller_id, context.config, role.image, context.authorizer), request, call
    )
    return Held(role.image.next_offset - 1, reply) if role.active else Done(reply)


def _describe(node: Node, request: "DescribeConfigsRequest", call: Call) -> Generator[None, None, Any]:
    kind = message("DescribeConfigsResponse")
    pace = SliceCount()
    asked: dict[tuple[int, str, frozenset[str]], Any] = {}
    for one in request.resources:
        keys: set[str] = set()
        for some in portions(one.configuration_keys or ()):
            keys.update(some)
            if pace.over(len(some)):
                yield
        asked[one.resource_type, one.resource_name, frozenset(keys)] = one
        if pace.over():
            yield
    reply = kind()
    for (_, _, wanted), one in asked.items():
        result = yield from _result(node, kind, one, wanted, request, call, pace)
        reply.results.append(result)
        if pace.over():
            yield
    return reply


def _result(
    node: Node,
    kind: "type[DescribeConfigsResponse]",
    one: "DescribeConfigsRequest.DescribeConfigsResource",
    keys: frozenset[str],
    request: "DescribeConfigsRequest",
    call: Call,
    pace: SliceCount,
) -> Generator[None, None, Any]:
    result = kind.DescribeConfigsResult(
        error_message=None, resource_type=one.resource_type, resource_name=one.resource_name, configs=[]
    )
    code = config_error(node.authorizer, call, Operation.DESCRIBE_CONFIGS, one)
    if code is not ErrorCode.NONE:
        result.error_code, result.error_message = code, code.text
        return result
    error, rows = _rows(node, one, keys or None)
    if error is not None:
        result.error_code, result.error_message = error
        return result
    for row in rows:
        if row is not None:
            result.configs.append(_config(kind, *row, request, one.resource_type))
        if pace.over():
            yield
    return result


Row = tuple[ConfigKey, ShownSetting] | None
"""A setting with what is shown of it; None: it was looked at and is not shown."""


def _rows(node: Node, one: Any, keys: frozenset[str] | None) -> tuple[tuple[ErrorCode, str] | None, Iterable[Row]]:
    """The settings of a resource, put together one by one when they are asked for. `keys`: what is wanted; None: all."""
    image = node.image
    if one.resource_type == TOPIC:
        if image.topic(one.resource_name) < 0:
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal(one.resource_name) else ErrorCode.INVALID_TOPIC_EXCEPTION
            )
            return (code, code.text), ()
        return None, _topic_rows(node, image.config(TOPIC, one.resource_name), _chosen(TOPIC_CONFIGS, keys))
    if one.resource_type == BROKER:
        if one.resource_name == "":
            return None, _default_rows(image.config(BROKER, ""), _chosen(image.config(BROKER, ""), keys))
        if one.resource_name != str(node.id):
            text = f"this is node {node.id}; ask node {one.resource_name} for its own settings"
            return (ErrorCode.INVALID_REQUEST, text), ()
        places = (BROKER_CONFIGS, image.config(BROKER, ""), image.config(BROKER, one.resource_name))
        found = {name for place in places for name in _chosen(place, keys)}
        return None, _broker_rows(node, sorted(found))
    if one.resource_type == CLIENT_METRICS:
        if not one.resource_name:
            return (ErrorCode.INVALID_REQUEST, "the name of a subscription to clients' metrics must not be empty"), ()
        given = image.config(CLIENT_METRICS, one.resource_name)
        wanted = [key for name, key in CLIENT_METRICS_CONFIGS.items() if keys is None or name in keys]
        return None, ((key, _of_subscription(key, given)) for key in wanted)
    if one.resource_type == GROUP:
        if not one.resource_name:
            return (ErrorCode.INVALID_REQUEST, "the name of a group must not be empty"), ()
        given = image.config(GROUP, one.resource_name)
        wanted = [key for name, key in GROUP_CONFIGS.items() if keys is None or name in keys]
        return None, ((key, _first(_group_values(node, key, given))) for key in wanted)
    return (ErrorCode.INVALID_REQUEST, f"resources of type {one.resource_type} have no settings here"), ()


def _chosen(known: Mapping[str, object], keys: frozenset[str] | None) -> list[str]:
    """Names of those settings that are wanted, sorted. Costs as much as the shorter one of both has."""
    if keys is None:
        return sorted(known)
    few, many = (keys, known) if len(keys) < len(known) else (known, keys)
    return sorted(name for name in few if name in many)


def _topic_rows(node: Node, overrides: Mapping[str, str], names: Iterable[str]) -> Iterator[Row]:
    for name in names:
        key = TOPIC_CONFIGS[name]
        shown = _of_topic(node, key, overrides)
        yield (key, shown) if shown.synonyms or not name.startswith(INTERNAL) else None


def _default_rows(defaults: Mapping[str, str], names: Iterable[str]) -> Iterator[Row]:
    for name in names:
        key = _broker_key(name)
        yield (key, _first([Value(name, defaults[name], DYNAMIC_DEFAULT)])) if key.dynamic else None


def _broker_rows(node: Node, names: Iterable[str]) -> Iterator[Row]:
    for name in names:
        key = _broker_key(name)
        shown = _first(_broker_values(node, key))
        yield (key, shown) if key.name not in UNSHOWN or shown.source != DEFAULT else None


def _broker_key(name: str) -> ConfigKey:
    """A node's setting. One of a single listener is what the same one of all listeners is. One that nobody reads, which
    clients may keep, could be a secret."""
    key = BROKER_CONFIGS.get(name) or KEPT.get(name)
    if key is not None:
        return key._replace(dynamic=scope(name, key.dynamic))
    of_all = BROKER_CONFIGS.get(name.split(".", 3)[-1]) if name.startswith(LISTENER) else None
    if of_all is not None:
        return of_all._replace(name=name, default=None, dynamic=CLUSTER)
    return ConfigKey(name, ConfigType.UNKNOWN, None, None, "", CLUSTER, True, (), False)


def _first(values: list[Value]) -> ShownSetting:
    """The strongest value counts, and all are synonyms."""
    return ShownSetting(values[0].text, values[0].source, values) if values else ShownSetting(None, DEFAULT, values)


def _broker_values(node: Node, key: ConfigKey) -> list[Value]:
    """Every value of a node's setting, the strongest first: its own in the metadata, that of all brokers, that of its file,
    the default. Settings that say the same in another unit follow it. As with Apache Kafka one that has no value itself has
    no synonyms either."""
    name = key.name
    names = BROKER_SYNONYMS.get(name, (name,))
    if name.startswith(LISTENER):
        names = (name, name.split(".", 3)[-1])
    keys = [key if one == name else _broker_key(one) for one in names]
    values = []
    for resource, source in ((str(node.id), DYNAMIC_BROKER), ("", DYNAMIC_DEFAULT)):
        given = node.image.config(BROKER, resource)
        values += [Value(one.name, given[one.name], source) for one in keys if one.name in given and one.dynamic]
    file = node.config.given
    values += [Value(one.name, file[one.name], STATIC) for one in keys if one.name in file]
    values += [Value(one.name, one.text(one.default), DEFAULT) for one in keys if one.default is not None]
    return list(itertools.dropwhile(lambda value: value.name != name, values))


def _of_topic(node: Node, key: ConfigKey, overrides: Mapping[str, str]) -> ShownSetting:
    """A topic's setting: its own value, else the node's in the topic's unit. The origin is the first synonym's, which the
    node's settings in other units are only behind the one in milliseconds."""
    synonyms = [Value(key.name, overrides[key.name], DYNAMIC_TOPIC)] if key.name in overrides else []
    if key.synonyms:
        synonyms += _broker_values(node, BROKER_CONFIGS[key.synonyms[0]])
    text = overrides.get(key.name)
    if text is None:
        text = key.text(inherited(key, lambda name: _in_force(node, BROKER_CONFIGS[name])))
    return ShownSetting(text, synonyms[0].source if synonyms else DEFAULT, synonyms)


def _in_force(node: Node, key: ConfigKey) -> tuple[bool, Any]:
    """(whether a node's setting is given, its value)."""
    for value in _broker_values(node, key):
        if value.name == key.name and value.source != DEFAULT and key.allows(value.text or ""):
            return True, key.parse(value.text or "")
    return False, None


def _group_values(node: Node, key: ConfigKey, given: Mapping[str, str]) -> list[Value]:
    """Every value of a group's setting, the strongest first: its own, then the broker's."""
    values = [Value(key.name, given[key.name], DYNAMIC_GROUP)] if key.name in given else []
    if key.synonyms:
        return values + _broker_values(node, BROKER_CONFIGS[key.synonyms[0]])
    return [*values, Value(key.name, key.text(key.default), DEFAULT)]


def _of_subscription(key: ConfigKey, given: Mapping[str, str]) -> ShownSetting:
    if key.name in given:
        return _first([Value(key.name, given[key.name], DYNAMIC_CLIENT_METRICS)])
    return ShownSetting(key.text(key.default), DEFAULT, [])


def _config(
    kind: "type[DescribeConfigsResponse]",
    key: ConfigKey,
    shown: ShownSetting,
    request: "DescribeConfigsRequest",
    resource_type: int,
) -> "DescribeConfigsResponse.DescribeConfigsResourceResult":
    hidden = key.sensitive or key.type is ConfigType.PASSWORD
    return kind.DescribeConfigsResourceResult(
        name=key.name,
        value=None if hidden else shown.text,
        read_only=resource_type == BROKER and not key.dynamic,
        config_source=shown.source,
        is_sensitive=hidden,
        synonyms=[
            kind.DescribeConfigsSynonym(name=one.name, value=None if hidden else one.text, source=one.source)
            for one in shown.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=key.type,
        documentation=(key.doc or None) if request.include_documentation else None,
    )
