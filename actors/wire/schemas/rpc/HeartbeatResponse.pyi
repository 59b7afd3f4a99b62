# Versions 0 to 4. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class HeartbeatResponse(Message):
    throttle_time_ms: int
    error_code: int
    def __init__(self, *, throttle_time_ms: int = ..., error_code: int = ...) -> None: ...
