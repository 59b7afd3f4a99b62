"""Configurations of topics, brokers and groups. KIP-133, KIP-226, KIP-339."""

import enum
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from actors.client.asks import AnyNode, Ask, Controller, Know, Node, Steps, To
from actors.client.errors import ClientError, refused
from actors.client.operations.each import each
from actors.wire.messages import message


class Kind(enum.IntEnum):
    """The kind of a resource that has configurations."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Op(enum.IntEnum):
    """The change to one configuration."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


SOURCES = {
    1: "topic",
    2: "broker",
    3: "default of brokers",
    4: "file",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
Resource = tuple[Kind, str]


class Config(NamedTuple):
    """One configuration of a resource."""

    name: str
    value: str | None
    """The value; None: it has none, or it is sensitive."""
    source: str
    """The source of the value: one of SOURCES."""
    read_only: bool
    sensitive: bool
    synonyms: tuple[tuple[str, str | None, str], ...]
    """All values that the configuration could have, (name, value, source), the one that counts first."""


def _to(resource: Resource) -> To:
    kind, name = resource
    if kind in (Kind.BROKER, Kind.BROKER_LOGGER) and name.isascii() and name.isdecimal():
        return Node(int(name))
    return AnyNode()


def describe(
    resources: Iterable[Resource], names: Iterable[str] | None = None, *, synonyms: bool = False
) -> Steps[dict[Resource, Any]]:
    """The configurations of each resource, {name: Config}, or its ClientError. `names`: those that are wanted; None:
    all."""
    kind = message("DescribeConfigsRequest")
    wanted = None if names is None else list(names)
    groups: dict[To, list[Resource]] = {}
    for resource in resources:
        groups.setdefault(_to(resource), []).append(resource)

    def ask(to: To, some: list[Resource]) -> Ask:
        return Ask(
            to,
            "DescribeConfigs",
            lambda version: kind(
                resources=[
                    kind.DescribeConfigsResource(resource_type=int(one), resource_name=name, configuration_keys=wanted)
                    for one, name in some
                ],
                include_synonyms=synonyms,
            ),
        )

    if any(isinstance(to, Node) for to in groups):
        yield Know(())
    replies = yield [ask(to, some) for to, some in groups.items()]
    found: dict[Resource, Any] = {}
    for some, reply in zip(groups.values(), replies, strict=True):
        if isinstance(reply, ClientError):
            found |= dict.fromkeys(some, reply)
            continue
        told = {(one.resource_type, one.resource_name): one for one in reply.message.results}
        found |= {resource: _described(resource, told.get(resource)) for resource in some}
    return found


def _described(resource: Resource, told: Any) -> dict[str, Config] | ClientError:
    what = f"{resource[0].name.lower().replace('_', ' ')} {resource[1]}"
    if told is None:
        return ClientError(f"{what}: the answer does not mention it")
    if told.error_code:
        return refused(what, told.error_code, told.error_message)
    return {one.name: _config(one) for one in told.configs}


def _config(one: Any) -> Config:
    return Config(
        one.name,
        one.value,
        SOURCES.get(one.config_source, "unknown"),
        one.read_only,
        one.is_sensitive,
        tuple((other.name, other.value, SOURCES.get(other.source, "unknown")) for other in one.synonyms),
    )


def alter(
    changes: Mapping[Resource, Mapping[str, tuple[Op, str | None]]], *, validate_only: bool = False
) -> Steps[dict[Resource, ClientError | None]]:
    """Change configurations one by one (Kafka 2.3 and newer): resource -> {name: (what to do, value)}. Returns each
    resource's error or None."""
    kind = message("IncrementalAlterConfigsRequest")

    def build(some: list[Resource]) -> Any:
        return kind(
            resources=[
                kind.AlterConfigsResource(
                    resource_type=int(one[0]),
                    resource_name=one[1],
                    configs=[
                        kind.AlterableConfig(name=name, config_operation=int(op), value=value)
                        for name, (op, value) in changes[one].items()
                    ],
                )
                for one in some
            ],
            validate_only=validate_only,
        )

    def outcomes(reply: Any) -> Any:
        for one in reply.message.responses:
            yield (one.resource_type, one.resource_name), one.error_code, one.error_message

    groups: dict[To, list[Resource]] = {}
    for resource in changes:
        # A broker checks what is meant for it, as only it has its loggers, and with ZooKeeper the settings of its file.
        to = _to(resource)
        groups.setdefault(to if isinstance(to, Node) else Controller(), []).append(resource)
    if any(isinstance(to, Node) for to in groups):
        yield Know(())
    found: dict[Resource, ClientError | None] = {}
    for to, some in groups.items():

        def ask(left: list[Resource], to: To = to) -> Ask:
            return Ask(to, "IncrementalAlterConfigs", lambda version: build(left))

        found |= yield from each("configuration of", some, ask, outcomes)
    return found
