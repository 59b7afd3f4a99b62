"""The topics of the cluster, as the group coordinator asks for them."""

from collections.abc import Iterator

from actors.node.roles.broker.metadata_cache import MetadataCache


class GroupTopics:
    """The topics in the image of committed metadata. `version` is raised by the part that applies changes of it."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self.version = 0

    def named(self, name: str) -> tuple[bytes, int] | None:
        """(topic id, number of partitions) of a topic; None: there is no such topic."""
        image = self._cache.image
        row = image.topic(name)
        topic_id = image.topic_id(row) if row >= 0 else None
        return None if topic_id is None else (topic_id, len(image.topic_partitions(row)))

    def name(self, topic_id: bytes) -> str | None:
        """The name of a topic; None: there is no such topic."""
        return self._cache.topic_name(topic_id)

    def names(self) -> Iterator[str]:
        """The names of all topics."""
        image = self._cache.image
        return (image.topic_name(row) for row in image.topics())
