# Versions 0 to 1. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ListConfigResourcesRequest(Message):
    resource_types: list[int]
    def __init__(self, *, resource_types: list[int] = ...) -> None: ...
