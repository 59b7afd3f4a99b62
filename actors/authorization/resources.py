"""The words of an access rule: kinds of resources, patterns of names, operations and permissions, with Kafka's numbers.

This file alone decides which operations there are for which kind of resource, and which operation includes another.
KIP-11, KIP-140, KIP-277, KIP-290; the numbers are those of Apache Kafka's AclOperation, AclPermissionType, ResourceType and
PatternType.
"""

from enum import IntEnum

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of kind CLUSTER."""

WILDCARD = "*"
"""Stands for every resource as a name, for every host as a host, and for every principal as the name of one."""

EVERYBODY = "User:*"
"""The principal of a rule for everybody."""


class Resource(IntEnum):
    """A kind of resource. ANY is for filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """How the name of a rule is compared with that of a resource. ANY and MATCH are for filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """An operation on a resource. ANY is for filters only."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether a rule allows or denies. ANY is for filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS: dict[Resource, tuple[Operation, ...]] = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""Kind of resource -> the operations that clients are told of (`include_cluster_authorized_operations`, KIP-430)."""

IMPLIED: dict[Operation, tuple[Operation, ...]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Operation -> other operations that include it, where they are allowed. What is denied includes nothing else."""
