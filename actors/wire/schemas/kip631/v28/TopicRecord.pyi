# Versions 0 to 0. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class TopicRecord(Message):
    name: str
    topic_id: bytes
    deleting: bool
    def __init__(self, *, name: str = ..., topic_id: Buffer = ..., deleting: bool = ...) -> None: ...
