# Versions 0 to 4. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ApiVersionsRequest(Message):
    client_software_name: str
    client_software_version: str
    def __init__(self, *, client_software_name: str = ..., client_software_version: str = ...) -> None: ...
