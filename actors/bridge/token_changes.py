"""Delegation tokens, followed and written back while the bridge drives.

Brokers in ZooKeeper mode write a token's znode, and then a notification with its id. This file alone decides which
changes of a token are whose. Rules:

1. A token and its notification are written in one transaction.
2. rayft knows its own write again by the version of the znode (`notifications.py`, rule 5). A token that it has removed
   leaves none: no other token gets its id.
3. A token that ZooKeeper has and the log does not have is new where a notification names it, or where no notification
   was ever handled. Otherwise the log had it and has removed it.
4. A token that cannot be read, or is one too many, is told of and left to the old brokers.
"""

from itertools import islice

from actors.bridge import tokens
from actors.bridge.asks import Here, Job, Look, Settle, Tell, apart, op_groups, taken
from actors.bridge.notifications import PREFIXES, make_noted, mark_of, notified
from actors.bridge.znodes import BRIDGE, TOKEN_CHANGES, TOKEN_ROOT, TOKENS, BadZnode, shown
from actors.controller.principals.delegation_tokens import TOKENS_MAX
from actors.metadata.image import Image
from actors.ports.zookeeper import Change, Children, Create, Delete, Get, Write, Znode


def changed(here: Here) -> Job:
    """Take over the tokens that brokers have made, renewed or ended, by /delegation_token/token_changes."""
    yield from notified(here, TOKEN_CHANGES, _id, _take)


@apart("delegation token {}")
def write(here: Here, id: str) -> Job:
    """Write one token to ZooKeeper as the log has it."""
    yield Settle()
    path = tokens.path_of(id)
    parents = [TOKEN_ROOT, TOKENS, TOKEN_CHANGES]
    known, noted, *above = yield Look([Get(path), Get(BRIDGE), *map(Get, parents)], watch=False)
    have = tokens.here(here.image, id)
    if (have is None and known is None) or (have is not None and known is not None and tokens.says(path, known, have)):
        return
    changes: list[Change] = [Create(one) for one, found in zip(parents, above, strict=True) if found is None]
    version: int | None = None
    if have is None:
        changes.append(Delete(path, known.version))
    elif known is None:
        changes.append(Create(path, tokens.data(id, have)))
        version = 0
    else:
        changes.append(Write(path, tokens.data(id, have, tokens.version_of(path, known)), known.version))
        version = known.version + 1
    changes.append(Create(f"{TOKEN_CHANGES}/{PREFIXES[TOKEN_CHANGES]}", id.encode(), sequential=True))
    yield from make_noted(here, noted, changes, TOKEN_CHANGES, id, version)


def agree(here: Here) -> Job:
    """Take over what brokers have changed, then make ZooKeeper have the tokens of the log, and no others that can be
    read."""
    first = TOKEN_CHANGES not in here.handled
    # Before notifications: a broker that made one of them has written one.
    (names,) = yield Look([Children(TOKENS)], watch=False)
    yield from changed(here)
    here.handled.setdefault(TOKEN_CHANGES, -1)
    ids = iter(dict.fromkeys([*here.image.tokens, *(names or ())]))
    while portion := list(islice(ids, tokens.AT_ONCE)):
        found = yield Look([Get(tokens.path_of(id)) for id in portion], watch=False)
        for id, znode in zip(portion, found, strict=True):
            if first and id not in here.image.tokens:
                yield from _take(here, id)
            elif _differs(here.image, id, znode):
                yield from write(here, id)


def usable(here: Here) -> Job:
    """Tell the operator if tokens are in the log and this controller has no key for them."""
    if here.image.tokens and not here.has_token_key:
        yield Tell(
            f"there are {len(here.image.tokens)} delegation tokens, and this node has no {tokens.SECRET}: give every node "
            f"the one of the old brokers (there it may be {tokens.OLD_SECRET}), or nobody logs in with them here",
            error=True,
        )


@taken("delegation token {}")
def _take(here: Here, id: str) -> Job:
    (znode,) = yield Look([Get(tokens.path_of(id))], watch=False)
    if znode is not None and mark_of(here, TOKEN_CHANGES, id) == znode.version:
        return
    if znode is not None and id not in here.image.tokens and len(here.image.tokens) >= TOKENS_MAX:
        raise BadZnode(tokens.path_of(id), f"is one more than the {TOKENS_MAX} that rayft has")
    op = tokens.difference(here.image, id, znode)
    if op is not None:
        yield op_groups([[op]])
        yield Tell(f"delegation token {id} was changed in ZooKeeper and is taken over")


def _differs(image: Image, id: str, znode: Znode | None) -> bool:
    """Whether a token is to be written. A znode that cannot be read, or a token beyond the most there may be, is left
    to the old brokers."""
    have = tokens.here(image, id)
    if have is not None:
        return znode is None or not tokens.says(tokens.path_of(id), znode, have)
    try:
        return znode is not None and bool(tokens.token(tokens.path_of(id), znode)) and len(image.tokens) < TOKENS_MAX
    except BadZnode:
        return False


def _id(path: str, znode: Znode) -> str:
    """The token id in a notification."""
    id = znode.data.decode("utf-8", "replace")
    if not tokens.ID.fullmatch(id):
        raise BadZnode(path, f"holds {shown(znode.data)}, which is no id of a delegation token")
    return id
