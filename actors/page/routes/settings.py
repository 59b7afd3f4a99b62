"""The answer about settings of brokers: which differ between them.

This file alone decides which settings are expected to differ: those that say who a node is and where it lives.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from actors.client.errors import ClientError
from actors.client.operations import configs
from actors.client.operations.cluster import Cluster, describe_cluster
from actors.page.routes.asking import told
from actors.page.routes.records import live

BROKERS_MAX = 100
ANSWER_S = 8.0
OWN = frozenset({
    "node.id", "broker.id", "broker.rack", "listeners", "advertised.listeners", "log.dir", "log.dirs", "metadata.log.dir",
    "process.roles", "host.name", "advertised.host.name", "port", "advertised.port",
})  # fmt: skip


async def differing(request: Request) -> Response:
    """The settings that are not the same at all brokers, and those that were set while they ran."""
    kafka = live(request).kafka
    cluster: Cluster = await kafka.run(describe_cluster(), ANSWER_S)
    brokers = sorted(cluster.brokers)[:BROKERS_MAX]
    found = await kafka.run(configs.describe([(configs.Kind.BROKER, str(one)) for one in brokers]), ANSWER_S)
    answered = {int(name): one for (_, name), one in found.items() if not isinstance(one, ClientError)}
    silent = {int(name): str(one) for (_, name), one in found.items() if isinstance(one, ClientError)}
    names = sorted({name for one in answered.values() for name in one})
    values = {name: {broker: _shown(one.get(name)) for broker, one in answered.items()} for name in names}
    return told({
        "brokers": sorted(answered),
        "silent": silent,
        "differing": [
            {"name": name, "values": values[name]} for name in names
            if name not in OWN and len(set(values[name].values())) > 1
        ],
        "dynamic": [
            {"name": name, "broker": broker, "value": _shown(one[name]), "source": one[name].source}
            for broker, one in sorted(answered.items()) for name in names
            if name in one and one[name].source in ("broker", "default of brokers")
        ],
    })  # fmt: skip


def _shown(config: Any) -> str | None:
    """A value as it may be shown; None: the broker does not have it."""
    if config is None:
        return None
    return "(hidden)" if config.sensitive else config.value or ""
