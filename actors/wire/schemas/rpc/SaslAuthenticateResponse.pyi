# Versions 0 to 2. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class SaslAuthenticateResponse(Message):
    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        auth_bytes: Buffer = ...,
        session_lifetime_ms: int = ...,
    ) -> None: ...
