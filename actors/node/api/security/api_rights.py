"""What a principal must be allowed to do before an API does its work: the table that a reviewer reads.

This file alone decides which operation on which resource an API asks for, as Apache Kafka's brokers and controllers do
(KIP-11, KIP-290, KIP-430), and which nodes may ask it for themselves. The table that it makes of all listeners and all
kinds of speaker is in docs/security.md, as `python -m tests.rights_page` writes it. Rules:

1. An API without a row cannot be registered.
2. `WHOLE`: the request as a whole needs the right, and `perform` checks it. `EACH`: the handler checks each resource that
   the request names, refuses that one alone, or leaves it out of a list.
3. What brokers pass on to the active controller is checked there, by the controller's own row.
4. A principal that names nodes (`speakers.py`) asks what its kind of node may ask, for its own ids. Anything else it needs
   a rule for, like a user.
5. The drafts of KIP-631 ask for CLUSTER_ACTION on a controller's endpoint for every operation, so in their family whoever
   comes there needs it first, and then what the row asks for. Whoever has only the latter goes to a broker.
6. An Envelope is a registered broker's. What it holds is a request of a client, with that client's rights: no request of
   nodes, no other Envelope, and nothing in the name of a node.
"""

from actors.authorization.resources import Operation, Resource
from actors.authorization.rights import NODES, Checked, Node, Right
from actors.node.api.security.speakers import Speaks, of, of_fetch, of_partitions, of_snapshot


def _whole(operation: Operation) -> Right:
    return Right(Checked.WHOLE, operation)


def _each(resource: Resource, operation: Operation) -> Right:
    return Right(Checked.EACH, operation, resource)


def _nodes(which: Node, speaks: Speaks | None = None) -> Right:
    return Right(Checked.WHOLE, Operation.CLUSTER_ACTION, nodes=which, speaks=speaks)


OPEN = Right(Checked.OPEN)
PASSED_ON = Right(Checked.PASSED_ON)
CONTROLLERS, BROKERS = Node.CONTROLLER, Node.BROKER
VOTERS = CONTROLLERS | Node.NEWCOMER
"""A replica may not know of a voter yet: raft judges by epochs."""
PEERS = BROKERS | Node.NEWCOMER
"""A broker may not know of another one's registration yet."""
ALTER, DESCRIBE = _whole(Operation.ALTER), _whole(Operation.DESCRIBE)
READ, WRITE = Operation.READ, Operation.WRITE
TOPIC, GROUP, TRANSACTIONAL_ID = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID

ON_CONTROLLERS: dict[str, Right] = {
    "AddRaftVoter": ALTER._replace(nodes=VOTERS, speaks=of("voter_id")),
    "AllocateProducerIds": _nodes(BROKERS, of("broker_id")),
    "AlterClientQuotas": _whole(Operation.ALTER_CONFIGS),
    "AlterConfigs": _each(TOPIC, Operation.ALTER_CONFIGS),
    "AlterIsr": _nodes(BROKERS, of("broker_id")),
    "AlterPartition": _nodes(BROKERS, of("broker_id")),
    "AlterPartitionReassignments": ALTER,
    "AlterUserScramCredentials": ALTER,
    "ApiVersions": OPEN,
    "BeginQuorumEpoch": _nodes(VOTERS, of_partitions("leader_id")),
    "BrokerHeartbeat": _nodes(PEERS, of("broker_id")),
    "ControlledShutdown": _nodes(BROKERS, of("broker_id")),
    "ControllerHeartbeat": _nodes(VOTERS, of("controller_id")),
    "CreateAcls": ALTER,
    "CreateDelegationToken": _each(Resource.USER, Operation.CREATE_TOKENS),
    "CreatePartitions": _each(TOPIC, Operation.ALTER),
    "CreateTopics": _each(TOPIC, Operation.CREATE),
    "DeleteAcls": ALTER,
    "DeleteTopics": _each(TOPIC, Operation.DELETE),
    "DescribeAcls": DESCRIBE,
    "DescribeClientQuotas": _whole(Operation.DESCRIBE_CONFIGS),
    "DescribeCluster": ALTER,
    "DescribeConfigs": _each(TOPIC, Operation.DESCRIBE_CONFIGS),
    "DescribeLogDirs": DESCRIBE,
    "DescribeQuorum": DESCRIBE,
    "DescribeUserScramCredentials": DESCRIBE,
    "ElectLeaders": ALTER,
    "EndQuorumEpoch": _nodes(VOTERS, of_partitions("leader_id")),
    "Envelope": _nodes(BROKERS),
    "ExpireDelegationToken": OPEN,
    "Fetch": _nodes(NODES, of_fetch),
    "FetchSnapshot": _nodes(NODES, of_snapshot),
    "FindCoordinator": _each(GROUP, Operation.DESCRIBE),
    "IncrementalAlterConfigs": _each(TOPIC, Operation.ALTER_CONFIGS),
    "InitProducerId": _each(TRANSACTIONAL_ID, WRITE),
    "ListGroups": OPEN,
    "ListPartitionReassignments": DESCRIBE,
    "ListTransactions": OPEN,
    "Metadata": _each(TOPIC, Operation.DESCRIBE),
    "RemoveRaftVoter": ALTER._replace(nodes=CONTROLLERS, speaks=of("voter_id")),
    "RenewDelegationToken": OPEN,
    "SaslAuthenticate": OPEN,
    "SaslHandshake": OPEN,
    "UnregisterBroker": ALTER,
    "UpdateFeatures": ALTER,
    "UpdateRaftVoter": _nodes(CONTROLLERS, of("voter_id")),
    "Vote": _nodes(VOTERS, of_partitions("replica_id")),
}
"""API -> its right on a controller, in an Envelope or on the controllers' own listener."""

