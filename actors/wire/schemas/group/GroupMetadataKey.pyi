# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class GroupMetadataKey(Message):
    group: str
    def __init__(self, *, group: str = ...) -> None: ...
