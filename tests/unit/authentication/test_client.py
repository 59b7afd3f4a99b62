"""Both sides of SCRAM against each other: a node is let in by who knows its password, and lets nobody fool it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.authentication.client import PlainLogin, ScramLogin
from actors.authentication.exchange import Accepted, Challenge, Rejected
from actors.authentication.plain import Plain
from actors.authentication.scram import Mechanism, Scram, credential, salted

SHA_512 = Mechanism.SCRAM_SHA_512
SALT = b"0123456789abcdef"


def server(name: str, password: str) -> Scram:
    known = {name: credential(SHA_512, SALT, salted(SHA_512, password, SALT, 4096), 4096)}
    return Scram(SHA_512, known.get, b"server's nonce..", b"secret")


@settings(max_examples=10, deadline=None)
@given(st.text(min_size=1, max_size=8).filter(lambda name: "\0" not in name), st.text(max_size=8))
def test_any_name_and_password(name: str, password: str) -> None:
    asked, login = server(name, password), ScramLogin(SHA_512, name, password, b"client's nonce..")
    challenge = asked.respond(login.first())
    assert isinstance(challenge, Challenge)
    proof = login.next(challenge.token)
    assert proof is not None
    accepted = asked.respond(proof)
    assert isinstance(accepted, Accepted) and accepted.principal == f"User:{name}"
    assert login.next(accepted.token) is None


def test_who_does_not_know_the_password_is_found_out() -> None:
    login = ScramLogin(SHA_512, "n", "right", b"client's nonce..")
    pretender = server("n", "guess")
    challenge = pretender.respond(login.first())
    assert isinstance(challenge, Challenge)
    login.next(challenge.token)
    with pytest.raises(Rejected, match="does not know the password"):
        login.next(b"v=AAAA")


@pytest.mark.parametrize(
    "told",
    [
        b"r=other,s=AAAA,i=4096",
        b"r=NONCE,s=AAAA,i=4096",
        b"r=NONCEx,s=AAAA,i=1",
        b"r=NONCEx,s=AAAA,i=9999999",
        b"\xff",
        b"e=x",
    ],
)
def test_what_cannot_be_a_servers_message_ends_the_login(told: bytes) -> None:
    login = ScramLogin(SHA_512, "n", "p", b"client's nonce..")
    login.first()
    with pytest.raises(Rejected):
        login.next(told.replace(b"NONCE", b"client's nonce..".hex().encode()))


def test_plain() -> None:
    login = PlainLogin("n", "p")
    assert Plain({"n": "p"}.get).respond(login.first()).principal == "User:n"
    assert login.next(b"") is None
