# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class LegacyOffsetCommitValue(Message):
    offset: int
    metadata: str
    commit_timestamp: int
    def __init__(self, *, offset: int = ..., metadata: str = ..., commit_timestamp: int = ...) -> None: ...
