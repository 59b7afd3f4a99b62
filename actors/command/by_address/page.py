"""`rayft ui`, once it runs: from its options to a page that answers."""

import argparse
import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from actors.client.errors import ClientError
from actors.client.properties import client_config
from actors.command.by_address.connection import is_named, settings, wrong
from actors.host.cluster_error import ClusterError
from actors.printable import printable

if TYPE_CHECKING:
    from actors.host.client.schema_registry import Registry
    from actors.page.changes.nodes import Nodes
    from actors.page.shown import Opening

DEFAULTS = {"default.api.timeout.ms": "8000", "request.timeout.ms": "5000", "client.id": "rayft-ui"}
"""Settings that count where the user has none: a page that waits longer for an answer says so."""
NAMING = ("bootstrap", "profile", "dir")
"""The options that name running clusters, each of which may come more than once."""
SLOW_S = 2.0
"""After which time it is said that the page is not open yet, s."""
LIBRARIES = ("starlette", "uvicorn", "pyarrow")


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError, ValueError, OSError."""
    _require()
    from actors.page.freed_memory import give_back, hold_little

    hold_little()
    from actors.page import serve, shown

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
    openings = dict(_openings(options))
    name = ", ".join(openings)

    waits = threading.Timer(SLOW_S, _say_it_takes_long, (name,))
    waits.daemon = True

    def ready(address: str) -> None:
        waits.cancel()
        give_back()
        may = ", and may change it" if options.allow_changes else ""
        print(printable(f"rayft ui shows {name}{may}. Open it with:"))
        print(f"\n    {address}\n", flush=True)

    waits.start()
    try:
        asyncio.run(serve.serve(shown.shown(openings), door, ready, secret))
    except ClientError as error:
        raise ClusterError(str(error)) from None
    except asyncio.CancelledError:
        return 1  # a signal has ended it before it was open
    finally:
        waits.cancel()
    return 0


def _say_it_takes_long(name: str) -> None:
    words = f"rayft: {name} is being opened, which takes a while; the address of the page comes then"
    print(printable(words), file=sys.stderr, flush=True)


def _openings(options: argparse.Namespace) -> "Iterator[tuple[str, Opening]]":
    """(name, what opens it) of each cluster and directory that the options name. -b, --profile and --dir together name one
    cluster, as elsewhere, unless one of them comes twice or a path stands beside it: then each is one of its own. Ends the
    command where they make no sense. Raises ValueError, OSError."""
    from actors.page import watched
    from actors.page.shown import CLUSTERS_MAX

    wanted = _wanted(options)
    if options.allow_changes and not wanted:
        wrong("files are only read: --allow-changes is for a running cluster, as in rayft ui -b HOST:PORT")
    names: set[str] = set()
    if len(wanted) + len(options.path) > CLUSTERS_MAX:
        wrong(f"a page shows {CLUSTERS_MAX} clusters at most: leave some out")
    for path in options.path:
        names.add(_new(str(path), names))
        yield str(path), partial(watched.directory, path)
    for one in wanted:
        given = settings(one)
        name = _new(one.profile or given["bootstrap.servers"], names)
        names.add(name)
        yield (
            name,
            partial(
                watched.cluster, client_config({**DEFAULTS, **given}), name, _nodes(options), _registry(options, given)
            ),
        )


def _wanted(options: argparse.Namespace) -> list[argparse.Namespace]:
    """The options of each running cluster, as other commands have them."""
    given = {name: getattr(options, name) or [] for name in NAMING}
    if not options.path and all(len(some) < 2 for some in given.values()):
        one = argparse.Namespace(
            config=options.config, **{name: some[0] if some else None for name, some in given.items()}
        )
        if not is_named(one):
            wrong("what is to be shown? Write -b HOST:PORT, or the PATH of a controller's or cluster's directory")
        return [one]
    if options.config is not None and not options.bootstrap:
        wrong("--config alone names one cluster: write a profile of it, or -b HOST:PORT beside it, to show several")
    none = dict.fromkeys(NAMING)
    return [
        argparse.Namespace(config=options.config if name == "bootstrap" else None, **{**none, name: one})
        for name, some in given.items()
        for one in some
    ]


def _new(name: str, names: set[str]) -> str:
    if name in names:
        wrong(f"{name} is named twice: leave one out")
    return name


def _nodes(options: argparse.Namespace) -> "Nodes | None":
    from actors.page.changes.nodes import Nodes

    return Nodes(options.faults_fd) if options.faults_fd is not None and options.allow_changes else None


def _registry(options: argparse.Namespace, given: Mapping[str, str]) -> "Registry | None":
    """The schema registry, if one is named. Raises ValueError."""
    from actors.host.client.schema_registry import Registry

    url = options.schema_registry or given.get("schema.registry.url", "").partition(",")[0].strip()
    login = given.get("schema.registry.basic.auth.user.info") or given.get("basic.auth.user.info", "")
    return Registry(url, login) if url else None


def _require() -> None:
    """Check that the libraries of the page are installed. Raises ValueError if one is not."""
    from importlib.util import find_spec

    for one in LIBRARIES:
        if find_spec(one) is None:
            raise ValueError(f"the page needs {one}: pip install 'rayft[ui]'.")
