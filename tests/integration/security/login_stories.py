"""Logins step by step: what a peer may ask before, in and behind a login, and what becomes of its connection."""

from collections.abc import Callable
from typing import Any

from tests.integration.answers.dialogue import Broker, Closed, request
from tests.integration.security.questions import ADMIN, PASSWORD

Step = tuple[str, int, dict[str, Any]]
"""API, version, values."""


def shake(mechanism: str = "PLAIN", version: int = 1) -> Step:
    return "SaslHandshake", version, {"mechanism": mechanism}


def token(data: bytes, version: int = 2) -> Step:
    return "SaslAuthenticate", version, {"auth_bytes": data}


def plain(name: str = ADMIN, password: str = PASSWORD, acts_as: str = "") -> bytes:
    return f"{acts_as}\0{name}\0{password}".encode()


VERSIONS: Step = ("ApiVersions", 3, {"client_software_name": "t", "client_software_version": "1"})
METADATA: Step = ("Metadata", 9, {"topics": []})
OTHER = "reader"
STORIES: dict[str, list[Step]] = {
    "as it should be": [VERSIONS, shake(), token(plain()), METADATA],
    "without a question about versions": [shake(), token(plain()), METADATA],
    "versions behind the handshake": [shake(), VERSIONS, token(plain())],
    "versions twice": [VERSIONS, VERSIONS, shake()],
    "old versions": [("ApiVersions", 0, {}), shake(), token(plain(), 0), METADATA],
    "metadata first": [METADATA],
    "metadata behind the handshake": [shake(), METADATA],
    "no handshake": [token(plain())],
    "an unknown mechanism": [shake("PLAINER"), shake()],
    "an unknown mechanism, and then another": [shake("GSSAPI"), token(plain())],
    "no mechanism": [shake("")],
    "handshake twice": [shake(), shake(), token(plain())],
    "handshake 0": [shake(version=0), token(plain())],
    "a wrong password": [shake(), token(plain(password="wrong")), METADATA],
    "an unknown user": [shake(), token(plain("nobody-knows"))],
    "no user": [shake(), token(plain(""))],
    "no password": [shake(), token(plain(password=""))],
    "somebody acts as himself": [shake(), token(plain(acts_as=ADMIN)), METADATA],
    "somebody acts as another": [shake(), token(plain(acts_as=OTHER))],
    "no zeros": [shake(), token(b"admin")],
    "one zero": [shake(), token(b"admin\0secret")],
    "three zeros": [shake(), token(plain() + b"\0")],
    "nothing": [shake(), token(b"")],
    "no text": [shake(), token(b"\0\xff\xfe\0\xff")],
    "the end twice": [shake(), token(plain()), token(plain())],
    "again as the same": [shake(), token(plain()), shake(), token(plain()), METADATA],
    "again as another": [shake(), token(plain()), shake(), token(plain(OTHER)), METADATA],
    "again with a wrong password": [shake(), token(plain()), shake(), token(plain(password="wrong")), METADATA],
    "again by another mechanism": [shake(), token(plain()), shake("SCRAM-SHA-256"), METADATA],
    "metadata in the middle of the second login": [shake(), token(plain()), shake(), METADATA, token(plain())],
    "a bad first message of SCRAM": [shake("SCRAM-SHA-256"), token(b"n,,x=1")],
    "SCRAM with channel binding": [shake("SCRAM-SHA-256"), token(b"p=tls-unique,,n=admin,r=abc")],
    "SCRAM of an unknown user": [shake("SCRAM-SHA-256"), token(b"n,,n=nobody-knows,r=abc")],
    "SCRAM as another": [shake("SCRAM-SHA-256"), token(b"n,a=other,n=admin,r=abc")],
    "SCRAM with a token that nobody knows": [shake("SCRAM-SHA-256"), token(b"n,,n=x,r=abc,tokenauth=true")],
}


def answers(address: tuple[str, int]) -> dict[str, list[Any]]:
    """Of each story what was answered, until the connection was closed."""
    return {title: _told(Broker(address), steps) for title, steps in STORIES.items()}


def _told(broker: Broker, steps: list[Step]) -> list[Any]:
    found: list[Any] = []
    try:
        for name, version, values in steps:
            reply = broker.ask(name, version, request(name, **values))
            found.append([name, SHOWN.get(name, lambda reply: reply.error_code)(reply)])
    except Closed:
        found.append("closed")
    finally:
        broker.close()
    return found


SHOWN: dict[str, Callable[[Any], Any]] = {
    "Metadata": lambda reply: len(reply.brokers) > 0,
    "SaslHandshake": lambda reply: [reply.error_code, sorted(reply.mechanisms)],
    "SaslAuthenticate": lambda reply: [reply.error_code, len(reply.auth_bytes), reply.session_lifetime_ms > 0],
}
"""What of an answer is compared: by default its error."""
