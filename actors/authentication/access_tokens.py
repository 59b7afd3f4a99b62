"""Access tokens of an identity provider: JSON Web Tokens that it has signed (RFC 7515, RFC 7519; KIP-768).

This file alone decides whether a token is good. PyJWT reads the token and checks the signature. What the claims say is
checked here, because PyJWT would compare them with a clock of its own. Rules:

1. The algorithm is one of those of public keys, and fits the key: `none` and HMAC are refused before a key is looked for.
2. A token has to say when it was issued, when it ends and whose it is, as in Apache Kafka.
3. A token that names audiences is refused where none is expected.
4. No message has a part of the token beside its algorithm, key id, user, issuer and audiences, each cut to SHOWN_MAX
   characters.
"""

import json
import math
from typing import Any, NamedTuple

from jwt import PyJWS
from jwt.exceptions import PyJWTError

from actors.authentication.exchange import Rejected
from actors.authentication.key_set import ALLOWED, KeySet

TOKEN_CHARACTERS_MAX = 64 << 10
SHOWN_MAX = 80
SECONDS_MAX = 253_402_300_799
"""The latest time, in seconds, that a claim may name: the end of the year 9999."""
_JWS = PyJWS()


class Expected(NamedTuple):
    """What a token has to say to be accepted."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    subject_claim: str = "sub"


class TokenClaims(NamedTuple):
    """What a good token says."""

    subject: str
    expires_ms: int
    """Time of day at which the token ends."""


class UnknownKey(Rejected):
    """The key set has no key of that id. The key may be new: a fresh set may have it."""


def checked(token: str, keys: KeySet, expected: Expected, now_ms: int) -> TokenClaims:
    """The claims of a token that is good at the time of day `now_ms`. Raises Rejected, and UnknownKey for a key that is
    not in the set."""
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise Rejected(f"a token of {len(token)} characters, more than {TOKEN_CHARACTERS_MAX}")
    try:
        header = _JWS.get_unverified_header(token)
    except (PyJWTError, ValueError, RecursionError):
        raise Rejected("a token that is no signed JWT") from None
    algorithm, id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALLOWED:
        raise Rejected(
            f"a token with the algorithm {_shown(algorithm)}, which proves nothing: RSA, EC or EdDSA is needed"
        )
    if "crit" in header:
        raise Rejected("a token whose header asks for an extension (crit), and none is known here")
    key = keys.find(id, algorithm)
    if key is None:
        named = "names no key" if id is None else f"is signed with the unknown key {_shown(id)}"
        raise UnknownKey(f"a token that {named}, for {algorithm}")
    try:
        payload = _JWS.decode(token, key.key, algorithms=[algorithm])
    except (PyJWTError, ValueError, RecursionError):
        raise Rejected(f"a token with a wrong signature (key {_shown(id)}, {algorithm})") from None
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise Rejected("a token whose claims are not a JSON object")
    return _checked_claims(claims, expected, now_ms)


def _checked_claims(claims: dict[str, Any], expected: Expected, now_ms: int) -> TokenClaims:
    subject = claims.get(expected.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise Rejected(f"a token without the name of a user in its claim {expected.subject_claim}")
    subject = subject.strip()
    whose = f"the token of {_shown(subject)}"
    skew_ms = 1000 * expected.clock_skew_s
    issued_ms, expires_ms, begins_ms = (_time_ms(claims, name, whose) for name in ("iat", "exp", "nbf"))
    for name, value in (("iat", issued_ms), ("exp", expires_ms)):
        if value is None:
            raise Rejected(f"{whose} has no claim {name}")
    assert expires_ms is not None and issued_ms is not None
    if now_ms + skew_ms < issued_ms:
        raise Rejected(f"{whose} says that it will be issued in {(issued_ms - now_ms) // 1000} s")
    if now_ms - skew_ms >= expires_ms:
        raise Rejected(f"{whose} has expired {(now_ms - expires_ms) // 1000} s ago")
    if begins_ms is not None and now_ms + skew_ms < begins_ms:
        raise Rejected(f"{whose} is not valid yet, for another {(begins_ms - now_ms) // 1000} s")
    issuer = claims.get("iss")
    if expected.issuer is not None and issuer != expected.issuer:
        raise Rejected(f"{whose} is of the issuer {_shown(issuer)}, not of {expected.issuer}")
    _check_audience(claims.get("aud"), expected.audiences, whose)
    _check_scopes(claims.get(expected.scope_claim), expected.scope_claim, whose)
    return TokenClaims(subject, expires_ms)


def _time_ms(claims: dict[str, Any], name: str, whose: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Rejected(f"{whose} has a claim {name} that is no time")
    if not 0 <= value <= SECONDS_MAX:
        raise Rejected(f"{whose} has a claim {name} that is no time")
    return int(value * 1000)


def _check_audience(told: Any, wanted: tuple[str, ...], whose: str) -> None:
    if told is None and not wanted:
        return
    named = [told] if isinstance(told, str) else told if isinstance(told, list) else []
    if not any(one in wanted for one in named if isinstance(one, str)):
        mine = f"not for {', '.join(wanted)}" if wanted else "and sasl.oauthbearer.expected.audience expects none"
        raise Rejected(f"{whose} is for the audience {_shown(told)}, {mine}")


def _check_scopes(told: Any, claim: str, whose: str) -> None:
    """Check that the scopes of a token are scopes. They decide nothing here, as in Kafka. Raises Rejected."""
    scopes = told if isinstance(told, list) else [told] if isinstance(told, str) else []
    if any(not isinstance(one, str) or not one.strip() for one in scopes) or len(set(scopes)) < len(scopes):
        raise Rejected(f"{whose} has a claim {claim} with an empty scope, or with the same one twice")


def _shown(value: Any) -> str:
    """Text out of a token, cut to SHOWN_MAX characters for a line in the log."""
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."
