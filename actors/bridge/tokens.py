"""Delegation tokens (KIP-48) in /delegation_token/tokens, between znodes and ops.

What a token's holder logs in with is in no znode and in no record: it is the HMAC of the token's id with the cluster's
key. So both sides have to have the same key, and nothing in ZooKeeper says whether they have. This file alone decides
what a token's znode says. Rules:

1. What is written has the bytes of Apache Kafka 2.8. The principal that asked for a token is added where it is not the
   owner: 2.8 passes over it, 3.x reads it. A znode that 3.x has written keeps its version, 3.
2. Where a znode does not name that principal, the one that the log has stays.
3. Owners and renewers are of type User, as in the log.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from actors.bridge.reading import Snapshot
from actors.bridge.znodes import (
    TOKENS,
    BadZnode,
    child,
    field,
    fields,
    number,
    sanitized,
    shown,
    written,
)
from actors.controller.principals.delegation_tokens import (
    KIND,
    NAME_CHARACTERS_MAX,
    NEVER_MS,
    RENEWERS_MAX,
    USER,
    stored,
)
from actors.metadata.image import Image
from actors.metadata.ops import EntityGone, EntitySet, Op
from actors.ports.zookeeper import Znode

ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The ids of tokens that are taken over. Apache Kafka's are UUIDs in 22 characters of base64."""
VERSIONS = (1, 2, 3)
"""The versions of a token's znode: 1 up to 3.2, 3 from 3.3 on, which adds the principal that asked for the token."""
WITH_REQUESTER = 3
BYTES_MAX = 1 << 20
AT_ONCE = 500
SECRET, OLD_SECRET = "delegation.token.secret.key", "delegation.token.master.key"


class Token(NamedTuple):
    """The content of a token beside its id."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    last_ms: int
    """The time beyond which no renewal goes."""
    expires_ms: int


def path_of(id: str) -> str:
    """The path of a token's znode."""
    return f"{TOKENS}/{id}"


def token(path: str, znode: Znode) -> Token:
    """The token in a znode; in version 1 its owner is the requester. Raises BadZnode."""
    return _token(path, _fields(path, znode))


def data(id: str, token: Token, version: int = VERSIONS[0]) -> bytes:
    """The znode of a token, with the fields in Apache Kafka's order."""
    named = version >= WITH_REQUESTER or token.requester != token.owner
    asked = {"tokenRequester": sanitized(token.requester)} if named else {}
    return written(
        issueTimestamp=token.issued_ms,
        renewers=[sanitized(one) for one in token.renewers],
        **asked,
        tokenId=id,
        owner=sanitized(token.owner),
        expiryTimestamp=token.expires_ms,
        maxTimestamp=token.last_ms,
        version=version,
    )


def here(image: Image, id: str) -> Token | None:
    """A token as the image has it."""
    op = image.tokens.get(id)
    if op is None:
        return None
    found: dict[str, Any] = dict(op.fields)
    return Token(
        found["owner"],
        found["requester"],
        tuple(found["renewers"]),
        found["issue_timestamp"],
        found["max_timestamp"],
        found["expiration_timestamp"],
    )


def id_of(op: Op) -> str | None:
    """The id of the token that an op changes; None: it changes none."""
    return str(op.key[0]) if isinstance(op, EntitySet | EntityGone) and op.kind == KIND else None


def difference(image: Image, id: str, znode: Znode | None) -> Op | None:
    """The op that makes the image say what a znode says; None: the image says so already. Raises BadZnode."""
    have = here(image, id)
    if znode is None:
        return None if have is None else EntityGone(KIND, (id,))
    there = _there(path_of(id), znode, have)
    if there == have:
        return None
    return stored(id, *there)


def taken_over(image: Image, snapshot: Snapshot) -> Iterator[list[list[Op]]]:
    """The ops that make the image have the tokens that were read, and no others, in portions. Raises BadZnode."""
    ids = dict.fromkeys([*image.tokens, *snapshot.children(TOKENS)])
    ops = iter([op for id in ids if (op := difference(image, id, snapshot.get(path_of(id)))) is not None])
    while portion := list(islice(ops, AT_ONCE)):
        yield [[op] for op in portion]


def says(path: str, znode: Znode, have: Token) -> bool:
    """Whether a znode says what the log has of a token."""
    try:
        return _there(path, znode, have) == have
    except BadZnode:
        return False


def _there(path: str, znode: Znode, have: Token | None) -> Token:
    """The token in a znode. If the znode does not name the requester, the one that is known stays."""
    found = _fields(path, znode)
    there = _token(path, found)
    return there if have is None or "tokenRequester" in found else there._replace(requester=have.requester)


def version_of(path: str, znode: Znode) -> int:
    """The version in which an existing znode is written."""
    try:
        return int(_fields(path, znode)["version"])
    except BadZnode:
        return VERSIONS[0]


def _fields(path: str, znode: Znode) -> dict[str, Any]:
    id = child(path)
    if not ID.fullmatch(id):
        raise BadZnode(path, "has a name that is no id of a delegation token")
    if len(znode.data) > BYTES_MAX:
        raise BadZnode(path, f"has {len(znode.data)} bytes, and a delegation token has {BYTES_MAX} at most")
    found = fields(path, znode)
    if found.get("version") not in VERSIONS or isinstance(found["version"], bool):
        raise BadZnode(path, f"has the version {shown(found.get('version'))}, and {VERSIONS[-1]} is the newest known")
    if (named := field(path, found, "tokenId", str)) != id:
        raise BadZnode(path, f"has {shown(named)} as tokenId, which must be the name of the znode")
    return found


def _token(path: str, found: Mapping[str, Any]) -> Token:
    renewers = field(path, found, "renewers", list)
    if len(renewers) > RENEWERS_MAX:
        raise BadZnode(path, f"has {len(renewers)} renewers, and a delegation token has {RENEWERS_MAX} at most")
    owner = _principal(path, "owner", field(path, found, "owner", str))
    return Token(
        owner,
        _principal(path, "tokenRequester", found["tokenRequester"]) if "tokenRequester" in found else owner,
        tuple(_principal(path, "a renewer", one) for one in renewers),
        *_times(path, found),
    )


def _times(path: str, found: Mapping[str, Any]) -> Iterator[int]:
    for name in ("issueTimestamp", "maxTimestamp", "expiryTimestamp"):
        yield number(path, field(path, found, name, int), name, NEVER_MS)


def _principal(path: str, what: str, text: Any) -> str:
    principal = unquote(text) if isinstance(text, str) else ""
    kind, colon, name = principal.partition(":")
    if not (colon and kind and 0 < len(name) <= NAME_CHARACTERS_MAX):
        raise BadZnode(path, f"has {shown(text)} as {what}, which must read User:name")
    if kind != USER and what != "tokenRequester":
        raise BadZnode(path, f"has {shown(principal)} as {what}, and rayft has delegation tokens of users only")
    return principal
