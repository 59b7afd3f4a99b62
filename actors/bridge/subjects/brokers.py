"""The znodes in /brokers/ids: which brokers are there, as ZooKeeper has them, and the entry by which they find the
active controller.

This file alone decides what such a znode says of a broker, and whether the broker can be driven. Rules:

1. A broker's epoch is the czxid of its znode.
2. A znode of version 4 or older belongs to inter.broker.protocol.version 2.6 or older. Such a broker asks no controller
   about ISRs, so it cannot be driven.
3. An entry for one of our controllers is no broker.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from actors.bridge.znodes import BROKER_IDS, BadZnode, child, field, fields, number, shown, written
from actors.controller.brokers.zookeeper_brokers import LiveBroker
from actors.metadata.ops import EndPoint
from actors.ports.zookeeper import Znode

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
VERSION = 5
"""The version of a broker's znode from inter.broker.protocol.version 2.7 on."""
LISTENERS_MAX = 100


def path_of(broker: int) -> str:
    """The path of a broker's znode."""
    return f"{BROKER_IDS}/{broker}"


def broker(path: str, znode: Znode) -> LiveBroker:
    """What a znode says of its broker. Raises BadZnode."""
    found = fields(path, znode)
    if number(path, found.get("version"), "version") < VERSION:
        raise BadZnode(
            path,
            "belongs to a broker whose inter.broker.protocol.version is 2.6 or older: raise it to 2.8 on every broker first",
        )
    protocols = field(path, found, "listener_security_protocol_map", dict)
    urls = field(path, found, "endpoints", list)
    if not 0 < len(urls) <= LISTENERS_MAX:
        raise BadZnode(path, f"has {len(urls)} endpoints, and a broker has 1 to {LISTENERS_MAX}")
    rack = found.get("rack")
    return LiveBroker(
        number(path, child(path), "broker id"),
        znode.czxid,
        tuple(_endpoint(path, url, protocols) for url in urls),
        rack if isinstance(rack, str) else None,
        tuple(
            sorted(_feature(path, name, levels) for name, levels in field(path, found, "features", dict, {}).items())
        ),
    )


def brokers(znodes: Mapping[str, Znode], controllers: Collection[int]) -> tuple[LiveBroker, ...]:
    """All brokers among these znodes, by id. Raises BadZnode."""
    found = [broker(path, znode) for path, znode in znodes.items() if path.rpartition("/")[0] == BROKER_IDS]
    return tuple(sorted(one for one in found if one.id not in controllers))


def entry(endpoints: Sequence[EndPoint], now_ms: int) -> bytes:
    """The znode under which brokers of 2.8 look for the controller that `/controller` names."""
    first = next((one for one in endpoints if one.security_protocol == 0), None)
    return written(
        features={},
        listener_security_protocol_map={one.name: PROTOCOLS[one.security_protocol] for one in endpoints},
        endpoints=[f"{one.name}://{_bracket(one.host)}:{one.port}" for one in endpoints],
        jmx_port=-1,
        port=-1 if first is None else first.port,
        host=None if first is None else first.host,
        version=VERSION,
        timestamp=str(now_ms),
    )


def listeners(found: Iterable[LiveBroker]) -> list[str]:
    """Names of the listeners that every one of these brokers has."""
    names = [{one.name for one in each.endpoints} for each in found]
    return sorted(set.intersection(*names)) if names else []


def _endpoint(path: str, url: Any, protocols: Mapping[str, Any]) -> EndPoint:
    name, there, address = url.partition("://") if isinstance(url, str) else ("", "", "")
    host, colon, port = address.rpartition(":")
    protocol = protocols.get(name)
    if not (there and colon and name):
        raise BadZnode(path, f"has {shown(url)} among its endpoints, which must read NAME://host:port")
    if protocol not in PROTOCOLS:
        raise BadZnode(path, f"has the listener {name} with {shown(protocol)} as its security protocol")
    return EndPoint(name, host.strip("[]"), number(path, port, f"port of {name}", 65535), PROTOCOLS.index(protocol))


def _feature(path: str, name: str, levels: Any) -> tuple[str, int, int]:
    if not isinstance(levels, dict):
        raise BadZnode(path, f"has {shown(levels)} as the levels of the feature {shown(name)}")
    low, high = (number(path, levels.get(key), f"{key} of {name}", 32767) for key in ("min_version", "max_version"))
    return name, low, high


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host
