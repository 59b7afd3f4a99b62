# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class BrokerHeartbeatResponse(Message):
    class ClientListener(Message):
        name: str
        host: str
        port: int
        def __init__(self, *, name: str = ..., host: str = ..., port: int = ...) -> None: ...

    throttle_time_ms: int
    error_code: int
    active_controller_id: int
    next_state: int
    broker_epoch: int
    lease_end_time_ms: int
    driving: list[BrokerHeartbeatResponse.ClientListener] | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        active_controller_id: int = ...,
        next_state: int = ...,
        broker_epoch: int = ...,
        lease_end_time_ms: int = ...,
        driving: list[BrokerHeartbeatResponse.ClientListener] | None = ...,
    ) -> None: ...
