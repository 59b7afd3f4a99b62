"""When the keys of an identity provider are fetched, and who may cause it."""

import json
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from actors.authentication.oauthbearer import TokenVerdict
from actors.node.api.security.key_sets import ASKED_EVERY_MS, KeySets
from actors.node.runtime.runtime import Runtime
from actors.ports import Now
from actors.settings.oauthbearer import OAuthBearerSettings

WALL_MS = 1_700_000_000_000
KEYS = {name: rsa.generate_private_key(65537, 2048) for name in ("one", "two")}


def published(*names: str) -> bytes:
    entries = [RSAAlgorithm.to_jwk(KEYS[name].public_key(), as_dict=True) | {"kid": name} for name in names]
    return json.dumps({"keys": entries}).encode()


def token(name: str) -> str:
    claims = {"sub": "alice", "iat": WALL_MS // 1000, "exp": WALL_MS // 1000 + 100_000}
    return jwt.encode(claims, KEYS[name], algorithm="RS256", headers={"kid": name})


class Scene:
    """One listener's keys, and a provider that answers when the test wants it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        log: Any = SimpleNamespace(info=self.lines.append, warning=self.lines.append)
        config: Any = SimpleNamespace(value=lambda _name: 1 << 30)
        self.runtime = Runtime(config, None, log)  # type: ignore[arg-type]
        self.at(0)
        settings = OAuthBearerSettings(
            "https://provider/keys", refresh_ms=3_600_000, backoff_ms=100, backoff_max_ms=1000
        )
        self.sets = KeySets(self.runtime, "CLIENTS", settings)
        self.sets.fetch()

    def at(self, mono_ms: int) -> None:
        self.runtime.now = Now(mono_ms, WALL_MS + mono_ms)
        self.runtime.waiting.timers.run(mono_ms)

    def asked(self) -> int:
        """How many fetches the last turns began."""
        return len(self.runtime.downloads)

    def answer(self, result: object) -> None:
        (wanted,) = self.runtime.taken()[2]
        assert wanted.url == "https://provider/keys"
        self.runtime.done(wanted.token, result)
        self.runtime.complete()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def refused(found: Any) -> str:
    assert isinstance(found, TokenVerdict)
    return found.refused


def test_a_login_waits_for_the_first_keys_and_is_good_until_its_token_ends(scene: Scene) -> None:
    assert not isinstance(scene.sets.check(token("one")), TokenVerdict)
    assert scene.asked() == 1
    scene.answer(published("one"))
    found = scene.sets.at_last(token("one"))
    assert (found.subject, found.lifetime_ms, found.refused) == ("alice", 100_000_000, "")


def test_an_unknown_key_asks_for_a_fresh_set_and_all_strangers_together_rarely(scene: Scene) -> None:
    scene.answer(published("one"))
    scene.at(50)
    waits = scene.sets.check(token("two"))
    assert not isinstance(waits, TokenVerdict) and scene.asked() == 1
    assert scene.sets.check(token("two")) == waits and scene.asked() == 1  # one fetch for all who wait
    scene.answer(published("one"))
    assert "unknown key 'two'" in scene.sets.at_last(token("two")).refused
    scene.at(50 + ASKED_EVERY_MS - 1)
    assert "unknown key 'two'" in refused(scene.sets.check(token("two"))) and scene.asked() == 0
    scene.at(50 + ASKED_EVERY_MS)
    assert not isinstance(scene.sets.check(token("two")), TokenVerdict)
    scene.answer(published("two"))
    assert scene.sets.at_last(token("two")).subject == "alice"
    assert "unknown key 'one'" in scene.sets.at_last(token("one")).refused  # what is not published any more is gone


def test_keys_are_fetched_anew_from_time_to_time(scene: Scene) -> None:
    scene.answer(published("one"))
    scene.at(3_599_999)
    assert scene.asked() == 0
    scene.at(3_600_000)
    assert scene.asked() == 1


def test_a_provider_that_fails_leaves_the_old_keys_and_is_asked_again_ever_later(scene: Scene) -> None:
    scene.answer(published("one"))
    scene.at(3_600_000)
    now_ms, waits = 3_600_000, []
    for result in (OSError("connection refused"), b"<html>", b'{"keys": []}', OSError("x"), OSError("x"), OSError("x")):
        scene.answer(result)
        assert scene.sets.at_last(token("one")).subject == "alice"
        began_ms = now_ms
        while not scene.asked():
            now_ms += 50
            scene.at(now_ms)
        waits.append(now_ms - began_ms)
    assert waits == [100, 200, 400, 800, 1000, 1000]
    assert any("connection refused; the keys that were fetched before stay in use" in line for line in scene.lines)


def test_a_token_that_is_wrong_in_another_way_causes_no_fetch(scene: Scene) -> None:
    scene.answer(published("one"))
    scene.at(1)
    assert "no signed JWT" in refused(scene.sets.check("a.b"))
    assert "wrong signature" in refused(scene.sets.check(token("one")[:-20] + "A" * 20))
    assert scene.asked() == 0


def test_the_log_says_how_many_keys_there_are_and_how_many_cannot_be_used(scene: Scene) -> None:
    scene.answer(published("one", "two"))
    assert scene.lines == ["listener CLIENTS has 2 keys of tokens"]
    scene.at(3_600_000)
    strange = json.loads(published("one"))
    strange["keys"] += [{"kty": "nothing known", "kid": "three"}, {"kty": "OKP", "crv": "nothing known", "kid": "four"}]
    scene.answer(json.dumps(strange).encode())
    assert scene.lines[1:] == ["listener CLIENTS has 1 keys of tokens, and 2 that cannot be used"]
