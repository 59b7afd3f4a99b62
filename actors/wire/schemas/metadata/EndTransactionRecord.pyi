# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class EndTransactionRecord(Message):
    def __init__(self) -> None: ...
