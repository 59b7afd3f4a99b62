# Versions 0 to 0. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class RemoveRaftVoterRequest(Message):
    cluster_id: str | None
    voter_id: int
    voter_directory_id: bytes
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        voter_id: int = ...,
        voter_directory_id: Buffer = ...,
    ) -> None: ...
