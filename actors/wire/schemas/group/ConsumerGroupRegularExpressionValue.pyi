# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ConsumerGroupRegularExpressionValue(Message):
    topics: list[str]
    version: int
    timestamp: int
    def __init__(self, *, topics: list[str] = ..., version: int = ..., timestamp: int = ...) -> None: ...
