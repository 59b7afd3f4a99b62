"""Each credential has an end: what is taken away ends live connections, on all nodes, and leaves those of others alone.

The end of certificates is in tests/unit/host/net/test_tls.py and tests/unit/node/api/security/test_logins.py, that of
an identity provider's tokens in test_oauthbearer.py, that of a node in tests/integration/test_controllers.py.
"""

import base64
import hashlib
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from actors.authentication.client import ScramLogin
from actors.authentication.scram import Mechanism
from actors.settings.properties import properties
from tests.integration.answers.dialogue import Closed, request
from tests.integration.conftest import until
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, SecureCluster
from tests.integration.security.test_refused import Peer

pytestmark = pytest.mark.timeout(240)
HASHES = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}
CLUSTER_DENIED = 31


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    found = SecureCluster(tmp_path_factory.mktemp("ends"), {"delegation.token.secret.key": "secret of this cluster"})
    yield found
    found.stop()


def places(cluster: SecureCluster) -> list[tuple[str, int]]:
    """Where clients reach each node."""
    found = []
    for log in cluster.logs:
        listeners = properties(log.with_suffix(".properties").read_text())["listeners"]
        host, _, port = listeners.partition(",")[0].removeprefix("BROKER://").rpartition(":")
        found.append((host, int(port)))
    return found


def admin(cluster: SecureCluster) -> Peer:
    return Peer(places(cluster)[0]).log_in(ADMIN, ADMIN_PASSWORD)


def password(cluster: SecureCluster, mechanism: Mechanism, name: str, new: str | None) -> None:
    """Give a user a password; None: it loses the one that it has."""
    salt = b"salt of sixteen."
    fields: dict[str, Any] = {"deletions": [{"name": name, "mechanism": int(mechanism)}], "upsertions": []}
    if new is not None:
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], new.encode(), salt, 4096)
        one = {"name": name, "mechanism": int(mechanism), "iterations": 4096, "salt": salt, "salted_password": salted}
        fields = {"deletions": [], "upsertions": [one]}
    told = admin(cluster).ask("AlterUserScramCredentials", 0, request("AlterUserScramCredentials", **fields))
    assert [one.error_code for one in told.results] == [0], told


def logged_in(place: tuple[str, int], mechanism: Mechanism, name: str, secret: str, *, token: bool = False) -> Peer:
    """A connection that has logged in, as soon as that node lets it."""
    end_s = time.monotonic() + 30
    while True:
        peer = Peer(place)
        assert peer.handshake(mechanism.sasl_name).error_code == 0
        login = ScramLogin(mechanism, name, secret, random.randbytes(16))
        login._bare += ",tokenauth=true" if token else ""
        told = peer.token(login.first())
        if told.error_code == 0:
            proof = login.next(bytes(told.auth_bytes))
            assert proof is not None
            told = peer.token(proof)
        if told.error_code == 0:
            return peer
        peer.close()
        assert time.monotonic() < end_s, told
        time.sleep(0.1)


def closed(peer: Peer) -> bool:
    try:
        peer.ask("Metadata", 4, request("Metadata", topics=[]))
    except Closed:
        return True
    return False


def token_of(cluster: SecureCluster, name: str, secret: str) -> tuple[str, bytes]:
    """(id, secret) of a new delegation token of a user."""
    made = Peer(places(cluster)[0]).log_in(name, secret)
    fields = {"owner_principal_type": None, "owner_principal_name": None, "renewers": [], "max_lifetime_ms": -1}
    told = made.ask("CreateDelegationToken", 3, request("CreateDelegationToken", **fields))
    assert told.error_code == 0, told
    return told.token_id, bytes(told.hmac)


@pytest.mark.parametrize("mechanism", list(HASHES))
@pytest.mark.parametrize("end", ["the password is deleted", "the password is another one", "the token is expired"])
def test_what_is_taken_away_ends_the_connections_on_all_nodes(
    cluster: SecureCluster, mechanism: Mechanism, end: str
) -> None:
    token = end == "the token is expired"
    name, secret, hmac = f"u{len(end)}-{int(mechanism)}", "right", b""
    if token:
        name, hmac = token_of(cluster, "alice", "alice-secret")
        secret = base64.b64encode(hmac).decode()
    else:
        password(cluster, mechanism, name, secret)
    others = [Peer(place).log_in("bob", "bob-secret") for place in places(cluster)]
    live = [logged_in(place, mechanism, name, secret, token=token) for place in places(cluster)]
    assert not any(closed(one) for one in (*live, *others))
    if token:
        owner = Peer(places(cluster)[0]).log_in("alice", "alice-secret")
        gone = request("ExpireDelegationToken", hmac=hmac, expiry_time_period_ms=-1)
        assert owner.ask("ExpireDelegationToken", 2, gone).error_code == 0
    else:
        password(cluster, mechanism, name, None if end == "the password is deleted" else "another")
    for one in live:
        until(lambda one=one: closed(one))  # type: ignore[misc]
    assert not any(closed(one) for one in others), "who logs in otherwise stays"


def rule(operation: int, permission: int) -> Any:
    one = {
        "resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 3, "principal": "User:bob",
        "host": "*", "operation": operation, "permission_type": permission,
    }  # fmt: skip
    return request("CreateAcls", creations=[one])


def test_a_rule_that_denies_counts_from_the_next_request_on(cluster: SecureCluster) -> None:
    """On both nodes, on connections that are open: somebody who might unregister brokers may no more."""
    alter, allow, deny = 7, 3, 2
    assert admin(cluster).ask("CreateAcls", 3, rule(alter, allow)).results[0].error_code == 0
    live = [Peer(place).log_in("bob", "bob-secret") for place in places(cluster)]
    nobody = request("UnregisterBroker", broker_id=77)
    codes = lambda: [one.ask("UnregisterBroker", 0, nobody).error_code for one in live]  # noqa: E731
    until(lambda: CLUSTER_DENIED not in codes())
    assert admin(cluster).ask("CreateAcls", 3, rule(alter, deny)).results[0].error_code == 0
    until(lambda: codes() == [CLUSTER_DENIED] * 2)
    second = request("UnregisterBroker", broker_id=2)
    assert [one.ask("UnregisterBroker", 0, second).error_code for one in live] == [CLUSTER_DENIED] * 2
    brokers = admin(cluster).ask("Metadata", 4, request("Metadata", topics=[])).brokers
    assert sorted(one.node_id for one in brokers) == [1, 2]
