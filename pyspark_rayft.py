"""Spark imports every module named `pyspark_...`, so `spark.read.format("rayft")` needs no registration."""

from actors.pipeline.spark import Rayft as DefaultSource

__all__ = ["DefaultSource"]
