"""The pytest plugin: a fixture `kafka` for each test, on a cluster that the run starts and ends.

pytest loads this file in every run where rayft is installed, so it imports nothing of rayft before a test wants a Kafka.
Rules:

1. The cluster is of the ini file (`rayft_brokers`, `rayft_controllers`, `rayft_config`, `rayft_secure`); a marker
   `@pytest.mark.rayft(brokers=3, config={...})` of a test, a class or a module changes it. Tests that want the same share
   one, unless the marker says `own=True`. With pytest-xdist each worker has its own.
2. A test's topics begin with a prefix of its own and are deleted behind it. Nodes that it has killed, frozen or filled are
   whole again before the next test.
3. `--rayft-bootstrap HOST:PORT` runs the tests on a Kafka that is there already, of any make. Tests that want a cluster of
   another kind are skipped there.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from actors.testing.clusters import Clusters
    from actors.testing.kafka import Kafka
    from actors.testing.wanted import Wanted

MARKER = "rayft"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the settings of the ini file."""
    group = parser.getgroup("rayft", "a Kafka for tests")
    group.addoption("--rayft-bootstrap", metavar="HOST:PORT", help="run on this Kafka instead of starting one")
    parser.addini("rayft_brokers", "how many brokers the cluster of the tests has (1)", default="")
    parser.addini("rayft_controllers", "how many controllers it has (1)", default="")
    parser.addini("rayft_config", "its settings, a line NAME=VALUE each", type="linelist", default=[])
    parser.addini("rayft_secure", "whether clients log in (false)", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers, controllers, config, secure, own): the Kafka that a test's fixture `kafka` is a part of.",
    )


@pytest.fixture(scope="session")
def _rayft_clusters() -> "Iterator[Clusters]":
    from actors.host.cluster.early_supervisor import begin

    early = begin()  # before this process imports what follows, for that takes as long
    from actors.testing.clusters import Clusters

    clusters = Clusters(early)
    try:
        yield clusters
    finally:
        clusters.end()


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[Kafka]":
    """A Kafka for this test: `.bootstrap_servers`, `.topic()`, `.produce()`, `.consume()`, `.cluster.kill()`."""
    wanted, name = _wanted(request.node), request.node.name
    other = request.config.getoption("--rayft-bootstrap")
    if other and any(True for _ in request.node.iter_markers(MARKER)):
        pytest.skip("it wants a cluster of its own kind, and --rayft-bootstrap names one that is as it is")
    clusters = None if other else request.getfixturevalue("_rayft_clusters")
    from actors.testing.clusters import client_settings
    from actors.testing.kafka import Kafka

    if clusters is None:
        yield from _tidied(Kafka({"bootstrap.servers": other}, name))
    elif wanted.own:
        with clusters.made(wanted) as cluster, closing(Kafka(client_settings(cluster), name, cluster)) as own:
            yield own
    else:
        cluster = clusters.get(wanted)
        yield from _tidied(Kafka(client_settings(cluster), name, cluster))


def _tidied(kafka: "Kafka") -> "Iterator[Kafka]":
    with closing(kafka):
        yield kafka
        kafka.tidy()


def _wanted(node: Any) -> "Wanted":
    from actors.testing.wanted import Mistake, of_ini, wanted

    ini = node.config.getini
    try:
        base = of_ini(ini("rayft_brokers"), ini("rayft_controllers"), ini("rayft_config"), ini("rayft_secure"))
        markers = [(one.args, one.kwargs) for one in node.iter_markers(MARKER)]
        return wanted(base, markers[::-1])
    except Mistake as error:
        pytest.fail(str(error), pytrace=False)
