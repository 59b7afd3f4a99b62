# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class RemoveDelegationTokenRecord(Message):
    token_id: str
    def __init__(self, *, token_id: str = ...) -> None: ...
