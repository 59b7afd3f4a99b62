# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class DescribeTransactionsRequest(Message):
    transactional_ids: list[str]
    def __init__(self, *, transactional_ids: list[str] = ...) -> None: ...
