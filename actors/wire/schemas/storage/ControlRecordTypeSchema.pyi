# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ControlRecordTypeSchema(Message):
    type: int
    def __init__(self, *, type: int = ...) -> None: ...
