"""SCRAM: the exchange that RFC 7677 prints, proofs that are not right, and users that do not exist."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.authentication.exchange import Accepted, Challenge, Rejected
from actors.authentication.plain import Plain
from actors.authentication.scram import Credential, Mechanism, Scram, credential, salted

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
USERS = {"user": credential(SHA_256, SALT, salted(SHA_256, "pencil", SALT, 4096), 4096)}
NONCE = bytes(range(16))


def exchange(users: dict[str, Credential] | None = None, nonce: bytes = NONCE) -> Scram:
    return Scram(SHA_256, (USERS if users is None else users).get, nonce, b"secret of a node")


def answer(challenge: str, first: str, password: str, mechanism: Mechanism = SHA_256, header: str = "biws") -> bytes:
    """A client's proof, written down from RFC 5802, section 3."""
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    salted_password = hashlib.pbkdf2_hmac(
        mechanism.hash, password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
    )
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.hash)
    bare = f"c={header},r={fields['r']}"
    said = f"{first},{challenge},{bare}".encode()
    signature = hmac.digest(hashlib.new(mechanism.hash, client_key).digest(), said, mechanism.hash)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    return f"{bare},p={proof}".encode()


def test_the_keys_are_those_of_rfc_7677() -> None:
    # The exchange that the RFC prints has a server nonce of its own, so its proof and signature are checked by their keys.
    first = "n=user,r=rOprNGfwEbeRWgbNEkqO"
    told = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    bare = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    said = f"{first},{told},{bare}".encode()
    signature = hmac.digest(USERS["user"].server_key, said, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    key = bytes(a ^ b for a, b in zip(hmac.digest(USERS["user"].stored_key, said, "sha256"), proof, strict=True))
    assert hashlib.sha256(key).digest() == USERS["user"].stored_key


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_who_knows_the_password_is_accepted_and_learns_that_we_do(mechanism: Mechanism) -> None:
    users = {"a,b=c": credential(mechanism, SALT, salted(mechanism, "pässword", SALT, 5000), 5000)}
    scram = Scram(mechanism, users.get, NONCE, b"s")
    first = "n=a=2Cb=3Dc,r=abc"
    challenge = scram.respond(f"n,,{first}".encode())
    assert isinstance(challenge, Challenge)
    proof = answer(challenge.token.decode(), first, "pässword", mechanism)
    accepted = scram.respond(proof)
    assert isinstance(accepted, Accepted) and accepted.principal == "User:a,b=c"
    said = f"{first},{challenge.token.decode()},{proof.decode().rpartition(',p=')[0]}".encode()
    server_key = hmac.digest(salted(mechanism, "pässword", SALT, 5000), b"Server Key", mechanism.hash)
    assert accepted.token == b"v=" + base64.b64encode(hmac.digest(server_key, said, mechanism.hash))
    with pytest.raises(Rejected):
        scram.respond(proof)


def test_an_unknown_user_is_asked_like_a_known_one_and_then_rejected() -> None:
    users: dict[str, Credential] = {}
    told = [exchange(users).respond(b"n,,n=ghost,r=abc") for _ in range(2)]
    assert told[0] == told[1], "the same salt each time"
    other = exchange(users).respond(b"n,,n=other,r=abc")
    assert isinstance(other, Challenge) and other != told[0]
    scram = exchange(users)
    challenge = scram.respond(b"n,,n=ghost,r=abc")
    assert isinstance(challenge, Challenge)
    with pytest.raises(Rejected, match="unknown user"):
        scram.respond(answer(challenge.token.decode(), "n=ghost,r=abc", "pencil"))


def test_a_recorded_exchange_is_worth_nothing() -> None:
    first = "n=user,r=abc"
    recorded = exchange()
    challenge = recorded.respond(f"n,,{first}".encode())
    assert isinstance(challenge, Challenge)
    proof = answer(challenge.token.decode(), first, "pencil")
    assert isinstance(recorded.respond(proof), Accepted)
    again = exchange(nonce=bytes(16))
    again.respond(f"n,,{first}".encode())
    with pytest.raises(Rejected, match="another exchange"):
        again.respond(proof)


@pytest.mark.parametrize(
    ("first", "final"),
    [
        (b"p=tls-unique,,n=user,r=abc", None),
        (b"n,a=other,n=user,r=abc", None),
        (b"n,,n=us=er,r=abc", None),
        (b"n,,n=,r=abc", None),
        (b"n,,m=ext,n=user,r=abc", None),
        (b"\xff", None),
        (b"n,,n=user,r=" + b"a" * 5000, None),
        (b"n,,n=user,r=abc", b"c=biws,r=abc,p=!!!"),
        (b"n,,n=user,r=abc", b"c=eSws,r=NONCE,p=AAAA"),
        (b"n,,n=user,r=abc", b"c=biws,r=NONCE,p=AAAA"),
        (b"n,,n=user,r=abc", b"c=biws,r=NONCE"),
    ],
)
def test_what_is_not_right_is_rejected(first: bytes, final: bytes | None) -> None:
    scram = exchange()
    if final is None:
        with pytest.raises(Rejected):
            scram.respond(first)
        return
    challenge = scram.respond(first)
    nonce = challenge.token.decode().split(",")[0][2:].encode()
    with pytest.raises(Rejected):
        scram.respond(final.replace(b"NONCE", nonce))


def test_a_wrong_password_is_rejected() -> None:
    scram = exchange()
    challenge = scram.respond(b"n,,n=user,r=abc")
    with pytest.raises(Rejected, match="wrong password"):
        scram.respond(answer(challenge.token.decode(), "n=user,r=abc", "Pencil"))


@given(st.lists(st.one_of(st.binary(max_size=200), st.from_regex(rb"n,,n=[a-z]+,r=[a-z]+")), max_size=4))
def test_whatever_comes_nobody_gets_in_without_the_password(tokens: list[bytes]) -> None:
    scram = exchange()
    for token in tokens:
        try:
            assert isinstance(scram.respond(token), Challenge)
        except Rejected:
            break


@pytest.mark.parametrize(
    ("token", "principal"),
    [
        (b"\0alice\0secret", "User:alice"),
        (b"alice\0alice\0secret", "User:alice"),
        (b"bob\0alice\0secret", None),
        (b"\0alice\0Secret", None),
        (b"\0alice\0", None),
        (b"\0bob\0secret", None),
        (b"\0bob\0None?", None),
        (b"\0\0secret", None),
        (b"alice\0secret", None),
        (b"\0alice\0sec\0ret", None),
        (b"\0alice\0\xff", None),
    ],
)
def test_plain(token: bytes, principal: str | None) -> None:
    plain = Plain({"alice": "secret"}.get)
    if principal is None:
        with pytest.raises(Rejected):
            plain.respond(token)
    else:
        assert plain.respond(token) == Accepted(b"", principal)
