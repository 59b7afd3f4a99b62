"""Merges settings and access rules that were changed at both sides, with what both said before as the third way.

This file alone decides what counts where the log and ZooKeeper differ. Rules:

1. The third way is what both sides said when they agreed last (`bases.py`), whichever controller was active then: what
   one side has added, changed or removed since is added, changed or removed. If both have changed a key, what an old
   broker has acknowledged counts.
2. Where that is not known, what another writer than rayft has written since rayft's last claim counts as a whole,
   however long rayft did not watch. What rayft has written says so in the znode (`by`), which brokers pass over and do
   not keep.
"""

from actors.authorization.access_rules import Rule
from actors.bridge.asks import Here
from actors.bridge.bases import Base, mark
from actors.bridge.subjects import settings
from actors.bridge.subjects.settings import Settings
from actors.bridge.znodes import OURS, BadZnode, fields
from actors.ports.zookeeper import Znode


def of_rules(base: Base, here: frozenset[Rule], there: frozenset[Rule]) -> frozenset[Rule]:
    """The rules of the log (`here`) with what ZooKeeper (`there`) has added, and without what it has removed, since
    both agreed on `base`."""
    return frozenset(
        one for one in here | there if one in (here if (one in there) == (mark(repr(tuple(one))) in base) else there)
    )


def of_settings(base: Base, here: Settings, there: Settings) -> Settings:
    """The settings of the log (`here`) with what ZooKeeper (`there`) has added, changed or removed since both agreed on
    `base`."""
    found = {}
    for name in {**here, **there}:
        now = None if name not in there else mark(settings.plain(name, there[name]))
        value = here.get(name) if now == base.get(mark(name)) else there.get(name)
        if value is not None:
            found[name] = value
    return found


def is_anothers(here: Here, path: str, znode: Znode | None) -> bool:
    """Whether another writer than rayft has written a znode since rayft's last claim."""
    if znode is None or not here.since or znode.mzxid <= here.since:
        return False
    try:
        return fields(path, znode).get("by") != OURS
    except BadZnode:
        return False
