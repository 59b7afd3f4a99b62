"""The client's side of an exchange, with which this node logs in to another node (RFC 4616, RFC 5802; KIP-84).

A login is good for one connection. With SCRAM the password never leaves this node, and the other node proves that it
knows it too: a peer that only pretends to be a node of the cluster is found out."""

import base64
import binascii
import hmac
from collections.abc import Callable
from typing import Protocol

from actors.authentication.exchange import Rejected
from actors.authentication.scram import ITERATIONS_MAX, ITERATIONS_MIN, Mechanism, credential, hashed, salted

Salted = Callable[[Mechanism, str, bytes, int], bytes]
"""Salts a password: (mechanism, password, salt, iterations) -> salted password. It takes milliseconds, so a caller
remembers the result."""


class Login(Protocol):
    """One login of this node to another node."""

    def first(self) -> bytes:
        """The first token that this node sends."""
        ...

    def next(self, token: bytes) -> bytes | None:
        """The answer to the other node's token; None: the login is complete. Raises Rejected if the other node does not
        know the password."""
        ...


class PlainLogin:
    """A login by PLAIN: the name and the password as they are."""

    def __init__(self, name: str, password: str) -> None:
        self._token = f"\0{name}\0{password}".encode()

    def first(self) -> bytes:
        """The only token of this mechanism: name and password."""
        return self._token

    def next(self, token: bytes) -> None:
        """No further token, so always None: PLAIN has a single one."""


class ScramLogin:
    """A login by SCRAM: a proof of the password, and a check of the other node's proof."""

    def __init__(
        self,
        mechanism: Mechanism,
        name: str,
        password: str,
        nonce: bytes,
        salted: Salted = salted,
        *,
        by_token: bool = False,
    ) -> None:
        """`nonce` is fresh random bytes, 16 or more. `by_token`: the name is the id of a delegation token, and the
        password its HMAC (KIP-48)."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce.hex()
        self._bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        if by_token:
            self._bare += ",tokenauth=true"
        self._salted = salted
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """The first token, with the user name and the nonce."""
        return f"n,,{self._bare}".encode()

    def next(self, token: bytes) -> bytes | None:
        """The proof of the password for the first token; None for the second, whose proof is checked. Raises Rejected."""
        fields = dict(part.partition("=")[::2] for part in token.decode(errors="replace").split(","))
        try:
            if self._signature is None:
                return self._proof(token.decode(), fields)
            self._check(fields)
            return None
        except (KeyError, ValueError, binascii.Error):
            raise Rejected("its SCRAM message cannot be read") from None

    def _proof(self, told: str, fields: dict[str, str]) -> bytes:
        nonce, iterations = fields["r"], int(fields["i"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise Rejected("its SCRAM message is of another exchange")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise Rejected(f"it wants {iterations} iterations")
        salt = base64.b64decode(fields["s"], validate=True)
        password = self._salted(self._mechanism, self._password, salt, iterations)
        keys = credential(self._mechanism, salt, password, iterations)
        bare = f"c=biws,r={nonce}"
        said = f"{self._bare},{told},{bare}".encode()
        self._signature = hashed(self._mechanism, keys.server_key, said)
        client_key = hashed(self._mechanism, password, b"Client Key")
        mask = hashed(self._mechanism, keys.stored_key, said)
        proof = bytes(one ^ other for one, other in zip(client_key, mask, strict=True))
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def _check(self, fields: dict[str, str]) -> None:
        assert self._signature is not None
        if not hmac.compare_digest(base64.b64decode(fields["v"], validate=True), self._signature):
            raise Rejected("it does not know the password")
