"""Delegation tokens in the controller: who gets them, how long they are good, who may change that, and what is refused."""

import base64
import hashlib
import hmac
from functools import partial
from typing import Any

import pytest

from actors.authentication.delegation_tokens import TokenKey
from actors.controller.options import Options
from actors.controller.principals import delegation_tokens
from actors.controller.principals.delegation_tokens import (
    NAME_CHARACTERS_MAX,
    RENEWERS_MAX,
    create_token,
    expire_token,
    renew_token,
    sweep_tokens,
)
from actors.wire import framing
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.controller.cluster import Cluster

HOUR_MS = 3_600_000
ALICE, BOB = "User:alice", "User:bob"
STRING_MAX = 32_767
"""Bytes of a string in a request."""


def cluster(**options: Any) -> Cluster:
    given = {"token_key": TokenKey("secret"), "token_lifetime_ms": 7 * HOUR_MS, "token_expiry_ms": HOUR_MS}
    return Cluster(**(given | options))


def create(c: Cluster, requester: str = ALICE, renewers: tuple[str, ...] = (), **fields: Any) -> Any:
    request = message("CreateDelegationTokenRequest")
    kind = request.CreatableRenewers
    named = [
        kind(principal_type=type_, principal_name=name) for type_, _, name in (one.partition(":") for one in renewers)
    ]
    given = {"owner_principal_type": None, "owner_principal_name": None, "max_lifetime_ms": -1} | fields
    return c.run(partial(create_token, requester=requester), request(renewers=named, **given))


def renew(c: Cluster, secret: bytes, who: str = ALICE, period_ms: int = -1) -> tuple[int, int]:
    request = message("RenewDelegationTokenRequest")(hmac=secret, renew_period_ms=period_ms)
    reply = c.run(partial(renew_token, requester=who), request)
    return reply.error_code, reply.expiry_timestamp_ms


def expire(c: Cluster, secret: bytes, who: str = ALICE, period_ms: int = -1) -> tuple[int, int]:
    request = message("ExpireDelegationTokenRequest")(hmac=secret, expiry_time_period_ms=period_ms)
    reply = c.run(partial(expire_token, requester=who), request)
    return reply.error_code, reply.expiry_timestamp_ms


def stored(c: Cluster, id: str) -> dict[str, Any]:
    return dict(c.image.tokens[id].fields)


def test_a_token_has_an_owner_a_requester_renewers_and_two_times() -> None:
    c = cluster()
    now_ms = c.now.wall_ms
    reply = create(c, ALICE, (BOB,), owner_principal_type="User", owner_principal_name="carol")
    assert reply.error_code == 0
    assert (reply.principal_name, reply.token_requester_principal_name) == ("carol", "alice")
    assert reply.issue_timestamp_ms == now_ms
    assert reply.expiry_timestamp_ms == now_ms + HOUR_MS and reply.max_timestamp_ms == now_ms + 7 * HOUR_MS
    assert stored(c, reply.token_id) == {
        "owner": "User:carol",
        "requester": ALICE,
        "renewers": (BOB,),
        "issue_timestamp": now_ms,
        "max_timestamp": now_ms + 7 * HOUR_MS,
        "expiration_timestamp": now_ms + HOUR_MS,
        "token_id": reply.token_id,
    }


def test_the_secret_is_the_hmac_of_the_id_as_kafka_computes_it_and_nothing_of_it_is_stored() -> None:
    c = cluster()
    reply = create(c)
    assert reply.hmac == hmac.new(b"secret", reply.token_id.encode(), hashlib.sha512).digest()
    assert len(base64.urlsafe_b64decode(reply.token_id + "==")) == 16
    shown = repr(c.ops) + repr(c.options)
    assert "secret" not in shown and reply.hmac.hex() not in shown and repr(reply.hmac) not in shown


@pytest.mark.parametrize(
    ("asked_ms", "lives_ms"), [(-1, 7 * HOUR_MS), (0, 7 * HOUR_MS), (5, 5), (99 * HOUR_MS, 7 * HOUR_MS)]
)
def test_the_last_time_is_asked_for_and_limited(asked_ms: int, lives_ms: int) -> None:
    c = cluster()
    reply = create(c, max_lifetime_ms=asked_ms)
    assert reply.max_timestamp_ms - reply.issue_timestamp_ms == lives_ms
    assert reply.expiry_timestamp_ms - reply.issue_timestamp_ms == min(lives_ms, HOUR_MS)


