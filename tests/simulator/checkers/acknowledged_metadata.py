"""What the controller has answered is committed: created and deleted topics, and producer ids, which are given once."""

from typing import Any

from actors.metadata.image import Image
from tests.simulator.checkers.hooks import Violation


class AcknowledgedMetadata:
    name = "acknowledged_metadata_is_committed"

    def __init__(self) -> None:
        self._topics: set[bytes] = set()
        self._image: Image | None = None
        self._producers: dict[int, str] = {}

    def metadata(self, image: Image, batch: Any) -> None:
        """Remember every topic that has existed."""
        self._image = image
        for topic in image.topics():
            self._topics.add(image.topic_id(topic) or b"")

    def created(self, topic: str, topic_id: bytes) -> None:
        """A client was told that its topic has this id now."""
        if topic_id not in self._topics:
            raise Violation(self.name, f"the creation of {topic} was acknowledged and is not committed")

    def deleted(self, topic: str, topic_id: bytes) -> None:
        """A client was told that the topic with this id is gone."""
        if topic_id not in self._topics or self._image is None or self._image.topic_row(topic_id) >= 0:
            raise Violation(self.name, f"the deletion of {topic} was acknowledged and is not committed")

    def identified(self, client: str, producer_id: int) -> None:
        """A client was given a producer id."""
        other = self._producers.setdefault(producer_id, client)
        if other != client:
            raise Violation("producer_ids_unique", f"{other} and {client} both have producer id {producer_id}")
