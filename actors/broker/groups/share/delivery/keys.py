"""Which share partition is meant: a group and a partition of a topic, and its place in `__share_group_state`."""

from base64 import urlsafe_b64encode
from typing import NamedTuple


class SharePartitionKey(NamedTuple):
    """One partition as one share group reads it."""

    group: str
    topic_id: bytes
    number: int

    @property
    def coordinator_key(self) -> str:
        """The key by which a share coordinator is found (FindCoordinator, key type 2): its partition of
        `__share_group_state` is that of this text, as a group's is that of its name."""
        topic = urlsafe_b64encode(self.topic_id).decode().rstrip("=")
        return f"{self.group}:{topic}:{self.number}"