def test_a_life_without_end_does_not_overflow() -> None:
    c = cluster(token_lifetime_ms=(1 << 63) - 1, token_expiry_ms=(1 << 63) - 1)
    assert create(c).max_timestamp_ms == (1 << 63) - 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"renewers": ("Group:x",)}, ErrorCode.INVALID_PRINCIPAL_TYPE),
        ({"owner_principal_type": "Group", "owner_principal_name": "x"}, ErrorCode.INVALID_PRINCIPAL_TYPE),
        ({"renewers": (f"User:{'x' * (NAME_CHARACTERS_MAX + 1)}",)}, ErrorCode.INVALID_REQUEST),
        ({"renewers": (BOB,) * (RENEWERS_MAX + 1)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_no_user_is_refused_and_nothing_is_stored(fields: dict[str, Any], code: ErrorCode) -> None:
    c = cluster()
    reply = create(c, **fields)
    assert reply.error_code == code and not reply.token_id and not reply.hmac and not c.image.tokens


@pytest.mark.parametrize("type_", ["User:x", ":", "Group:" * 100])
def test_a_type_with_a_colon_is_nobodys_and_the_longest_names_fit_into_the_answer(type_: str) -> None:
    c = cluster()
    reply = create(c, owner_principal_type=type_, owner_principal_name="x" * STRING_MAX)
    assert reply.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE and not c.image.tokens
    framing.encode_response("CreateDelegationToken", 3, 1, reply)


def test_without_a_key_there_are_no_tokens() -> None:
    c = cluster(token_key=None)
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert create(c).error_code == disabled
    assert renew(c, b"x")[0] == disabled and expire(c, b"x")[0] == disabled


def taken(c: Any, requester: str) -> int:
    """How many tokens a requester gets until it is refused."""
    found = 0
    while (reply := create(c, requester)).error_code == 0:
        found += 1
    assert reply.error_code == ErrorCode.POLICY_VIOLATION
    return found


def test_one_requester_has_a_thousand_of_ten_thousand() -> None:
    """Which is what it has alone, whatever it wants: both limits meet there."""
    assert delegation_tokens.TOKENS_OF_A_REQUESTER_MAX == (10_000 - 1_000) // delegation_tokens.ROOM_FOR_ONE


def test_twenty_requesters_that_take_all_that_they_get_leave_some_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delegation_tokens, "TOKENS_OF_A_REQUESTER_MAX", 20)
    monkeypatch.setattr(delegation_tokens, "TOKENS_MAX", 200)
    c = cluster()
    found = [taken(c, f"User:{number}") for number in range(20)]
    assert found[0] == 20 and found == sorted(found, reverse=True) and found[9] > 5, found
    assert taken(c, BOB) >= 1, "ten of them had taken everything"


def test_there_is_an_end_to_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "TOKENS_MAX", 3)
    c = cluster()
    assert [create(c, f"User:{number}").error_code for number in range(4)] == [0, 0, 0, ErrorCode.POLICY_VIOLATION]


def test_owner_and_renewers_renew_and_nobody_else() -> None:
    c = cluster()
    reply = create(c, ALICE, (BOB,), owner_principal_type="User", owner_principal_name="carol")
    c.mono_ms += 1000
    for who in ("User:carol", BOB):
        assert renew(c, reply.hmac, who) == (0, c.now.wall_ms + HOUR_MS)
    for who in (ALICE, "User:mallory"):  # who has asked for it is not its owner
        assert renew(c, reply.hmac, who)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert expire(c, reply.hmac, who)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert stored(c, reply.token_id)["expiration_timestamp"] == c.now.wall_ms + HOUR_MS


def test_no_renewal_goes_beyond_the_last_time() -> None:
    c = cluster()
    reply = create(c)
    for _ in range(13):
        c.mono_ms += HOUR_MS // 2
        code, expires_ms = renew(c, reply.hmac)
    assert (code, expires_ms) == (0, reply.max_timestamp_ms)
    for period_ms in (7, 1):
        assert renew(c, reply.hmac, period_ms=period_ms)[1] == c.now.wall_ms + period_ms
    c.mono_ms += HOUR_MS
    assert renew(c, reply.hmac)[0] == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_a_token_expires_now_or_later() -> None:
    c = cluster()
    now, later = create(c), create(c)
    assert expire(c, later.hmac, period_ms=10) == (0, c.now.wall_ms + 10)
    assert expire(c, later.hmac, period_ms=99 * HOUR_MS) == (0, later.max_timestamp_ms)
    assert expire(c, now.hmac) == (0, c.now.wall_ms)
    assert list(c.image.tokens) == [later.token_id]
    assert expire(c, now.hmac)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    c.mono_ms += 8 * HOUR_MS
    assert expire(c, later.hmac, period_ms=10)[0] == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(c, later.hmac)[0] == 0  # to remove it is still allowed, as in Kafka


@pytest.mark.parametrize("secret", [b"", b"x", bytes(64), b"y" * 100_000])
def test_a_secret_that_is_nobodys_finds_nothing(secret: bytes) -> None:
    c = cluster()
    create(c)
    assert renew(c, secret)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_new_controller_finds_tokens_of_before() -> None:
    c = cluster()
    reply = create(c)
    c.soft.token_ids.clear()  # what a controller has computed goes with its leadership
    assert renew(c, reply.hmac)[0] == 0


def test_secrets_that_are_remembered_do_not_grow_without_end() -> None:
    c = cluster()
    for _ in range(1200):
        assert expire(c, create(c).hmac)[0] == 0
    assert len(c.soft.token_ids) <= 1001


def test_tokens_whose_time_is_over_are_swept() -> None:
    c = cluster()
    short, long = create(c, max_lifetime_ms=1000), create(c)
    c.mono_ms += 1000
    c.run(sweep_tokens, None)
    assert short.token_id in c.image.tokens  # good up to that very millisecond
    c.mono_ms += 1
    c.run(sweep_tokens, None)
    assert list(c.image.tokens) == [long.token_id]


def test_a_lost_leadership_takes_a_token_back() -> None:
    c = cluster()
    first = create(c)
    c.held = c.image.next_offset
    second = create(c)
    c.image.undo(c.held)
    assert list(c.image.tokens) == [first.token_id] and second.token_id not in c.image.tokens


def test_options_show_no_key() -> None:
    assert repr(Options(token_key=TokenKey("secret"))).count("secret") == 0
