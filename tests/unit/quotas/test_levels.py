"""Which quota a client has (KIP-257), and how much is remembered of clients."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.metadata.ops import EntitySet
from actors.quotas.accounts import ACCOUNTS_MAX, IDLE_MS, Accounts
from actors.quotas.levels import (
    CONNECTION,
    CONSUMER,
    LEVELS,
    NAME_CHARACTERS_MAX,
    PRODUCER,
    Charged,
    Limit,
    QuotaLimits,
    canonical,
    user_of,
)
from actors.quotas.rates import Rate, Window
from tests.reference.quotas import find


def quota(key: str, value: float, **entity: str | None) -> EntitySet:
    parts = tuple((name.replace("_", "-"), given) for name, given in entity.items())
    return EntitySet("quota", (parts, key), (("entity", parts), ("key", key), ("value", value), ("remove", False)))


def stored(user: str, client_id: str, value: float) -> EntitySet:
    entity = {"user": user, "client_id": client_id}
    return quota(PRODUCER, value, **{name: None if part == "*" else part for name, part in entity.items() if part})


PARTS = [pair for pair in itertools.product(["a", "b", "*", ""], repeat=2) if pair != ("", "")]


@given(st.sets(st.sampled_from(PARTS)), st.sampled_from("abc"), st.sampled_from(["a", "b", "c", ""]))
def test_the_order_is_that_of_kip_257(given: set[tuple[str, str]], user: str, client_id: str) -> None:
    quotas = {pair: float(PARTS.index(pair) + 1) for pair in given}
    found = QuotaLimits(stored(*pair, value) for pair, value in quotas.items()).find(PRODUCER, user, client_id)
    wanted = find(quotas, user, client_id)
    assert found == (None if wanted is None else Limit(Charged(*wanted[:2]), wanted[2]))


def test_each_level_is_reached() -> None:
    strongest_last = [("", "*"), ("", "a"), ("*", ""), ("*", "*"), ("*", "a"), ("a", ""), ("a", "*"), ("a", "a")]
    assert len(strongest_last) == len(LEVELS)
    for count in range(1, 9):
        limit = QuotaLimits(stored(*pair, float(n + 1)) for n, pair in enumerate(strongest_last[:count])).find(
            PRODUCER, "a", "a"
        )
        assert limit is not None and limit.bound == count


def test_each_key_is_looked_up_by_itself() -> None:
    limits = QuotaLimits([quota(PRODUCER, 1.0, user="a"), quota(CONSUMER, 2.0, client_id="c")])
    assert limits.find(PRODUCER, "a", "c") == Limit(Charged("a", ""), 1.0)
    assert limits.find(CONSUMER, "a", "c") == Limit(Charged("", "c"), 2.0)
    assert limits.find(CONSUMER, "a", None) is None and not limits.of_addresses and limits.of_clients


def test_users_share_a_default_for_client_ids_and_client_ids_one_for_users() -> None:
    limits = QuotaLimits([quota(PRODUCER, 1.0, client_id=None)])
    assert limits.find(PRODUCER, "a", "c") == limits.find(PRODUCER, "b", "c") != limits.find(PRODUCER, "a", "d")
    limits = QuotaLimits([quota(PRODUCER, 1.0, user=None)])
    assert limits.find(PRODUCER, "a", "c") == limits.find(PRODUCER, "a", "d") != limits.find(PRODUCER, "b", "c")


def test_long_client_ids_that_begin_alike_count_as_one() -> None:
    limits = QuotaLimits([quota(PRODUCER, 1.0, client_id=None)])
    one, other = (limits.find(PRODUCER, "a", "x" * 30_000 + end) for end in "12")
    assert one == other and one is not None and len(one.charged.client_id) == NAME_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("host", "bound"),
    [("10.0.0.1", 5.0), ("::ffff:10.0.0.1", 5.0), ("10.0.0.2", 9.0), ("fe80::1%eth0", 7.0), ("", 9.0)],
)
def test_addresses_are_compared_as_addresses(host: str, bound: float) -> None:
    given = {"10.0.0.1": 5.0, "fe80:0::1": 7.0, None: 9.0}
    limits = QuotaLimits([quota(CONNECTION, value, ip=name) for name, value in given.items()])
    assert limits.connections_of(host) == bound and not limits.of_clients


def test_an_address_without_a_default_has_no_limit() -> None:
    assert QuotaLimits([quota(CONNECTION, 5.0, ip="10.0.0.1")]).connections_of("10.0.0.2") is None


def test_names_of_principals_and_the_order_of_entities() -> None:
    assert user_of("User:CN=a:b") == "CN=a:b"
    assert canonical([("user", "a"), ("client-id", "c"), ("user", "b")]) == (("client-id", "c"), ("user", "b"))


def test_a_million_client_ids_leave_as_many_accounts_as_there_may_be() -> None:
    accounts = Accounts(lambda: Rate(Window(11, 1000)))
    honest = accounts.get(Charged("honest", ""), 1.0, 0)
    for n in range(3 * ACCOUNTS_MAX):
        accounts.get(Charged("", str(n)), 1.0, 0)
        if n % 1000 == 0:
            assert accounts.get(Charged("honest", ""), 1.0, 0) is honest, "who is charged now and then stays"
    assert len(accounts) == ACCOUNTS_MAX


def test_accounts_that_are_idle_for_an_hour_are_forgotten() -> None:
    accounts = Accounts(lambda: Rate(Window(11, 1000)))
    old = accounts.get(Charged("old", ""), 1.0, 0)
    assert accounts.get(Charged("old", ""), 2.0, IDLE_MS - 1) is old and old.bound == 2.0
    accounts.get(Charged("new", ""), 1.0, 3 * IDLE_MS)
    assert len(accounts) == 1
    assert [name for name, _ in accounts.newest(5, 3 * IDLE_MS)] == [Charged("new", "")]
