"""From rows of the image to values that a broker can act on.

This file alone reads the image on behalf of the applier: what the op just replayed has touched, or all of it after a
snapshot. Most rows that an op touches are of no concern to one broker, so a row costs a look at its replicas, and becomes a
value only where this broker has, or had, something of it.
"""

from collections.abc import Iterator

import numpy as np

from actors.broker.replication.metadata_delta import MetadataDelta, PartitionState
from actors.broker.replication.partition import Assignment
from actors.broker.replication.replicas import Replicas
from actors.metadata.image import Delta, Image, Rows
from actors.node.roles.broker.metadata_cache import MetadataCache


class ImageDeltas:
    """The image as a source of deltas. What it gives is to be read before the next op is replayed."""

    def __init__(self, cache: MetadataCache, replicas: Replicas) -> None:
        self._cache = cache
        self._me = cache.me
        self._replicas = replicas

    def of(self, touched: Delta) -> MetadataDelta:
        """The change that one op has made."""
        image, rows = self._cache.image, touched.partitions
        return MetadataDelta(
            [(id, image.broker(id)) for id in touched.brokers],
            self._led_here(image) if touched.brokers else (),
            touched.removed,
            self._touched(image, rows) if len(rows) else (),
            touched.configs,
            topics_changed=bool(touched.topics),
            leaders_changed=bool(touched.brokers) or len(rows) > 0,
            features_changed=bool(touched.features),
        )

    def whole(self) -> MetadataDelta:
        """The whole content of the image."""
        image = self._cache.image
        return MetadataDelta(
            [(broker.id, broker) for broker in image.brokers()], self._led_here(image), partitions=self._here(image)
        )

    def _touched(self, image: Image, rows: Rows) -> Iterator[PartitionState]:
        me, known = self._me, self._replicas.known
        for row in rows.data if isinstance(rows, np.ndarray) else rows:
            if not image.is_partition(row):
                continue
            replicas = image.replicas(row)
            if me in replicas:
                yield self._state(image, row, replicas)
                continue
            topic, number = image.topic_of(row), image.number(row)
            topic_id = image.topic_id(topic)
            assert topic_id is not None, "a partition's topic has an id"
            if known(topic_id, number):
                yield PartitionState(image.topic_name(topic), topic_id, number, None)

    def _here(self, image: Image) -> Iterator[PartitionState]:
        me = self._me
        for topic in image.topics():
            for row in image.topic_partitions(topic):
                replicas = image.replicas(row)
                if me in replicas:
                    yield self._state(image, row, replicas)

    def _led_here(self, image: Image) -> Iterator[PartitionState]:
        for row in image.rows_led_by(self._me).data:
            yield self._state(image, row, image.replicas(row))

    def _state(self, image: Image, row: int, replicas: tuple[int, ...]) -> PartitionState:
        topic = image.topic_of(row)
        topic_id = image.topic_id(topic)
        assert topic_id is not None, "a partition's topic has an id"
        moving = image.is_moving(row)
        assignment = Assignment(
            replicas,
            image.isr(row),
            image.leader(row),
            image.leader_epoch(row),
            image.partition_epoch(row),
            moving,
            len(image.adding(row)) if moving else 0,
        )
        return PartitionState(image.topic_name(topic), topic_id, image.number(row), assignment)
