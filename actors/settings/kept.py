"""Settings of Apache Kafka's brokers that are kept and shown, and that no node of this kind reads.

This file alone decides which settings beside the nodes' own (`nodes.BROKER_CONFIGS`) have a type and a default, and which
settings a client may change, as with Apache Kafka 4.3, for one broker only. Rules:

1. What Apache Kafka takes for a broker that runs, or for all brokers, is taken here too and described with its type, so that
   tools which set it go on. The controller's log says that it takes no effect (`controller/configs.py`).
2. What Apache Kafka reads at start only is refused.
3. A name that neither knows is a client's own, and is kept as it is.

The table was compared with what a cluster of Apache Kafka 4.3.1 answers (`tests/integration/answers/dynamic_settings.py`).
"""

from typing import Any

from actors.settings.keys import (
    BOOLEAN,
    CLUSTER,
    DOUBLE,
    INT,
    LIST,
    LONG,
    MAX_LONG,
    PASSWORD,
    SHORT,
    STRING,
    ConfigKey,
    ConfigType,
)  # fmt: skip

CLASS = ConfigType.CLASS
ONE_BROKER, AT_START = "per-broker", ""
DOC = "Kept and shown, does nothing here."


def _keys(scope: str, *rows: tuple[str, ConfigType, Any]) -> list[tuple[str, ConfigKey]]:
    return [
        (name, ConfigKey(name, kind, default, None, DOC, scope, kind is PASSWORD, (), False))
        for name, kind, default in rows
    ]