TO_CLIENTS: dict[str, Right] = {"DescribeCluster": OPEN}
"""API -> its right where a controller serves clients of brokers in ZooKeeper mode, if it is another one there."""

ON_BROKERS: dict[str, Right] = {
    "AddOffsetsToTxn": _each(TRANSACTIONAL_ID, WRITE),
    "AddPartitionsToTxn": _each(TRANSACTIONAL_ID, WRITE),
    "AddRaftVoter": PASSED_ON,
    "AlterClientQuotas": PASSED_ON,
    "AlterConfigs": PASSED_ON,
    "AlterPartitionReassignments": PASSED_ON,
    "AlterReplicaLogDirs": ALTER,
    "AlterShareGroupOffsets": _each(GROUP, READ),
    "AlterUserScramCredentials": PASSED_ON,
    "ApiVersions": OPEN,
    "BrokerHeartbeat": _nodes(PEERS, of("broker_id")),
    "ConsumerGroupDescribe": _each(GROUP, Operation.DESCRIBE),
    "ConsumerGroupHeartbeat": _each(GROUP, READ),
    "ControllerHeartbeat": _nodes(VOTERS, of("controller_id")),
    "CreateAcls": PASSED_ON,
    "CreateDelegationToken": PASSED_ON,
    "CreatePartitions": PASSED_ON,
    "CreateTopics": PASSED_ON,
    "DeleteAcls": PASSED_ON,
    "DeleteGroups": _each(GROUP, Operation.DELETE),
    "DeleteRecords": _each(TOPIC, Operation.DELETE),
    "DeleteShareGroupOffsets": _each(GROUP, Operation.DELETE),
    "DeleteShareGroupState": _nodes(PEERS),
    "DeleteTopics": PASSED_ON,
    "DescribeAcls": DESCRIBE,
    "DescribeClientQuotas": _whole(Operation.DESCRIBE_CONFIGS),
    "DescribeCluster": OPEN,
    "DescribeConfigs": _each(TOPIC, Operation.DESCRIBE_CONFIGS),
    "DescribeDelegationToken": _each(Resource.DELEGATION_TOKEN, Operation.DESCRIBE),
    "DescribeGroups": _each(GROUP, Operation.DESCRIBE),
    "DescribeLogDirs": DESCRIBE,
    "DescribeProducers": _each(TOPIC, READ),
    "DescribeQuorum": DESCRIBE,
    "DescribeShareGroupOffsets": _each(GROUP, Operation.DESCRIBE),
    "DescribeTopicPartitions": _each(TOPIC, Operation.DESCRIBE),
    "DescribeTransactions": _each(TRANSACTIONAL_ID, Operation.DESCRIBE),
    "DescribeUserScramCredentials": DESCRIBE,
    "ElectLeaders": PASSED_ON,
    "ExpireDelegationToken": PASSED_ON,
    "EndTxn": _each(TRANSACTIONAL_ID, WRITE),
    "Fetch": _each(TOPIC, READ),
    "FindCoordinator": _each(GROUP, Operation.DESCRIBE),
    "GetTelemetrySubscriptions": OPEN,
    "Heartbeat": _each(GROUP, READ),
    "IncrementalAlterConfigs": PASSED_ON,
    "InitializeShareGroupState": _nodes(PEERS),
    "InitProducerId": _each(TRANSACTIONAL_ID, WRITE),
    "JoinGroup": _each(GROUP, READ),
    "LeaderAndIsr": _nodes(VOTERS, of("controller_id")),
    "LeaveGroup": _each(GROUP, READ),
    "ListConfigResources": _whole(Operation.DESCRIBE_CONFIGS),
    "ListGroups": _each(GROUP, Operation.DESCRIBE),
    "ListOffsets": _each(TOPIC, Operation.DESCRIBE),
    "ListPartitionReassignments": PASSED_ON,
    "ListTransactions": _each(TRANSACTIONAL_ID, Operation.DESCRIBE),
    "Metadata": _each(TOPIC, Operation.DESCRIBE),
    "OffsetCommit": _each(TOPIC, READ),
    "OffsetDelete": _each(TOPIC, READ),
    "OffsetFetch": _each(TOPIC, Operation.DESCRIBE),
    "OffsetForLeaderEpoch": _each(TOPIC, Operation.DESCRIBE),
    "Produce": _each(TOPIC, WRITE),
    "PushTelemetry": OPEN,
    "ReadShareGroupState": _nodes(PEERS),
    "ReadShareGroupStateSummary": _nodes(PEERS),
    "RemoveRaftVoter": PASSED_ON,
    "RenewDelegationToken": PASSED_ON,
    "SaslAuthenticate": OPEN,
    "SaslHandshake": OPEN,
    "ShareAcknowledge": _each(GROUP, READ),
    "ShareFetch": _each(GROUP, READ),
    "ShareGroupDescribe": _each(GROUP, Operation.DESCRIBE),
    "ShareGroupHeartbeat": _each(GROUP, READ),
    "StopReplica": _nodes(VOTERS, of("controller_id")),
    "StreamsGroupDescribe": _each(GROUP, Operation.DESCRIBE),
    "StreamsGroupHeartbeat": _each(GROUP, READ),
    "SyncGroup": _each(GROUP, READ),
    "TxnOffsetCommit": _each(TOPIC, READ),
    "UnregisterBroker": PASSED_ON,
    "UpdateFeatures": PASSED_ON,
    "UpdateMetadata": _nodes(VOTERS, of("controller_id")),
    "WriteShareGroupState": _nodes(PEERS),
    "WriteTxnMarkers": _nodes(PEERS)._replace(also=Operation.ALTER),
}
"""API -> its right on a broker. Beside the resource that is named here some ask for a second one: a group's offsets need
READ on the group, a transactional Produce WRITE on the transactional id, a new topic CREATE."""

FREE = frozenset({"ApiVersions", "SaslAuthenticate", "SaslHandshake"})
"""What a controller of the drafts answers before it knows who asks (A41)."""


def at_the_door(name: str, right: Right) -> Right:
    """The right of an API on a controller's endpoint in the drafts' family."""
    return right if name in FREE or right.operation is Operation.CLUSTER_ACTION else right._replace(door=True)


NODE_MAY = frozenset(
    {
        (Operation.CLUSTER_ACTION, Resource.CLUSTER),
        (Operation.DESCRIBE, Resource.CLUSTER),
        (Operation.DESCRIBE, Resource.TOPIC),
        (Operation.CREATE, Resource.TOPIC),
    }
)
"""What a node that is let in may do without a rule: the right of nodes, what `rayft status` asks, the ends of partitions,
and topics that are made on demand."""
