"""Mistakes that the simulator of whole nodes must catch: each one is planted for the length of a run.

    python -m tests.simulator.planted                 hunt all with fresh seeds, a stated number each
    python -m tests.simulator.planted --record NAME   search a seed for some and record it

For each mistake `recorded.json` keeps the seed and the world that caught it, and the checker. `make test` replays
those: a mistake that goes unnoticed means that a checker or a fault has been lost.
"""

from tests.simulator.planted import (
    aged,
    arriving,
    authorization,
    broker,
    bulk,
    client,
    compaction,
    consumer_groups,
    controller,
    disks,
    loading,
    log,
    moves,
    portions,
    pushes,
    quorum,
    replicas,
    share_groups,
    share_members,
    share_state,
    strangers,
    streams_groups,
    transactions,
)  # fmt: skip
from tests.simulator.planted.registry import PLANTED, planted

__all__ = [
    "PLANTED", "aged", "arriving", "authorization", "broker", "bulk", "client", "compaction", "consumer_groups",
    "controller", "disks", "loading", "log", "moves", "planted", "portions", "pushes", "quorum", "replicas", "share_groups",
    "share_members", "share_state", "strangers", "streams_groups", "transactions",
]  # fmt: skip
