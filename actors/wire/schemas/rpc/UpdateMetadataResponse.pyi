# Versions 0 to 8. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class UpdateMetadataResponse(Message):
    error_code: int
    def __init__(self, *, error_code: int = ...) -> None: ...
