"""A driver of Spark for rounds of kills: `... SERVERS NAME FOLDER FIRST END WORD`.

A round writes rows to the topic NAME-in, and lets a query copy them to NAME until it has all of them, whatever process is
killed. The rounds are functions of their seeds, from FIRST to in front of END. With the word `kill` the JVM dies in the last
one. Each round is told as a line of JSON.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import rayft
from actors.pipeline import spark
from tests.integration.pipeline.killed import Killed

ATTEMPTS_MAX = 12
STEPS_MAX = 60


def query(session: Any, servers: str, name: str, folder: Path, cut: int) -> None:
    """Copy what is available now."""
    given = {
        "kafka.bootstrap.servers": servers, "subscribe": f"{name}-in", "startingOffsets": "earliest",
        "minPartitions": str(cut), "maxOffsetsPerTrigger": "40",
    }  # fmt: skip
    made = session.readStream.format("rayft").options(**given).load().select("key", "value")
    own = {"kafka.bootstrap.servers": servers, "topic": name, "sinkId": name}
    writer = made.writeStream.format("rayft").options(**own).option("checkpointLocation", str(folder / "checkpoint"))
    started = writer.trigger(availableNow=True).start()
    try:
        started.awaitTermination()
    finally:
        started.stop()


def main() -> None:
    """Run the rounds."""
    servers, name, place, first, end, kill = sys.argv[1:]
    folder = Path(place)
    kills = folder / "kills"
    kills.write_text("0")
    (folder / "kills.whole").unlink(missing_ok=True)
    os.environ["RAYFT_KILLS"] = str(kills)
    conf = {
        "spark.python.daemon.module": "tests.integration.pipeline.killed", "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    session = spark.session("killed", "local[2,3]", "1g", conf)
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(Killed)
    for seed in range(int(first), int(end)):
        chance = random.Random(seed)
        rows = [f"{seed}.{n}" for n in range(chance.randint(1, 60))]
        rayft.write(servers, f"{name}-in", pa.table({"key": rows, "value": rows}), transactional_id=f"{name}-{seed}")
        if seed == int(end) - 1 and kill == "kill":
            pid = session._jvm.java.lang.ProcessHandle.current().pid()
            (folder / "kills.whole").write_text(str(pid))
        failed, steps = 0, []
        for attempt in range(ATTEMPTS_MAX):
            step = chance.randint(1, STEPS_MAX) if attempt < ATTEMPTS_MAX // 2 else 0
            steps.append(step)
            kills.write_text(str(step))
            try:
                query(session, servers, name, folder, chance.randint(1, 5))
                break
            except Exception as error:
                failed += 1
                if attempt == ATTEMPTS_MAX - 1:
                    print(json.dumps({"error": str(error)[:3000]}), flush=True)
                    sys.exit(1)
        print(json.dumps({"seed": seed, "failed": failed, "steps": steps}), flush=True)
    kills.write_text("0")
    session.stop()


if __name__ == "__main__":
    main()
