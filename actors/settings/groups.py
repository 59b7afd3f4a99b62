"""Settings of one group by name (KIP-848, KIP-932, KIP-1071), and the node's settings that bound them.

This file alone decides which settings a group of its own may have (`kafka-configs.sh --group`), and which value of one
counts. Names, types, defaults and bounds are those of Apache Kafka 4.3. Rules:

1. A setting that a group does not have counts as the node has it, in the setting that is its synonym; those without a
   synonym have a default.
2. A value outside the node's bounds is refused when it is set. One that is outside since the bounds were moved counts as the
   nearest value within them.
3. A session is longer than the interval between two heartbeats. Where a group's settings are not so since the node's have
   changed, the node's count.
4. A group has one table whatever its kind is: a group that does not exist yet may be given settings.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actors.settings.keys import BOOLEAN, INT, STRING, Check, ConfigError, ConfigKey, ConfigType, at_least, one_of

GROUP_RESOURCE = 32
GROUP = "group"
Value = Callable[[str], Any]
"""A function that returns the typed value of a node's setting, by name."""

_DURATION = re.compile(
    r"\+?P(?:(\d+)D)?(?:T(?=[\d])(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{0,9}))?S)?)?", re.ASCII | re.IGNORECASE
)
_BY_DURATION = "by_duration:"


def duration_ms(text: str) -> int | None:
    """A duration that is not negative, in ISO 8601's words (PnDTnHnMn.nS), in milliseconds; None: the text is no
    duration."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    return (
        ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + int((found[5] or "0").ljust(9, "0")) // 10**6
    )


class OffsetReset(NamedTuple):
    """The place where a share partition begins (`share.auto.offset.reset`). `ago_ms`: of by_duration; None for the
    others."""

    name: str
    ago_ms: int | None


def offset_reset(text: str) -> OffsetReset | None:
    """The place that a value of `share.auto.offset.reset` means; None: it is no such value."""
    if text in ("latest", "earliest"):
        return OffsetReset(text, None)
    ago_ms = duration_ms(text[len(_BY_DURATION) :]) if text.startswith(_BY_DURATION) else None
    return None if ago_ms is None else OffsetReset("by_duration", ago_ms)


_OFFSET_RESET = Check(
    "latest, earliest, or by_duration: and a duration as PnDTnHnMn.nS", lambda value: offset_reset(value) is not None
)


class GroupSetting(NamedTuple):
    """A setting of a group. `low`, `high`: the node's settings that are its least and its largest value, "" for
    none."""

    key: ConfigKey
    low: str
    high: str


def _row(
    name: str,
    type: ConfigType,
    default: Any,
    check: Check | None,
    doc: str,
    synonym: str = "",
    low: str = "",
    high: str = "",
) -> GroupSetting:
    return GroupSetting(
        ConfigKey(name, type, default, check, doc, GROUP, False, (synonym,) if synonym else (), True), low, high
    )


_SESSION = "When a member that is not heard of is removed."
_HEARTBEAT = "How often members send heartbeats."
_ASSIGNMENT = "Least time between two target assignments."

ROWS: dict[str, GroupSetting] = {
    row.key.name: row
    for row in (
        _row("consumer.session.timeout.ms", INT, 45000, at_least(1), _SESSION, "group.consumer.session.timeout.ms",
             "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
        _row("consumer.heartbeat.interval.ms", INT, 5000, at_least(1), _HEARTBEAT, "group.consumer.heartbeat.interval.ms",
             "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
        _row("consumer.assignment.interval.ms", INT, 1000, at_least(0), _ASSIGNMENT, "group.consumer.assignment.interval.ms",
             "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
        _row("share.session.timeout.ms", INT, 45000, at_least(1), _SESSION, "group.share.session.timeout.ms",
             "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"),
        _row("share.heartbeat.interval.ms", INT, 5000, at_least(1), _HEARTBEAT, "group.share.heartbeat.interval.ms",
             "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
        _row("share.assignment.interval.ms", INT, 1000, at_least(0), _ASSIGNMENT, "group.share.assignment.interval.ms",
             "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
        _row("share.record.lock.duration.ms", INT, 30000, at_least(1000), "How long a record stays acquired by one member.",
             "group.share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms",
             "group.share.max.record.lock.duration.ms"),
        _row("share.delivery.count.limit", INT, 5, at_least(2), "How often a record is delivered before it is given up.",
             "group.share.delivery.count.limit", "group.share.min.delivery.count.limit",
             "group.share.max.delivery.count.limit"),
        _row("share.partition.max.record.locks", INT, 2000, at_least(100),
             "Records of a share partition that may be acquired at a time.", "group.share.partition.max.record.locks",
             "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"),
        _row("share.auto.offset.reset", STRING, "latest", _OFFSET_RESET, "Where a new share partition begins."),
        _row("share.isolation.level", STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted"),
             "Whether records of transactions that are open or were aborted are delivered."),
        _row("share.renew.acknowledge.enable", BOOLEAN, True, None, "Whether a member may renew its lock of a record."),
        _row("streams.session.timeout.ms", INT, 45000, at_least(1), _SESSION, "group.streams.session.timeout.ms",
             "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"),
        _row("streams.heartbeat.interval.ms", INT, 5000, at_least(1), _HEARTBEAT, "group.streams.heartbeat.interval.ms",
             "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
        _row("streams.assignment.interval.ms", INT, 1000, at_least(0), _ASSIGNMENT, "group.streams.assignment.interval.ms",
             "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"),
        _row("streams.num.standby.replicas", INT, 0, at_least(0), "Standby tasks of each stateful task.",
             "group.streams.num.standby.replicas", "", "group.streams.max.standby.replicas"),
        _row("streams.initial.rebalance.delay.ms", INT, 3000, at_least(0), "Wait for more members of a new group.",
             "group.streams.initial.rebalance.delay.ms"),
    )
}  # fmt: skip
GROUP_CONFIGS: dict[str, ConfigKey] = {name: row.key for name, row in ROWS.items()}
"""The settings of a group by name, each with the node's setting that it stands in the place of, if there is one."""

