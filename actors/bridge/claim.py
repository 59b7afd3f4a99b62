"""The claim of /controller and /controller_epoch: how this controller becomes the one of the ZooKeeper cluster, and
gives that up.

This file alone decides the transactions. Rules:

1. The epoch rises and /controller changes hands in one transaction, whose versions are those that were read: no other
   controller comes in between, and if two claim at once, one is refused.
2. /controller is persistent. If it vanished, a broker would make itself the controller at once and push old leaders. So
   it stays when the session ends, and the next active controller overwrites it.
3. Each later change checks the version of /controller_epoch: a controller that does not know yet that another has
   claimed changes nothing any more.
4. The transaction of a claim notes its epoch in /rayft_bridge/claimed. /controller_epoch says the same as long as only
   rayft has claimed: an unbroken chain. Only such a chain proves that what ZooKeeper has and the log has not was
   deleted by rayft. Where the chain is broken it stays so until what another controller has made is committed in the
   log (`mended`): a controller or a session that ends before proves nothing to the next one.
5. A transaction has CHANGES_MAX changes and half of what a request may have at most, but for one change that is larger.
6. The transaction of a claim notes its epoch in /rayft_bridge/agreed too, if what is there was kept up to the claim before
   (`bases.py`).
"""

from collections.abc import Mapping, Sequence

from actors.bridge import znodes
from actors.bridge.asks import Claim, Here, Job, Look, Make
from actors.bridge.checks import controller_epoch, holder
from actors.bridge.reading import Snapshot
from actors.bridge.subjects import brokers
from actors.bridge.znodes import (
    AGREED,
    BRIDGE,
    CLAIMED,
    CONTROLLER,
    CONTROLLER_EPOCH,
    WANTED,
    BadZnode,
    fields,
    put,
    written,
)
from actors.ports.zookeeper import Change, Check, Children, Create, Delete, Get, Write, change_bytes

DRIVING = "driving"
WROTE_NOTED_MAX = 100
"""The most writes that are noted for one kind of notification."""
CHANGES_MAX = 300
"""The most changes of one transaction."""


def look() -> Job:
    """Read what a claim needs to know, and what shows whether this is still the same cluster, with the znodes of its
    brokers."""
    paths = [CONTROLLER, CONTROLLER_EPOCH, BRIDGE, WANTED, CLAIMED, AGREED, znodes.CLUSTER_ID, znodes.MIGRATION]
    *results, names = yield Look([*map(Get, paths), Children(znodes.BROKER_IDS)])
    there = [f"{znodes.BROKER_IDS}/{name}" for name in names or ()]
    results += (yield Look([Get(path) for path in there], watch=False)) if there else ()
    found = {path: znode for path, znode in zip([*paths, *there], results, strict=True) if znode is not None}
    return Snapshot(found, {znodes.BROKER_IDS: tuple(names or ())})


def claim(here: Here, snapshot: Snapshot, *, chained: bool = True) -> Job:
    """Become the controller. `chained`: the claim is one of the chain at once; otherwise `mended` makes it one. Raises
    Rejected if anything has changed since `snapshot` was read."""
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
    changes += [Create(BRIDGE)] if snapshot.get(BRIDGE) is None else []
    agreed = snapshot.get(AGREED)
    has_bases = agreed is not None and agreed.data == str(last_claimed(snapshot)).encode()
    if chained:
        changes += [put(AGREED, number if has_bases else b"", agreed), put(CLAIMED, number, snapshot.get(CLAIMED))]
    yield Make(changes)
    here.has_bases = has_bases
    here.claim = Claim(epoch, 0 if before is None else before.version + 1)
    return here.claim


def mended(here: Here) -> Job:
    """Note that what another controller has made is in the log, so that the chain of claims is whole from now on."""
    assert here.claim is not None
    number = str(here.claim.epoch).encode()
    agreed, claimed = yield Look([Get(AGREED), Get(CLAIMED)], watch=False)
    yield guarded(here, [put(AGREED, number if here.has_bases else b"", agreed), put(CLAIMED, number, claimed)])


def last_claimed(snapshot: Snapshot) -> int:
    """The controller epoch that rayft has claimed last, as ZooKeeper has it; -1: none is noted."""
    claimed, noted = snapshot.get(CLAIMED), snapshot.get(BRIDGE)
    try:
        if claimed is not None:
            return znodes.number(CLAIMED, claimed.data.decode("ascii", "replace"), "its content")
        found = {} if noted is None or not noted.data else fields(BRIDGE, noted)  # rayft 1.0 noted it there alone
        return znodes.number(BRIDGE, found.get("controller_epoch"), "controller_epoch")
    except BadZnode:
        return -1


def is_unbroken(snapshot: Snapshot) -> bool:
    """Whether every claim since rayft's last one was rayft's (rule 4)."""
    return controller_epoch(snapshot) == last_claimed(snapshot)


def present(here: Here) -> Job:
    """Make the znode under which brokers of 2.8 look for this controller before they stop. It goes with the session."""
    path = brokers.path_of(here.me)
    (known,) = yield Look([Get(path)], watch=False)
    if known is not None:
        yield Make([Delete(path, known.version)])
    if here.endpoints:
        yield Make([Create(path, brokers.entry(here.endpoints, here.wall_ms), ephemeral=True)])


def absent(here: Here) -> Job:
    """Remove the znode under which brokers look for this controller."""
    path = brokers.path_of(here.me)
    (known,) = yield Look([Get(path)], watch=False)
    if known is not None:
        yield guarded(here, [Delete(path)])


def guarded(here: Here, changes: Sequence[Change]) -> Make:
    """The ask to make changes unless another controller has claimed."""
    assert here.claim is not None, "nothing is changed in ZooKeeper without a claim"
    return Make([Check(CONTROLLER_EPOCH, here.claim.version), *changes])


def made(here: Here, changes: Sequence[Change]) -> Job:
    """Make changes, in as many transactions as they need (rule 5)."""
    portion: list[Change] = []
    most = room = here.request_bytes // 2
    for change in changes:
        if portion and (len(portion) >= CHANGES_MAX or room < change_bytes(change)):
            yield guarded(here, portion)
            portion, room = [], most
        portion.append(change)
        room -= change_bytes(change)
    if portion:
        yield guarded(here, portion)


def note(here: Here, wrote: Mapping[str, Mapping[str, int]] | None = None) -> bytes:
    """The content of /rayft_bridge while a bridge drives, for `rayft status` and the next active controller. `wrote`:
    if it is not what the controller has now."""
    assert here.claim is not None
    marks = here.wrote if wrote is None else wrote
    newest = {folder: dict(list(some.items())[-WROTE_NOTED_MAX:]) for folder, some in marks.items() if some}
    return written(
        version=1,
        state=DRIVING,
        controller=here.me,
        controller_epoch=here.claim.epoch,
        handled=here.handled,
        **({"given_back": here.given_back} if here.given_back else {}),
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
    """What the operator asks for: `back`, `finish`, or nothing."""
    znode = snapshot.get(WANTED)
    return "" if znode is None else znode.data.decode("ascii", "replace")
