"""The bases in /rayft_bridge/agreed: what both sides said of settings and access rules when they agreed last.

A merge needs to know it, and another controller may do the next merge. This file alone decides how it is kept. Rules:

1. It is kept in ZooKeeper, as digests, in one znode for each subject that has settings or rules. What rayft writes and
   what is agreed on then are one transaction. No secret and no long value is there a second time.
2. What is taken over from ZooKeeper is agreed on once it is committed. So that is announced before: the znode has both
   bases until then. A controller that ends in between leaves both; of each setting or rule the announced one counts if
   the log says the same, for then it was committed.
3. What has no such znode had no settings and no rules, if /rayft_bridge/agreed names the controller epoch that rayft has
   claimed last: all bases are there, and kept. Otherwise nothing is known, and all of it is forgotten and begun anew: a
   release of rayft that keeps no bases may have driven since.
4. Numbers that are written in several ways are one number.
"""

import hashlib
from collections.abc import Mapping
from itertools import islice

from actors.authorization.access_rules import Rule
from actors.bridge.asks import Here, Job, Look, Settle
from actors.bridge.claim import guarded, made
from actors.bridge.subjects import settings
from actors.bridge.subjects.settings import Settings
from actors.bridge.znodes import AGREED
from actors.ports.zookeeper import Change, Children, Create, Delete, Get, Write, Znode, request_bytes

Base = Mapping[bytes, bytes]
"""Digest of a setting's name, or of a rule -> digest of the value, of DIGEST_BYTES each."""
DIGEST_BYTES = 8
PAIR_BYTES = 2 * DIGEST_BYTES
FORM, ANNOUNCED, UNKNOWN = b"\x01", b"\x02", b"\x00"
"""The first byte of a base's znode. FORM: pairs follow, sorted. ANNOUNCED: the length of the pairs follows, then the
pairs, then another base, which is announced. UNKNOWN: the base is too large to be kept."""
LENGTH_BYTES = 4
READS_A_ROUND = 500


def path_of(path: str) -> str:
    """The path of the base of a znode. It is short, whatever the path of that znode is."""
    return f"{AGREED}/{hashlib.sha256(path.encode('utf-8', 'replace')).hexdigest()[:32]}"


def of_settings(found: Settings) -> Base:
    """The base of some settings."""
    return {mark(name): mark(settings.plain(name, value)) for name, value in found.items()}


def of_rules(found: frozenset[Rule]) -> Base:
    """The base of some access rules."""
    return {mark(repr(tuple(one))): mark("") for one in found}


