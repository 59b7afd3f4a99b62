"""Spark's own kafka source: fetched as it is published, and measured in a process and a PySpark of its own.

`python -m bench.spark_kafka SERVERS TOPIC ROUNDS` prints the seconds of every round as JSON. What counts is one pass over
all columns of the topic into Spark's `noop` sink.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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


def rounds(folder: Path, servers: str, topic: str, count: int) -> list[float]:
    """Seconds of every round, in a process of its own."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder / "pyspark"), str(ROOT)]),
        "SPARK_HOME": str(folder / "pyspark" / "pyspark"),
        "PYSPARK_PYTHON": sys.executable,
        "RAYFT_CONNECTOR": str(folder / "libs"),
    }
    command = [sys.executable, "-m", "bench.spark_kafka", servers, topic, str(count)]
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"Spark's kafka source failed:\n{ran.stderr[-3000:]}")
    return list(json.loads(ran.stdout.splitlines()[-1]))


def noop(frame: Any) -> float:
    """Seconds of one pass over all rows and columns."""
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def main(servers: str, topic: str, count: int) -> None:
    """In the process of its own."""
    from pyspark.sql import SparkSession

    names = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    jars = [str(jar) for jar in Path(os.environ["RAYFT_CONNECTOR"]).glob("*.jar") if jar.name.startswith(names)]
    builder = SparkSession.builder.master(MASTER).config("spark.jars", ",".join(jars))
    spark = builder.config("spark.driver.memory", MEMORY).config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    frame = reader.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()
    print(json.dumps([noop(frame) for _ in range(count)]))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
