"""Found by Spark, which looks into every module named `pyspark_...`: `spark.read.format("rayft")` needs no registration."""

from actors.replay.spark import Rayft as DefaultSource

__all__ = ["DefaultSource"]
