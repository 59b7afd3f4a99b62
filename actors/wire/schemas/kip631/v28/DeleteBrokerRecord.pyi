# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class DeleteBrokerRecord(Message):
    id: int
    def __init__(self, *, id: int = ...) -> None: ...
