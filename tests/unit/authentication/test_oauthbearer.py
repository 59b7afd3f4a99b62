"""OAUTHBEARER: tokens that are good, tokens that are not, damaged ones, and what the first message may be."""

import base64
import contextlib
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from actors.authentication.access_tokens import TOKEN_CHARACTERS_MAX, Expected, UnknownKey, checked
from actors.authentication.exchange import Accepted, Awaited, Challenge, Rejected
from actors.authentication.key_set import KEYS_MAX, SET_BYTES_MAX, BadKeySet, KeySet, key_set
from actors.authentication.oauthbearer import CLOSE, INVALID_TOKEN, MESSAGE_BYTES_MAX, First, OAuthBearer, TokenVerdict

RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
NOW_S = 1_700_000_000
EXPECTED = Expected(("kafka",), "https://provider")
RIGHT: dict[str, Any] = {"sub": "alice", "iss": "https://provider", "aud": "kafka", "iat": NOW_S, "exp": NOW_S + 60}


def published(*entries: dict[str, Any]) -> KeySet:
    return key_set(json.dumps({"keys": entries}).encode())


def rsa_entry(key: rsa.RSAPrivateKey = RSA, **more: Any) -> dict[str, Any]:
    return RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "rsa"} | more


KEYS = published(
    rsa_entry(),
    ECAlgorithm.to_jwk(EC.public_key(), as_dict=True) | {"kid": "ec"},
    OKPAlgorithm.to_jwk(ED.public_key(), as_dict=True) | {"kid": "ed"},
)


def token(algorithm: str = "RS256", key: Any = RSA, kid: str | None = "rsa", **claims: Any) -> str:
    told = {name: value for name, value in (RIGHT | claims).items() if value is not None}
    return jwt.encode(told, key, algorithm=algorithm, headers={} if kid is None else {"kid": kid})


def verdict(text: str, expected: Expected = EXPECTED, keys: KeySet = KEYS, now_s: float = NOW_S) -> tuple[str, int]:
    return checked(text, keys, expected, int(now_s * 1000))


@pytest.mark.parametrize(
    ("algorithm", "key", "kid"),
    [("RS256", RSA, "rsa"), ("PS512", RSA, "rsa"), ("ES256", EC, "ec"), ("EdDSA", ED, "ed"), ("RS256", RSA, None)],
)
def test_a_signed_token_says_who_it_is_and_until_when(algorithm: str, key: Any, kid: str | None) -> None:
    assert verdict(token(algorithm, key, kid)) == ("alice", 1000 * (NOW_S + 60))


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


PUBLIC_PEM = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def signed_with_the_public_key() -> str:
    """A token whose HMAC has the public key as its secret: whoever mixes up the two kinds takes it."""
    import hashlib
    import hmac

    said = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(RIGHT)}"
    mac = hmac.digest(PUBLIC_PEM, said.encode(), hashlib.sha256)
    return f"{said}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


