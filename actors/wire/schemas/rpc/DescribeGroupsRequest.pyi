# Versions 0 to 6. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class DescribeGroupsRequest(Message):
    groups: list[str]
    include_authorized_operations: bool
    def __init__(self, *, groups: list[str] = ..., include_authorized_operations: bool = ...) -> None: ...
