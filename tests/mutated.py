"""Mutated input for everything that reads a stranger's bytes before it knows who that is.

    python -m tests.mutated --seconds 60 [--seed N]

Each target takes something true (a frame, a login, a handshake, a keystore, a token), changes bytes of it, and hands it to
the product's own code. What may come out is what the target says: an answer, or the one error by which this code refuses.
Anything else ends the run with the seed of that input: another exception, an error without a sentence or with a secret in
it, somebody who gets in without what a login needs. Built with sanitizers (`RAYFT_SANITIZE=1`), an access outside of a
buffer ends it as well: `tests/integration/test_sanitizers.py` does that for a minute. `tests/unit/test_mutated.py` runs some
inputs of each target without.
"""

import argparse
import base64
import contextlib
import datetime
import json
import random
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from jwt.algorithms import ECAlgorithm

from actors.authentication.access_tokens import Expected, TokenClaims, checked
from actors.authentication.client import PlainLogin, ScramLogin
from actors.authentication.delegation_tokens import TokenKey
from actors.authentication.exchange import Accepted, Calculation, Challenge, ExchangeStep, Rejected
from actors.authentication.key_set import BadKeySet, key_set
from actors.authentication.oauthbearer import OAuthBearer, TokenVerdict
from actors.authentication.plain import Plain
from actors.authentication.scram import ITERATIONS_MIN, Mechanism, Scram, TokenLogin, credential, salted
from actors.host.net.tls import Tls
from actors.host.security.certificates import authority, issue
from actors.settings.keys import ConfigError
from actors.settings.tls import Store, TlsSettings, mapping_rules
from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.messages import message
from fastpath.bytes.crc32c import crc32c
from fastpath.records import batch
from fastpath.records.scan import resync, scan
from tests.cut import frames_of
from tests.integration.answers.dialogue import request
from tests.served import TABLE
from tests.unit.wire.generator import random_message

REFUSED, TAKEN = "refused", "taken"
LOGIN_BYTES_MAX = 8192
NUMBERS = (
    b"\0",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\0\0",
    b"\x7f\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
)
PIECES = (
    *NUMBERS,
    b"\xff" * 9 + b"\x01",
    b",",
    b"=",
    b"=2C",
    b"n,,",
    b"\x01",
    b"{",
    b'"',
    b"[" * 50,
    b"\n",
    b"-----",
    b"A" * 300,
)
PASSWORD, SALT = "correct horse battery", b"salt of sixteen."
NOW_S = 1_700_000_000


