# Versions 0 to 0. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class EnvelopeResponse(Message):
    response_data: bytes | None
    error_code: int
    def __init__(self, *, response_data: Buffer | None = ..., error_code: int = ...) -> None: ...
