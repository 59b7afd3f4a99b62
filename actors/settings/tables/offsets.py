"""Settings of committed offsets, and of the topic in which the group coordinator keeps them."""

from actors.settings.keys import CLUSTER, INT, LONG, ONE_THREAD, SHORT, ConfigKey, at_least, idle, key

ROWS: tuple[ConfigKey, ...] = (
    idle("group.coordinator.threads", INT, 4, at_least(1), ONE_THREAD),
    idle("group.coordinator.cached.buffer.max.bytes", INT, 1048588, at_least(512 * 1024), "no buffers are kept",
         CLUSTER),
    idle("group.coordinator.append.linger.ms", INT, -1, at_least(-1), "a turn's writes share a batch"),
    key("offset.metadata.max.bytes", INT, 4096, at_least(0), "Largest text beside a committed offset."),
    key("offsets.commit.timeout.ms", INT, 5000, at_least(1), "Longest wait until a commit is replicated."),
    key("offsets.retention.minutes", INT, 10080, at_least(1), "How long offsets of an empty group are kept."),
    key("offsets.retention.check.interval.ms", LONG, 600000, at_least(1), "How often old offsets are dropped."),
    key("offsets.topic.num.partitions", INT, 50, at_least(1), "Partitions of __consumer_offsets."),
    key("offsets.topic.replication.factor", SHORT, 3, at_least(1),
        "Its replicas; as many as there are brokers where fewer are there and it is not given."),
    key("offsets.topic.segment.bytes", INT, 104857600, at_least(1),
        "Its segment size. The log cleaner compacts what is behind the segment that takes appends."),
    idle("offsets.load.buffer.size", INT, 5242880, at_least(1), "group partitions load in slices of 256 KiB"),
    idle("offsets.topic.compression.codec", INT, 0, None, "offsets are not compressed"),
)  # fmt: skip
