"""What a setting is: its name, type, default, legal values, what it does, whether it changes at run time.

This file alone decides how a value is written, and how one that is not allowed is refused. The settings themselves are in
`tables/` (those of a node), `topics.py`, `groups.py` and `client_metrics.py`. Names, types and defaults are those of Apache
Kafka 4.3. Rules:

1. A row says what the setting does *here*. A setting without an effect has `effect=False`, and a notice at the start
   says so.
2. A value is checked when it is read: `parse` returns the typed value or raises a `ConfigError` that says what to write
   instead.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple


class ConfigError(ValueError):
    """A setting that stops the start. The sentence names the setting and says what to write instead."""


class ConfigType(IntEnum):
    """Types of values, numbered as DescribeConfigs (KIP-569) sends them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Check(NamedTuple):
    """A condition on a typed value, and the words for the error: "write <wants>"."""

    wants: str
    holds: Callable[[Any], bool]


class ConfigKey(NamedTuple):
    """One row of a table."""

    name: str
    type: ConfigType
    default: Any
    """The typed default; None if there is none."""
    validator: Check | None
    doc: str
    dynamic: str
    """The kind of change at run time. `cluster-wide`: the setting can change, and is the default of a topic setting.
    Empty: it is read at start only, or never. `topic`: every topic setting can change."""
    sensitive: bool
    synonyms: tuple[str, ...]
    """The node's settings that give the default of a topic setting. The first one counts most."""
    effect: bool
    """Whether the setting has an effect here. False: it is accepted, because files for Kafka contain it."""

    def parse(self, text: str) -> Any:
        """The typed value of `text`. Raises ConfigError."""
        try:
            value = _PARSE[self.type](text.strip())
        except ValueError:
            raise ConfigError(f"{self.name}={text} is not {_NOUN[self.type]}: write {self._wants()}.") from None
        if self.validator is not None and not self.validator.holds(value):
            raise ConfigError(f"{self.name}={text} is not allowed: write {self._wants()}.")
        return value

    def allows(self, text: str) -> bool:
        """Whether `parse` accepts the text. Metadata may hold a value that an older release allowed: it counts as not
        set."""
        try:
            self.parse(text)
        except ConfigError:
            return False
        return True

    def _wants(self) -> str:
        return self.validator.wants if self.validator else _NOUN[self.type]

    def text(self, value: Any) -> str | None:
        """The value as Kafka's tools show it; None if it is not set."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return str(value).replace("e+", "E").replace("e", "E")
        return ",".join(value) if isinstance(value, tuple) else str(value)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _integer(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not -(1 << bits - 1) <= value < 1 << bits - 1 or "_" in text:
            raise ValueError
        return value

    return parse


def _double(text: str) -> float:
    if "_" in text:  # which Python allows between digits
        raise ValueError
    return float(text)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


_PARSE: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _integer(32),
    ConfigType.SHORT: _integer(16),
    ConfigType.LONG: _integer(64),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}
_NOUN = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "a text",
    ConfigType.INT: "a whole number of 32 bits",
    ConfigType.SHORT: "a whole number of 16 bits",
    ConfigType.LONG: "a whole number of 64 bits",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "names separated by commas",
    ConfigType.CLASS: "the name of a class",
    ConfigType.PASSWORD: "a password",
}

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = (
    ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT,
    ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST, ConfigType.CLASS, ConfigType.PASSWORD,
)  # fmt: skip
CLUSTER = "cluster-wide"
ONE_THREAD = "one thread serves a whole node"
"""The sentence why a number of threads does nothing here."""
MAX_INT, MAX_LONG = (1 << 31) - 1, (1 << 63) - 1


def at_least(low: float) -> Check:
    """A check that a number is at least `low`."""
    return Check(f"a number of at least {low}", lambda value: value >= low)


def between(low: float, high: float) -> Check:
    """A check that a number is from `low` to `high`, both included."""
    return Check(f"a number from {low} to {high}", lambda value: low <= value <= high)


def one_of(*names: str) -> Check:
    """A check that a text is exactly one of these words."""
    return Check(" or ".join(names), lambda value: value in names)


def some_of(*names: str) -> Check:
    """A check that a list is made of these words."""
    return Check("a list out of " + ", ".join(names), lambda value: all(part in names for part in value))


named = Check("a name", bool)


def key(
    name: str,
    kind: ConfigType,
    default: Any,
    check: Check | None,
    doc: str,
    dynamic: str = "",
    synonyms: tuple[str, ...] = (),
    effect: bool = True,
) -> ConfigKey:
    """One row of a table of settings. `dynamic` and `synonyms` as in `ConfigKey`."""
    return ConfigKey(name, kind, default, check, doc, dynamic, kind is ConfigType.PASSWORD, synonyms, effect)


def idle(name: str, kind: ConfigType, default: Any, check: Check | None, why: str, dynamic: str = "") -> ConfigKey:
    """A row of a setting that files for Kafka contain and that has no effect here, and why."""
    return key(name, kind, default, check, f"Accepted, does nothing here: {why}.", dynamic, (), False)