class Broken(Exception):
    """Something came out that must not."""


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Bytes near `data`; now and then the same."""
    made = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(made) + 1)
        to = min(len(made), at + rng.choice((1, 1, 2, 4, 8, 64)))
        kind = rng.randrange(7)
        if kind == 0 and made:
            made[at % len(made)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            made[at:to] = rng.randbytes(to - at)
        elif kind == 2:
            del made[at:to]
        elif kind == 3:
            made[at:at] = made[at:to] * rng.choice((1, 2, 30))
        elif kind == 4:
            piece = rng.choice(PIECES)
            made[at : at + len(piece) * rng.randrange(2)] = piece
        elif kind == 5:
            del made[at:]
        else:
            other = rng.randrange(len(made) + 1)
            made[at:to] = made[other : other + to - at]
    return bytes(made)


def refusal(error: Exception, *secrets: str) -> str:
    """REFUSED, if the error is one clear line."""
    text = str(error)
    if not text or "\n" in text or len(text) > 2_000:
        raise Broken(f"no clear line: {text[:200]!r}")
    if any(one in text for one in secrets):
        raise Broken(f"a secret is told: {text[:200]!r}")
    return REFUSED


# ---- frames before a login


@cache
def frames() -> list[bytes]:
    """What a client may send before it has logged in, in each version, and what it may not."""
    token = b"\0user\0" + PASSWORD.encode()
    found = []
    for version in range(5):
        name = {"client_software_name": "client", "client_software_version": "1.0"} if version > 2 else {}
        found.append(("ApiVersions", version, request("ApiVersions", **name)))
    found += [("SaslHandshake", version, request("SaslHandshake", mechanism="SCRAM-SHA-256")) for version in (0, 1)]
    found += [("SaslAuthenticate", version, request("SaslAuthenticate", auth_bytes=token)) for version in (0, 1, 2)]
    made = [b"".join(map(bytes, framing.encode_request(*one[:2], 1, "client", one[2]))) for one in found]
    return [*made, b"".join(made)]


def frames_before_a_login(rng: random.Random) -> str:
    """A stream of them, as a listener with SASL cuts, reads and decodes it."""
    return read(rng, mutated(rng, rng.choice(frames())), LOGIN_BYTES_MAX)


def requests_of_every_api(rng: random.Random) -> str:
    """Any request that a node serves, delegation tokens and access rules included."""
    api = TABLE[rng.choice(sorted(TABLE, key=lambda row: (row[1], row[0].value)))]
    kind = message(f"v28:{api.name}Request" if framing.is_draft(api.name) else f"{api.name}Request")
    version = rng.choice(list(api.versions))
    try:
        frame = b"".join(
            map(bytes, framing.encode_request(api.name, version, 1, "c", random_message(kind, version, rng)))
        )
    except WireError:
        return REFUSED  # a value that this version cannot carry
    return read(rng, mutated(rng, frame), 1 << 20)


def read(rng: random.Random, data: bytes, limit: int) -> str:
    """Cut a stream anywhere into frames, and decode each."""
    cut = rng.randrange(len(data) + 1)
    names = {key: api for (_, key), api in TABLE.items()}
    try:
        for frame in frames_of((data[:cut], data[cut:]), limit):
            header, position = framing.decode_request_header(frame)
            api = names.get(header.api_key)
            if api is not None and header.api_version in api.versions:
                framing.decode_request(api.name, header.api_version, frame, position)
    except WireError as error:
        return refusal(error, PASSWORD)
    return TAKEN


# ---- logins


def answered(exchange: Any, token: bytes) -> ExchangeStep:
    """The answer of an exchange, after what it wants calculated."""
    said: ExchangeStep = exchange.respond(token)
    while isinstance(said, Calculation):
        said = said.then(said.job())
    return said


def plain(rng: random.Random) -> str:
    """The one message of PLAIN."""
    token = mutated(rng, PlainLogin("user", PASSWORD).first())
    try:
        found = answered(Plain({"user": PASSWORD}.get), token)
    except Rejected as error:
        names = b"\0".join(token.split(b"\0")[:2])  # who writes the password there has told it
        return refusal(error, *(() if PASSWORD.encode() in names else (PASSWORD,)))
    if not isinstance(found, Accepted) or token.split(b"\0")[1:] != [b"user", PASSWORD.encode()]:
        raise Broken(f"{token!r} logs in")
    return TAKEN


@cache
def known(mechanism: Mechanism, password: str) -> Any:
    return credential(mechanism, SALT, salted(mechanism, password, SALT, ITERATIONS_MIN), ITERATIONS_MIN)


KEY = TokenKey("a key of the cluster")
TOKEN = "token-id"
TOKEN_SECRET = base64.b64encode(KEY.hmac(TOKEN)).decode()


class TokenHolder(ScramLogin):
    """Somebody who logs in with a delegation token, as Kafka's clients do."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._bare += ",tokenauth=true"


