"""Batches that are decoded once into Ray's object store and cached there for many readers.

    handle = ray_cache.share(path="/var/rayft/broker-1", topics="orders")   # decode once, in Ray tasks
    spark.read.format("rayft").option("shared", handle).load()              # Spark over those buffers; Ray Data: see ray.py
    ray_cache.close(handle)

This file alone decides which process owns them. In Ray, the process that submits a task owns its result. So a detached
actor, the holder, submits the tasks that decode, and the batches live as long as the holder does, whichever drivers
come and go. Ray sends Arrow tables as buffers out of band, which readers map. Nothing is pickled here.
"""

import os
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import ray

from actors.import_path import joining_ray
from actors.replay.read_options import ReadOptions, read_options
from actors.replay.work import Logs, Work

NAMESPACE = "rayft"
SPREAD = "SPREAD"


def _decode(work: Work, piece: Any) -> tuple[pa.Table, int]:
    """Decode a piece in a Ray task. Returns its table, and the id of the process that decoded it."""
    return pa.Table.from_batches(work.batches(piece), schema=work.schema), os.getpid()


class Holder:
    """The owner of the batches: it submits the tasks that decode them."""

    def __init__(self, what: Work | ReadOptions) -> None:
        work = Logs(what) if isinstance(what, ReadOptions) else what
        self._schema = work.schema
        task = ray.remote(_decode).options(num_returns=2, scheduling_strategy=SPREAD)
        cores = int(ray.cluster_resources().get("CPU", 1))
        pairs = [task.remote(work, piece) for piece in work.pieces(cores)]
        self._tables = [table for table, _ in pairs]
        self._workers = [worker for _, worker in pairs]

    def ready(self) -> int:
        """Wait until all splits are decoded. Returns their number. Raises what a task raised."""
        return len(ray.get(self._workers))

    def batches(self) -> tuple[pa.Schema, list[Any]]:
        """The schema, and a reference to the table of every part."""
        return self._schema, self._tables


class Attached:
    """A process's view of a holder; a `Shared` of actors/replay/shared.py."""

    def __init__(self, where: str) -> None:
        name, _, address = where.partition("@")
        if not ray.is_initialized():
            with joining_ray():
                ray.init(address=address or "auto", namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
        self.holder = ray.get_actor(name, namespace=NAMESPACE)
        self.schema, self.references = ray.get(self.holder.batches.remote())
        self.parts = len(self.references)

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """The buffers in the object store, without a copy."""
        yield from ray.get(self.references[part]).to_batches()


def share(read: Work | ReadOptions | None = None, **options: str) -> str:
    """Decode work, a read, or one with these options, once. Returns its handle. Ray must be running. Raises what decoding
    raises."""
    name = f"rayft-{uuid.uuid4().hex[:12]}"
    kind = ray.remote(num_cpus=0)(Holder)
    holder = kind.options(name=name, namespace=NAMESPACE, lifetime="detached").remote(read or read_options(options))
    handle = f"ray:{name}@{ray.get_runtime_context().gcs_address}"
    try:
        ray.get(holder.ready.remote())
    except BaseException:  # an interrupt too: no other process knows the name of the detached actor
        ray.kill(holder)
        raise
    return handle


def close(handle: str) -> None:
    """End the holder of a handle. Its batches are freed when no reader uses them any more."""
    name = handle.removeprefix("ray:").partition("@")[0]
    ray.kill(ray.get_actor(name, namespace=NAMESPACE))
