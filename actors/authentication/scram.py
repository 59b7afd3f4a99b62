"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677; KIP-84): both sides know a password, and neither sends it.

This file alone decides whether a proof is right. Rules:

1. A user without credentials is asked for a proof like any other, with a salt that is always the same for that name:
   the exchange does not show which users there are.
2. The server's nonce is fresh in every exchange, so a recorded exchange is worth nothing.
3. Channel binding is not supported: a peer that asks for it is rejected.
4. With the extension `tokenauth=true` the user name is the id of a delegation token, and its secret the password
   (KIP-48). A peer that logs in so is the token's owner, for as long as the token is good.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from actors.authentication.exchange import Accepted, Calculation, Challenge, ExchangeStep, Rejected

ITERATIONS_MIN = 4096
ITERATIONS_MAX = 16384
TOKEN_BYTES_MAX = 4096


class Mechanism(IntEnum):
    """A SCRAM mechanism, with its number in requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name of the mechanism in a SaslHandshake."""
        return self.name.replace("_", "-")

    @property
    def hash(self) -> str:
        """The hash function of the mechanism, as hashlib calls it."""
        return "sha256" if self is Mechanism.SCRAM_SHA_256 else "sha512"


class Credential(NamedTuple):
    """What a server keeps of a password. It is not enough to log in with."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential(mechanism: Mechanism, salt: bytes, salted_password: bytes, iterations: int) -> Credential:
    """The credential to store for a password that the administrator's tool has salted."""
    client_key = hashed(mechanism, salted_password, b"Client Key")
    return Credential(
        salt,
        hashlib.new(mechanism.hash, client_key).digest(),
        hashed(mechanism, salted_password, b"Server Key"),
        iterations,
    )


def salted(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """A password salted with the hash function of a mechanism. It takes milliseconds: not for a turn."""
    return hashlib.pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)


SALT_BITS = 130


class TokenLogin(NamedTuple):
    """A delegation token that a client logs in with (KIP-48)."""

    owner: str
    """The principal that the token's holder becomes: `User:name`"""
    good_for_ms: Callable[[], int]
    """For how many ms the token is good from now on; 0 or less: it has expired."""
    credential: Callable[[], Credential]
    """Calculates what the proof is checked against. It may take milliseconds, and may be called by any thread."""


_FIRST = re.compile(
    r"(?P<header>(?P<binding>[nyp][^,]*),(?P<acts_as>(?:a=[^,]+)?),)"
    r"(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[!-+\--~]+)(?P<more>(?:,.*)?))"
)
_FINAL = re.compile(r"(?P<bare>c=(?P<header>[^,]+),r=(?P<nonce>[^,]+)(?:,.*)?),p=(?P<proof>[^,]+)")


