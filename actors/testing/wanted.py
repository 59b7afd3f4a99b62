"""Which cluster a test wants: the settings of the project's ini file, and over them the arguments of markers.

This file alone decides what may be written in `@pytest.mark.rayft(...)` and in the ini file, and what is a mistake there.
Two tests that want the same share a cluster.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    "rayft.disk.sync": "false",
}
"""Settings with which a small cluster answers sooner than a production one would. A test's own count first."""
NUMBERS = {"brokers": (1, 64), "controllers": (1, 16)}
SWITCHES = ("secure", "own")


class Mistake(ValueError):
    """A marker or a setting that makes no sense, in one sentence."""


class Wanted(NamedTuple):
    """The cluster that a test wants. Equal values are the same cluster, unless it is the test's own."""

    brokers: int = 1
    controllers: int = 1
    config: tuple[tuple[str, str], ...] = ()
    """Settings of every node, sorted by name."""
    secure: bool = False
    """Whether clients log in, by TLS and SCRAM, as `Cluster(secure=True)` sets it up."""
    own: bool = False
    """Whether nobody else may use the cluster."""

    @property
    def is_small(self) -> bool:
        """Whether one process is enough: one broker that is the controller too."""
        return self.brokers == self.controllers == 1

    @property
    def settings(self) -> dict[str, str]:
        """The settings of every node."""
        return QUICK | dict(self.config)


def wanted(base: Wanted, markers: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]]) -> Wanted:
    """The cluster of a test. `markers`: (positional, named) arguments of each, the nearest to the test last. Raises
    Mistake."""
    for positional, named in markers:
        if positional:
            raise Mistake(f"pytest.mark.rayft takes names: write brokers={positional[0]!r}, or what it is")
        base = base._replace(**{name: _value(name, one, base) for name, one in named.items()})
    return base


def _value(name: str, value: Any, base: Wanted) -> Any:
    if name in NUMBERS:
        least, most = NUMBERS[name]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise Mistake(f"{name}={value!r} of rayft: write a number from {least} to {most}")
        return value
    if name in SWITCHES:
        if not isinstance(value, bool):
            raise Mistake(f"{name}={value!r} of rayft: write True or False")
        return value
    if name == "config":
        if not isinstance(value, Mapping):
            raise Mistake(f"config={value!r} of rayft: write a dict of Kafka's settings")
        given = {str(key): _text(one) for key, one in value.items()}
        return tuple(sorted((dict(base.config) | given).items()))
    known = ", ".join((*NUMBERS, *SWITCHES, "config"))
    raise Mistake(f"pytest.mark.rayft does not know {name!r}: there are {known}")


def _text(value: Any) -> str:
    """A setting as it stands in a properties file: False is false there."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def of_ini(brokers: str, controllers: str, config: Sequence[str], secure: bool) -> Wanted:
    """The cluster that the ini file describes. `config`: lines NAME=VALUE. Raises Mistake."""
    named: dict[str, Any] = {"secure": secure, "config": {}}
    for name, text in (("brokers", brokers), ("controllers", controllers)):
        if text:
            if not (text.isascii() and text.isdecimal()):
                raise Mistake(f"rayft_{name} = {text} in the ini file: write a number")
            named[name] = int(text)
    for line in config:
        setting, equals, value = line.partition("=")
        if not equals or not setting.strip():
            raise Mistake(f"rayft_config in the ini file has {line!r}: write NAME=VALUE")
        named["config"][setting.strip()] = value.strip()
    return wanted(Wanted(), [((), named)])