def scram(rng: random.Random, mechanism: Mechanism, name: str = "user", password: str = PASSWORD) -> str:
    """Both sides of SCRAM: each message may be changed on its way."""
    of_token = TokenLogin("User:owner", lambda: 1000, lambda: known(mechanism, TOKEN_SECRET))
    exchange = Scram(
        mechanism, {"user": known(mechanism, PASSWORD)}.get, b"nonce of a node.", b"secret of a node",
        {TOKEN: of_token}.get,
    )  # fmt: skip
    login = (TokenHolder if name == TOKEN else ScramLogin)(mechanism, name, password, b"nonce of client.", salted_once)
    at = rng.randrange(3)
    try:
        first = login.first()
        said = answered(exchange, mutated(rng, first) if at == 0 else first)
        if not isinstance(said, Challenge):
            raise Broken(f"the answer to a first message is {type(said).__name__}")
        proof = login.next(mutated(rng, said.token) if at == 1 else said.token) or b""
        sent = mutated(rng, proof) if at == 2 else proof
        found = answered(exchange, sent)
    except Rejected as error:
        return refusal(error, PASSWORD, TOKEN_SECRET)
    if not isinstance(found, Accepted) or found.principal not in ("User:user", "User:owner"):
        raise Broken(f"{found!r} at the end of an exchange")
    if at == 2 and _proof(sent) != _proof(proof):
        raise Broken(f"{sent!r} logs in, and {proof!r} is right")
    if not found.by_token == (name == TOKEN):
        raise Broken(f"{name} logs in, by token: {found.by_token}")
    return TAKEN


def _proof(message: bytes) -> bytes:
    """The last digit of Base64 has bits that mean nothing."""
    return base64.b64decode(message.rpartition(b"p=")[2])


@lru_cache(1000)
def salted_once(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    return salted(mechanism, password, salt, iterations)


# ---- tokens of an identity provider

EXPECTED = Expected(("kafka",), "https://provider")
CLAIMS = {"sub": "alice", "iss": "https://provider", "aud": "kafka", "iat": NOW_S, "exp": NOW_S + 60, "scope": "a b"}


@cache
def provider() -> tuple[Any, bytes]:
    """A key, and the key set that says so."""
    key = ec.generate_private_key(ec.SECP256R1())
    entry = ECAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "ec", "use": "sig"}
    return key, json.dumps({"keys": [entry]}).encode()


@cache
def jwts() -> list[str]:
    found = []
    for more in ({}, {"aud": ["kafka", "other"]}, {"nbf": NOW_S}, {"scope": ["a", "b"]}):
        found.append(jwt.encode(CLAIMS | more, provider()[0], "ES256", {"kid": "ec"}))
    return found


def token_of_a_provider(rng: random.Random) -> str:
    """A signed JWT in the first message of OAUTHBEARER: somebody gets in as the one that was signed, or not at all."""
    keys = key_set(provider()[1])
    right = rng.choice(jwts())

    def verdict(text: str) -> TokenVerdict:
        try:
            claims = checked(text, keys, EXPECTED, NOW_S * 1000)
        except Rejected as error:
            refusal(error, right)
            return TokenVerdict(refused=str(error))
        return TokenVerdict(claims.subject, claims.expires_ms - NOW_S * 1000)

    text = right if rng.random() < 0.3 else changed_parts(rng, right)
    message = b"n,,\x01auth=Bearer " + text.encode("latin-1") + b"\x01\x01"
    if text == right:
        message = mutated(rng, message)
    exchange = OAuthBearer(verdict, verdict)
    try:
        said = exchange.respond(message)
        if isinstance(said, Challenge):
            exchange.respond(mutated(rng, b"\x01"))
            raise Broken("a refused token is followed by an answer")
    except Rejected as error:
        return refusal(error, right)
    if not isinstance(said, Accepted) or said.principal != "User:alice" or said.lifetime_ms != 60_000:
        raise Broken(f"{message!r} gives {said!r}")
    return TAKEN


def changed_parts(rng: random.Random, token: str) -> str:
    """One of the three parts changed behind its Base64."""
    parts = token.split(".")
    at = rng.randrange(3)
    inner = base64.urlsafe_b64decode(parts[at] + "==")
    parts[at] = base64.urlsafe_b64encode(mutated(rng, inner)).rstrip(b"=").decode()
    return ".".join(parts)


def signed_claims(rng: random.Random) -> str:
    """Claims that a provider has signed and that are not what they should be."""
    text = mutated(rng, json.dumps(CLAIMS).encode())
    token = jwt.PyJWS().encode(text, provider()[0], "ES256", {"kid": "ec"})
    try:
        found = checked(token, key_set(provider()[1]), EXPECTED, NOW_S * 1000)
    except Rejected as error:
        return refusal(error)
    if not isinstance(found, TokenClaims) or found.subject != json.loads(text)["sub"].strip():
        raise Broken(f"{text!r} gives {found!r}")
    return TAKEN


