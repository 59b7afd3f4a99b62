# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class SnapshotFooterRecord(Message):
    version: int
    def __init__(self, *, version: int = ...) -> None: ...
