# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ConsumerGroupMetadataKey(Message):
    group_id: str
    def __init__(self, *, group_id: str = ...) -> None: ...