KEPT: dict[str, ConfigKey] = dict(
    [
        *_keys(
            CLUSTER,
            ("config.providers", LIST, ()),
            ("follower.fetch.last.tiered.offset.enable", BOOLEAN, False),
            ("remote.fetch.max.wait.ms", INT, 500),
            ("remote.list.offsets.request.timeout.ms", LONG, 30000),
            ("remote.log.index.file.cache.total.size.bytes", LONG, 1073741824),
            ("remote.log.manager.copier.thread.pool.size", INT, 10),
            ("remote.log.manager.copy.max.bytes.per.second", LONG, MAX_LONG),
            ("remote.log.manager.expiration.thread.pool.size", INT, 10),
            ("remote.log.manager.fetch.max.bytes.per.second", LONG, MAX_LONG),
            ("remote.log.manager.follower.thread.pool.size", INT, 2),
            ("remote.log.reader.threads", INT, 10),
        ),
        *_keys(
            ONE_BROKER,
            (
                "principal.builder.class",
                CLASS,
                "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            ),
            ("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit"),
            ("sasl.kerberos.min.time.before.relogin", LONG, 60000),
            ("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",)),
            ("sasl.kerberos.service.name", STRING, None),
            ("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05),
            ("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8),
            ("sasl.login.refresh.buffer.seconds", SHORT, 300),
            ("sasl.login.refresh.min.period.seconds", SHORT, 60),
            ("sasl.login.refresh.window.factor", DOUBLE, 0.8),
            ("sasl.login.refresh.window.jitter", DOUBLE, 0.05),
            ("ssl.keymanager.algorithm", STRING, "SunX509"),
            ("ssl.protocol", STRING, "TLSv1.3"),
            ("ssl.provider", STRING, None),
            ("ssl.secure.random.implementation", STRING, None),
            ("ssl.trustmanager.algorithm", STRING, "PKIX"),
        ),
        *_keys(
            AT_START,
            ("alter.config.policy.class.name", CLASS, None),
            ("alter.log.dirs.replication.quota.window.num", INT, 11),
            ("alter.log.dirs.replication.quota.window.size.seconds", INT, 1),
            ("client.quota.callback.class", CLASS, None),
            ("cordoned.log.dirs", LIST, ()),
            ("create.topic.policy.class.name", CLASS, None),
            ("early.start.listeners", LIST, None),
            ("group.coordinator.background.threads", INT, 2),
            ("kafka.metrics.polling.interval.secs", INT, 10),
            ("kafka.metrics.reporters", LIST, ()),
            ("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",)),
            ("metrics.num.samples", INT, 2),
            ("metrics.recording.level", STRING, "INFO"),
            ("metrics.sample.window.ms", LONG, 30000),
            ("remote.log.manager.copy.quota.window.num", INT, 11),
            ("remote.log.manager.copy.quota.window.size.seconds", INT, 1),
            ("remote.log.manager.fetch.quota.window.num", INT, 11),
            ("remote.log.manager.fetch.quota.window.size.seconds", INT, 1),
            ("remote.log.manager.task.interval.ms", LONG, 30000),
            ("remote.log.manager.thread.pool.size", INT, 2),
            ("remote.log.metadata.custom.metadata.max.bytes", INT, 128),
            (
                "remote.log.metadata.manager.class.name",
                STRING,
                "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
            ),
            ("remote.log.metadata.manager.class.path", STRING, None),
            ("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config."),
            ("remote.log.metadata.manager.listener.name", STRING, None),
            ("remote.log.reader.max.pending.tasks", INT, 100),
            ("remote.log.storage.manager.class.name", STRING, None),
            ("remote.log.storage.manager.class.path", STRING, None),
            ("remote.log.storage.manager.impl.prefix", STRING, "rsm.config."),
            ("remote.log.storage.system.enable", BOOLEAN, False),
            ("sasl.client.callback.handler.class", CLASS, None),
            ("sasl.login.callback.handler.class", CLASS, None),
            ("sasl.login.class", CLASS, None),
            ("sasl.login.connect.timeout.ms", INT, None),
            ("sasl.login.read.timeout.ms", INT, None),
            ("sasl.login.retry.backoff.max.ms", LONG, 10000),
            ("sasl.login.retry.backoff.ms", LONG, 100),
            ("sasl.oauthbearer.assertion.algorithm", STRING, "RS256"),
            ("sasl.oauthbearer.assertion.claim.aud", STRING, None),
            ("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300),
            ("sasl.oauthbearer.assertion.claim.iss", STRING, None),
            ("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False),
            ("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60),
            ("sasl.oauthbearer.assertion.claim.sub", STRING, None),
            ("sasl.oauthbearer.assertion.file", STRING, None),
            ("sasl.oauthbearer.assertion.private.key.file", STRING, None),
            ("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None),
            ("sasl.oauthbearer.assertion.template.file", STRING, None),
            ("sasl.oauthbearer.client.credentials.client.id", STRING, None),
            ("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None),
            (
                "sasl.oauthbearer.jwt.retriever.class",
                CLASS,
                "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
            ),
            ("sasl.oauthbearer.scope", STRING, None),
            ("sasl.oauthbearer.token.endpoint.url", STRING, None),
            ("security.providers", STRING, None),
            ("socket.connection.setup.timeout.max.ms", LONG, 30000),
            ("socket.connection.setup.timeout.ms", LONG, 10000),
            ("ssl.allow.dn.changes", BOOLEAN, False),
            ("ssl.allow.san.changes", BOOLEAN, False),
            ("ssl.engine.factory.class", CLASS, None),
            ("transaction.state.log.load.buffer.size", INT, 5242880),
        ),
    ]
)
"""The settings of Apache Kafka that nodes do not have, by name. `dynamic`: whether they can be changed while brokers
run, for one broker or for all."""

OF_ONE_BROKER = frozenset(
    {
        "sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.mechanism.inter.broker.protocol", "ssl.cipher.suites",
        "ssl.client.auth", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm",
    }
)  # fmt: skip
"""The settings that nodes have, read at start, and that are kept and shown for one broker beside what it was started
with."""


def scope(name: str, dynamic: str) -> str:
    """ONE_BROKER if a setting can be changed for one broker while brokers run, else `dynamic`, which is that of a
    node's own setting."""
    return ONE_BROKER if name in OF_ONE_BROKER else dynamic
