"""AlterConfigs (33) and IncrementalAlterConfigs (44): settings of topics and brokers, checked before they are written.

This file alone decides which change of a setting is legal, and what a topic's settings are in effect. Rules:

1. Resources are checked one by one. All changes of a resource are made, or none.
2. A topic's value must be one that the topic could be created with. A broker's value, for one broker or for all (the
   resource ""), must be of a setting that is read at run time. Subscriptions to clients' metrics (KIP-714) are stored,
   but nothing reads them.
   A group's values are checked by `groups.py`.
3. Values are stored as text, as they came. Null removes a setting (A35), whatever its name and whether it was set.
4. A broker's settings may have any name, so their number has bounds. So has the number of resources: a broker must be
   registered, or have settings already; there may be SUBSCRIPTIONS_MAX subscriptions. A broker is named by its id as
   numbers are written: what is set under 01 is never read.
5. What a request may change is bounded in number and in bytes, since its changes are one batch.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from actors.controller.state import Result, State
from actors.metadata.ops import ConfigSet
from actors.metadata.topic_names import INTERNAL_TOPICS, name_error
from actors.ports import Now, Random
from actors.settings.client_metrics import CLIENT_METRICS_CONFIGS
from actors.settings.groups import error as group_error
from actors.settings.kept import KEPT, ONE_BROKER, scope
from actors.settings.keys import ConfigError, ConfigKey, ConfigType
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.properties import ALIASES
from actors.settings.topics import TOPIC_CONFIGS, UNCLEAN
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterConfigsRequest, CreateTopicsResponse, IncrementalAlterConfigsRequest

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Resource types of settings, as numbered on the wire (A35)."""
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG = 1, 3
VALUE_BYTES_MAX = 0x7FFF
SETTINGS_MAX = 1000
"""The most settings of one resource: the image keeps a copy of all of them for each change that is not committed."""
CHANGES_MAX = 10_000
"""The most changes in one request, because they become one record batch. Apache Kafka has the same bound."""
CHANGED_BYTES_MAX = 4 << 20
"""The most bytes of these changes, with the names that each record repeats."""
SUBSCRIPTIONS_MAX = 100
SUBSCRIPTION_CHARACTERS_MAX = 249
"""The longest name of a subscription: as long as a topic's name may be."""
GROUPS_MAX = 10_000
"""The most groups with settings of their own."""
GROUP_CHARACTERS_MAX = 249
BROKER_DIGITS_MAX = 10
"""The bound on a broker id's digits: every record of a setting repeats the name of its resource."""
RESOURCES_MAX = {
    CLIENT_METRICS: (
        SUBSCRIPTIONS_MAX,
        f"There may be {SUBSCRIPTIONS_MAX} subscriptions to clients' metrics at most.",
    ),
    GROUP: (GROUPS_MAX, f"{GROUPS_MAX} groups may have settings of their own at most."),
}
"""How many resources of a type may have settings, and what is said of one more."""
SECURITY = ("ssl.", "sasl.")
"""The beginnings of a broker's settings that are never set at run time for all of its listeners at once."""
LISTENER = "listener.name."
"""The beginning of the settings of a single listener."""


class ChangeRefused(Exception):
    """A request or a part of it is refused: error code and sentence."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


# ---- topics


def topic_config_error(configs: Mapping[str, str | None]) -> str | None:
    """Why these settings are illegal for a topic; None: they are legal."""
    for name, value in configs.items():
        key = TOPIC_CONFIGS.get(name)
        if key is None:
            return f"Unknown topic config name: {name}"
        if value is None:
            return f"Null value not supported for topic configs: {name}"
        try:
            key.parse(value)
        except ConfigError as error:
            return str(error)
    return _lag_error(configs)


def _lag_error(configs: Mapping[str, str | None]) -> str | None:
    """Why the compaction lags among a topic's settings contradict each other; None: they do not."""
    names = ("min.compaction.lag.ms", "max.compaction.lag.ms")
    texts = [(TOPIC_CONFIGS[name], configs.get(name)) for name in names]
    low, high = (key.default if text is None else key.parse(text) for key, text in texts)
    return f"conflict topic config setting {names[0]} ({low}) > {names[1]} ({high})" if low > high else None


