# Versions 1 to 2. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class RenewDelegationTokenRequest(Message):
    hmac: bytes
    renew_period_ms: int
    def __init__(self, *, hmac: Buffer = ..., renew_period_ms: int = ...) -> None: ...
