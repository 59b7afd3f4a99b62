# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ControllerHeartbeatResponse(Message):
    throttle_time_ms: int
    error_code: int
    start_snapshot: bool
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ..., start_snapshot: bool = ...) -> None: ...