REFUSED: dict[str, tuple[str, str]] = {
    "none": (f"{part({'alg': 'none', 'kid': 'rsa'})}.{part(RIGHT)}.", "algorithm 'none'"),
    "None": (f"{part({'alg': 'nOnE', 'kid': 'rsa'})}.{part(RIGHT)}.", "algorithm 'nOnE'"),
    "no algorithm": (f"{part({'kid': 'rsa'})}.{part(RIGHT)}.", "algorithm None"),
    "a list as algorithm": (f"{part({'alg': ['RS256'], 'kid': 'rsa'})}.{part(RIGHT)}.", "algorithm"),
    "symmetric": (jwt.encode(RIGHT, "s" * 32, algorithm="HS256", headers={"kid": "rsa"}), "algorithm 'HS256'"),
    "the public key as secret": (signed_with_the_public_key(), "algorithm 'HS256'"),
    "another key": (token(key=OTHER), "wrong signature"),
    "another kind of key": (token("ES256", EC, "rsa"), "unknown key 'rsa'"),
    "an extension": (
        f"{part({'alg': 'RS256', 'kid': 'rsa', 'crit': ['b64'], 'b64': False})}.{part(RIGHT)}.xxxx",
        "crit|no signed JWT",
    ),
    "expired": (token(exp=NOW_S - 31), "has expired 31 s ago"),
    "not yet": (token(nbf=NOW_S + 31), "is not valid yet, for another 31 s"),
    "issued later": (token(iat=NOW_S + 31), "will be issued in 31 s"),
    "another audience": (token(aud=["a", "b"]), r"is for the audience \['a', 'b'\], not for kafka"),
    "no audience": (token(aud=None), "is for the audience None"),
    "another issuer": (token(iss="https://evil"), "is of the issuer 'https://evil', not of https://provider"),
    "no issuer": (token(iss=None), "is of the issuer None"),
    "no user": (token(sub=None), "without the name of a user in its claim sub"),
    "an empty user": (token(sub=" "), "without the name of a user"),
    "no end": (token(exp=None), "has no claim exp"),
    "no beginning": (token(iat=None), "has no claim iat"),
    "scopes twice": (token(scope=["a", "a"]), "the same one twice"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_token_that_is_not_good_is_refused_with_one_sentence(name: str) -> None:
    text, why = REFUSED[name]
    with pytest.raises(Rejected, match=why) as caught:
        verdict(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
    assert not any(piece in str(caught.value) for piece in text.split(".") if len(piece) > 8)


@pytest.mark.parametrize("value", ["soon", True, -1, 1e300, [], {"a": 1}])
def test_a_time_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(Rejected, match="no time"):
        verdict(jwt.PyJWS().encode(json.dumps(RIGHT | {"exp": value}).encode(), RSA, "RS256", {"kid": "rsa"}))


@pytest.mark.parametrize("claims", [b"[]", b"x", b'{"exp":NaN}', b"[" * 20_000, b'{"exp":' + b"9" * 5000 + b"}"])
def test_signed_claims_that_are_none_are_refused(claims: bytes) -> None:
    with pytest.raises(Rejected):
        verdict(jwt.PyJWS().encode(claims, RSA, "RS256", {"kid": "rsa"}))


def test_the_clock_of_the_provider_may_differ_a_little() -> None:
    assert verdict(token(exp=NOW_S - 29)).subject == "alice"  # type: ignore[attr-defined]
    assert verdict(token(nbf=NOW_S + 29)).subject == "alice"  # type: ignore[attr-defined]


def test_a_token_for_audiences_is_refused_where_none_is_expected() -> None:
    assert verdict(token(aud=None), Expected()).subject == "alice"  # type: ignore[attr-defined]
    with pytest.raises(Rejected, match=r"expected\.audience expects none"):
        verdict(token(), Expected())


def test_names_of_claims_can_be_chosen() -> None:
    assert verdict(token(user="bob"), EXPECTED._replace(subject_claim="user"))[0] == "bob"


def test_an_oversized_token_is_refused_unread() -> None:
    with pytest.raises(Rejected, match="more than"):
        verdict("a" * (TOKEN_CHARACTERS_MAX + 1))
    with pytest.raises(Rejected, match="no signed JWT"):
        verdict("a" * TOKEN_CHARACTERS_MAX)
    with pytest.raises(Rejected, match="more than"):
        First(b"n,,\x01auth=Bearer " + b"a" * MESSAGE_BYTES_MAX + b"\x01\x01")


GOOD = token()


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.sampled_from("ABYZaz019-_.=+/ \x00é"), st.booleans())
def test_a_damaged_token_is_refused_and_nothing_else_happens(place: int, character: str, cut: bool) -> None:
    damaged = GOOD[:place] + character + ("" if cut else GOOD[place + 1 :])
    with contextlib.suppress(Rejected):
        assert verdict(damaged) == verdict(GOOD)  # bits behind the last whole byte of a part mean nothing


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "jwk", "jku", "b64"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=5,
        ),
    )
)
def test_no_header_is_believed(header: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        verdict(f"{part(header)}.{part(RIGHT)}.{GOOD.split('.')[2]}")


# ---- key sets


def test_only_public_keys_for_signatures_count() -> None:
    short = rsa.generate_private_key(65537, 1024)
    secret = {"kty": "oct", "k": part("s" * 32), "kid": "secret", "alg": "HS256"}
    found = published(rsa_entry(), secret, rsa_entry(short, kid="short"), rsa_entry(use="enc", kid="enc"), {"kty": "?"})
    assert [one.id for one in found.keys] == ["rsa"] and found.left_out == 4


def test_a_key_that_names_its_algorithm_checks_no_other() -> None:
    with pytest.raises(UnknownKey):
        verdict(token("RS512"), keys=published(rsa_entry(alg="RS256")))


def test_a_token_without_a_key_id_needs_a_set_with_one_key_that_fits() -> None:
    with pytest.raises(UnknownKey, match="names no key"):
        verdict(token(kid=None), keys=published(rsa_entry(), rsa_entry(OTHER, kid="b")))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"<html>", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no list"),
        (b'{"keys": {}}', "no list"),
        (b'{"keys": []}', "no key in it can be used"),
        (
            b'{"keys": [7, null, {"kty": "RSA", "n": "!", "e": 3}, {"kty": "EC", "crv": []}]}',
            "no key in it can be used",
        ),
        (json.dumps({"keys": [{}] * (KEYS_MAX + 1)}).encode(), "more than 200"),
        (b" " * (SET_BYTES_MAX + 1), "more than"),
    ],
)
def test_what_is_no_key_set_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(BadKeySet, match=why):
        key_set(data)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_break_the_reader_of_key_sets(data: bytes) -> None:
    with pytest.raises(BadKeySet):
        key_set(data)


