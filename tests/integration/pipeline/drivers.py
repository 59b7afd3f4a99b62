"""What a driver of Ray does in a process of its own: `python -m tests.integration.pipeline.drivers WORD ADDRESS ...`."""

import json
import sys
from typing import Any

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


if __name__ == "__main__":
    word, address, *arguments = sys.argv[1:]
    ray.init(address=address, log_to_driver=False)
    print(json.dumps({"read": read, "share": share, "shared": shared}[word](*arguments)))
