"""A pytest plugin for confluent-kafka's tests, which import trivup, a starter of brokers, even when brokers are given.

A test that wants a cluster with logins of its own gets the one at `SASL_BROKERS`. This file is in a folder of its own,
because that folder goes onto another project's path, where `tests` is that project's.
"""

import os
import sys
import types


class KafkaCluster:
    """Replaces trivup's class: a cluster with logins that is there already. Any other one is an error."""

    def __init__(self, sasl_mechanism: str = "", sasl_users: str = "", **_others: object) -> None:
        self._servers = os.environ.get("SASL_BROKERS", "")
        if not self._servers or sasl_mechanism != "PLAIN":
            raise RuntimeError("this test starts a broker of its own with trivup, which is not here")
        self._user, _, self._password = sasl_users.partition("=")

    def client_conf(self) -> dict[str, str]:
        """How a client logs in."""
        return {
            "bootstrap.servers": self._servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": self._user,
            "sasl.password": self._password,
        }

    def wait_operational(self) -> None:
        """It runs."""

    def stop(self, **_others: object) -> None:
        """Whoever started it stops it."""


for _name in ("trivup", "trivup.clusters", "trivup.clusters.KafkaCluster"):
    sys.modules[_name] = types.ModuleType(_name)
sys.modules["trivup.clusters.KafkaCluster"].KafkaCluster = KafkaCluster  # type: ignore[attr-defined]
