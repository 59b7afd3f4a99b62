"""The answers of a controller that is not active, for each API: every reply of Kafka carries its error in its own
place.

`NOT_CONTROLLER` is the only code that no operation decides, so this is the one place for it (R631-123,
R631-136, R500-14).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.controller.brokers.registration import UNKNOWN
from actors.wire.errors import ErrorCode
from actors.wire.messages import Message, message

if TYPE_CHECKING:
    from actors.wire.schemas.kip631.v28 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
    from actors.wire.schemas.rpc import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
        AlterConfigsRequest,
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
        CreateAclsRequest,
        CreateAclsResponse,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreateTopicsRequest,
        CreateTopicsResponse,
        DeleteAclsRequest,
        DeleteAclsResponse,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
        ElectLeadersRequest,
        ElectLeadersResponse,
        IncrementalAlterConfigsRequest,
    )

Refusal = Callable[[Any, ErrorCode, int], Any]
"""Makes a refusal: (request, error code, id of the active controller or -1) -> reply"""


def refusal(request: Message, code: ErrorCode, active_controller: int) -> Any:
    """The reply to a request with only the error `code` in it. Raises KeyError for an API that is not refused here."""
    name = request.__schema__.head.name.removesuffix("Request")
    return REFUSALS[name](request, code, active_controller)


def _top(name: str) -> Refusal:
    return lambda request, code, active: message(f"{name}Response")(error_code=int(code))


def _broker_heartbeat(request: "BrokerHeartbeatRequest", code: ErrorCode, active: int) -> "BrokerHeartbeatResponse":
    return message("v28:BrokerHeartbeatResponse")(
        error_code=int(code), active_controller_id=active, next_state=UNKNOWN, broker_epoch=-1, lease_end_time_ms=0
    )


def _create_topics(request: "CreateTopicsRequest", code: ErrorCode, active: int) -> "CreateTopicsResponse":
    kind = message("CreateTopicsResponse")
    return kind(
        topics=[
            kind.CreatableTopicResult(name=topic.name, error_code=int(code), error_message=code.text, configs=[])
            for topic in {topic.name: topic for topic in request.topics}.values()
        ]
    )


def _delete_topics(request: "DeleteTopicsRequest", code: ErrorCode, active: int) -> "DeleteTopicsResponse":
    kind = message("DeleteTopicsResponse")
    named = [
        kind.DeletableTopicResult(name=name, error_code=int(code)) for name in dict.fromkeys(request.topic_names or ())
    ]
    by_id = [
        kind.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=int(code))
        for topic in request.topics or ()
    ]
    return kind(responses=named + by_id)


def _create_partitions(request: "CreatePartitionsRequest", code: ErrorCode, active: int) -> "CreatePartitionsResponse":
    kind = message("CreatePartitionsResponse")
    names = dict.fromkeys(topic.name for topic in request.topics)
    return kind(results=[kind.CreatePartitionsTopicResult(name=name, error_code=int(code)) for name in names])


def _elect_leaders(request: "ElectLeadersRequest", code: ErrorCode, active: int) -> "ElectLeadersResponse":
    kind = message("ElectLeadersResponse")
    return kind(
        error_code=int(code),
        replica_election_results=[
            kind.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    kind.PartitionResult(partition_id=number, error_code=int(code), error_message=code.text)
                    for number in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _alter_reassignments(
    request: "AlterPartitionReassignmentsRequest", code: ErrorCode, active: int
) -> "AlterPartitionReassignmentsResponse":
    kind = message("AlterPartitionReassignmentsResponse")
    return kind(
        error_code=int(code),
        error_message=code.text,
        responses=[
            kind.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    kind.ReassignablePartitionResponse(
                        partition_index=one.partition_index, error_code=int(code), error_message=code.text
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _create_acls(request: "CreateAclsRequest", code: ErrorCode, active: int) -> "CreateAclsResponse":
    kind = message("CreateAclsResponse")
    return kind(
        results=[kind.AclCreationResult(error_code=int(code), error_message=code.text) for _ in request.creations]
    )


def _delete_acls(request: "DeleteAclsRequest", code: ErrorCode, active: int) -> "DeleteAclsResponse":
    kind = message("DeleteAclsResponse")
    return kind(
        filter_results=[
            kind.DeleteAclsFilterResult(error_code=int(code), error_message=code.text, matching_acls=[])
            for _ in request.filters
        ]
    )


def _alter_scram_credentials(
    request: "AlterUserScramCredentialsRequest", code: ErrorCode, active: int
) -> "AlterUserScramCredentialsResponse":
    kind = message("AlterUserScramCredentialsResponse")
    users = dict.fromkeys([entry.name for entry in request.deletions] + [entry.name for entry in request.upsertions])
    return kind(
        results=[
            kind.AlterUserScramCredentialsResult(user=user, error_code=int(code), error_message=code.text)
            for user in users
        ]
    )


def _alter_configs(name: str) -> Refusal:
    def reply(request: "AlterConfigsRequest | IncrementalAlterConfigsRequest", code: ErrorCode, active: int) -> Any:
        kind = message(f"{name}Response")
        return kind(
            responses=[
                kind.AlterConfigsResourceResponse(
                    error_code=int(code),
                    error_message=code.text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in request.resources
            ]
        )

    return reply


def _alter_client_quotas(
    request: "AlterClientQuotasRequest", code: ErrorCode, active: int
) -> "AlterClientQuotasResponse":
    kind = message("AlterClientQuotasResponse")
    return kind(
        entries=[
            kind.EntryData(
                error_code=int(code),
                error_message=code.text,
                entity=[
                    kind.EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


REFUSALS: dict[str, Refusal] = {
    "AllocateProducerIds": _top("AllocateProducerIds"),
    "AlterClientQuotas": _alter_client_quotas,
    "AlterConfigs": _alter_configs("AlterConfigs"),
    "AlterIsr": _top("AlterIsr"),
    "AlterPartition": _top("AlterPartition"),
    "AlterPartitionReassignments": _alter_reassignments,
    "AlterUserScramCredentials": _alter_scram_credentials,
    "BrokerHeartbeat": _broker_heartbeat,
    "ControlledShutdown": _top("ControlledShutdown"),
    "ControllerHeartbeat": lambda request, code, active: message("v28:ControllerHeartbeatResponse")(
        error_code=int(code)
    ),
    "CreateAcls": _create_acls,
    "CreateDelegationToken": _top("CreateDelegationToken"),
    "CreatePartitions": _create_partitions,
    "CreateTopics": _create_topics,
    "DeleteAcls": _delete_acls,
    "DeleteTopics": _delete_topics,
    "ElectLeaders": _elect_leaders,
    "Envelope": _top("Envelope"),
    "ExpireDelegationToken": _top("ExpireDelegationToken"),
    "IncrementalAlterConfigs": _alter_configs("IncrementalAlterConfigs"),
    "InitProducerId": _top("InitProducerId"),
    "ListPartitionReassignments": _top("ListPartitionReassignments"),
    "RenewDelegationToken": _top("RenewDelegationToken"),
    "UnregisterBroker": _top("UnregisterBroker"),
    "UpdateFeatures": _top("UpdateFeatures"),
}
