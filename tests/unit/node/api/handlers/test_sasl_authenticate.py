"""SaslAuthenticate: an exchange that calculates, that waits, that is refused, or that another one replaces."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.authentication.exchange import Accepted, Awaited, Calculation, Challenge, ExchangeStep, Rejected
from actors.node.api.handlers.sasl_authenticate import sasl_authenticate
from actors.node.net.connections import Connection
from actors.node.runtime.answers import Done, Last, Later, Parked
from actors.node.runtime.calls import Call, Listener
from actors.ports import Now, WorkKind
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

ALICE = Accepted(b"", "User:alice", 5000)


class Exchange:
    """Says the same to everything, or raises it."""

    def __init__(self, said: ExchangeStep | Rejected) -> None:
        self.said = said

    def respond(self, token: bytes) -> ExchangeStep:
        if isinstance(self.said, Rejected):
            raise self.said
        return self.said


class Scene:
    """One connection in a login."""

    def __init__(self, said: ExchangeStep | Rejected) -> None:
        self.connection = Connection(1, Listener.CLIENT, "L", "h")
        self.connection.mechanism = "M"
        self.known: list[tuple[str, int, bool]] = []
        self.lines: list[str] = []
        requests = SimpleNamespace(connections={1: self.connection}, identified=self._identified, failed_logins=0)
        logins = SimpleNamespace(
            good_for_ms=lambda listener, mechanism: 0, delay_ms=0, kept=lambda mechanism, said: lambda: said is not None
        )
        told = SimpleNamespace(of_host=lambda write, source, text: write(text))
        log = SimpleNamespace(warning=self.lines.append)
        runtime = SimpleNamespace(now=Now(1000, 0), log=log, peer_lines=told)
        self.context: Any = SimpleNamespace(requests=requests, logins=logins, runtime=runtime)
        self.begin(said)

    def begin(self, said: ExchangeStep | Rejected) -> None:
        self.connection.exchange = Exchange(said)

    def _identified(self, connection: Connection, principal: str, expires_ms: int, by_token: bool) -> None:
        connection.principal, connection.by_token = principal, by_token
        self.known.append((principal, expires_ms, by_token))

    def ask(self) -> Any:
        call = Call(1, Listener.CLIENT, "L", 36, 2, None, "h", "User:ANONYMOUS", memoryview(b""))
        return sasl_authenticate(self.context, message("SaslAuthenticateRequest")(auth_bytes=b"x"), call)


def refused(answer: Any) -> str:
    assert isinstance(answer, Last) and answer.reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    return str(answer.reply.error_message)


def test_a_login_that_calculates_does_so_outside_the_loop() -> None:
    scene = Scene(Calculation(lambda: 7, lambda result: Challenge(b"%d" % result)))
    later = scene.ask()
    assert isinstance(later, Later) and later.kind is WorkKind.RECORDS
    answer = later.then(later.job())
    assert isinstance(answer, Done) and answer.reply.auth_bytes == b"7" and not scene.known


@pytest.mark.parametrize("expired", [True, False])
def test_a_login_that_waits_goes_on_when_it_is_called_or_late(expired: bool) -> None:
    scene = Scene(Awaited("keys", 300, lambda: ALICE))
    parked = scene.ask()
    assert isinstance(parked, Parked) and (parked.keys, parked.deadline_ms) == (("keys",), 1300)
    answer = parked.again(expired)
    assert isinstance(answer, Done) and answer.reply.session_lifetime_ms == 5000
    assert scene.known == [("User:alice", 6000, False)] and scene.connection.exchange is None


def test_a_handshake_in_between_ends_the_login_that_waits() -> None:
    scene = Scene(Awaited("keys", 300, lambda: ALICE))
    parked = scene.ask()
    scene.begin(Challenge(b""))
    answer = parked.again(False)
    assert "another login began" in scene.lines[-1] and not scene.known
    refused(answer)


def test_a_mechanism_may_say_in_which_words_it_refuses() -> None:
    assert refused(Scene(Rejected("because", '{"status":"invalid_token"}')).ask()) == '{"status":"invalid_token"}'
    assert refused(Scene(Rejected("because")).ask()) == (
        "Authentication failed due to invalid credentials with SASL mechanism M"
    )


def test_a_renewal_changes_neither_who_it_is_nor_how() -> None:
    scene = Scene(Accepted(b"", "User:alice", 5000, by_token=True))
    scene.ask()
    scene.begin(Accepted(b"", "User:alice", 9000, by_token=True))
    assert isinstance(scene.ask(), Done)
    for other in (Accepted(b"", "User:alice"), Accepted(b"", "User:bob", by_token=True)):
        scene.begin(other)
        refused(scene.ask())
    assert scene.known == [("User:alice", 6000, True), ("User:alice", 10_000, True)]
