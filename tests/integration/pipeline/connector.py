"""Spark's own kafka source and rayft's in one session of the PySpark for which the former is published.

`python -m tests.integration.pipeline.connector` answers lines of JSON, `{"word": ..., ...}`, with lines of JSON.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from actors.pipeline import spark
from bench import spark_kafka

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def compared(session: Any, options: dict[str, str]) -> dict[str, Any]:
    """How many rows each source gives for some options, and how many only one of them."""
    ours, theirs = (session.read.format(name).options(**options).load().select(*COLUMNS) for name in ("rayft", "kafka"))
    types = [[field.dataType.simpleString() for field in frame.schema] for frame in (ours, theirs)]
    ours, theirs = ours.cache(), theirs.cache()
    found = {
        "rows": [ours.count(), theirs.count()],
        "only": [ours.exceptAll(theirs).count(), theirs.exceptAll(ours).count()],
        "types": types[0] == types[1],
    }
    for frame in (ours, theirs):
        frame.unpersist()
    return found


def streamed(session: Any, name: str, options: dict[str, str], folder: str) -> dict[str, Any]:
    """Run a stream of one of the sources over what is available now, and tell all values in its folder."""
    frame = session.readStream.format(name).options(**options).load().selectExpr("cast(value as string) value")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start(f"{folder}/out")
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return {"values": sorted(int(row["value"]) for row in session.read.parquet(f"{folder}/out").collect())}


def main() -> None:
    jars = ",".join(map(str, spark_kafka.jars(Path(os.environ["RAYFT_CONNECTOR"]))))
    session = spark.session("connector", "local[2]", "1g", {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"})
    session.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        asked = json.loads(line)
        word = asked.pop("word")
        try:
            found = {"compared": compared, "streamed": streamed}[word](session, **asked)
        except Exception as error:
            found = {"error": str(error)[:2000]}
        print(json.dumps(found), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
