# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class DefaultPrincipalData(Message):
    type: str
    name: str
    token_authenticated: bool
    def __init__(self, *, type: str = ..., name: str = ..., token_authenticated: bool = ...) -> None: ...