def effective_topic_configs(
    state: State, overrides: Mapping[str, str | None]
) -> list["CreateTopicsResponse.CreatableTopicConfigs"]:
    """Every setting of a new topic, as CreateTopics answers it. Internal settings are left out, except those that the
    topic sets. The list may be shared, so the caller must not change it."""
    soft = state.soft
    if soft.topic_configs is None:
        kind = message("CreateTopicsResponse").CreatableTopicConfigs
        soft.topic_configs = [
            kind(name=name, value=value, read_only=False, config_source=source, is_sensitive=False)
            for name, value, source in state.options.topic_defaults
        ]
    dynamic = {name: (value, DYNAMIC_DEFAULT_BROKER_CONFIG) for name, value in _for_all_brokers(state)}
    dynamic |= {name: (value, DYNAMIC_TOPIC_CONFIG) for name, value in overrides.items()}
    if not dynamic:
        return soft.topic_configs
    kind = message("CreateTopicsResponse").CreatableTopicConfigs
    shown = {entry.name: entry for entry in soft.topic_configs}
    shown |= {
        name: kind(name=name, value=value, read_only=False, config_source=source, is_sensitive=False)
        for name, (value, source) in dynamic.items()
        if name in shown or name in overrides
    }
    return [shown[name] for name in sorted(shown)]


def _for_all_brokers(state: State) -> Iterator[tuple[str, str | None]]:
    """Topic settings, with their values, that follow from what is set for all brokers at run time."""
    given = state.image.config(BROKER, "")
    if given:
        for name, key in TOPIC_CONFIGS.items():
            text = given.get(key.synonyms[0]) if key.synonyms else None
            if text is not None and (brokers := BROKER_CONFIGS[key.synonyms[0]]).allows(text):
                yield name, key.text(brokers.parse(text))


def unclean_allowed(state: State, topic: int) -> bool:
    """Whether a topic may get a leader that lacks acknowledged records, by the setting of the topic, of all brokers, or
    of this node."""
    image = state.image
    for resource in ((TOPIC, image.topic_name(topic)), (BROKER, "")):
        value = image.config(*resource).get(UNCLEAN)
        if value is not None:
            return value.strip().lower() == "true"
    return state.options.unclean_default


def without_effect(op: Any) -> str | None:
    """The warning for a setting of a topic or a broker that is accepted and does nothing; else None."""
    if isinstance(op, ConfigSet) and op.resource_type == BROKER and op.value is not None:
        key = _broker_key(op.name)
        if key is None or key.dynamic != ONE_BROKER or op.name in KEPT:
            return None
        return (
            f"{op.name} of broker {op.resource_name} is kept and shown and takes no effect: write it into the broker's "
            f"properties file, and start it again"
        )
    if (
        not isinstance(op, ConfigSet)
        or op.resource_type != TOPIC
        or op.value is None
        or op.resource_name in INTERNAL_TOPICS
    ):
        return None
    key = TOPIC_CONFIGS[op.name]
    value = key.parse(op.value)
    if not key.effect and value != key.default:
        why = key.doc[0].lower() + key.doc[1:].rstrip(".")
    else:
        return None
    return f"{op.name}={op.value} of topic {op.resource_name} is {why}"


# ---- operations


def alter_configs(state: State, request: "AlterConfigsRequest", now: Now, random: Random) -> Result:
    """Carry out an AlterConfigsRequest: settings that a resource does not name are removed. Errors: as
    incremental_alter_configs."""
    return _alter(state, request, message("AlterConfigsResponse"), _replaced)


def incremental_alter_configs(
    state: State, request: "IncrementalAlterConfigsRequest", now: Now, random: Random
) -> Result:
    """Carry out an IncrementalAlterConfigsRequest. Errors by resource: 3, 40 INVALID_CONFIG, 42 INVALID_REQUEST, 17, 44
    POLICY_VIOLATION, 102 BROKER_ID_NOT_REGISTERED."""
    return _alter(state, request, message("IncrementalAlterConfigsResponse"), _changed)