class Scram:
    """One exchange of SCRAM: the peer's first message, and its proof."""

    def __init__(
        self,
        mechanism: Mechanism,
        credential_of: Callable[[str], Credential | None],
        nonce: bytes,
        secret: bytes,
        token_of: Callable[[str], TokenLogin | None] = lambda id: None,
    ) -> None:
        """`nonce` is fresh random bytes, 16 or more. `secret`: for the salts of users that do not exist. `token_of`:
        the delegation token with an id."""
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._token_of = token_of
        self._token: TokenLogin | None = None
        self._nonce = nonce.hex()
        self._secret = secret
        self._next: Callable[[str], ExchangeStep] = self._first

    def respond(self, token: bytes) -> ExchangeStep:
        """The answer to the first message or to the proof. Raises Rejected."""
        if len(token) > TOKEN_BYTES_MAX:
            raise Rejected(f"a SCRAM message of {len(token)} bytes")
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise Rejected("a SCRAM message that is not UTF-8") from None
        return self._next(text)

    def _first(self, text: str) -> ExchangeStep:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise Rejected("a first SCRAM message that cannot be read")
        if match["binding"].startswith("p"):
            raise Rejected("SCRAM with channel binding, which is not supported")
        self._name = _unescaped(match["name"])
        if match["acts_as"] and _unescaped(match["acts_as"][2:]) != self._name:
            raise Rejected(f"user {self._name!r} may not act as another")
        self._header = match["header"]
        self._whole_nonce = match["nonce"] + self._nonce
        self._bare = match["bare"]
        if not _with_token(match["more"]):
            return self._challenge(self._credential_of(self._name))
        self._token = token = self._token_of(self._name)
        if token is None:
            return self._challenge(None)
        self._next = self._early
        return Calculation(token.credential, self._calculated)

    def _calculated(self, result: object) -> ExchangeStep:
        if not isinstance(result, Credential):
            raise Rejected(f"the login with the token {self._name!r} could not be checked")
        return self._challenge(result)

    def _challenge(self, found: Credential | None) -> ExchangeStep:
        self._known = found is not None
        self._credential = self._invented() if found is None else found
        salt = base64.b64encode(self._credential.salt).decode()
        self._told = f"r={self._whole_nonce},s={salt},i={self._credential.iterations}"
        self._next = self._final
        return Challenge(self._told.encode())

    def _final(self, text: str) -> ExchangeStep:
        self._next = self._over
        match = _FINAL.fullmatch(text)
        if match is None:
            raise Rejected("a second SCRAM message that cannot be read")
        if _bytes(match["header"]) not in (self._header.encode(), b"n,,"):
            raise Rejected("a SCRAM proof for another channel")
        if not hmac.compare_digest(match["nonce"].encode(), self._whole_nonce.encode()):
            raise Rejected(
                f"a SCRAM proof of user {self._name!r} for another exchange; librdkafka before 2.6.1 sends such proofs too"
            )
        said = f"{self._bare},{self._told},{match['bare']}".encode()
        signature = hashed(self._mechanism, self._credential.stored_key, said)
        proof = _bytes(match["proof"])
        if len(proof) != len(signature):
            raise Rejected(f"a SCRAM proof of user {self._name!r} with {len(proof)} bytes")
        client_key = bytes(one ^ other for one, other in zip(signature, proof, strict=True))
        key = hashlib.new(self._mechanism.hash, client_key).digest()
        if not hmac.compare_digest(key, self._credential.stored_key) or not self._known:
            raise Rejected(f"a wrong password, or an unknown user: {self._name!r}")
        verdict = base64.b64encode(hashed(self._mechanism, self._credential.server_key, said))
        if self._token is None:
            return Accepted(b"v=" + verdict, f"User:{self._name}")
        good_for_ms = self._token.good_for_ms()
        if good_for_ms <= 0:
            raise Rejected(f"the delegation token {self._name!r} has expired")
        return Accepted(b"v=" + verdict, self._token.owner, good_for_ms, by_token=True, token_id=self._name)

    def _early(self, text: str) -> ExchangeStep:
        raise Rejected("a SCRAM message before the answer to the one before")

    def _over(self, text: str) -> ExchangeStep:
        raise Rejected("a SCRAM message after the last")

    def _invented(self) -> Credential:
        """Made-up credentials for a user that does not exist: always the same, and not to be told from real ones."""
        salt = invented_salt(self._mechanism, self._secret, self._name)
        return credential(self._mechanism, salt, hashed(self._mechanism, self._secret, salt), ITERATIONS_MIN)


def salt_of(number: int) -> bytes:
    """A salt as Kafka's tools make them: a number of 130 bits in base 36."""
    digits, number = "", number & (1 << SALT_BITS) - 1
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits.encode()


def invented_salt(mechanism: Mechanism, secret: bytes, name: str) -> bytes:
    """A salt that is not stored, always the same for a name. Only a node that knows `secret` can tell it from a stored
    one."""
    return salt_of(int.from_bytes(hashed(mechanism, secret, name.encode()), "big"))


def hashed(mechanism: Mechanism, key: bytes, data: bytes) -> bytes:
    """The HMAC of `data` with the hash function of a mechanism."""
    return hmac.digest(key, data, mechanism.hash)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Rejected("a SCRAM message with a field that is not Base64") from None


def _with_token(more: str) -> bool:
    """Whether the extensions of a first message say that the user name is the id of a delegation token."""
    found = dict(part.partition("=")[::2] for part in more.split(",") if part)
    return found.get("tokenauth", "").lower() == "true"


def _unescaped(name: str) -> str:
    if re.search("=(?!2C|3D)", name):
        raise Rejected("a SCRAM message with a name that cannot be read")
    return name.replace("=2C", ",").replace("=3D", "=")
