"""Settings of transactions and producer ids."""

from actors.settings.keys import BOOLEAN, CLUSTER, INT, SHORT, ConfigKey, at_least, key

ROWS: tuple[ConfigKey, ...] = (
    key("transaction.max.timeout.ms", INT, 900000, at_least(1), "Longest timeout that a producer may ask for."),
    key("transactional.id.expiration.ms", INT, 604800000, at_least(1),
        "When a transactional id that is not used is removed."),
    key("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10000, at_least(1),
        "How often transactions that are over their time are aborted."),
    key("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3600000, at_least(1),
        "How often transactional ids that are not used are removed."),
    key("transaction.partition.verification.enable", BOOLEAN, True, None,
        "Ask the coordinator whether a partition is in the transaction before a batch is appended (KIP-890).", CLUSTER),
    key("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0),
        "How long a leader waits for the end of the transaction before, when it adds its partition to the next."),
    key("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1), "Longest time between two such attempts."),
    key("transaction.two.phase.commit.enable", BOOLEAN, False, None,
        "Serve producers whose transactions take part in a two-phase commit, and have no timeout (KIP-939)."),
    key("transaction.state.log.num.partitions", INT, 50, at_least(1), "Partitions of __transaction_state."),
    key("transaction.state.log.replication.factor", SHORT, 3, at_least(1),
        "Its replicas; as many as there are brokers where fewer are there and it is not given."),
    key("transaction.state.log.min.isr", INT, 2, at_least(1),
        "Its min.insync.replicas; no more than it has replicas where it is not given."),
    key("transaction.state.log.segment.bytes", INT, 104857600, at_least(1), "Its segment size."),
    key("producer.id.expiration.ms", INT, 86400000, at_least(1),
        "When an unused producer id is forgotten.", CLUSTER),
    key("producer.id.expiration.check.interval.ms", INT, 600000, at_least(1),
        "How often a broker looks for producer ids to forget."),
)  # fmt: skip
