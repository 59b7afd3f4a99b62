"""The Spark source `rayft` as a whole, topics by address and logs in files, and sessions that know it.

    session = rayft.spark.session()                       # or rayft.spark.register(your own session)
    session.read.format("rayft").option("kafka.bootstrap.servers", "kafka:9092").option("subscribe", "orders").load()
    session.read.format("rayft").option("path", "/var/rayft/broker-1").option("topics", "orders").load()

This file alone decides which of the two a job means, and which settings a session has. The options of topics by address are
those of Spark's own kafka source (`query.py`), those of files are in actors/replay/read_options.py. What is true of PySpark
is written in actors/replay/spark.py.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import datasource as api
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from actors.arrow.values.asked import BYTES
from actors.import_path import PACKAGE, SAFE_PATH, python_path
from actors.pipeline.query import is_by_address, query
from actors.pipeline.sink.options import target
from actors.pipeline.spark_readers import FilteringTopicsReader, TopicsReader
from actors.pipeline.spark_streams import TopicsStream
from actors.pipeline.spark_values import planned
from actors.pipeline.spark_writers import TopicsStreamWriter, TopicsWriter, opened
from actors.replay.columns.record_columns import schema
from actors.replay.java import Unfit, java_home
from actors.replay.spark import PUSHDOWN_CONF, Files, chosen

LOCAL_SOCKETS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": f"{PACKAGE}.replay.workers",
}
"""From 4.1 on, workers talk to their JVM over Unix sockets. TCP would take an eighth of all time."""
LOCAL_SOCKETS_MIN = (4, 1)
PYSPARK_MIN = (4, 0)
UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Options for a JVM: read Arrow's buffers without bounds checks, and check for null only where Spark asks. pyarrow's
buffers need neither check, and without these options both run for every value of every row."""


class Rayft(Files):
    """The data source `rayft` of Spark."""

    _was_sent = False
    """Whether this source came from another program of Spark."""

    def __getstate__(self) -> dict[str, Any]:
        """The state that other programs are sent."""
        return self.__dict__ | {"_was_sent": True}

    def schema(self) -> StructType:
        """The schema of the columns that the options ask for."""
        if not is_by_address(self.options):
            return super().schema()
        found = query(self.options, stream=None)
        return from_arrow_schema(schema(found.columns) if found.asked == BYTES else planned(found)[1])

    def reader(self, schema: StructType) -> api.DataSourceReader:
        """The reader of a batch."""
        if not is_by_address(self.options):
            return super().reader(schema)
        return chosen(TopicsReader, FilteringTopicsReader)(query(self.options, stream=False), schema)

    def streamReader(self, schema: StructType) -> api.DataSourceStreamReader:
        """The reader of a query that follows topics, or a directory."""
        if not is_by_address(self.options):
            return super().streamReader(schema)
        return TopicsStream(query(self.options, stream=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> api.DataSourceWriter:
        """The writer of a job, which opens its sink now."""
        found = target(self.options)
        if overwrite:
            raise ValueError("a topic cannot be written anew: write mode('append')")
        return TopicsWriter(found, opened(found), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> api.DataSourceStreamWriter:
        """The writer of a batch of a query. The program that sends it to tasks opens the sink; the one that decides the
        batch was sent this source."""
        found = target(self.options)
        return TopicsStreamWriter(found, None if self._was_sent else opened(found), schema)


def _version(text: str = pyspark.__version__) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def fits(version: str = pyspark.__version__) -> None:
    """Raises Unfit if this PySpark lacks what the source needs."""
    if _version(version) < PYSPARK_MIN:
        raise Unfit(f"PySpark {version} has no Python sources that give Arrow: install pyspark>=4.0.")


def session(
    name: str = "rayft", master: str = "local[*]", memory: str = "2g", conf: Mapping[str, str] | None = None
) -> Any:
    """A Spark session with the source `rayft`. Workers run this interpreter and find this code; Java is searched.
    `conf`: Spark settings, which override the defaults here; extraJavaOptions replace UNCHECKED. Raises Unfit."""
    fits()
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Workers start with `python -m`, whose path begins with the current directory. It stays on the path, after the
    # project's.
    os.environ["PYTHONPATH"] = python_path(os.getcwd())
    builder = SparkSession.builder.appName(name).master(master).config("spark.driver.memory", memory)
    given = {
        **(LOCAL_SOCKETS if _version() >= LOCAL_SOCKETS_MIN else {}),
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        f"spark.executorEnv.{SAFE_PATH}": "1",
        PUSHDOWN_CONF: "true",
        "spark.driver.extraJavaOptions": UNCHECKED,
        "spark.executor.extraJavaOptions": UNCHECKED,
        **(conf or {}),
    }
    for key, text in given.items():
        builder = builder.config(key, text)
    with _safe_path():
        return register(builder.getOrCreate())


@contextmanager
def _safe_path() -> Iterator[None]:
    """A JVM that starts within this context gives Python's safe path to all its workers. This process keeps its own
    path."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def register(spark: Any) -> Any:
    """Register `rayft` with a session. Returns the session."""
    fits()
    try:
        spark.dataSource.register(Rayft)
    except AnalysisException as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):  # Spark had found it by itself: see pyspark_rayft.py
            raise
    return spark
