"""A pytest plugin for kafka-python's tests, whose tests of SASL start a broker of their own: they get one that is there.

`SASL_BROKERS` is host:port of its listener, where kafka-python's user can log in with every mechanism.
"""

import os
from typing import Any


def pytest_configure() -> None:
    """Replace what starts brokers, and the one command of Apache Kafka that these tests run."""
    from kafka import KafkaAdminClient  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from test.integration import fixtures  # type: ignore[import-not-found, import-untyped, unused-ignore]

    host, _, port = os.environ["SASL_BROKERS"].partition(",")[0].partition(":")
    start = fixtures.KafkaFixture.instance.__func__

    def instance(kind: type[Any], /, broker_id: int, **parameters: Any) -> Any:
        if parameters.get("transport") != "SASL_PLAINTEXT":
            raise RuntimeError("there is a broker for SASL_PLAINTEXT only")
        return start(kind, broker_id, **parameters | {"host": host, "port": int(port), "external": True})

    def topic_names(broker: Any) -> Any:
        with KafkaAdminClient(**fixtures.client_params(broker)) as admin:
            return admin.list_topics()

    fixtures.KafkaFixture.instance = classmethod(instance)
    fixtures.KafkaFixture.get_topic_names = topic_names
