"""How a command reaches a cluster: from its options to a client that a broker has answered.

This file alone decides where the settings come from and how long nobody may answer. `-b` counts before `--config`, that
before `--dir`, that before the variable RAYFT_BOOTSTRAP, and all of them before a profile (`profiles.py`). The profile of
the variable RAYFT_PROFILE counts only where nothing else names a cluster: its login is not shown to another one.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from actors.client.asks import Know, Steps
from actors.client.connection import Lost
from actors.client.errors import ClientError
from actors.client.properties import client_config, own_names, properties
from actors.command.by_address import profiles
from actors.host.client.blocking import Kafka, connect
from actors.host.cluster import plan as plans
from actors.host.cluster.secure_cluster import CLIENT_PROPERTIES
from actors.host.cluster_error import ClusterError
from actors.settings.keys import ConfigError

VARIABLE = "RAYFT_BOOTSTRAP"
BOOTSTRAP = "bootstrap.servers"
ANSWER_S = 12.0
"""How long the first answer of a broker may take, s."""
REFUSED_S = 1.5
"""How long the first answer may take, s, once all that was tried has ended at once: nothing listens there, or the name
is unknown."""
STEP_S = 0.2


def wrong(sentence: str) -> NoReturn:
    """End the command, as its words are wrong: `sentence` says what to type."""
    print(f"rayft: {sentence}", file=sys.stderr)
    raise SystemExit(2)


def _known() -> Steps[None]:
    yield Know(())


@contextmanager
def connected(
    options: argparse.Namespace,
    defaults: Mapping[str, str] = {},
    typed: Mapping[str, str | None] = {},
    first: Callable[[], Steps[Any]] = _known,
) -> Iterator[Kafka]:
    """A client of the cluster. `defaults`: settings that count where the user has none; `typed`: those of the command's
    other options, which count first; `first`: what is asked to find out whether anybody answers. Raises ClusterError, with
    one sentence, if the client fails."""
    given = {**defaults, **settings(options), **{name: value for name, value in typed.items() if value is not None}}
    try:
        with connect(config=given) as kafka:
            _contact(kafka, first())
            yield kafka
    except ClientError as error:
        raise ClusterError(str(error)) from None


def settings(options: argparse.Namespace) -> dict[str, str]:
    """A client's properties, as the options give them. Ends the command where they name no cluster. Raises ConfigError,
    OSError."""
    given = _profile(options)
    named = given.pop(BOOTSTRAP, None)
    if options.dir is not None:
        given |= _directory(options.dir)
    if options.config is not None:
        given |= own_names(properties(options.config.read_text("latin-1")))
    if options.bootstrap is not None:
        given[BOOTSTRAP] = _address(options.bootstrap)
    if not given.get(BOOTSTRAP):
        given[BOOTSTRAP] = _otherwise(options, named)
    return given


def is_named(options: argparse.Namespace) -> bool:
    """Whether options or variables name a cluster."""
    typed = options.bootstrap or options.config or options.dir or options.profile
    return bool(typed or os.environ.get(VARIABLE) or os.environ.get(profiles.VARIABLE))


def _profile(options: argparse.Namespace) -> dict[str, str]:
    name = options.profile
    if name is not None and options.dir is not None:
        wrong("--profile and --dir name two clusters: leave one of them out")
    if name is None and not (options.bootstrap or options.config or options.dir or os.environ.get(VARIABLE)):
        name = os.environ.get(profiles.VARIABLE)
    try:
        return profiles.profile(name) if name else {}
    except profiles.NoProfile as error:
        wrong(str(error))


def _directory(directory: Path) -> dict[str, str]:
    plan = plans.load(directory)
    if plan is None:
        raise FileNotFoundError(
            f"{directory} holds no cluster: start one with `rayft up`, or name its directory with --dir."
        )
    file = directory / "security" / CLIENT_PROPERTIES
    given = own_names(properties(file.read_text("latin-1"))) if file.exists() else {}
    return given | {BOOTSTRAP: plan.bootstrap_servers}


def _otherwise(options: argparse.Namespace, named: str | None) -> str:
    """The address where no option has one: the variable's, then the profile's."""
    variable = os.environ.get(VARIABLE)
    if variable:
        if named is not None and named != variable:
            print(
                f"rayft: {VARIABLE}={variable} counts before the address of profile {options.profile}", file=sys.stderr
            )
        return _address(variable)
    if named is None:
        wrong(
            f"which cluster? Write -b HOST:PORT, {VARIABLE}=HOST:PORT, --profile NAME, --config client.properties or "
            f"--dir DIR"
        )
    return named


def _address(text: str) -> str:
    try:
        client_config({BOOTSTRAP: text})
    except ConfigError:
        wrong(f"{text!r} is no address: write HOST:PORT, or several with commas")
    return text


def _contact(kafka: Kafka, first: Steps[Any]) -> None:
    """Wait for the first answer. Raises ClientError."""
    task, begun = kafka.start(first, ANSWER_S), time.monotonic()
    try:
        while not task.done:
            kafka.step(STEP_S)
            if isinstance(task.last_error, Lost) and time.monotonic() - begun > REFUSED_S and not task.done:
                raise ClientError(f"no broker answers: {task.last_error}")
        task.result()
    finally:
        kafka.client.cancel(task)