def key_sets(rng: random.Random) -> str:
    """What a provider publishes."""
    try:
        key_set(mutated(rng, provider()[1]))
    except BadKeySet as error:
        return refusal(error)
    return TAKEN


# ---- keystores and TLS


class Stores:
    """An authority, a node's keystore in both forms, and a client's certificate, in a directory."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mutated-")
        self.home = Path(self._folder.name)
        now = datetime.datetime.now(datetime.UTC)
        by = authority("test", now)
        node, client = issue(by, "node", now, ["localhost"]), issue(by, "client", now)
        key, certificate = load_pem_private_key(node.key, None), x509.load_pem_x509_certificate(node.certificate)
        how = BestAvailableEncryption(PASSWORD.encode())
        self.material = {
            "PEM": node.pem,
            "PKCS12": pkcs12.serialize_key_and_certificates(b"node", key, certificate, None, how),  # type: ignore[arg-type]
        }
        self.authority = by.certificate
        (self.home / "node.pem").write_bytes(node.pem)
        (self.home / "client.pem").write_bytes(client.pem)
        (self.home / "ca.pem").write_bytes(by.certificate)

    def tls(self, kind: str, location: Path, trusted: Path | None = None) -> Tls:
        """A listener that asks for certificates."""
        trust = Store("PEM", str(trusted) if trusted is not None else "", "", "")
        keys = Store(kind, str(location), PASSWORD, "")
        return Tls(
            "L", TlsSettings(keys, "", trust, "required", ("TLSv1.2", "TLSv1.3"), (), False, mapping_rules("DEFAULT"))
        )


@cache
def stores() -> Stores:
    return Stores()


def keystores(rng: random.Random) -> str:
    """PEM and PKCS12, as a listener's keystore."""
    kind = rng.choice(("PEM", "PEM", "PEM", "PKCS12"))  # PKCS12 takes a hundred times as long to be opened
    path = stores().home / "mutated"
    path.write_bytes(mutated(rng, stores().material[kind]))
    try:
        stores().tls(kind, path)
    except ConfigError as error:
        return refusal(error, PASSWORD)
    return TAKEN


def truststores(rng: random.Random) -> str:
    """PEM with the certificates of authorities."""
    path = stores().home / "trusted"
    path.write_bytes(mutated(rng, stores().authority))
    try:
        stores().tls("PEM", stores().home / "node.pem", path)
    except ConfigError as error:
        return refusal(error)
    return TAKEN


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext, Tls]:
    """Two clients, of TLS 1.2 and of 1.3, and a listener that asks for certificates."""
    home, clients = stores().home, []
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        one = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        one.check_hostname, one.verify_mode = False, ssl.CERT_NONE
        one.minimum_version = one.maximum_version = version
        one.load_cert_chain(home / "client.pem")
        clients.append(one)
    return clients[0], clients[1], stores().tls("PEM", home / "node.pem", home / "ca.pem")


def tls_records(rng: random.Random) -> str:
    """A handshake in memory, one flight of the client changed on its way, and a record behind it."""
    *clients, listener = contexts()
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = listener.server.wrap_bio(to_server, to_client, server_side=True)
    out = ssl.MemoryBIO()
    client = rng.choice(clients).wrap_bio(to_client, out)
    at, done = rng.randrange(3), False
    try:
        for flight in range(4):
            with contextlib.suppress(ssl.SSLError):
                client.do_handshake()
            if flight == 2:
                with contextlib.suppress(ssl.SSLError):
                    client.write(b"\0\0\0\x0a" * 40)
            sent = out.read()
            to_server.write(mutated(rng, sent) if flight == at else sent)
            with contextlib.suppress(ssl.SSLWantReadError):
                if not done:
                    server.do_handshake()
                    done = True
                server.read(1 << 14)
    except ssl.SSLError as error:
        return refusal(error)
    if done and (listener.peer(server) or (None,))[0] != "User:CN=client":
        raise Broken(f"the peer is {listener.peer(server)}")
    return TAKEN


