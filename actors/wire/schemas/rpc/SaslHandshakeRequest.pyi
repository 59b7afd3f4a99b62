# Versions 0 to 1. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class SaslHandshakeRequest(Message):
    mechanism: str
    def __init__(self, *, mechanism: str = ...) -> None: ...
