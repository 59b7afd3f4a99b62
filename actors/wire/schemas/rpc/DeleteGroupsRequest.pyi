# Versions 0 to 2. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class DeleteGroupsRequest(Message):
    groups_names: list[str]
    def __init__(self, *, groups_names: list[str] = ...) -> None: ...
