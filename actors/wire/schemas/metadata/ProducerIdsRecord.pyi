# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ProducerIdsRecord(Message):
    broker_id: int
    broker_epoch: int
    next_producer_id: int
    def __init__(self, *, broker_id: int = ..., broker_epoch: int = ..., next_producer_id: int = ...) -> None: ...
