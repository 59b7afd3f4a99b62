"""Settings of streams groups."""

from actors.settings.keys import BOOLEAN, CLUSTER, INT, MAX_INT, ConfigKey, at_least, idle, key

ROWS: tuple[ConfigKey, ...] = (
    key("group.streams.session.timeout.ms", INT, 45000, at_least(1),
        "When a member of a streams group that is not heard of is removed."),
    key("group.streams.min.session.timeout.ms", INT, 45000, at_least(1),
        "Shortest streams.session.timeout.ms of a group."),
    key("group.streams.max.session.timeout.ms", INT, 60000, at_least(1),
        "Longest streams.session.timeout.ms of a group."),
    key("group.streams.heartbeat.interval.ms", INT, 5000, at_least(1),
        "How often members of streams groups send heartbeats."),
    key("group.streams.min.heartbeat.interval.ms", INT, 5000, at_least(1),
        "Shortest streams.heartbeat.interval.ms of a group."),
    key("group.streams.max.heartbeat.interval.ms", INT, 15000, at_least(1),
        "Longest streams.heartbeat.interval.ms of a group."),
    key("group.streams.assignment.interval.ms", INT, 1000, at_least(0),
        "Least time between two target assignments of a streams group. One that is set at run time counts as far as "
        "the node's bounds allow.", CLUSTER),
    key("group.streams.min.assignment.interval.ms", INT, 0, at_least(0),
        "Shortest streams.assignment.interval.ms of a group."),
    key("group.streams.max.assignment.interval.ms", INT, 15000, at_least(0),
        "Longest streams.assignment.interval.ms of a group."),
    key("group.streams.num.standby.replicas", INT, 0, at_least(0), "Standby tasks of each stateful task."),
    key("group.streams.max.standby.replicas", INT, 2, at_least(0),
        "Largest streams.num.standby.replicas of a group."),
    key("group.streams.initial.rebalance.delay.ms", INT, 3000, at_least(0),
        "Wait for more members of a new streams group."),
    key("group.streams.max.size", INT, MAX_INT, at_least(1), "Members of a streams group."),
    idle("group.streams.assignor.offload.enable", BOOLEAN, True, None,
         "target assignments are always made outside the loop"),
)  # fmt: skip
