# Versions 0 to 8. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class UpdateMetadataRequest(Message):
    class FinalizedFeature(Message):
        name: str
        level: int
        def __init__(self, *, name: str = ..., level: int = ...) -> None: ...

    class BrokerSettings(Message):
        broker: str
        settings: list[UpdateMetadataRequest.Setting]
        def __init__(self, *, broker: str = ..., settings: list[UpdateMetadataRequest.Setting] = ...) -> None: ...

    class Setting(Message):
        name: str
        value: str
        def __init__(self, *, name: str = ..., value: str = ...) -> None: ...

    class UpdateMetadataPartitionState(Message):
        topic_name: str
        partition_index: int
        controller_epoch: int
        leader: int
        leader_epoch: int
        isr: list[int]
        zk_version: int
        replicas: list[int]
        offline_replicas: list[int]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partition_index: int = ...,
            controller_epoch: int = ...,
            leader: int = ...,
            leader_epoch: int = ...,
            isr: list[int] = ...,
            zk_version: int = ...,
            replicas: list[int] = ...,
            offline_replicas: list[int] = ...,
        ) -> None: ...

    class UpdateMetadataTopicState(Message):
        topic_name: str
        topic_id: bytes
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState]
        settings: list[UpdateMetadataRequest.Setting]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            topic_id: Buffer = ...,
            partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = ...,
            settings: list[UpdateMetadataRequest.Setting] = ...,
        ) -> None: ...

    class UpdateMetadataBroker(Message):
        id: int
        v0_host: str
        v0_port: int
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint]
        rack: str | None
        epoch: int
        incarnation_id: bytes
        def __init__(
            self,
            *,
            id: int = ...,
            v0_host: str = ...,
            v0_port: int = ...,
            endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = ...,
            rack: str | None = ...,
            epoch: int = ...,
            incarnation_id: Buffer = ...,
        ) -> None: ...

    class UpdateMetadataEndpoint(Message):
        port: int
        host: str
        listener: str
        security_protocol: int
        def __init__(
            self,
            *,
            port: int = ...,
            host: str = ...,
            listener: str = ...,
            security_protocol: int = ...,
        ) -> None: ...

    controller_id: int
    is_k_raft_controller: bool
    type: int
    metadata_offset: int
    controller_host: str
    controller_port: int
    features: list[UpdateMetadataRequest.FinalizedFeature]
    broker_settings: list[UpdateMetadataRequest.BrokerSettings]
    controller_epoch: int
    broker_epoch: int
    ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState]
    topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState]
    live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker]
    def __init__(
        self,
        *,
        controller_id: int = ...,
        is_k_raft_controller: bool = ...,
        type: int = ...,
        metadata_offset: int = ...,
        controller_host: str = ...,
        controller_port: int = ...,
        features: list[UpdateMetadataRequest.FinalizedFeature] = ...,
        broker_settings: list[UpdateMetadataRequest.BrokerSettings] = ...,
        controller_epoch: int = ...,
        broker_epoch: int = ...,
        ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = ...,
        topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState] = ...,
        live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker] = ...,
    ) -> None: ...
