# Versions 0 to 1. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ResponseHeader(Message):
    correlation_id: int
    def __init__(self, *, correlation_id: int = ...) -> None: ...
