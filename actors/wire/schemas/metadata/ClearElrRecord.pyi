# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ClearElrRecord(Message):
    topic_name: str
    def __init__(self, *, topic_name: str = ...) -> None: ...
