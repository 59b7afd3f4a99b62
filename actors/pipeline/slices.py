"""Reading a slice of a plan, on whichever machine its task runs, and what becomes of records that are gone.

This file alone decides both. A task has a client of its own, which asks the leader of one partition, and its records
become Arrow columns as with `rayft.read`. Nothing is kept between tasks, so one that is run again reads the same offsets.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from actors.arrow.ranges import Range
from actors.arrow.reading import batches
from actors.client.properties import client_config
from actors.host.client.blocking import Kafka
from actors.pipeline.planning import Lost, Slice
from actors.replay.follow import DataLoss, RecordsLost


def losses(fail: bool) -> Lost:
    """The answer to records that are gone: DataLoss, or the warning RecordsLost."""
    return _raised if fail else _warned


def _raised(sentence: str) -> None:
    raise DataLoss(f"{sentence}. Write failOnDataLoss=false to go on without them.")


def _warned(sentence: str) -> None:
    warnings.warn(f"{sentence}.", RecordsLost, stacklevel=2)


def read(
    settings: Mapping[str, Any], piece: Slice, columns: Sequence[str], fail: bool = True
) -> Iterator[pa.RecordBatch]:
    """The records of a slice, in order, with these columns. `settings`: the client's, by Kafka's names. Raises ClientError,
    and DataLoss for records that are gone if `fail`."""
    part = piece.topic, piece.partition
    kafka = Kafka(client_config(settings))
    plan, ids = {part: Range(piece.first, piece.end)}, {piece.topic: piece.topic_id}
    return batches(kafka, plan, columns, ids, losses(fail))
