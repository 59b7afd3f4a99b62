# Versions 0 to 1. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class SaslHandshakeResponse(Message):
    error_code: int
    mechanisms: list[str]
    def __init__(self, *, error_code: int = ..., mechanisms: list[str] = ...) -> None: ...
