"""Any tokens in any order at the exchanges of PLAIN and SCRAM: an answer or `Rejected`, nobody is let in, nothing is told.

What is drawn is near the truth: whole messages of a client that does not know the password, with parts of them replaced.
"""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.authentication.client import ScramLogin
from actors.authentication.exchange import Accepted, Challenge, Exchange, Rejected
from actors.authentication.plain import Plain
from actors.authentication.scram import ITERATIONS_MIN, Mechanism, Scram, credential, salted

SHA_256 = Mechanism.SCRAM_SHA_256
PASSWORD, SALT = "correct horse", b"salt of sixteen."
KNOWN = credential(SHA_256, SALT, salted(SHA_256, PASSWORD, SALT, ITERATIONS_MIN), ITERATIONS_MIN)
SECRETS = (PASSWORD, KNOWN.stored_key.hex(), KNOWN.server_key.hex(), base64.b64encode(KNOWN.stored_key).decode())
PIECES = [
    b"n,,", b"y,,", b"p=tls-unique,,", b"n,a=user,", b"n=user", b"n=ghost", b"n==2C", b"n==ZZ", b",r=", b"r=abc", b"m=ext",
    b",", b"=", b"c=biws", b"c=eSws", b"p=AAAA", b"p=" + base64.b64encode(bytes(32)), b"\0", b"user", b"\xff", b"\n",
    b"x" * 5000,
]  # fmt: skip
NEAR = st.lists(st.sampled_from(PIECES) | st.binary(max_size=8), max_size=8).map(b"".join)


def scram() -> Scram:
    return Scram(SHA_256, {"user": KNOWN}.get, b"nonce of a node.", b"secret of a node")


def plain() -> Plain:
    return Plain({"user": PASSWORD}.get)


def asked(exchange: Exchange, token: bytes) -> Challenge | None:
    """The challenge, if there is one."""
    try:
        said = exchange.respond(token)
    except Rejected as rejected:
        text = str(rejected)
        assert text and "\n" not in text and len(text) < 5_000
        assert not any(one in text for one in SECRETS)
        return None
    assert not isinstance(said, Accepted), token
    return said


@settings(max_examples=200, deadline=None)
@given(st.lists(NEAR, min_size=1, max_size=4), st.sampled_from([scram, plain]))
def test_any_tokens(tokens: list[bytes], made: object) -> None:
    exchange: Exchange = made()  # type: ignore[operator]
    for token in tokens:
        if asked(exchange, token) is None:
            break


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=6), st.text(max_size=6).filter(lambda one: one != PASSWORD), st.text(max_size=6))
def test_plain_takes_no_other_password(acts_as: str, password: str, name: str) -> None:
    for who in (name, "user"):
        assert asked(plain(), f"{acts_as}\0{who}\0{password}".encode("utf-8", "surrogatepass")) is None


@pytest.mark.parametrize("guess", ["", "correct hors", "Correct horse", "correct horse "])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_proof_without_the_password_however_it_is_changed(guess: str, data: st.DataObject) -> None:
    exchange, login = scram(), ScramLogin(SHA_256, "user", guess, b"nonce of client.")
    challenge = exchange.respond(login.first())
    assert isinstance(challenge, Challenge)
    proof = bytearray(login.next(challenge.token) or b"")
    for place, byte in data.draw(st.lists(st.tuples(st.integers(0, len(proof) - 1), st.integers(0, 255)), max_size=3)):
        proof[place] = byte
    assert asked(exchange, bytes(proof)) is None
    assert asked(exchange, bytes(proof)) is None, "there is one try"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=3))
def test_of_the_right_proof_every_byte_counts(changes: list[tuple[int, int]]) -> None:
    exchange, login = scram(), ScramLogin(SHA_256, "user", PASSWORD, b"nonce of client.")
    challenge = exchange.respond(login.first())
    assert isinstance(challenge, Challenge)
    right = login.next(challenge.token)
    assert right is not None
    changed = bytearray(right)
    for place, byte in changes:
        changed[place % (len(changed) - 2)] = byte  # the last digit of Base64 has bits that mean nothing
    if bytes(changed) == right:
        assert isinstance(exchange.respond(right), Accepted)
    else:
        assert asked(exchange, bytes(changed)) is None