def mark(text: str) -> bytes:
    """The digest of a name or a value."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:DIGEST_BYTES]


def keep(here: Here, path: str, base: Base) -> None:
    """Note that both sides agree on this base, as soon as the log is committed up to here. `write` stores it."""
    here.agreed[path] = base


def known(here: Here, path: str, znode: Znode | None, have: Base) -> Base | None:
    """The base of a znode at `path`; None: it is not known. `znode`: that of `path_of(path)`; `have`: what the log
    says."""
    if path in here.agreed:
        return here.agreed[path]
    if znode is None:
        return {} if here.has_bases else None
    base, announced = _read(znode.data)
    if base is None or announced is None:
        return base
    found = {}
    for key in {**base, **announced}:
        value = (announced if have.get(key) == announced.get(key) else base).get(key)
        if value is not None:
            found[key] = value
    return found


def announce(here: Here, path: str, base: Base | None, announced: Base, znode: Znode | None) -> Job:
    """Store that `announced` is about to be committed, where `base` was agreed on. `znode`: that of `path_of(path)`;
    returns it as it is then."""
    if base is None or base == announced:
        return znode
    before = _pairs(base)
    data = ANNOUNCED + len(before).to_bytes(LENGTH_BYTES) + before + _pairs(announced)
    data = UNKNOWN if len(data) > here.request_bytes // 4 else data
    at = path_of(path)
    yield guarded(here, [Create(at, data) if znode is None else Write(at, data)])
    return Znode(data)


def change(here: Here, path: str, base: Base, znode: Znode | None) -> list[Change]:
    """The changes after which ZooKeeper has a base. `znode`: that of `path_of(path)` as it is."""
    at = path_of(path)
    if not base:
        return [] if znode is None else [Delete(at)]
    data = FORM + _pairs(base)
    if len(data) > here.request_bytes // 4:
        data = UNKNOWN
    if znode is None:
        return [Create(at, data)]
    return [] if znode.data == data else [Write(at, data)]


def noted(here: Here, path: str, base: Base, znode: Znode | None, changes: list[Change]) -> list[Change]:
    """The changes passed in, and those that store the base which holds with them. If a request has no room for the
    base, it is stored as unknown."""
    every = [*changes, *change(here, path, base, znode)]
    if request_bytes(every) <= here.request_bytes:
        return every
    at = path_of(path)
    return [*changes, Create(at, UNKNOWN) if znode is None else Write(at, UNKNOWN)]


def write(here: Here) -> Job:
    """Store the bases of what is committed now."""
    if not here.agreed:
        return
    yield Settle()
    rest = iter(dict(here.agreed).items())
    while portion := list(islice(rest, READS_A_ROUND)):
        found = yield Look([Get(path_of(path)) for path, _ in portion], watch=False)
        changes: list[Change] = []
        for (path, base), znode in zip(portion, found, strict=True):
            changes += change(here, path, base, znode)
        yield from made(here, changes)
        for path, base in portion:
            if here.agreed.get(path) is base:
                del here.agreed[path]


def read(here: Here, paths: list[str]) -> Job:
    """The bases of these znodes by path, None where one is announced; znodes whose base is not known are left out."""
    found: dict[str, Base | None] = {}
    for first in range(0, len(paths), READS_A_ROUND):
        portion = paths[first : first + READS_A_ROUND]
        for path, znode in zip(portion, (yield Look([Get(path_of(one)) for one in portion], watch=False)), strict=True):
            base, announced = ({} if here.has_bases else None, None) if znode is None else _read(znode.data)
            base = here.agreed.get(path, base)
            if base is not None:
                found[path] = base if announced is None else None
    return found


def forget(here: Here) -> Job:
    """Forget all bases: nothing is agreed on any more."""
    here.has_bases = False
    here.agreed.clear()
    yield guarded(here, [Write(AGREED, b"")])
    (names,) = yield Look([Children(AGREED)], watch=False)
    yield from made(here, [Delete(f"{AGREED}/{name}") for name in names or ()])


def complete(here: Here) -> Job:
    """Note that what has no base now had no settings and no rules when both sides agreed last (rule 3)."""
    yield from write(here)
    if not here.has_bases:
        assert here.claim is not None
        yield guarded(here, [Write(AGREED, str(here.claim.epoch).encode())])
        here.has_bases = True


def _pairs(base: Base) -> bytes:
    return b"".join(sorted(key + value for key, value in base.items()))


def _read(data: bytes) -> tuple[Base | None, Base | None]:
    """(base agreed on, base announced) in a znode's bytes; None for one that is not known."""
    if data.startswith(FORM):
        return _base(data[1:]), None
    if not data.startswith(ANNOUNCED):
        return None, None
    end = 1 + LENGTH_BYTES + int.from_bytes(data[1 : 1 + LENGTH_BYTES])
    base, announced = _base(data[1 + LENGTH_BYTES : end]), _base(data[end:])
    return (None, None) if announced is None else (base, announced)


def _base(pairs: bytes) -> Base | None:
    if len(pairs) % PAIR_BYTES:
        return None
    places = range(0, len(pairs), PAIR_BYTES)
    return {pairs[at : at + DIGEST_BYTES]: pairs[at + DIGEST_BYTES : at + PAIR_BYTES] for at in places}
