"""/controller and /controller_epoch: how this controller becomes the one of the ZooKeeper cluster, and gives that up.

This file alone decides the transactions. Rules:

1. The epoch rises and /controller changes hands in one transaction, whose versions are those that were read: nobody
   else is the controller in between, and of two that claim one is refused.
2. /controller is persistent. If it vanished, a broker would make itself the controller at once and push old leaders. So
   it stays when the session ends, and the next active controller overwrites it.
3. Each later change checks the version of /controller_epoch: a controller that does not know yet that another has
   claimed changes nothing any more.
"""

from collections.abc import Mapping, Sequence

from actors.bridge import brokers
from actors.bridge.asks import Claim, Here, Job, Look, Make
from actors.bridge.checks import controller_epoch, holder
from actors.bridge.reading import Snapshot
from actors.bridge.znodes import BRIDGE, CONTROLLER, CONTROLLER_EPOCH, WANTED, written
from actors.zookeeper import Change, Check, Create, Delete, Get, Write

DRIVING = "driving"
WROTE_NOTED_MAX = 100
"""Of each kind of notification."""


def look() -> Job:
    """What a claim needs to know."""
    paths = (CONTROLLER, CONTROLLER_EPOCH, BRIDGE, WANTED)
    results = yield Look([Get(path) for path in paths])
    return Snapshot({path: znode for path, znode in zip(paths, results, strict=True) if znode is not None}, {})


def claim(here: Here, snapshot: Snapshot) -> Job:
    """Become the controller. Raises Rejected if anything has changed since `snapshot` was read."""
    epoch = controller_epoch(snapshot) + 1
    before, known = snapshot.get(CONTROLLER_EPOCH), snapshot.get(CONTROLLER)
    number = str(epoch).encode()
    changes: list[Change] = [
        Create(CONTROLLER_EPOCH, number) if before is None else Write(CONTROLLER_EPOCH, number, before.version)
    ]
    data = written(version=1, brokerid=here.me, timestamp=str(here.wall_ms))
    if known is not None and not known.ephemeral:
        changes.append(Write(CONTROLLER, data, known.version))
    else:
        changes += [Delete(CONTROLLER, known.version)] if known is not None else []
        changes.append(Create(CONTROLLER, data))
    yield Make(changes)
    here.claim = Claim(epoch, 0 if before is None else before.version + 1)
    return here.claim


def present(here: Here) -> Job:
    """Make this controller findable where brokers of 2.8 look for it before they stop. The znode goes with the
    session."""
    path = brokers.path_of(here.me)
    (known,) = yield Look([Get(path)], watch=False)
    if known is not None:
        yield Make([Delete(path, known.version)])
    if here.endpoints:
        yield Make([Create(path, brokers.entry(here.endpoints, here.wall_ms), ephemeral=True)])


def absent(here: Here) -> Job:
    """The opposite: this controller is not to be found any more."""
    path = brokers.path_of(here.me)
    (known,) = yield Look([Get(path)], watch=False)
    if known is not None:
        yield guarded(here, [Delete(path)])


def guarded(here: Here, changes: Sequence[Change]) -> Make:
    """These changes, unless another controller has claimed."""
    assert here.claim is not None, "nothing is changed in ZooKeeper without a claim"
    return Make([Check(CONTROLLER_EPOCH, here.claim.version), *changes])


def note(here: Here, wrote: Mapping[str, Mapping[str, int]] | None = None) -> bytes:
    """What stands in ZooKeeper about a bridge that drives, for `rayft status` and the next active controller. `wrote`: if
    it is not what the controller has now."""
    assert here.claim is not None
    marks = here.wrote if wrote is None else wrote
    newest = {folder: dict(list(some.items())[-WROTE_NOTED_MAX:]) for folder, some in marks.items() if some}
    return written(
        version=1,
        state=DRIVING,
        controller=here.me,
        controller_epoch=here.claim.epoch,
        handled=here.handled,
        **({"wrote": newest} if newest else {}),
    )


def is_ours(here: Here, snapshot: Snapshot) -> bool:
    """Whether ZooKeeper still has this controller as the controller, under its claim."""
    epoch = snapshot.get(CONTROLLER_EPOCH)
    return (
        here.claim is not None
        and epoch is not None
        and epoch.version == here.claim.version
        and holder(snapshot) == here.me
    )


def wanted(snapshot: Snapshot) -> str:
    """What the operator wants: `back`, `finish`, or nothing."""
    znode = snapshot.get(WANTED)
    return "" if znode is None else znode.data.decode("ascii", "replace")
