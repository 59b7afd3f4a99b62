"""How many entries a request may have, by API.

An *entry* is an element of an array, at any depth, or a tagged field. All entries of a request count together, so a
partition in a topic of its own counts as two. The limit is checked while a request is decoded, so a request above it
costs no more than one below it. Entries cost far more time than bytes do: one megabyte can name a partition two hundred
thousand times.

Each limit is above what Apache Kafka's own clients and brokers send. It is low enough that decoding takes 150 ms at
most on one core of the machine on which it was measured. Handlers work through long requests in slices.
"""

ENTRIES_MAX = 10_000
"""For a request that names a few things: members, voters, listeners, features."""
NAMES_MAX = 100_000
"""For a request that names topics, groups or resources. The controller makes 10,000 topics of one request at most."""
PARTITIONS_MAX = 200_000
"""For a request that names partitions: a hundred thousand of them, each in a topic of its own."""
FETCH_MAX = 500_000
"""For a replica's fetch: it may follow two hundred thousand partitions, each in a topic of its own, and begin a session
with all of them. And for a LeaderAndIsr, whose first one names all replicas of a broker at once: sixty thousand partitions
with three replicas each."""
_BY_API = {
    "JoinGroup": 1_000,  # protocols: each is kept for each member of the group
    "AlterUserScramCredentials": 1_000,  # decided in one go, 15 microseconds each
    "UpdateFeatures": 1_000,  # decided in one go; a node knows a handful
    "CreateDelegationToken": 1_000,  # renewers: the controller takes a hundred
    "AlterIsr": 50_000,  # a broker asks for fewer, as a request is decoded in one go
    "AlterPartition": 50_000,
    "Fetch": FETCH_MAX,
    "LeaderAndIsr": FETCH_MAX,
    **dict.fromkeys(
        (
            "AddPartitionsToTxn",
            "AlterConfigs",
            "CreateAcls",
            "CreatePartitions",
            "CreateTopics",
            "DeleteAcls",
            "ConsumerGroupDescribe",
            "DeleteGroups",
            "DeleteTopics",
            "DescribeConfigs",
            "DescribeGroups",
            "DescribeTopicPartitions",
            "DescribeTransactions",
            "FindCoordinator",
            "IncrementalAlterConfigs",
            "LeaveGroup",
            "Metadata",
            "Produce",
            "ShareGroupDescribe",
            "ShareGroupHeartbeat",
            "StreamsGroupDescribe",
            "StreamsGroupHeartbeat",
            "SyncGroup",
        ),
        NAMES_MAX,
    ),
    **dict.fromkeys(
        (
            "AlterPartitionReassignments",
            "AlterReplicaLogDirs",
            "AlterShareGroupOffsets",
            "BrokerHeartbeat",
            "ConsumerGroupHeartbeat",
            "DeleteRecords",
            "DeleteShareGroupOffsets",
            "DeleteShareGroupState",
            "DescribeLogDirs",
            "DescribeProducers",
            "DescribeShareGroupOffsets",
            "ElectLeaders",
            "InitializeShareGroupState",
            "ListOffsets",
            "ListPartitionReassignments",
            "OffsetCommit",
            "OffsetDelete",
            "OffsetFetch",
            "OffsetForLeaderEpoch",
            "ReadShareGroupState",
            "ReadShareGroupStateSummary",
            "ShareAcknowledge",
            "ShareFetch",
            "StopReplica",
            "TxnOffsetCommit",
            "UpdateMetadata",
            "WriteShareGroupState",
            "WriteTxnMarkers",
        ),
        PARTITIONS_MAX,
    ),
}


def entries_max(name: str) -> int:
    """How many entries a request of an API may have."""
    return _BY_API.get(name, ENTRIES_MAX)
