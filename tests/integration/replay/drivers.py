"""Drivers of Ray and Spark for test_shared_by_ray.py, each a process of its own: `python -m ... NAME ADDRESS [ARGUMENT]`."""

import json
import sys
from typing import Any

import pyarrow as pa
import ray

from actors.replay import ray_cache, shared


def share(address: str, path: str) -> dict[str, Any]:
    """Decode once, and end."""
    ray.init(address=address, log_to_driver=False)
    handle = ray_cache.share(path=path, splitBytes="200000")
    name = handle.removeprefix("ray:").partition("@")[0]
    return {"handle": handle, "decodes": ray.get(ray.get_actor(name, namespace=ray_cache.NAMESPACE).ready.remote())}


def measured(handle: str, part: int) -> tuple[int, int]:
    """(rows of a part, bytes that reading it took from Arrow's pool), in the process that runs this."""
    found = shared.attach(handle)
    before = pa.total_allocated_bytes()
    batches = list(found.batches(part))
    return sum(batch.num_rows for batch in batches), pa.total_allocated_bytes() - before


def read(address: str, handle: str) -> dict[str, Any]:
    """Read shared batches in every way, in a process that decoded nothing."""
    ray.init(address=address, log_to_driver=False)
    from actors.pipeline import spark
    from actors.replay import ray as door

    parts = shared.attach(handle).parts
    dataset = door.dataset(handle)
    found: dict[str, Any] = {
        "here": [measured(handle, part) for part in range(parts)],
        "dataset": (dataset.count(), dataset.sum("offset")),
    }
    session = spark.session("shared", "local[2]", "1g")
    try:
        frame = session.read.format("rayft").option("shared", handle).load()
        found["spark"] = list(frame.selectExpr("count(*)", "sum(offset)", "count(distinct value)").first())
        numbers = session.sparkContext.parallelize(range(parts), parts)
        found["workers"] = numbers.map(lambda part: measured(handle, part)).collect()
    finally:
        session.stop()
    ray_cache.close(handle)
    return found


def files(address: str, path: str) -> dict[str, Any]:
    """Read with Ray Data from files."""
    ray.init(address=address, log_to_driver=False)
    from actors.replay import ray as door

    dataset = door.read(path=path, splitBytes="200000")
    few = dataset.select_columns(["offset", "partition"])
    return {
        "count": dataset.count(),
        "names": few.schema().names,
        "sum": few.sum("offset"),
        "blocks": few.materialize().num_blocks(),
        "first": dataset.limit(1).take(1)[0]["value"].decode(),
    }


if __name__ == "__main__":
    print(json.dumps({"share": share, "read": read, "files": files}[sys.argv[1]](*sys.argv[2:])))