# ---- records, which come after a login and are read by compiled code


@cache
def batches() -> list[bytes]:
    found = []
    for codec in range(5):
        builder = batch.Builder(timestamp_ms=NOW_S * 1000, attributes=codec)
        for number in range(20):
            builder.append(b"key" * (number % 3), b"value" * number, None, ((b"h", b"x"), (b"i", None)))
        found.append(bytes(builder.build()))
    return found


def record_batches(rng: random.Random) -> str:
    """What a producer sends: half of the time the checksum is made to fit, so that the rest is read."""
    made = bytearray(mutated(rng, b"".join(rng.choices(batches(), k=rng.choice((1, 1, 3))))))
    if rng.random() < 0.7 and len(made) > 61:
        size = int.from_bytes(made[8:12], "big", signed=True)
        end = 12 + size if 49 <= size <= len(made) - 12 else len(made)
        made[17:21] = crc32c(made[21:end]).to_bytes(4, "big")
    taken = 0
    for act in (
        lambda: batch.accept(bytearray(made), 0, len(made), 7, 3, now_ms=NOW_S * 1000),
        lambda: sum(1 for _ in batch.records(made, 0)),
        lambda: scan(made, 0, len(made)),
        lambda: resync(made, 1, len(made)) if made else 0,
        lambda: batch.columns(made),
    ):
        try:
            act()
            taken += 1
        except batch.CorruptBatch as error:
            refusal(error)
    return TAKEN if taken > 3 else REFUSED


Target = Callable[[random.Random], str]
TARGETS: dict[str, Target] = {
    "frames before a login": frames_before_a_login,
    "requests of every API": requests_of_every_api,
    "PLAIN": plain,
    "SCRAM-SHA-256": lambda rng: scram(rng, Mechanism.SCRAM_SHA_256),
    "SCRAM-SHA-512": lambda rng: scram(rng, Mechanism.SCRAM_SHA_512),
    "delegation tokens": lambda rng: scram(rng, Mechanism.SCRAM_SHA_256, TOKEN, TOKEN_SECRET),
    "OAUTHBEARER and JWT": token_of_a_provider,
    "signed claims": signed_claims,
    "key sets": key_sets,
    "PEM and PKCS12": keystores,
    "certificates of authorities": truststores,
    "TLS records": tls_records,
    "record batches": record_batches,
}
AT_ONCE = 20


def tried(name: str, seed: int) -> str:
    """One input. Raises Broken, or whatever the product raised and should not have."""
    return TARGETS[name](random.Random(f"{name} {seed}"))


def rounds(seed: int) -> Iterator[tuple[str, int]]:
    """(target, seed of an input), without an end: each target gets as much time as any other."""
    spent_s, at = dict.fromkeys(TARGETS, 0.0), dict.fromkeys(TARGETS, seed)
    while True:
        name = min(spent_s, key=lambda one: spent_s[one])
        began_s = time.monotonic()
        for _ in range(AT_ONCE):
            yield name, at[name]
            at[name] += 1
        spent_s[name] += time.monotonic() - began_s


def main(arguments: list[str] | None = None) -> int:
    """Run for a time; 1 when something was found."""
    parser = argparse.ArgumentParser(prog="tests.mutated", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of the first input of each target")
    parser.add_argument("--only", metavar="TARGET", help="one target, and of it the one input with --seed")
    given = parser.parse_args(arguments)
    if given.only:
        print(tried(given.only, given.seed))
        return 0
    end_s, found = time.monotonic() + given.seconds, Counter[tuple[str, str]]()
    for name, seed in rounds(given.seed):
        if time.monotonic() > end_s:
            break
        try:
            found[name, tried(name, seed)] += 1
        except Exception:
            print(f"found: python -m tests.mutated --only {name!r} --seed {seed}", file=sys.stderr, flush=True)
            raise
    for name in TARGETS:
        print(f"{name}: {found[name, REFUSED]} refused, {found[name, TAKEN]} taken")
    print(f"{found.total()} inputs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
