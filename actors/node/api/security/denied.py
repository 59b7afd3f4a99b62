"""What is answered to a request that its principal may not ask at all.

Every reply of Kafka carries its error in its own place. Operations of the controller have such a reply in
`controller/refusals.py`; the rest is here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.controller.refusals import REFUSALS, refusal
from actors.node.runtime.calls import Api
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import Message, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import (
        AlterReplicaLogDirsRequest,
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
        DescribeConfigsRequest,
        DescribeConfigsResponse,
        FetchRequest,
        FetchResponse,
        WriteTxnMarkersRequest,
    )

CODE = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def denied(api: Api, request: Message) -> Any:
    """The reply to a request that is denied."""
    if api.name in REFUSALS:
        return refusal(request, CODE, -1)
    found = REPLIES.get(api.name)
    return found(request) if found is not None else message(f"{api.name}Response")(error_code=int(CODE))


def _alter_replica_log_dirs(request: "AlterReplicaLogDirsRequest") -> Any:
    kind = message("AlterReplicaLogDirsResponse")
    return kind(
        results=[
            kind.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    kind.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=int(CODE))
                    for number in topic.partitions
                ],
            )
            for path in request.dirs
            for topic in path.topics
        ]
    )


def _fetch(request: "FetchRequest") -> "FetchResponse":
    """The denial of a Fetch: partitions are repeated for clients that cannot read an error of the whole, below version 7."""
    kind = message("FetchResponse")
    return kind(
        error_code=int(CODE),
        responses=[
            kind.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    kind.PartitionData(
                        partition_index=one.partition, error_code=int(CODE), high_watermark=-1, records=None
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _write_txn_markers(request: "WriteTxnMarkersRequest") -> Any:
    kind = message("WriteTxnMarkersResponse")
    return kind(
        markers=[
            kind.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    kind.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            kind.WritableTxnMarkerPartitionResult(partition_index=number, error_code=int(CODE))
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _share_state(name: str, topic_result: str) -> Callable[[Any], Any]:
    """The denial of a request to a share coordinator. `topic_result`: the struct of its response that holds a topic."""

    def reply(request: Any) -> Any:
        kind = message(f"{name}Response")
        result = getattr(kind, topic_result)
        return kind(
            results=[
                result(
                    topic_id=topic.topic_id,
                    partitions=[
                        kind.PartitionResult(partition=one.partition, error_code=int(CODE), error_message=text(CODE))
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return reply


def _describe_configs(request: "DescribeConfigsRequest") -> "DescribeConfigsResponse":
    kind = message("DescribeConfigsResponse")
    return kind(
        results=[
            kind.DescribeConfigsResult(
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                error_code=int(CODE),
                error_message=text(CODE),
                configs=[],
            )
            for one in request.resources
        ]
    )


def _describe_client_quotas(request: "DescribeClientQuotasRequest") -> "DescribeClientQuotasResponse":
    return message("DescribeClientQuotasResponse")(error_code=int(CODE), error_message=None, entries=None)


REPLIES: dict[str, Callable[[Any], Any]] = {
    "AlterReplicaLogDirs": _alter_replica_log_dirs,
    "DeleteShareGroupState": _share_state("DeleteShareGroupState", "DeleteStateResult"),
    "DescribeClientQuotas": _describe_client_quotas,
    "DescribeConfigs": _describe_configs,
    "Fetch": _fetch,
    "InitializeShareGroupState": _share_state("InitializeShareGroupState", "InitializeStateResult"),
    "ReadShareGroupState": _share_state("ReadShareGroupState", "ReadStateResult"),
    "ReadShareGroupStateSummary": _share_state("ReadShareGroupStateSummary", "ReadStateSummaryResult"),
    "WriteShareGroupState": _share_state("WriteShareGroupState", "WriteStateResult"),
    "WriteTxnMarkers": _write_txn_markers,
}
"""API -> reply, of those in whose reply the error stands at each partition, or says null for a list."""
