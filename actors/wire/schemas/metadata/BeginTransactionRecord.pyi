# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class BeginTransactionRecord(Message):
    name: str | None
    def __init__(self, *, name: str | None = ...) -> None: ...
