# Versions 0 to 0. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class BrokerRecord(Message):
    class BrokerEndpoint(Message):
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

    broker_id: int
    broker_epoch: int
    end_points: list[BrokerRecord.BrokerEndpoint]
    rack: str | None
    log_dirs: list[bytes]
    features: list[BrokerRecord.Feature]
    incarnation_id: bytes
    lease_ms: int
    zookeeper_mode: bool
    def __init__(
        self,
        *,
        broker_id: int = ...,
        broker_epoch: int = ...,
        end_points: list[BrokerRecord.BrokerEndpoint] = ...,
        rack: str | None = ...,
        log_dirs: list[Buffer] = ...,
        features: list[BrokerRecord.Feature] = ...,
        incarnation_id: Buffer = ...,
        lease_ms: int = ...,
        zookeeper_mode: bool = ...,
    ) -> None: ...
