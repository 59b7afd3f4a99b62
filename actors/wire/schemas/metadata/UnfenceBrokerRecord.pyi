# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class UnfenceBrokerRecord(Message):
    id: int
    epoch: int
    def __init__(self, *, id: int = ..., epoch: int = ...) -> None: ...
