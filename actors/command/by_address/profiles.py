"""Profiles: clusters by a name of one's own, in `~/.config/rayft/profiles.toml` or below XDG_CONFIG_HOME.

    [production]
    bootstrap.servers = ["kafka-1:9092", "kafka-2:9092"]
    config = "production.properties"        # a client's properties; the path is from here

A profile is a table with a client's settings by Kafka's names, which count before those in its file. This file alone
decides how it is read, and who is warned: passwords in a file that others may read are for everybody.
"""

import difflib
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from actors.client.properties import own_names, properties
from actors.settings.keys import ConfigError

VARIABLE = "RAYFT_PROFILE"
SECRET = re.compile(r"password|jaas|secret|keystore\.key|ssl\.key\.pem", re.IGNORECASE)
"""The names of settings that may hold what lets somebody log in."""
OPEN_TO_OTHERS = 0o044
NAMED_MAX = 5
"""The most profiles that are all named in an error."""
CONFIG = "config"


class NoProfile(Exception):
    """A profile that does not exist was asked for. The text is one sentence that says which do."""


def path() -> Path:
    """The path of the file with the profiles."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".config") / "rayft" / "profiles.toml"


def profile(name: str) -> dict[str, str]:
    """The settings of a profile, by Kafka's names. Raises NoProfile, ConfigError, OSError."""
    file = path()
    if not file.exists():
        raise NoProfile(
            f"there is no profile {name!r}, as {file} is not there: write [{name}] with bootstrap.servers into it"
        )
    tables = _tables(file)
    if name not in tables:
        raise NoProfile(f"there is no profile {name!r} in {file}, only {_closest(name, tables)}")
    found = dict(_settings(name, tables[name]))
    _warn(file, (setting for table in tables.values() for setting, _ in _flat("", table)))
    if CONFIG in found:
        own = file.parent / Path(found.pop(CONFIG)).expanduser()
        given = own_names(properties(own.read_text("latin-1")))
        _warn(own, given)
        found = given | own_names(found)
    return own_names(found)


def _closest(name: str, tables: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, tables, 1)
    return (
        f"{near[0]!r} and {len(tables) - 1} others"
        if near and len(tables) > 5
        else ", ".join(map(repr, tables)) or "none"
    )


def _tables(file: Path) -> dict[str, dict[str, Any]]:
    """The tables of a file by name. Raises ConfigError, OSError."""
    try:
        found = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is no TOML: {error}.") from None
    loose = next((name for name, value in found.items() if not isinstance(value, dict)), None)
    if loose is not None:
        raise ConfigError(f"{file}: {loose} is in no profile: write [NAME] above it.")
    return found


def _flat(before: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(name with dots, value) of each setting: in TOML, dots between words make tables."""
    if not isinstance(value, dict):
        yield before, value
        return
    for name, inner in value.items():
        yield from _flat(f"{before}.{name}" if before else name, inner)


def _settings(profile: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in _flat("", table):
        yield name, _text(profile, name, value)


def _text(profile: str, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    raise ConfigError(f"{name} of profile {profile} is no text, number or list of texts: write it in quotes.")


def _warn(file: Path, names: Any) -> None:
    if any(SECRET.search(name) for name in names) and file.stat().st_mode & OPEN_TO_OTHERS:
        print(f"rayft: {file} has passwords and others may read it: chmod 600 {file}", file=sys.stderr)
