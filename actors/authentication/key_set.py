"""The public keys of an identity provider: a JSON Web Key Set (RFC 7517, RFC 7518; KIP-768).

This file alone decides which keys of a set count. Rules:

1. Symmetric keys (`oct`) never do: a node that can check a token with one can make tokens with it.
2. A key that is for encryption, too short, or of a kind that is not known is left out; the others of its set count.
3. A set is read from at most SET_BYTES_MAX bytes and has at most KEYS_MAX keys.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from jwt import PyJWK
from jwt.exceptions import PyJWTError

SET_BYTES_MAX = 1 << 20
KEYS_MAX = 200
RSA_BITS_MIN = 2048
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}
"""Kind of key and curve -> algorithms that such a key may be used with."""
ALLOWED = frozenset(name for names in ALGORITHMS.values() for name in names)
"""Algorithms of signed tokens. `none` and the symmetric ones are not among them."""


class BadKeySet(ValueError):
    """Bytes that are no key set. The message says why."""


class PublicKey(NamedTuple):
    """One public key of the set."""

    id: str | None
    """The `kid` of the key; None: it has none."""
    algorithms: tuple[str, ...]
    key: Any
    """The key as an object of `cryptography`."""


class KeySet(NamedTuple):
    """The keys that count, and how many of the set do not."""

    keys: tuple[PublicKey, ...] = ()
    left_out: int = 0

    def find(self, id: str | None, algorithm: str) -> PublicKey | None:
        """The key with that id. A token that names no key is checked with the only one that fits its algorithm."""
        found = [one for one in self.keys if algorithm in one.algorithms and (id is None or one.id == id)]
        return found[0] if found and (id is not None or len(found) == 1) else None


def key_set(data: bytes) -> KeySet:
    """The keys in the bytes of a JSON Web Key Set. Raises BadKeySet."""
    if len(data) > SET_BYTES_MAX:
        raise BadKeySet(f"it has more than {SET_BYTES_MAX} bytes")
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        raise BadKeySet("it is not JSON") from None
    entries = told.get("keys") if isinstance(told, dict) else None
    if not isinstance(entries, list):
        raise BadKeySet('it has no list of "keys"')
    if len(entries) > KEYS_MAX:
        raise BadKeySet(f"it has {len(entries)} keys, more than {KEYS_MAX}")
    found = [_key(one) for one in entries]
    keys = tuple(one for one in found if one is not None)
    if not keys:
        raise BadKeySet("no key in it can be used: it needs RSA keys of 2048 bits or more, or EC or Ed25519 keys")
    return KeySet(keys, len(found) - len(keys))


def _key(entry: Any) -> PublicKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    kind, curve, id, named = (entry.get(name) for name in ("kty", "crv", "kid", "alg"))
    if kind == "RSA":
        curve = ""
    if not isinstance(kind, str) or not isinstance(curve, str) or not (id is None or isinstance(id, str)):
        return None
    algorithms = ALGORITHMS.get((kind, curve), ())
    if named is not None:
        algorithms = tuple(one for one in algorithms if one == named)
    if not algorithms:
        return None
    public = {name: value for name, value in entry.items() if name in ("kty", "crv", "n", "e", "x", "y")}
    try:
        key = PyJWK(public, algorithms[0]).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if kind == "RSA" and key.key_size < RSA_BITS_MIN:
        return None
    return PublicKey(id, algorithms, key)
