# Versions 0 to 1. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class LeaderChangeMessage(Message):
    class Voter(Message):
        voter_id: int
        voter_directory_id: bytes
        def __init__(self, *, voter_id: int = ..., voter_directory_id: Buffer = ...) -> None: ...

    version: int
    leader_id: int
    voters: list[LeaderChangeMessage.Voter]
    granting_voters: list[LeaderChangeMessage.Voter]
    def __init__(
        self,
        *,
        version: int = ...,
        leader_id: int = ...,
        voters: list[LeaderChangeMessage.Voter] = ...,
        granting_voters: list[LeaderChangeMessage.Voter] = ...,
    ) -> None: ...
