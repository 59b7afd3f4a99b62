"""The keys with which an identity provider signs tokens, as one listener knows them now (KIP-768).

This file alone decides when they are fetched. The host fetches them (`Effects.download`); nothing waits for that but logins
whose key is not known. Rules:

1. They are fetched when the node starts, and again after `sasl.oauthbearer.jwks.endpoint.refresh.ms`.
2. A token with an unknown key asks for a fresh set, because providers change their keys; all strangers together get that
   every ASKED_EVERY_MS at most.
3. A set that cannot be fetched or read leaves the old keys in use. It is asked for again after a time that doubles.
"""

from collections.abc import Hashable

from actors.authentication.access_tokens import Expected, UnknownKey, checked
from actors.authentication.exchange import Rejected
from actors.authentication.key_set import SET_BYTES_MAX, BadKeySet, KeySet, key_set
from actors.authentication.oauthbearer import TokenVerdict
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.waiting import Timer
from actors.settings.oauthbearer import OAuthBearerSettings

ASKED_EVERY_MS = 10_000


class KeySets:
    """The keys of one listener, and the verdict on a token."""

    def __init__(self, runtime: Runtime, listener: str, settings: OAuthBearerSettings) -> None:
        self._runtime = runtime
        self._listener = listener
        self._settings = settings
        self._expected = Expected(*settings[5:])
        self._keys = KeySet()
        self._failures = 0
        self._fetching = False
        self._asked_ms: int | None = None
        """When a stranger's token last caused a fetch."""
        self._timer: Timer | None = None

    def fetch(self) -> None:
        """Ask for a fresh set now, unless one is on its way."""
        if self._fetching:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._fetching = True
        self._runtime.download(self._settings.url, self._settings.trusted, SET_BYTES_MAX, self._fetched)

    def check(self, token: str) -> TokenVerdict | Hashable:
        """The verdict on a token, or the key that is signalled when a fresh set has come that may know the token's key."""
        try:
            return self._verdict(token)
        except UnknownKey as unknown:
            if not self._fetching:
                now_ms = self._runtime.now.mono_ms
                if self._asked_ms is not None and now_ms < self._asked_ms + ASKED_EVERY_MS:
                    return TokenVerdict(refused=str(unknown))
                self._asked_ms = now_ms
                self.fetch()
            return self._signal

    def at_last(self, token: str) -> TokenVerdict:
        """The verdict, with the keys that there are now."""
        try:
            return self._verdict(token)
        except UnknownKey as unknown:
            return TokenVerdict(refused=str(unknown))

    @property
    def _signal(self) -> Hashable:
        return "keys of tokens", id(self)

    def _verdict(self, token: str) -> TokenVerdict:
        now_ms = self._runtime.now.wall_ms
        try:
            claims = checked(token, self._keys, self._expected, now_ms)
        except UnknownKey:
            raise
        except Rejected as rejected:
            return TokenVerdict(refused=str(rejected))
        # Within the clock skew a token may have ended: its login is good, and over at once.
        return TokenVerdict(claims.subject, max(1, claims.expires_ms - now_ms))

    def _fetched(self, result: object) -> None:
        self._fetching = False
        runtime, settings = self._runtime, self._settings
        try:
            if not isinstance(result, bytes):
                raise BadKeySet(f"it cannot be fetched: {result}")
            found = key_set(result)
        except BadKeySet as error:
            wait_ms = min(settings.backoff_max_ms, settings.backoff_ms << min(self._failures, 30))
            self._failures += 1
            kept = (
                "the keys that were fetched before stay in use"
                if self._keys.keys
                else "nobody can log in with a token yet"
            )
            runtime.log.warning(f"the key set of listener {self._listener} at {settings.url}: {error}; {kept}")
        else:
            wait_ms, self._failures = settings.refresh_ms, 0
            if found != self._keys:
                without = f", and {found.left_out} that cannot be used" if found.left_out else ""
                runtime.log.info(f"listener {self._listener} has {len(found.keys)} keys of tokens{without}")
            self._keys = found
        self._timer = runtime.waiting.timers.at(runtime.now.mono_ms + wait_ms, self.fetch)
        runtime.waiting.signal(self._signal)
