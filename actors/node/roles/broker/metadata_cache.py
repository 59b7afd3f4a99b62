"""What this broker knows of the cluster: the image of committed metadata, and what handlers look up in it.

This file alone decides which settings a topic has here, and where a broker is reached. A snapshot puts another image in
the place of the old one, so a part that keeps the cache asks it anew each time.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from actors.metadata.image import TOPIC_RESOURCE, Image
from actors.settings.node_config import NodeConfig
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.topics import TopicSettings

BROKER_RESOURCE = 4
TOPICS_KEY = ("topics changed",)
"""Waiting key: topics came or went."""
LEADERS_KEY = ("leaders changed",)
"""Waiting key: partitions or brokers have changed."""

SETTINGS_KEPT = 1024
"""How many different settings of topics are kept: most topics have those of another one."""

N = TypeVar("N")
"""The class of an endpoint in an answer."""


class MetadataCache:
    """Metadata at the high watermark, as this broker has replayed it."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self.me = config.broker_id
        self.image = Image()
        self._settings: dict[tuple[tuple[tuple[str, str], ...], ...], TopicSettings] = {}
        """The settings that follow from what is set for a topic, for all brokers and for this one."""

    def settings(self, topic: str) -> TopicSettings:
        """The settings of a topic: its own, else the cluster's dynamic ones, else this node's."""
        image = self.image
        own, every = image.config(TOPIC_RESOURCE, topic), image.config(BROKER_RESOURCE, "")
        mine = image.config(BROKER_RESOURCE, str(self.me))
        key = (tuple(own.items()), tuple(every.items()), tuple(mine.items()))
        found = self._settings.get(key)
        if found is None:
            if len(self._settings) >= SETTINGS_KEPT:
                self._settings.clear()
            found = self._settings[key] = self._config.topic(own, {**every, **mine})
        return found

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic that has an id; None: there is no such topic."""
        row = self.image.topic_by_id(topic_id)
        return self.image.topic_name(row) if row >= 0 else None

    def value(self, name: str) -> Any:
        """A setting of this node that may be changed while it runs: as the cluster's metadata has it, else as it was
        started."""
        key, image = BROKER_CONFIGS[name], self.image
        for resource in (str(self.me), ""):
            text = image.config(BROKER_RESOURCE, resource).get(name)
            if text is not None and key.allows(text):
                return key.parse(text)
        return self._config.value(name)

    def spoken(self, broker: int, versions: range) -> range | None:
        """The versions of an API that are spoken to a broker: `versions` to one in ZooKeeper mode, which may be of an
        older release; None: the version that brokers of rayft speak."""
        registration = self.image.broker(broker)
        return versions if registration is not None and registration.zookeeper else None

    def endpoint(self, broker: int, listener: str) -> Any | None:
        """The address of a broker on the listener of that name; None: it has no such listener, is fenced or is absent.
        For a connection the last two are one: a fenced broker closes its clients' connections."""
        registration = self.image.broker(broker)
        if registration is None or registration.fenced:
            return None
        return next((one for one in registration.endpoints if one.name == listener), None)

    def node_endpoints(self, brokers: Iterable[int], kind: Callable[..., N], listener: str) -> list[N]:
        """Endpoints of leaders that an answer names (KIP-951), on the listener that was asked."""
        found = []
        for broker in brokers:
            endpoint = self.endpoint(broker, listener)
            registration = self.image.broker(broker)
            if endpoint is not None and registration is not None:
                found.append(kind(node_id=broker, host=endpoint.host, port=endpoint.port, rack=registration.rack))
        return found
