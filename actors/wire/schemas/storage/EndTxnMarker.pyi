# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class EndTxnMarker(Message):
    coordinator_epoch: int
    def __init__(self, *, coordinator_epoch: int = ...) -> None: ...
