"""How a command reaches a cluster: from its options to a client that a broker has answered.

This file alone decides where the settings come from and how long nobody may answer. `-b` counts before `--config`, that
before `--dir`, and the variable RAYFT_BOOTSTRAP where none of them names an address.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from actors.client.asks import Know, Steps
from actors.client.connection import Lost
from actors.client.errors import ClientError
from actors.client.properties import client_config, own_names, properties
from actors.host.client.blocking import Kafka, connect
from actors.host.cluster import plan as plans
from actors.host.cluster.secure_cluster import CLIENT_PROPERTIES
from actors.host.cluster_error import ClusterError
from actors.settings.keys import ConfigError

VARIABLE = "RAYFT_BOOTSTRAP"
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
    given: dict[str, str] = {}
    if options.dir is not None:
        plan = plans.load(options.dir)
        if plan is None:
            raise FileNotFoundError(
                f"{options.dir} holds no cluster: start one with `rayft up`, or name its directory with --dir."
            )
        file = options.dir / "security" / CLIENT_PROPERTIES
        if file.exists():
            given |= own_names(properties(file.read_text("latin-1")))
        given["bootstrap.servers"] = plan.bootstrap_servers
    if options.config is not None:
        given |= own_names(properties(options.config.read_text("latin-1")))
    if options.bootstrap is not None:
        given["bootstrap.servers"] = _address(options.bootstrap)
    if not given.get("bootstrap.servers"):
        if not os.environ.get(VARIABLE):
            wrong(f"which cluster? Write -b HOST:PORT, {VARIABLE}=HOST:PORT, --config client.properties or --dir DIR")
        given["bootstrap.servers"] = _address(os.environ[VARIABLE])
    return given


def _address(text: str) -> str:
    try:
        client_config({"bootstrap.servers": text})
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
