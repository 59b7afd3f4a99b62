# Versions 1 to 2. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class ExpireDelegationTokenRequest(Message):
    hmac: bytes
    expiry_time_period_ms: int
    def __init__(self, *, hmac: Buffer = ..., expiry_time_period_ms: int = ...) -> None: ...
