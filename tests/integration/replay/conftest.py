"""The Spark session of the unit tests, here too."""

from tests.unit.replay.conftest import session

__all__ = ["session"]
