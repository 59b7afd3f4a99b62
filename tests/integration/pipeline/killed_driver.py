"""A driver of Spark for rounds of kills: `... SERVERS NAME FOLDER FIRST END WORD KIND`.

A round writes rows to the topic NAME-in, and lets a query read them and write to NAME until it has all of them, whatever
process is killed. The rounds are functions of their seeds, from FIRST to in front of END. With the WORD `kill` the JVM dies
in the last one. The KIND is `copy`; `windows`, which counts the rows of ten seconds; `executors`: a copy on a cluster of
executors with speculation, whose JVMs are killed with their tasks; or `brokers`: a copy that kills nothing itself. Each
round is told as a line of JSON.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import functions

import rayft
from actors.client.errors import ClientError
from actors.pipeline import spark
from tests.integration.pipeline.killed import Killed

ATTEMPTS_MAX = 40
KILLS_MAX = 6
"""How often a query of a round is killed. Others end because Spark gives a worker ten seconds to begin, however busy the
machine is."""
SPECULATION = {
    "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1", "spark.speculation.minTaskRuntime": "50ms", "spark.task.maxFailures": "8",
}  # fmt: skip
STEPS_MAX = 60


def query(session: Any, servers: str, name: str, folder: Path, cut: int, kind: str) -> None:
    """Write what is available now."""
    given = {
        "kafka.bootstrap.servers": servers, "subscribe": f"{name}-in", "startingOffsets": "earliest",
        "minPartitions": str(cut), "maxOffsetsPerTrigger": "40",
    }  # fmt: skip
    made = session.readStream.format("rayft").options(**given).load()
    if kind == "windows":
        made = made.withWatermark("timestamp", "0 seconds").groupBy(functions.window("timestamp", "10 seconds")).count()
        made = made.selectExpr("cast(unix_seconds(window.start) as string) key", "cast(count as string) value")
    else:
        made = made.select("key", "value")
    own = {"kafka.bootstrap.servers": servers, "topic": name, "sinkId": name}
    writer = made.writeStream.format("rayft").options(**own).option("checkpointLocation", str(folder / "checkpoint"))
    started = writer.trigger(availableNow=True).start()
    try:
        started.awaitTermination()
    finally:
        started.stop()


def table(seed: int, rows: list[str]) -> pa.Table:
    """Rows whose time is in the window of their round."""
    times = pa.array([seed * 10_000 + n for n in range(len(rows))], pa.timestamp("ms", "UTC"))
    return pa.table({"key": rows, "value": rows, "timestamp": times})


def written(servers: str, topic: str, rows: pa.Table, id: str) -> None:
    """Write rows, whatever becomes of brokers. They may be there twice then, and are to be copied as often."""
    for attempt in range(ATTEMPTS_MAX):
        try:
            rayft.write(servers, topic, rows, transactional_id=id)
            return
        except ClientError:
            if attempt == ATTEMPTS_MAX - 1:
                raise


def main() -> None:
    """Run the rounds."""
    servers, name, place, first, end, kill, kind = sys.argv[1:]
    folder = Path(place)
    kills = folder / "kills"
    kills.write_text("0")
    (folder / "kills.whole").unlink(missing_ok=True)
    os.environ["RAYFT_KILLS"] = str(kills)
    conf = {
        "spark.python.daemon.module": "tests.integration.pipeline.killed", "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    master = "local[2,3]"
    if kind == "executors":
        master = "local-cluster[2,1,1024]"
        conf |= SPECULATION
        (folder / "kills.executor").touch()
    session = spark.session("killed", master, "1g", conf)
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(Killed)
    for seed in range(int(first), int(end)):
        chance = random.Random(seed)
        rows = [f"{seed}.{n}" for n in range(chance.randint(1, 60))]
        written(servers, f"{name}-in", table(seed, rows), f"{name}-{seed}")
        if seed == int(end) - 1 and kill == "kill":
            pid = session._jvm.java.lang.ProcessHandle.current().pid()
            (folder / "kills.whole").write_text(str(pid))
        failed, steps = 0, []
        for attempt in range(ATTEMPTS_MAX):
            step = chance.randint(1, STEPS_MAX) if attempt < KILLS_MAX and kind != "brokers" else 0
            steps.append(step)
            kills.write_text(str(step))
            try:
                query(session, servers, name, folder, chance.randint(1, 5), kind)
                break
            except Exception as error:
                failed += attempt < KILLS_MAX
                if attempt == ATTEMPTS_MAX - 1:
                    print(json.dumps({"error": str(error)[:3000]}), flush=True)
                    sys.exit(1)
        print(json.dumps({"seed": seed, "failed": failed, "steps": steps}), flush=True)
    kills.write_text("0")
    session.stop()


if __name__ == "__main__":
    main()
