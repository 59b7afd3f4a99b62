"""Requests about delegation tokens, answered as by Apache Kafka 4.3.1 with the same rules.

Apache Kafka's answers are recorded in tests/golden/kafka-4.3.1/delegation_tokens.json; `python -m
tests.integration.security.test_token_answers` records them again. Times are told in whole hours after the first question,
and a secret as whether it is the right one.
"""

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.wire.messages import message
from tests.integration.answers.dialogue import Broker, request
from tests.integration.answers.test_answers import difference
from tests.integration.conftest import until
from tests.integration.security.nodes import SecureCluster
from tests.integration.security.questions import Person
from tests.integration.security.test_authorization_answers import CONFIG as RIGHTS
from tests.unit.authentication.test_scram import answer

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "kafka-4.3.1" / "delegation_tokens.json"
SECRET = "the-key"
CONFIG = RIGHTS | {
    "delegation.token.secret.key": SECRET,
    "delegation.token.max.lifetime.ms": "36000000",
    "delegation.token.expiry.time.ms": "7200000",
}
HOUR_MS = 3_600_000


class Holder(Broker):
    """A connection of somebody who logs in with a delegation token, or with what is said to be one."""

    def login(self, id: str, secret: bytes) -> int:
        """The error code of the login."""
        self.ask("SaslHandshake", 1, message("SaslHandshakeRequest")(mechanism="SCRAM-SHA-256"))
        first = f"n={id},r=abcdefghijkl,tokenauth=true"
        told = self._token(f"n,,{first}".encode())
        if told.error_code:
            return int(told.error_code)
        proof = answer(bytes(told.auth_bytes).decode(), first, base64.b64encode(secret).decode(), header="biws")
        return int(self._token(proof).error_code)

    def _token(self, token: bytes) -> Any:
        return self.ask("SaslAuthenticate", 2, message("SaslAuthenticateRequest")(auth_bytes=token))


