"""The Spark session of the unit tests."""

from tests.unit.replay.conftest import session

__all__ = ["session"]
