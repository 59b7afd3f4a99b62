"""Delegation tokens: the secret that a token's holder logs in with (KIP-48).

This file alone decides what that secret is: as in Apache Kafka the HMAC-SHA-512 of the token's id with the cluster's key. So
nothing about it is stored, and every node that has the key knows it. It is the password of a SCRAM login whose user name is
the token's id.
"""

import base64
import hmac

from actors.authentication.scram import ITERATIONS_MIN, Credential, Mechanism, credential, salted


class TokenKey:
    """The cluster's key for tokens. It is never shown."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def hmac(self, token_id: str) -> bytes:
        """The secret of a delegation token."""
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    def credential(self, token_id: str, mechanism: Mechanism, salt: bytes) -> Credential:
        """What a login with a token is checked against. It takes milliseconds: not for a turn."""
        password = base64.b64encode(self.hmac(token_id)).decode()
        return credential(mechanism, salt, salted(mechanism, password, salt, ITERATIONS_MIN), ITERATIONS_MIN)

    def __repr__(self) -> str:
        return "TokenKey()"


def token_key(secret: str | None) -> TokenKey | None:
    """The key that a setting holds; None: there is no key, and so there are no tokens."""
    return TokenKey(secret) if secret else None