class Story:
    """Questions in their order, and what of each answer has to be the same."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.address = host, int(port)
        self.found: dict[str, Any] = {}
        self.people: dict[str, Person] = {}
        self.began_ms = 0

    def ask(self, who: str, name: str, version: int, **fields: Any) -> Any:
        asker = self.people.setdefault(who, Person(self.address, who))
        return self._noted(asker, who, name, version, fields)

    def _noted(self, asker: Broker, who: str, name: str, version: int, fields: dict[str, Any]) -> Any:
        told = asker.ask(name, version, request(name, **fields))
        shown = {key: value for key, value in fields.items() if key != "hmac"}
        self.found[f"{len(self.found)} {who} {name} {version} {json.dumps(shown)}"] = self._reduced(told, version)
        return told

    def create(self, who: str, *renewers: str, version: int = 3, lifetime_ms: int = -1, owner: str = "") -> Any:
        kinds = [{"principal_type": one.split(":")[0], "principal_name": one.split(":")[1]} for one in renewers]
        fields: dict[str, Any] = {"renewers": kinds, "max_lifetime_ms": lifetime_ms}
        if owner:
            fields |= {"owner_principal_type": "User", "owner_principal_name": owner}
        return self.ask(who, "CreateDelegationToken", version, **fields)

    def renew(self, who: str, hmac: bytes, period_ms: int) -> None:
        self.ask(who, "RenewDelegationToken", 2, hmac=hmac, renew_period_ms=period_ms)

    def expire(self, who: str, hmac: bytes, period_ms: int) -> None:
        self.ask(who, "ExpireDelegationToken", 2, hmac=hmac, expiry_time_period_ms=period_ms)

    def describe(self, who: str, *owners: str, all: bool = False, version: int = 3) -> None:
        named = [{"principal_type": "User", "principal_name": name} for name in owners]
        self.ask(who, "DescribeDelegationToken", version, owners=None if all else named)

    def _allow(self, who: str, kind: Resource, name: str, what: Operation) -> None:
        rule = {
            "resource_type": int(kind),
            "resource_name": name,
            "resource_pattern_type": int(Pattern.LITERAL),
            "principal": f"User:{who}",
            "host": "*",
            "operation": int(what),
            "permission_type": int(Permission.ALLOW),
        }
        asker = self.people.setdefault("admin", Person(self.address, "admin"))
        (told,) = asker.ask("CreateAcls", 3, request("CreateAcls", creations=[rule])).results
        assert told.error_code == 0, told.error_message

    def _reduced(self, told: Any, version: int) -> Any:
        found: dict[str, Any] = {}
        for name in type(told).__layout__.names:
            value = getattr(told, name)
            if name == "tokens":
                value = sorted((self._reduced(one, version) for one in value), key=json.dumps)
            elif name == "renewers":
                value = sorted(f"{one.principal_type}:{one.principal_name}" for one in value)
            elif name.endswith(("timestamp", "timestamp_ms")):
                value = value if value < HOUR_MS else round((value - self.began_ms) / HOUR_MS)
            elif name == "hmac":
                right = hmac.digest(SECRET.encode(), told.token_id.encode(), hashlib.sha512)
                value = "right" if bytes(value) == right else bytes(value).hex()
            elif name == "token_id":
                value = len(value)
            elif name == "throttle_time_ms" or ("requester" in name and version < 3):
                continue
            found[name] = value
        return found

    def play(self) -> dict[str, Any]:
        self.began_ms = int(time.time() * 1000)
        self._allow("creator", Resource.USER, "User:reader", Operation.CREATE_TOKENS)
        self._allow("describer", Resource.USER, "User:reader", Operation.DESCRIBE_TOKENS)
        first = self.create("reader", "User:writer")
        self._allow("alterer", Resource.DELEGATION_TOKEN, first.token_id, Operation.DESCRIBE)
        self.create("creator", owner="reader")
        self.create("creator", owner="writer")
        self.create("reader", "Group:writer")
        self.create("reader", owner="writer")
        self.create("reader", owner="reader", version=3)
        self.create("admin", owner="writer")
        self.create("writer", version=1, lifetime_ms=0)
        self.create("writer", version=2, lifetime_ms=HOUR_MS)
        self.create("writer", lifetime_ms=99 * HOUR_MS)
        self._until_known(first.hmac)
        for who in ("reader", "writer", "deleter", "admin"):
            self.renew(who, first.hmac, -1)
        self.renew("writer", first.hmac, 20 * HOUR_MS)
        self.renew("writer", first.hmac, HOUR_MS)
        self.renew("reader", b"nobody's", -1)
        for who in ("deleter", "admin"):
            self.expire(who, first.hmac, -1)
        self.expire("writer", first.hmac, 5 * HOUR_MS)
        self.expire("writer", first.hmac, 99 * HOUR_MS)
        self.expire("reader", b"", -1)
        time.sleep(1)  # a broker answers from what it has replayed
        for who in ("reader", "writer", "describer", "alterer", "nobody", "admin"):
            self.describe(who, all=True)
            self.describe(who, "reader")
        self.describe("reader")
        self.describe("reader", "writer", version=1)
        self.describe("admin", "writer", "nobody", version=2)
        self._with_a_token(first)
        short = self.create("creator", lifetime_ms=500)
        time.sleep(0.7)
        self.renew("creator", short.hmac, -1)
        self.expire("creator", short.hmac, 1000)
        self.expire("creator", short.hmac, -1)
        for secret in (first.hmac, short.hmac):
            self.expire("reader", secret, -1)
            self.renew("reader", secret, -1)
        return self.found

    def _until_known(self, secret: bytes) -> None:
        """Apache Kafka's controller finds a token some time after it has made it."""
        asker = self.people.setdefault("deleter", Person(self.address, "deleter"))
        asked = request("RenewDelegationToken", hmac=secret, renew_period_ms=-1)
        until(lambda: asker.ask("RenewDelegationToken", 2, asked).error_code == 63)

    def _with_a_token(self, token: Any) -> None:
        for what, id, secret in (
            ("another's id", "x" * 22, bytes(token.hmac)),
            ("another secret", token.token_id, b"x"),
            ("a token", token.token_id, bytes(token.hmac)),
        ):
            holder = Holder(self.address)
            self.found[f"login with {what}"] = holder.login(id, secret)
        self._noted(holder, "holder", "CreateDelegationToken", 3, {"renewers": [], "max_lifetime_ms": -1})
        self._noted(holder, "holder", "RenewDelegationToken", 2, {"hmac": token.hmac, "renew_period_ms": -1})
        self._noted(holder, "holder", "ExpireDelegationToken", 2, {"hmac": token.hmac, "expiry_time_period_ms": -1})
        self._noted(holder, "holder", "DescribeDelegationToken", 3, {"owners": None})


def test_tokens_are_those_of_apache_kafka(tmp_path: Path) -> None:
    cluster = SecureCluster(tmp_path, CONFIG, nodes=1)
    try:
        ours = Story(cluster.bootstrap_servers).play()
    finally:
        cluster.stop()
    theirs = json.loads(GOLDEN.read_text())
    assert list(theirs) == list(ours), "other questions: record the answers anew"
    lines = [f"{title}{line}" for title in theirs for line in difference(theirs[title], ours[title])]
    assert not lines, "\n".join(lines)


def main() -> None:
    """Record Apache Kafka's answers."""
    from bench.apache import ApacheKafka

    config = CONFIG | {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.plaintext.plain.sasl.jaas.config": CONFIG["listener.name.broker.plain.sasl.jaas.config"],
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.controller.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    config.pop("listener.name.broker.plain.sasl.jaas.config")
    with ApacheKafka(controllers=1, brokers=1, config=config, heap="512m") as kafka:
        found = Story(kafka.bootstrap_servers).play()
    rows = [f"{json.dumps(title)}: {json.dumps(answer, separators=(',', ':'))}" for title, answer in found.items()]
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
