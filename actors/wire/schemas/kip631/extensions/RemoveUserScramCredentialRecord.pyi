# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class RemoveUserScramCredentialRecord(Message):
    name: str
    mechanism: int
    def __init__(self, *, name: str = ..., mechanism: int = ...) -> None: ...
