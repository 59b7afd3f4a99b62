"""SASL PLAIN (RFC 4616): a name and a password, as they are. KIP-43.

This file alone decides whether a password is right. Comparisons take the same time wherever two passwords differ, and an
unknown name takes the time of a wrong password.
"""

import hmac
from collections.abc import Callable

from actors.authentication.exchange import Accepted, Rejected

CHARACTERS_MAX = 1024
"""The most characters of a user name, and of a password."""


class Plain:
    """One exchange of PLAIN: a single token."""

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        """`password_of` gives the password of a user; None: there is no such user."""
        self._password_of = password_of

    def respond(self, token: bytes) -> Accepted:
        """Check `[authorization id] NUL name NUL password`. Raises Rejected."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise Rejected("a PLAIN token that is not UTF-8") from None
        if len(parts) != 3:
            raise Rejected(f"a PLAIN token with {len(parts)} parts instead of 3")
        acts_as, name, password = parts
        if not name or not password or max(len(name), len(password)) > CHARACTERS_MAX:
            raise Rejected("a PLAIN token without a name or a password, or with one that is too long")
        wanted = self._password_of(name)
        right = hmac.compare_digest(password.encode(), (password + "?" if wanted is None else wanted).encode())
        if not right:
            raise Rejected(f"a wrong password, or an unknown user: {name!r}")
        if acts_as not in ("", name):
            raise Rejected(f"user {name!r} may not act as {acts_as[:CHARACTERS_MAX]!r}")
        return Accepted(b"", f"User:{name}")
