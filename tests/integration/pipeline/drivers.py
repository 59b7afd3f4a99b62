"""What a driver of Ray does in a process of its own: `python -m tests.integration.pipeline.drivers WORD ADDRESS ...`."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray

import rayft


def sums(dataset: Any) -> dict[str, Any]:
    """What a Dataset holds."""
    return {"rows": dataset.count(), "sum": dataset.sum("offset"), "values": len(dataset.unique("value"))}


def read(servers: str, topic: str) -> dict[str, Any]:
    """Read a topic with Ray Data."""
    return sums(rayft.ray.read(servers, topic))


def share(servers: str, topic: str) -> dict[str, Any]:
    """Decode a topic once."""
    return {"handle": rayft.ray.share(servers, [topic])}


def shared(handle: str) -> dict[str, Any]:
    """Read shared batches in Ray and in Spark, in a process that decoded nothing, and give them back."""
    session = rayft.spark.session("shared", "local[2]", "1g")
    try:
        frame = session.read.format("rayft").option("shared", handle).load()
        row = frame.selectExpr("count(*) rows", "sum(offset) sum", "count(distinct value) as values").first()
        found = {"dataset": sums(rayft.ray.dataset(handle)), "spark": row.asDict()}
    finally:
        session.stop()
    rayft.ray.close(handle)
    return found


def write(servers: str, topic: str, folder: str, batch: str) -> dict[str, Any]:
    """Write 4,000 rows, with a worker that dies in the middle of the job."""

    def dies_once(table: pa.Table) -> pa.Table:
        mark = Path(folder, f"died-{batch}")
        if "77" in table.column("value").to_pylist() and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return table

    rows = ray.data.range(4000, override_num_blocks=4)
    made = rows.map_batches(lambda table: pa.table({"value": table["id"].cast(pa.string())}), batch_format="pyarrow")
    made = made.map_batches(dies_once, batch_format="pyarrow", batch_size=500)
    made.write_datasink(rayft.ray.Sink(servers, topic, sink=topic, batch=int(batch)))
    return {"died": Path(folder, f"died-{batch}").exists()}


if __name__ == "__main__":
    word, address, *arguments = sys.argv[1:]
    ray.init(address=address, log_to_driver=False)
    print(json.dumps({"read": read, "share": share, "shared": shared, "write": write}[word](*arguments)))
