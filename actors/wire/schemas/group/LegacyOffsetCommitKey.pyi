# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class LegacyOffsetCommitKey(Message):
    group: str
    topic: str
    partition: int
    def __init__(self, *, group: str = ..., topic: str = ..., partition: int = ...) -> None: ...
