"""Which changes there are, by their place below /api/v1/changes/."""

from collections.abc import Awaitable, Callable

from actors.host.client.asynchronous import Kafka
from actors.page.changes import groups, records, topics
from actors.page.changes.given import Given
from actors.page.changes.nodes import DEEDS

Change = Callable[[Kafka, Given], Awaitable[str]]

CHANGES: dict[str, Change] = {
    "topics/create": topics.create,
    "topics/grow": topics.grow,
    "topics/settings": topics.settings,
    "topics/empty": topics.empty,
    "topics/delete": topics.delete,
    "records/produce": records.produce,
    "groups/reset": groups.reset,
    "groups/delete": groups.delete,
    "brokers/settings": topics.broker_settings,
}
"""The changes that ask the cluster. Each returns what was done, as a sentence."""
FAULTS = tuple(f"nodes/{deed}" for deed in DEEDS)
"""The changes that ask the command which has started the nodes."""
