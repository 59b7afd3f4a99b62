# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class UnregisterBrokerRequest(Message):
    broker_id: int
    def __init__(self, *, broker_id: int = ...) -> None: ...
