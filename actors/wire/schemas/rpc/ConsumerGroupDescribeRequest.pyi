# Versions 0 to 1. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ConsumerGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(self, *, group_ids: list[str] = ..., include_authorized_operations: bool = ...) -> None: ...
