# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class DescribeUserScramCredentialsRequest(Message):
    class UserName(Message):
        name: str
        def __init__(self, *, name: str = ...) -> None: ...

    users: list[DescribeUserScramCredentialsRequest.UserName] | None
    def __init__(self, *, users: list[DescribeUserScramCredentialsRequest.UserName] | None = ...) -> None: ...
