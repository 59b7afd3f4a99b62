# Versions 0 to 5. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ListGroupsRequest(Message):
    states_filter: list[str]
    types_filter: list[str]
    def __init__(self, *, states_filter: list[str] = ..., types_filter: list[str] = ...) -> None: ...
