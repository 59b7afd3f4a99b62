"""Logins with delegation tokens: SCRAM with tokenauth=true."""

import base64

import pytest

from actors.authentication.delegation_tokens import TokenKey
from actors.authentication.exchange import Accepted, Calculation, Challenge, Rejected
from actors.authentication.scram import Mechanism, Scram, TokenLogin, credential, salted
from tests.unit.authentication.test_scram import NONCE, SALT, answer

SHA_256 = Mechanism.SCRAM_SHA_256
KEY = TokenKey("key")
PASSWORD = base64.b64encode(KEY.hmac("id")).decode()


def exchange(good_for_ms: int = 5000, mechanism: Mechanism = SHA_256) -> Scram:
    token = TokenLogin("User:alice", lambda: good_for_ms, lambda: KEY.credential("id", mechanism, SALT))
    user = credential(mechanism, SALT, salted(mechanism, "password", SALT, 4096), 4096)
    return Scram(mechanism, {"id": user}.get, NONCE, b"secret of a node", {"id": token}.get)


def challenged(scram: Scram, first: str) -> str:
    said = scram.respond(f"n,,{first}".encode())
    if isinstance(said, Calculation):
        said = said.then(said.job())
    assert isinstance(said, Challenge)
    return said.token.decode()


@pytest.mark.parametrize("mechanism", list(Mechanism))
@pytest.mark.parametrize("extension", ["tokenauth=true", "other=1,tokenauth=TRUE"])
def test_who_has_the_secret_is_the_owner_for_as_long_as_the_token_is_good(mechanism: Mechanism, extension: str) -> None:
    scram, first = exchange(mechanism=mechanism), f"n=id,r=abc,{extension}"
    accepted = scram.respond(answer(challenged(scram, first), first, PASSWORD, mechanism))
    assert isinstance(accepted, Accepted)
    assert accepted[1:] == ("User:alice", 5000, True, "id")


@pytest.mark.parametrize(
    ("first", "password"),
    [
        ("n=id,r=abc,tokenauth=true", "password"),  # the password of a user with that name
        ("n=id,r=abc", PASSWORD),  # a token's secret is nobody's password
        ("n=id,r=abc,tokenauth=false", PASSWORD),
        ("n=other,r=abc,tokenauth=true", PASSWORD),
    ],
)
def test_tokens_and_users_are_not_each_other(first: str, password: str) -> None:
    scram = exchange()
    with pytest.raises(Rejected, match="a wrong password, or an unknown user"):
        scram.respond(answer(challenged(scram, first), first, password))


def test_an_expired_token_is_refused() -> None:
    scram, first = exchange(0), "n=id,r=abc,tokenauth=true"
    with pytest.raises(Rejected, match="the delegation token 'id' has expired"):
        scram.respond(answer(challenged(scram, first), first, PASSWORD))


def test_nothing_is_said_while_the_secret_is_calculated() -> None:
    scram = exchange()
    said = scram.respond(b"n,,n=id,r=abc,tokenauth=true")
    assert isinstance(said, Calculation)
    with pytest.raises(Rejected, match="before the answer"):
        scram.respond(b"n,,n=id,r=abc,tokenauth=true")
    with pytest.raises(Rejected, match="could not be checked"):
        said.then(MemoryError())


def test_the_key_is_never_shown() -> None:
    assert "key" not in repr(TokenKey("key")).lower().replace("tokenkey", "")
