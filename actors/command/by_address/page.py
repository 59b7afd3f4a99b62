"""`rayft ui`, once it runs: from its options to a page that answers."""

import argparse
import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from actors.client.errors import ClientError
from actors.client.properties import client_config
from actors.command.by_address.connection import is_named, settings, wrong
from actors.host.cluster_error import ClusterError
from actors.printable import printable

if TYPE_CHECKING:
    from actors.page.decoding.registry import Registry

DEFAULTS = {"default.api.timeout.ms": "8000", "request.timeout.ms": "5000", "client.id": "rayft-ui"}
"""Settings that count where the user has none: a page that waits longer for an answer says so."""
LIBRARIES = ("starlette", "uvicorn", "pyarrow")


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError, ValueError, OSError."""
    _require()
    from actors.page import serve, watched
    from actors.page.changes.nodes import Nodes

    if options.path is not None and (options.bootstrap or options.config or options.dir or options.profile):
        wrong(f"{options.path} and an address are two things to show: leave one out")
    if not 0 <= options.port < 1 << 16:
        wrong(f"--port {options.port} is no port: write a number up to 65535")
    door = serve.Door(
        options.listen,
        options.port,
        tuple(options.name),
        options.certificate,
        options.key,
        options.password_file,
        options.allow_changes,
    )
    secret = serve.password(door)
    if options.path is not None:
        if options.allow_changes:
            wrong("files are only read: --allow-changes is for a running cluster, as in rayft ui -b HOST:PORT")
        shown, name = watched.directory(options.path), str(options.path)
    else:
        if not is_named(options):
            wrong("what is to be shown? Write -b HOST:PORT, or the PATH of a controller's or cluster's directory")
        given = settings(options)
        name = given["bootstrap.servers"]
        nodes = Nodes(options.faults_fd) if options.faults_fd is not None and options.allow_changes else None
        shown = watched.cluster(client_config({**DEFAULTS, **given}), name, nodes, _registry(options, given))

    def ready(address: str) -> None:
        may = ", and may change it" if options.allow_changes else ""
        print(printable(f"rayft ui shows {name}{may}. Open it with:"))
        print(f"\n    {address}\n", flush=True)

    try:
        asyncio.run(serve.serve(shown, door, ready, secret))
    except ClientError as error:
        raise ClusterError(str(error)) from None
    except asyncio.CancelledError:
        return 1  # a signal has ended it before it was open
    return 0


def _registry(options: argparse.Namespace, given: Mapping[str, str]) -> "Registry | None":
    """The schema registry, if one is named. Raises ValueError."""
    from actors.page.decoding.registry import Registry

    url = options.schema_registry or given.get("schema.registry.url", "").partition(",")[0].strip()
    login = given.get("schema.registry.basic.auth.user.info") or given.get("basic.auth.user.info", "")
    return Registry(url, login) if url else None


def _require() -> None:
    """Check that the libraries of the page are installed. Raises ValueError if one is not."""
    from importlib.util import find_spec

    for one in LIBRARIES:
        if find_spec(one) is None:
            raise ValueError(f"the page needs {one}: pip install 'rayft[ui]'.")
