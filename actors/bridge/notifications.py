"""Notifications in ZooKeeper: folders in which brokers say which settings, access rules or tokens they have changed.

This file alone decides which notifications are obeyed. Rules:

1. Each is obeyed once: those that are newer than the last one handled, by their numbers. What several name is read once.
2. How far they were handled is kept in ZooKeeper (`/rayft_bridge`), for the next active controller.
3. One that cannot be read is told of, and the others are obeyed.
4. A folder that is not there yet is watched until it is.
5. A notification of access rules or a token names them and nothing else, so it does not name its maker. `/rayft_bridge`
   says instead how rayft has written them last, in the transaction of that write: what is found as rayft has written it
   is not taken over, also by the next active controller. Otherwise what the log has changed since would be undone. That
   ends when the notification is handled.
"""

from collections.abc import Callable, Sequence
from typing import Any

from actors.bridge import bases, znodes
from actors.bridge.asks import Here, Job, Look, Settle, Tell
from actors.bridge.claim import guarded, note
from actors.bridge.znodes import OURS as OURS
from actors.bridge.znodes import BadZnode, fields, put
from actors.ports.zookeeper import Change, Children, Get, Znode

GETS_AT_ONCE = 500
PREFIXES = {
    znodes.CONFIG_CHANGES: "config_change_",
    znodes.RULE_CHANGES: "acl_changes_",
    znodes.PREFIXED_CHANGES: "acl_changes_",
    znodes.TOKEN_CHANGES: "token_change_",
}
"""The beginning of the names of notifications, by folder; a number follows."""


def notified(here: Here, folder: str, subject_of: Callable[[str, Znode], Any], take: Callable[[Here, Any], Job]) -> Job:
    """Run `take` for each subject that a new notification names. `subject_of` gives None for one that is passed over."""
    names = yield from _names(folder)
    handled = here.handled.get(folder, -1)
    numbered = sorted((_number(name, PREFIXES[folder]), name) for name in names)
    newer = [(number, f"{folder}/{name}") for number, name in numbered if number > handled]
    subjects: dict[Any, None] = {}
    for first in range(0, len(newer), GETS_AT_ONCE):
        part = newer[first : first + GETS_AT_ONCE]
        for (_, path), znode in zip(part, (yield Look([Get(path) for _, path in part], watch=False)), strict=True):
            try:
                if znode is not None and (subject := subject_of(path, znode)) is not None:
                    subjects[subject] = None
            except BadZnode as error:
                yield Tell(f"a notification is passed over: {error}", error=True)
    for subject in subjects:
        yield from take(here, subject)
    yield from bases.write(here)
    if newer:
        here.handled[folder] = newer[-1][0]
        if subjects:
            yield Settle()
    if here.wrote.pop(folder, None) or newer:
        yield from remembered(here)


def remembered(here: Here) -> Job:
    """Store in ZooKeeper how far notifications were handled, and which controller handled them."""
    (known,) = yield Look([Get(znodes.BRIDGE)], watch=False)
    yield guarded(here, [put(znodes.BRIDGE, note(here), known)])


def make_noted(
    here: Here, noted: Znode | None, changes: Sequence[Change], folder: str, subject: str, mark: int | None
) -> Job:
    """Change znodes, with a note of how a subject whose notification is among the changes was written. `noted`:
    /rayft_bridge as it is; `mark`: the number by which this write is known again, or None for one that is not noted."""
    marks = {other: one for other, one in here.wrote.get(folder, {}).items() if other != subject}
    wrote = here.wrote | {folder: marks if mark is None else marks | {subject: mark}}
    yield guarded(here, [*changes, put(znodes.BRIDGE, note(here, wrote), noted)])
    here.wrote = wrote


def mark_of(here: Here, folder: str, subject: str) -> int | None:
    """The number by which rayft's last write of a subject is known again, if its notification may not have been handled."""
    return here.wrote.get(folder, {}).get(subject)


def recall(here: Here, znode: Znode | None) -> None:
    """Take over what the last active controller has noted: how far notifications were handled, and what rayft has
    written."""
    if znode is None:
        return
    try:
        noted = fields(znodes.BRIDGE, znode)
    except BadZnode:
        return
    if "handled" in noted:
        here.handled = _numbers(noted["handled"])
        wrote = noted.get("wrote")
        here.wrote = {folder: _numbers(wrote[folder]) for folder in wrote} if isinstance(wrote, dict) else {}


def newest(names: Sequence[str], folder: str) -> int:
    """The number of the newest notification among the names in a folder; -1: there is none."""
    return max((_number(name, PREFIXES[folder]) for name in names), default=-1)


def _numbers(noted: Any) -> dict[str, int]:
    return {key: one for key, one in noted.items() if isinstance(one, int)} if isinstance(noted, dict) else {}


def _names(folder: str) -> Job:
    """Read the names in a folder, which is watched."""
    while True:
        (names,) = yield Look([Children(folder)])
        if names is not None:
            return names
        (there,) = yield Look([Get(folder)])
        if there is None:
            return ()


def _number(name: str, prefix: str) -> int:
    digits = name.removeprefix(prefix)
    return int(digits) if digits.isascii() and digits.isdigit() else -1
