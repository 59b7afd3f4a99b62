"""Settings of classic and consumer groups: what bounds a group's own settings, and their defaults."""

from actors.settings.keys import (
    BOOLEAN,
    CLUSTER,
    INT,
    LIST,
    MAX_INT,
    STRING,
    Check,
    ConfigKey,
    at_least,
    idle,
    key,
    some_of,
)  # fmt: skip

_ASSIGNORS = Check(
    "uniform, range or both", lambda value: bool(value) and all(one in ("uniform", "range") for one in value)
)
_MIGRATION = Check(
    "disabled, upgrade, downgrade or bidirectional",
    lambda value: value.lower() in ("disabled", "upgrade", "downgrade", "bidirectional"),
)

ROWS: tuple[ConfigKey, ...] = (
    key("group.min.session.timeout.ms", INT, 6000, at_least(0), "Shortest session of a classic member."),
    key("group.max.session.timeout.ms", INT, 1800000, at_least(0), "Longest session of a classic member."),
    key("group.max.size", INT, MAX_INT, at_least(1), "Members of a classic group."),
    key("group.initial.rebalance.delay.ms", INT, 3000, at_least(0), "Wait for more members of a new group."),
    key("group.coordinator.rebalance.protocols", LIST, ("classic", "consumer", "streams"),
        some_of("classic", "consumer", "share", "streams"),
        "Without consumer or streams in it, members of that protocol (KIP-848, KIP-1071) are not served. The others do "
        "nothing."),
    key("group.consumer.session.timeout.ms", INT, 45000, at_least(1),
        "When a member of a consumer group that is not heard of is removed."),
    key("group.consumer.min.session.timeout.ms", INT, 45000, at_least(1),
        "Shortest consumer.session.timeout.ms of a group."),
    key("group.consumer.max.session.timeout.ms", INT, 60000, at_least(1),
        "Longest consumer.session.timeout.ms of a group."),
    key("group.consumer.heartbeat.interval.ms", INT, 5000, at_least(1),
        "How often members of consumer groups send heartbeats."),
    key("group.consumer.min.heartbeat.interval.ms", INT, 5000, at_least(1),
        "Shortest consumer.heartbeat.interval.ms of a group."),
    key("group.consumer.max.heartbeat.interval.ms", INT, 15000, at_least(1),
        "Longest consumer.heartbeat.interval.ms of a group."),
    key("group.consumer.assignment.interval.ms", INT, 1000, at_least(0),
        "Least time between two target assignments of a consumer group. One that is set at run time counts as far as "
        "the node's bounds allow.", CLUSTER),
    key("group.consumer.min.assignment.interval.ms", INT, 0, at_least(0),
        "Shortest consumer.assignment.interval.ms of a group."),
    key("group.consumer.max.assignment.interval.ms", INT, 15000, at_least(0),
        "Longest consumer.assignment.interval.ms of a group."),
    idle("group.consumer.assignor.offload.enable", BOOLEAN, True, None,
         "target assignments are always made outside the loop"),
    key("group.consumer.max.size", INT, MAX_INT, at_least(1), "Members of a consumer group."),
    key("group.consumer.assignors", LIST, ("uniform", "range"), _ASSIGNORS,
        "Assignors that members may ask for; the first where they ask for none."),
    key("group.consumer.regex.refresh.interval.ms", INT, 600000, at_least(10000),
        "How often regular expressions of members are matched with the topics anew."),
    key("group.consumer.migration.policy", STRING, "bidirectional", _MIGRATION,
        "Whether a group with members of both protocols becomes a consumer group (upgrade), and a classic group again "
        "when the last new member leaves (downgrade)."),
)  # fmt: skip
