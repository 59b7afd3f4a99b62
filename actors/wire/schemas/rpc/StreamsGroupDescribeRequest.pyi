# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class StreamsGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(self, *, group_ids: list[str] = ..., include_authorized_operations: bool = ...) -> None: ...