def _alter(
    state: State,
    request: "AlterConfigsRequest | IncrementalAlterConfigsRequest",
    reply_kind: Any,
    wanted: Callable[[dict[str, str], Any], dict[str, str | None]],
) -> Result:
    reply = reply_kind()
    ops: list[Any] = []
    named = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    times = Counter(named)
    added: Counter[int] = Counter()
    bytes_left = CHANGED_BYTES_MAX
    resources: list[Any] = list(request.resources)
    for resource, key in zip(resources, named, strict=True):
        code, text = ErrorCode.NONE, None
        try:
            if times[key] > 1:
                raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _check_resource(state, *key)
            present = state.image.config(*key)
            if not present and key[0] in RESOURCES_MAX:
                added[key[0]] += 1
                _check_room(state, key[0], added[key[0]])
            changes = wanted(present, resource.configs)
            _check_changes(state, key, present, changes)
            sets = [ConfigSet(*key, name, value) for name, value in changes.items() if present.get(name) != value]
            size = sum(len(key[1]) + len(op.name.encode()) + len((op.value or "").encode()) for op in sets)
            _check_sizes(key, present, sets, CHANGES_MAX - len(ops), size <= bytes_left)
            bytes_left -= size
            ops += sets
        except ChangeRefused as refused:
            code, text = refused.code, refused.text
        reply.responses.append(
            reply_kind.AlterConfigsResourceResponse(
                error_code=int(code), error_message=text, resource_type=key[0], resource_name=key[1]
            )
        )
    return Result(() if request.validate_only else ops, reply)


def _check_resource(state: State, kind: int, name: str) -> None:
    if kind == TOPIC:
        if not name:
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        illegal = name_error(name)
        if illegal is not None:
            raise ChangeRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        if state.image.topic(name) < 0:
            raise ChangeRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif kind == BROKER:
        if name and not (name.isascii() and name.isdigit() and len(name) <= BROKER_DIGITS_MAX):
            raise ChangeRefused(
                ErrorCode.INVALID_REQUEST, f"The name of a broker resource is a broker id or empty, not '{name}'."
            )
        if state.image.config(kind, name):
            return
        if name and str(int(name)) != name:
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, f"Broker {int(name)} is named '{int(name)}', not '{name}'.")
        if name and not _is_node(state, int(name)):
            raise ChangeRefused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {name} found.")
    elif kind == CLIENT_METRICS:
        _check_subscription(name)
    elif kind == GROUP:
        _check_group(name)
    else:
        raise ChangeRefused(
            ErrorCode.INVALID_REQUEST, f"Resource type {kind} has no settings that the controller keeps."
        )


def _check_group(name: str) -> None:
    if not name:
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    if len(name) > GROUP_CHARACTERS_MAX:
        raise ChangeRefused(
            ErrorCode.INVALID_REQUEST,
            f"The name of a group with settings of its own has {GROUP_CHARACTERS_MAX} characters at most.",
        )


def _is_node(state: State, id: int) -> bool:
    return id in state.controllers or state.image.is_registered(id)


def _check_subscription(name: str) -> None:
    if not name:
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    if len(name) > SUBSCRIPTION_CHARACTERS_MAX:
        raise ChangeRefused(
            ErrorCode.INVALID_REQUEST,
            f"The name of a subscription has {SUBSCRIPTION_CHARACTERS_MAX} characters at most.",
        )


def _check_room(state: State, kind: int, added: int) -> None:
    """Raise ChangeRefused if the `added` resources of a type would be too many: those which the request names and which have
    no settings yet."""
    most, text = RESOURCES_MAX[kind]
    if state.image.count(kind) + added > most:
        raise ChangeRefused(ErrorCode.POLICY_VIOLATION, text)


def _replaced(present: dict[str, str], configs: Any) -> dict[str, str | None]:
    changes: dict[str, str | None] = dict.fromkeys(present)
    _check_once(configs)
    for config in configs:
        if config.value is None:
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {config.name}")
        changes[config.name] = config.value
    return changes


def _changed(present: dict[str, str], configs: Any) -> dict[str, str | None]:
    _check_once(configs)
    changes: dict[str, str | None] = {}
    for config in configs:
        if config.config_operation == DELETE:
            changes[config.name] = None
            continue
        if config.config_operation not in (SET, APPEND, SUBTRACT):
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, f"Unknown config operation {config.config_operation}.")
        if config.value is None:
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {config.name}")
        changes[config.name] = config.value if config.config_operation == SET else _listed(present, config)
    return changes


def _check_once(configs: Any) -> None:
    names = [config.name for config in configs]
    if len(set(names)) != len(names):
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Each config must appear at most once.")


