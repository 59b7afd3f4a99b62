# Versions 0 to 0. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class BrokerHeartbeatRequest(Message):
    class Listener(Message):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            security_protocol: int = ...,
        ) -> None: ...

    class Feature(Message):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            *,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
        ) -> None: ...

    class UnreadableTopic(Message):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, *, topic_id: Buffer = ..., partitions: list[int] = ...) -> None: ...

    class FullTopic(Message):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, *, topic_id: Buffer = ..., partitions: list[int] = ...) -> None: ...

    target_state: int
    broker_id: int
    broker_epoch: int
    lease_start_time_ms: int
    cur_metadata_offset: int
    listeners: list[BrokerHeartbeatRequest.Listener]
    rack: str | None
    features: list[BrokerHeartbeatRequest.Feature]
    cluster_id: str
    incarnation_id: bytes
    legacy: bool
    log_dirs: list[bytes]
    previous_broker_epoch: int
    unreadable: list[BrokerHeartbeatRequest.UnreadableTopic]
    without_room: list[BrokerHeartbeatRequest.FullTopic]
    def __init__(
        self,
        *,
        target_state: int = ...,
        broker_id: int = ...,
        broker_epoch: int = ...,
        lease_start_time_ms: int = ...,
        cur_metadata_offset: int = ...,
        listeners: list[BrokerHeartbeatRequest.Listener] = ...,
        rack: str | None = ...,
        features: list[BrokerHeartbeatRequest.Feature] = ...,
        cluster_id: str = ...,
        incarnation_id: Buffer = ...,
        legacy: bool = ...,
        log_dirs: list[Buffer] = ...,
        previous_broker_epoch: int = ...,
        unreadable: list[BrokerHeartbeatRequest.UnreadableTopic] = ...,
        without_room: list[BrokerHeartbeatRequest.FullTopic] = ...,
    ) -> None: ...
