# Versions 0 to 0. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class RemoveTopicRecord(Message):
    topic_id: bytes
    def __init__(self, *, topic_id: Buffer = ...) -> None: ...
