# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class TransactionLogKey(Message):
    transactional_id: str
    def __init__(self, *, transactional_id: str = ...) -> None: ...
