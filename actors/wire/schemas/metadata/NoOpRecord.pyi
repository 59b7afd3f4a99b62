# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class NoOpRecord(Message):
    def __init__(self) -> None: ...
