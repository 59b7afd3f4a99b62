"""Logins of peers: which mechanisms a listener has, and against what a peer's tokens are checked.

This file alone decides where a mechanism finds its users: PLAIN in the configuration of the listener, SCRAM in the metadata
that this node has replayed, OAUTHBEARER in tokens whose keys an identity provider publishes.
KIP-43, KIP-84, KIP-255, KIP-368.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from actors.authentication.delegation_tokens import token_key
from actors.authentication.exchange import Accepted, Exchange
from actors.authentication.oauthbearer import OAuthBearer
from actors.authentication.plain import Plain
from actors.authentication.scram import Credential, Mechanism, Scram, TokenLogin, invented_salt
from actors.metadata.image import Image
from actors.node.runtime.runtime import Runtime
from actors.settings.keys import ConfigError
from actors.settings.oauthbearer import MECHANISM as OAUTHBEARER

if TYPE_CHECKING:
    from actors.node.api.security.key_sets import KeySets

TOKENS_REMEMBERED_MAX = 1000
SCRAM = {mechanism.sasl_name: mechanism for mechanism in Mechanism}


class Logins:
    """The logins at one role of this node."""

    def __init__(self, runtime: Runtime, image: Callable[[], Image]) -> None:
        """`image`: the metadata as this role sees it now."""
        self._runtime = runtime
        self._image = image
        self._own_secret = b""
        """For the salts of users that do not exist, where no super user has a password; of this process."""
        users = (one.strip().removeprefix("User:") for one in runtime.config.value("super.users").split(";"))
        self._trusted = sorted({one for one in users if one})
        """Users who may see everything, and so may know what others must not guess."""
        self._key_sets: dict[str, KeySets] = {}
        """The key sets of the listeners that take tokens of an identity provider."""
        self.token_key = token_key(runtime.config.value("delegation.token.secret.key"))
        """The key of delegation tokens; None: there are none."""
        self._of_token = lru_cache(TOKENS_REMEMBERED_MAX)(self.token_key.credential) if self.token_key else None
        """What logins with delegation tokens are checked against."""
        self.delay_ms: int = runtime.config.value("connection.failed.authentication.delay.ms")

    def start(self, listeners: Sequence[str]) -> None:
        """Begin to fetch what logins on these listeners need."""
        for name in listeners:
            settings = self._runtime.config.security[name].oauthbearer
            if settings is not None:
                try:
                    from actors.node.api.security.key_sets import KeySets  # it needs PyJWT, which few nodes do
                except ImportError:
                    raise ConfigError(
                        f"listener {name} takes tokens (OAUTHBEARER), for which `pip install rayft[oauth]` is needed: "
                        f"install it, or take the mechanism out of sasl.enabled.mechanisms."
                    ) from None
                self._key_sets[name] = KeySets(self._runtime, name, settings)
                self._key_sets[name].fetch()

    def mechanisms(self, listener: str) -> Sequence[str]:
        """The SASL mechanisms of a listener. Empty: nobody logs in there."""
        return self._runtime.config.security[listener].mechanisms

    def begin(self, listener: str, mechanism: str) -> Exchange:
        """An exchange of one of the listener's mechanisms."""
        if mechanism in SCRAM:
            return self._scram(SCRAM[mechanism])
        if mechanism == OAUTHBEARER:
            keys = self._key_sets[listener]
            return OAuthBearer(keys.check, keys.at_last)
        return Plain(self._runtime.config.security[listener].passwords.get)

    def kept(self, mechanism: str, said: Accepted) -> Callable[[], bool] | None:
        """Tells whether what a peer has logged in with is still there and the same; None: it has no end but its time."""
        if said.by_token:
            return lambda: said.token_id in self._image().tokens
        if mechanism not in SCRAM:
            return None
        key = (said.principal.removeprefix("User:"), int(SCRAM[mechanism]))
        stored = self._image().entity("scram", key)
        return lambda: stored is not None and self._image().entity("scram", key) == stored

    def good_for_ms(self, listener: str, mechanism: str) -> int:
        """How long a login is good; 0: as long as its connection."""
        return self._runtime.config.security[listener].reauthentication_ms[mechanism]

    def _secret(self) -> bytes:
        """For the salts of users that do not exist. It comes from what is stored of super users' passwords, so it is the
        same on all nodes and after a restart, and nobody else can calculate it."""
        image = self._image()
        known = hashlib.sha256((self._runtime.config.value("delegation.token.secret.key") or "").encode())
        found = False
        for name in self._trusted:
            for mechanism in Mechanism:
                entity = image.entity("scram", (name, int(mechanism)))
                if entity is not None:
                    found = True
                    stored: Any = dict(entity.fields)["stored_key"]
                    known.update(stored)
        return known.digest() if found else self._own_secret

    def _scram(self, mechanism: Mechanism) -> Scram:
        random = self._runtime.random
        self._own_secret = self._own_secret or random.uuid() + random.uuid()
        secret = self._secret()

        def credential_of(name: str) -> Credential | None:
            found = self._image().entity("scram", (name, int(mechanism)))
            if found is None:
                return None
            fields = dict(found.fields)
            return Credential(
                fields["salt"],  # type: ignore[arg-type]
                fields["stored_key"],  # type: ignore[arg-type]
                fields["server_key"],  # type: ignore[arg-type]
                fields["iterations"],  # type: ignore[arg-type]
            )

        return Scram(
            mechanism,
            credential_of,
            random.uuid() + random.uuid(),
            secret,
            lambda id: self._token(mechanism, id, secret),
        )

    def _token(self, mechanism: Mechanism, id: str, secret: bytes) -> TokenLogin | None:
        calculate, found = self._of_token, self._image().tokens.get(id)
        if calculate is None or found is None:
            return None
        fields: dict[str, Any] = dict(found.fields)
        ends_ms = min(fields["expiration_timestamp"], fields["max_timestamp"])
        salt = invented_salt(mechanism, secret, id)  # the same in each login, so that it is calculated once
        return TokenLogin(
            fields["owner"],
            lambda: ends_ms - self._runtime.now.wall_ms,
            lambda: calculate(id, mechanism, salt),
        )