PAIRS = tuple(
    (f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms") for kind in ("consumer", "share", "streams")
)
"""Pairs of settings of which the first is less than the second."""


DYNAMIC = tuple(f"group.{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams"))
"""The settings of a node about groups that may be changed while it runs. It may then be outside of the node's bounds,
and counts as far as they allow (`effective`), as with Apache Kafka."""


class GroupSettingLimits(NamedTuple):
    """The bounds that a node sets for a group's setting. `usual`: its value where a group has none. Bounds are None
    where there are none; with them come the names of the node's settings that they are."""

    usual: Any
    low: int | None
    low_name: str
    high: int | None
    high_name: str


def limits(value: Value) -> dict[str, GroupSettingLimits]:
    """The bounds that a node sets for each setting of a group."""
    found = {}
    for name, (key, low, high) in ROWS.items():
        usual = value(key.synonyms[0]) if key.synonyms else key.default
        found[name] = GroupSettingLimits(usual, value(low) if low else None, low, value(high) if high else None, high)
    return found


def error(
    of_node: Mapping[str, GroupSettingLimits], changes: Mapping[str, str | None], present: Mapping[str, str]
) -> str | None:
    """A sentence about what is wrong with changes of one group's settings, which has `present` ones; None: nothing. A
    change to None takes a setting away."""
    whole = {**present, **changes}
    for name, text in changes.items():
        if text is None:
            continue
        key = GROUP_CONFIGS.get(name)
        if key is None:
            return f"Unknown group config name: {name}"
        try:
            value = key.parse(text)
        except ConfigError as refused:
            return str(refused)
        bounds = of_node.get(name)
        if bounds is not None and bounds.low is not None and value < bounds.low:
            return f"{name} must be greater than or equal to {bounds.low_name} ({bounds.low})."
        if bounds is not None and bounds.high is not None and value > bounds.high:
            return f"{name} must be less than or equal to {bounds.high_name} ({bounds.high})."
    for heartbeat, session in PAIRS if of_node else ():
        asked = heartbeat in changes or session in changes
        if asked and _value(of_node, whole, session) <= _value(of_node, whole, heartbeat):
            return f"{session} must be greater than {heartbeat}"
    return None


def effective(of_node: Mapping[str, GroupSettingLimits], given: Mapping[str, str]) -> dict[str, Any]:
    """Every setting of a group as it counts here. `given`: those that the group has."""
    values = {name: _value(of_node, given, name) for name in GROUP_CONFIGS}
    for heartbeat, session in PAIRS:
        if values[session] <= values[heartbeat]:
            values[session], values[heartbeat] = of_node[session].usual, of_node[heartbeat].usual
    return values


def _value(of_node: Mapping[str, GroupSettingLimits], given: Mapping[str, str | None], name: str) -> Any:
    text, key, bounds = given.get(name), GROUP_CONFIGS[name], of_node[name]
    value = bounds.usual if text is None or not key.allows(text) else key.parse(text)
    if bounds.low is not None:
        value = max(bounds.low, value)
    return value if bounds.high is None else min(bounds.high, value)


def check_node(value: Value) -> None:
    """Check that the node's own settings are within its bounds. Raises ConfigError."""
    of_node = limits(value)
    for name, bounds in of_node.items():
        if not GROUP_CONFIGS[name].synonyms:
            continue
        own = GROUP_CONFIGS[name].synonyms[0]
        if bounds.low is not None and bounds.high is not None and bounds.high < bounds.low:
            raise ConfigError(f"{bounds.high_name} must be greater than or equal to {bounds.low_name}.")
        if bounds.low is not None and bounds.usual < bounds.low:
            raise ConfigError(f"{own} must be greater than or equal to {bounds.low_name}.")
        if bounds.high is not None and bounds.usual > bounds.high:
            raise ConfigError(f"{own} must be less than or equal to {bounds.high_name}.")
    for heartbeat, session in PAIRS:
        if of_node[heartbeat].usual >= of_node[session].usual:
            raise ConfigError(f"group.{heartbeat} must be less than group.{session}.")
