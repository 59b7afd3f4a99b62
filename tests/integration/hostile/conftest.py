"""The clusters under attack."""

from collections.abc import Iterator

import pytest

import rayft
from tests.integration.hostile.scene import Scene

CONFIG = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def small() -> Iterator[Scene]:
    """One controller and one broker."""
    with rayft.Cluster(controllers=1, brokers=1, config=CONFIG) as running:
        yield Scene(running)


@pytest.fixture(scope="module")
def whole() -> Iterator[Scene]:
    """Three controllers and three brokers."""
    with rayft.Cluster(controllers=3, brokers=3, config=CONFIG) as running:
        yield Scene(running)