def _listed(present: dict[str, str], config: "IncrementalAlterConfigsRequest.AlterableConfig") -> str:
    key = TOPIC_CONFIGS.get(config.name) or BROKER_CONFIGS.get(config.name)
    if key is None or key.type is not ConfigType.LIST:
        raise ChangeRefused(
            ErrorCode.INVALID_CONFIG, f"Can't append to or subtract from {config.name}: its type is not LIST."
        )
    text = present.get(config.name)
    if text is None:
        text = key.text(key.default) or ""
    items = [item.strip() for item in text.split(",") if item.strip()]
    named = [item.strip() for item in (config.value or "").split(",") if item.strip()]
    if config.config_operation == APPEND:
        known = set(items)
        items += [item for item in dict.fromkeys(named) if item not in known]
    else:
        gone = set(named)
        items = [item for item in items if item not in gone]
    return ",".join(items)


def _check_changes(
    state: State, resource: tuple[int, str], present: Mapping[str, str], changes: Mapping[str, str | None]
) -> None:
    for name, value in changes.items():
        if value is not None and len(value.encode()) > VALUE_BYTES_MAX:
            raise ChangeRefused(
                ErrorCode.INVALID_CONFIG,
                f"The value of {name} would be longer than {VALUE_BYTES_MAX} bytes, which no record can hold.",
            )
    if resource[0] == TOPIC:
        error = topic_config_error({name: value for name, value in changes.items() if value is not None})
        error = error or _lag_error({**present, **changes})
        if error is not None:
            raise ChangeRefused(ErrorCode.INVALID_CONFIG, error)
        return
    if resource[0] == CLIENT_METRICS:
        _check_subscribed(changes)
        return
    if resource[0] == GROUP:
        wrong = group_error(state.options.group_limits, changes, present)
        if wrong is not None:
            raise ChangeRefused(ErrorCode.INVALID_CONFIG, wrong)
        return
    for name, value in changes.items():
        key = _broker_key(name)
        if (
            value is not None
            and not resource[1]
            and name.startswith(LISTENER)
            and any(f".{part}" in name for part in SECURITY)
        ):
            text = f"Cannot update these configs at default cluster level: [{name}]. Set it for each broker."
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
        if key is None or value is None:
            # Clients may keep settings of their own here, as with Apache Kafka. Nothing reads them.
            continue
        _check_broker_config(key, value, resource[1])


def _broker_key(name: str) -> ConfigKey | None:
    """The entry of a node's setting, or of one of Apache Kafka's that is kept; `dynamic` says whether it can be changed
    for one broker or for all. None: neither."""
    key = BROKER_CONFIGS.get(ALIASES.get(name, name))
    if key is None:
        return KEPT.get(name)
    of_one = scope(name, key.dynamic) == ONE_BROKER
    return key._replace(dynamic=ONE_BROKER, validator=None, effect=False) if of_one else key


def _check_subscribed(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            continue
        key = CLIENT_METRICS_CONFIGS.get(name)
        if key is None:
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
        try:
            key.parse(value)
        except ConfigError as error:
            number = key.type is ConfigType.INT and key._replace(validator=None).allows(value)
            raise ChangeRefused(ErrorCode.INVALID_REQUEST if number else ErrorCode.INVALID_CONFIG, str(error)) from None


def _check_sizes(
    resource: tuple[int, str], present: Mapping[str, str], sets: list[ConfigSet], sets_max: int, fits: bool
) -> None:
    if len(sets) > sets_max:
        raise ChangeRefused(ErrorCode.POLICY_VIOLATION, f"One request may change {CHANGES_MAX} settings at most.")
    if not fits:
        text = f"One request may change settings of {CHANGED_BYTES_MAX} bytes at most: ask for the rest in another one."
        raise ChangeRefused(ErrorCode.POLICY_VIOLATION, text)
    after = present.keys() | {op.name for op in sets if op.value is not None}
    after -= {op.name for op in sets if op.value is None}
    if len(after) > max(SETTINGS_MAX, len(present)):
        raise ChangeRefused(
            ErrorCode.POLICY_VIOLATION, f"The resource '{resource[1]}' may have {SETTINGS_MAX} settings at most."
        )


def _check_broker_config(key: ConfigKey, value: str, broker: str) -> None:
    if key.dynamic == ONE_BROKER and not broker:
        text = f"Cannot update these configs at default cluster level: [{key.name}]. Set it for each broker."
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    if not key.dynamic:
        why = (
            "it is read at start only. Change the node's properties file and start it again"
            if key.effect
            else "it has no effect here"
        )
        text = f"Cannot update these configs dynamically: [{key.name}], since {why}."
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    try:
        key.parse(value)
    except ConfigError as error:
        raise ChangeRefused(ErrorCode.INVALID_CONFIG, str(error)) from None
