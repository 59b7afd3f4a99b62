"""Spark's own kafka source: fetched as it is published, and measured in a process and a PySpark of its own.

`python -m bench.spark_kafka SERVERS TOPIC ROUNDS [PID ...]` prints seconds and CPU seconds, those of the processes given
included, of every round as JSON. What counts is one pass over all columns of the topic into Spark's `noop` sink.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import cpu

ROOT = Path(__file__).resolve().parent.parent
VERSION = "4.0.0"
"""The connector of the newest PySpark is not always published."""
MASTER, MEMORY = "local[2]", "2g"


def fetched(folder: Path) -> Path | None:
    """The folder with `pyspark/` of VERSION and the connector's `libs/`; None, said once, where they cannot be had."""
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


def rounds(folder: Path, servers: str, topic: str, count: int, brokers: Sequence[int]) -> list[tuple[float, float]]:
    """Seconds, and CPU seconds with the brokers', of every round, in a process of its own."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder / "pyspark"), str(ROOT)]),
        "SPARK_HOME": str(folder / "pyspark" / "pyspark"),
        "PYSPARK_PYTHON": sys.executable,
        "RAYFT_CONNECTOR": str(folder / "libs"),
    }
    command = [sys.executable, "-m", "bench.spark_kafka", servers, topic, str(count), *map(str, brokers)]
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"Spark's kafka source failed:\n{ran.stderr[-3000:]}")
    return [(seconds, used) for seconds, used in json.loads(ran.stdout.splitlines()[-1])]


def noop(frame: Any) -> None:
    """One pass over all rows and columns."""
    frame.write.format("noop").mode("overwrite").save()


def main(servers: str, topic: str, count: int, brokers: Sequence[int]) -> None:
    """In the process of its own."""
    from pyspark.sql import SparkSession

    names = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    jars = [str(jar) for jar in Path(os.environ["RAYFT_CONNECTOR"]).glob("*.jar") if jar.name.startswith(names)]
    builder = SparkSession.builder.master(MASTER).config("spark.jars", ",".join(jars))
    spark = builder.config("spark.driver.memory", MEMORY).config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    frame = reader.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()
    found = []
    for _ in range(count):
        began, before = time.perf_counter(), cpu.seconds(brokers)
        noop(frame)
        found.append((time.perf_counter() - began, cpu.seconds(brokers) - before))
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), [int(pid) for pid in sys.argv[4:]])
