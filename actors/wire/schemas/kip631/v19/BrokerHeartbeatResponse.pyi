# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class BrokerHeartbeatResponse(Message):
    error_code: int
    active_controller_id: int
    next_state: int
    broker_epoch: int
    lease_end_time_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        active_controller_id: int = ...,
        next_state: int = ...,
        broker_epoch: int = ...,
        lease_end_time_ms: int = ...,
    ) -> None: ...
