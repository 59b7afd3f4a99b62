"""Who wrote last: settings and access rules that were changed at both sides, merged three ways.

This file alone decides what counts where the log and ZooKeeper differ. Rules:

1. The third way is what both sides said when they agreed last, as long as the controller that knows it is active: what
   one side has added, changed or removed since is added, changed or removed. Of a key that both have changed, what an old
   broker has acknowledged counts.
2. Without it, what somebody else has written since rayft's last claim counts as a whole, however long nobody watched.
   What rayft has written says so in the znode (`by`), which brokers pass over and do not keep.
"""

from typing import TypeVar

from actors.bridge.asks import Here
from actors.bridge.znodes import OURS, BadZnode, fields
from actors.zookeeper import Znode

Key = TypeVar("Key")
Value = TypeVar("Value")


def of_sets(base: frozenset[Key], here: frozenset[Key], there: frozenset[Key]) -> frozenset[Key]:
    """Members of `here`, of the log, with what `there`, ZooKeeper, has added and without what it has removed."""
    return (here - (base - there)) | (there - base)


def of_maps(base: dict[Key, Value], here: dict[Key, Value], there: dict[Key, Value]) -> dict[Key, Value]:
    """The same for values by key."""
    found = {}
    for key in {**base, **here, **there}:
        value = here.get(key) if there.get(key) == base.get(key) else there.get(key)
        if value is not None:
            found[key] = value
    return found


def is_anothers(here: Here, path: str, znode: Znode | None) -> bool:
    """Whether somebody else has written a znode since rayft's last claim."""
    if znode is None or not here.since or znode.mzxid <= here.since:
        return False
    try:
        return fields(path, znode).get("by") != OURS
    except BadZnode:
        return False
