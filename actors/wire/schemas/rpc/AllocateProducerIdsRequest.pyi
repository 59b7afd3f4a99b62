# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class AllocateProducerIdsRequest(Message):
    broker_id: int
    broker_epoch: int
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ...) -> None: ...
