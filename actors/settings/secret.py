"""Which settings may be shown to somebody who reads a log.

A metadata log holds dynamic settings of brokers, and any name may be among them: those of a plugin, of a newer Apache
Kafka, of a storage that only its operator knows. This file alone decides whose values are shown: those of settings that are
known not to be secret. A name that nobody here knows may be that of a password, so its value is hidden.
"""

import re
from functools import cache

from actors.settings.client_metrics import CLIENT_METRICS_CONFIGS
from actors.settings.groups import GROUP_CONFIGS
from actors.settings.keys import ConfigType
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.topics import TOPIC_CONFIGS

HIDDEN = "(hidden)"
REMOVED = frozenset(
    {
        "inter.broker.protocol.version",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
    }
)
"""The settings that Apache Kafka 4.3 does not have any more, as older logs hold them. None is secret."""
KNOWN = {**BROKER_CONFIGS, **TOPIC_CONFIGS, **GROUP_CONFIGS, **CLIENT_METRICS_CONFIGS}

_OF_A_LISTENER = re.compile(r"listener\.name\.[^.]+\.(?:(?:gssapi|plain|scram-sha-256|scram-sha-512|oauthbearer)\.)?")


@cache
def is_secret(name: str) -> bool:
    """Whether the value of a setting must not be shown: it is a password or the like, or the setting is unknown. The
    settings of one listener, and of one mechanism of it, are judged by the name behind that prefix."""
    name = _OF_A_LISTENER.sub("", name, count=1) if name.startswith("listener.name.") else name
    if name in REMOVED:
        return False
    key = KNOWN.get(name)
    return key is None or key.sensitive or key.type is ConfigType.PASSWORD


def shown(name: str, value: str | None) -> str | None:
    """The value of a setting, or `(hidden)` in its place."""
    return HIDDEN if value is not None and is_secret(name) else value
