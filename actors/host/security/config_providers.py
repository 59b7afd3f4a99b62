"""The values of settings that stand elsewhere: `${file:/run/secrets/rayft.properties:password}` (KIP-421, KIP-297).

This file alone decides which providers there are and what they may read. Names are Apache Kafka's:

    config.providers=file,env,dir                     the names by which values refer to them
    config.providers.file.class                       FileConfigProvider: ${file:PATH:KEY}, a line of a properties file
    config.providers.file.param.allowed.paths         what it may read: directories and files, with commas
    config.providers.dir.class                        DirectoryConfigProvider: ${dir:PATH:FILE}, a file as it is
    config.providers.dir.param.allowed.paths
    config.providers.env.class                        EnvVarConfigProvider: ${env:NAME}
    config.providers.env.param.allowlist.pattern      the names that it may read, as a regular expression

Rules:

1. References are resolved where a node starts, once. A file of settings keeps the reference, and so does everything that is
   made of it: only the node that uses a secret has it.
2. What a reference stands for is no reference again. Without `config.providers` nothing is one.
3. A reference that cannot be resolved stops the start in one sentence, which names the reference and no value.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from actors.settings.keys import ConfigError
from actors.settings.properties import properties

PROVIDERS = "config.providers"
PACKAGE = "org.apache.kafka.common.config.provider."
FILE_BYTES_MAX = 1 << 20
_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:]*):(?:(?P<path>[^}]*):)?(?P<key>[^}:]*)\}")

Lookup = Callable[[str, str], str]
"""Looks a value up: (path, or empty if there is none; key) -> value. Raises ConfigError."""


def resolved(given: Mapping[str, str]) -> dict[str, str]:
    """The settings with their references replaced, and without those of the providers. Raises ConfigError."""
    if PROVIDERS not in given:
        return dict(given)
    names = [name.strip() for name in given[PROVIDERS].split(",") if name.strip()]
    lookups = {name: _lookup(name, given) for name in names}

    def value(setting: str, text: str) -> str:
        def found(match: re.Match[str]) -> str:
            lookup = lookups.get(match["provider"])
            if lookup is None:
                raise ConfigError(
                    f"{setting} refers to {match[0]}, and {PROVIDERS} has {', '.join(names) or 'nothing'}: add "
                    f"{match['provider']} to it with its class, or write one of those."
                )
            try:
                return lookup(match["path"] or "", match["key"])
            except ConfigError as error:
                raise ConfigError(f"{setting} refers to {match[0]}, and {error}") from None

        return _REFERENCE.sub(found, text)

    return {
        setting: value(setting, text)
        for setting, text in given.items()
        if setting != PROVIDERS and not setting.startswith(PROVIDERS + ".")
    }


def _lookup(name: str, given: Mapping[str, str]) -> Lookup:
    """The look-up of the provider of that name. Raises ConfigError."""
    own = f"{PROVIDERS}.{name}."
    class_name = given.get(own + "class", "").strip()
    made = _CLASSES.get(class_name.removeprefix(PACKAGE) if class_name.startswith(PACKAGE) else "")
    if made is None:
        raise ConfigError(
            f"{own}class={class_name or '(nothing)'} is not a provider of settings: write {PACKAGE} and one of "
            f"{', '.join(_CLASSES)}."
        )
    allowed_setting, make = made
    parameters = {
        key.removeprefix(own + "param."): text for key, text in given.items() if key.startswith(own + "param.")
    }
    for parameter in parameters:
        if parameter != allowed_setting:
            raise ConfigError(
                f"{own}param.{parameter} is not a setting: the one there is, is {own}param.{allowed_setting}."
            )
    return make(own + "param." + allowed_setting, parameters.get(allowed_setting, ""))


def _paths(setting: str, text: str) -> Callable[[str], Path]:
    """A function that makes the path of a reference, and raises ConfigError if it may not be read."""
    allowed = [Path(os.path.realpath(one.strip())) for one in text.split(",") if one.strip()]
    for one in text.split(","):
        if one.strip() and not os.path.isabs(one.strip()):
            raise ConfigError(f"{setting} has {one.strip()}: write absolute paths, with commas between them.")

    def checked(path: str) -> Path:
        if not path:
            raise ConfigError("it names no path: write ${provider:/path:key}.")
        found = Path(os.path.realpath(path))
        if allowed and not any(found == one or one in found.parents for one in allowed):
            raise ConfigError(f"{setting} does not allow that path: add it there, or take another.")
        return found

    return checked


def _file(setting: str, text: str) -> Lookup:
    checked = _paths(setting, text)

    def lookup(path: str, key: str) -> str:
        found = properties(_read(checked(path)).decode("latin-1"))
        if key not in found:
            raise ConfigError("the file has no such key: add a line for it, or write another key.")
        return found[key]

    return lookup


def _directory(setting: str, text: str) -> Lookup:
    checked = _paths(setting, text)

    def lookup(path: str, key: str) -> str:
        if not key or "/" in key or key in (".", ".."):
            raise ConfigError("its last part is no name of a file in that directory: write ${provider:/path:file}.")
        checked(path)
        try:
            return _read(checked(os.path.join(path, key))).decode()
        except UnicodeDecodeError:
            raise ConfigError("the file is not UTF-8: write it so.") from None

    return lookup


def _environment(setting: str, text: str) -> Lookup:
    try:
        pattern = re.compile(text) if text else None
    except re.error as error:
        raise ConfigError(f"{setting} cannot be read ({error}): write a regular expression.") from None

    def lookup(path: str, key: str) -> str:
        if path:
            raise ConfigError("a variable of the environment has no path: write ${provider:NAME}.")
        if pattern is not None and not pattern.fullmatch(key):
            raise ConfigError(f"{setting} does not allow that name: let it match, or take another.")
        if key not in os.environ:
            raise ConfigError("there is no such variable in the environment of this process: set it, or take another.")
        return os.environ[key]

    return lookup


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"the file cannot be read ({error.strerror}): write the path of one that can.") from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"the file has more than {FILE_BYTES_MAX} bytes: write the path of one with a secret.")
    return data


_CLASSES: dict[str, tuple[str, Callable[[str, str], Lookup]]] = {
    "FileConfigProvider": ("allowed.paths", _file),
    "DirectoryConfigProvider": ("allowed.paths", _directory),
    "EnvVarConfigProvider": ("allowlist.pattern", _environment),
}
"""Class without its package -> (its parameter, what makes it)."""
