# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class AbortTransactionRecord(Message):
    reason: str | None
    def __init__(self, *, reason: str | None = ...) -> None: ...