# ---- the exchange


def first(text: str = "t.o.k", header: str = "n,,", more: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {text}\x01{more}\x01".encode()


def exchange(found: TokenVerdict) -> OAuthBearer:
    return OAuthBearer(lambda token: found, lambda token: found)


ALICE = TokenVerdict("alice", 5000)


@pytest.mark.parametrize("message", [first(), first(header="n,a=alice,"), first(more="traceid=1\x01")])
def test_a_good_token_is_accepted_for_as_long_as_it_is_good(message: bytes) -> None:
    assert exchange(ALICE).respond(message) == Accepted(b"", "User:alice", 5000)


def test_a_token_is_of_its_own_user() -> None:
    with pytest.raises(Rejected, match="may not act as 'bob'"):
        exchange(ALICE).respond(first(header="n,a=bob,"))


def test_a_refused_token_is_answered_as_the_rfc_says_and_the_client_ends_the_exchange() -> None:
    found = exchange(TokenVerdict(refused="because"))
    assert found.respond(first()) == Challenge(INVALID_TOKEN.encode())
    with pytest.raises(Rejected, match="because") as caught:
        found.respond(CLOSE)
    assert caught.value.told == INVALID_TOKEN
    with pytest.raises(Rejected, match="after the last"):
        found.respond(CLOSE)


def test_a_refused_token_is_not_followed_by_another() -> None:
    found = exchange(TokenVerdict(refused="because"))
    found.respond(first())
    with pytest.raises(Rejected) as caught:
        found.respond(first())
    assert caught.value.told is None


def test_a_login_waits_for_new_keys_and_hears_no_second_message_meanwhile() -> None:
    found = OAuthBearer(lambda token: "keys", lambda token: ALICE)
    said = found.respond(first())
    assert isinstance(said, Awaited) and said.key == "keys"
    with pytest.raises(Rejected, match="before the answer"):
        found.respond(first())
    assert said.then() == Accepted(b"", "User:alice", 5000)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"n,,\x01auth=Bearer t\x01\x01\x01",
        b"n,a=,\x01auth=Bearer t\x01\x01",
        "n,,\x01auth=Bearer é\x01\x01".encode(),
    ],
)
def test_a_message_that_cannot_be_read_is_refused(message: bytes) -> None:
    with pytest.raises(Rejected):
        First(message)


NAMES = st.text(st.characters(min_codepoint=1, max_codepoint=127, exclude_characters=",="), min_size=1, max_size=10)


@given(
    st.from_regex(r"[-_~+/.a-zA-Z0-9]{1,40}={0,2}", fullmatch=True),
    NAMES | st.just(""),
    st.dictionaries(st.from_regex(r"[B-Zb-z]{1,8}", fullmatch=True), st.from_regex(r"[!-~ \t]{1,10}", fullmatch=True)),
)
def test_what_a_client_writes_is_read_again(text: str, name: str, extensions: dict[str, str]) -> None:
    acts_as = f"a={name}" if name else ""
    more = "".join(f"{key}={value}\x01" for key, value in extensions.items())
    found = First(first(text, f"n,{acts_as},", more))
    assert (found.token, found.acts_as) == (text, name)


@settings(max_examples=500)
@given(
    st.binary(max_size=100)
    | st.builds(
        lambda a, b, c: first()[:a] + b + first()[c:], st.integers(0, 25), st.binary(max_size=4), st.integers(0, 25)
    )
)
def test_no_bytes_break_the_parser_of_the_first_message(message: bytes) -> None:
    try:
        found = First(message)
    except Rejected:
        return
    assert found.token and len(found.token) <= len(message)
