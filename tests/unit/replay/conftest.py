"""One Spark session for all tests of Spark: it takes seconds to start, and on a busy machine minutes."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def session() -> Iterator[Any]:
    """Two cores, one gigabyte; skipped where there is no PySpark or no Java that fits."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    from actors.pipeline import spark

    try:
        made = spark.session("rayft-tests", "local[2]", "1g", {"spark.sql.shuffle.partitions": "2"})
    except spark.Unfit as error:
        pytest.skip(str(error))
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that is interrupted in a call of the JVM leaves the session useless for all behind it: give it time."""
    for item in items:
        if "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(1200))
