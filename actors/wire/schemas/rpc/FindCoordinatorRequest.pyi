# Versions 0 to 6. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class FindCoordinatorRequest(Message):
    key: str
    key_type: int
    coordinator_keys: list[str]
    def __init__(self, *, key: str = ..., key_type: int = ..., coordinator_keys: list[str] = ...) -> None: ...
