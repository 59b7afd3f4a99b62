"""From rows of the image to values that a broker can act on.

This file alone reads the image on behalf of the applier: what the op just replayed has touched, or all of it after a
snapshot.
"""

from collections.abc import Iterable, Iterator

from actors.broker.metadata_delta import MetadataDelta, PartitionState
from actors.broker.partition import Assignment
from actors.metadata.image import Delta, Image
from actors.node.roles.broker.metadata_cache import MetadataCache


class ImageDeltas:
    """The image as a source of deltas. What it gives is to be read before the next op is replayed."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._me = cache.me

    def of(self, touched: Delta) -> MetadataDelta:
        """What one op has changed."""
        image, rows = self._cache.image, touched.partitions
        return MetadataDelta(
            [(id, image.broker(id)) for id in touched.brokers],
            self._led_here(image) if touched.brokers else (),
            touched.removed,
            (self._state(image, int(row)) for row in rows if image.is_partition(int(row))) if len(rows) else (),
            touched.configs,
            topics_changed=bool(touched.topics),
            leaders_changed=bool(touched.brokers) or len(rows) > 0,
            features_changed=bool(touched.features),
        )

    def whole(self) -> MetadataDelta:
        """Everything that the image says."""
        image = self._cache.image
        return MetadataDelta(
            [(broker.id, broker) for broker in image.brokers()], self._led_here(image), partitions=self._here(image)
        )

    def _here(self, image: Image) -> Iterator[PartitionState]:
        me = self._me
        for topic in image.topics():
            for row in image.topic_partitions(topic):
                if me in image.replicas(row):
                    yield self._state(image, row)

    def _led_here(self, image: Image) -> Iterable[PartitionState]:
        for row in image.rows_led_by(self._me):
            yield self._state(image, int(row))

    def _state(self, image: Image, row: int) -> PartitionState:
        topic, replicas = image.topic_of(row), image.replicas(row)
        topic_id = image.topic_id(topic)
        assert topic_id is not None, "a partition's topic has an id"
        assignment = None
        if self._me in replicas:
            assignment = Assignment(
                replicas, image.isr(row), image.leader(row), image.leader_epoch(row), image.partition_epoch(row)
            )
        return PartitionState(image.topic_name(topic), topic_id, image.number(row), assignment)
