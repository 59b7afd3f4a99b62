"""Spark's own kafka source, fetched as published, and measured in a process and a PySpark of its own.

`python -m bench.spark_kafka SERVERS TOPIC [PID ...]` makes a round for every line of its input. It prints the round's
seconds and CPU seconds as JSON; CPU seconds include those of the given processes. A round is one pass over all columns
of the topic into Spark's `noop` sink.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import cpu

ROOT = Path(__file__).resolve().parent.parent
VERSION = "4.2.0"
"""The newest connector that is published: that of the newest PySpark is not always."""
MASTER, MEMORY = "local[2]", "2g"


def fetched(folder: Path) -> Path | None:
    """The folder with `pyspark/` of VERSION and the connector's `libs/`; None, with a message, if they cannot be
    fetched."""
    folder = folder / VERSION
    if not any((folder / "libs").glob("spark-sql-kafka*.jar")):
        if shutil.which("mvn") is None:
            print("no Maven: Spark's own kafka source is left out")
            return None
        pom = ROOT / ".ci" / "spark-kafka.xml"
        command = ["mvn", "-q", "-B", "-f", str(pom), f"-Dspark.version={VERSION}", "dependency:copy-dependencies"]
        if subprocess.run([*command, f"-DoutputDirectory={folder / 'libs'}"], check=False).returncode:
            return None
    if not (folder / "pyspark" / "pyspark").exists():
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder / "pyspark")]
        if subprocess.run([*install, f"pyspark=={VERSION}", "py4j==0.10.9.9"], check=False).returncode:
            return None
    return folder


class Source:
    """The kafka source on a topic, in a process of its own that waits between rounds.

    Raises RuntimeError with its output when it ends by itself.
    """

    def __init__(self, folder: Path, servers: str, topic: str, brokers: Sequence[int]) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(folder / "pyspark"), str(ROOT)]),
            "SPARK_HOME": str(folder / "pyspark" / "pyspark"),
            "PYSPARK_PYTHON": sys.executable,
            "RAYFT_CONNECTOR": str(folder / "libs"),
        }
        command = [sys.executable, "-m", "bench.spark_kafka", servers, topic, *map(str, brokers)]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed in __exit__
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def round(self) -> tuple[float, float]:
        """One pass: its seconds, and the CPU seconds of the process and the brokers."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            seconds, used = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            self._errors.seek(0)
            raise RuntimeError(f"Spark's kafka source failed:\n{self._errors.read()[-3000:]}") from None
        return seconds, used

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._errors.close()


def jars(libs: Path) -> list[Path]:
    """The jars that PySpark lacks."""
    names = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    return [jar for jar in libs.glob("*.jar") if jar.name.startswith(names)]


def session(libs: Path) -> Any:
    """A session with the connector."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(MASTER).config("spark.jars", ",".join(map(str, jars(libs))))
    return builder.config("spark.driver.memory", MEMORY).config("spark.ui.enabled", "false").getOrCreate()


def noop(frame: Any) -> None:
    """One pass over all rows and columns."""
    frame.write.format("noop").mode("overwrite").save()


def main(servers: str, topic: str, brokers: Sequence[int]) -> None:
    """The main function of the process."""
    spark = session(Path(os.environ["RAYFT_CONNECTOR"]))
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    frame = reader.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()
    for _ in sys.stdin:
        began, before = time.perf_counter(), cpu.seconds(brokers)
        noop(frame)
        print(json.dumps((time.perf_counter() - began, cpu.seconds(brokers) - before)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(pid) for pid in sys.argv[3:]])
