"""rayft: a Kafka you can pip install.

>>> import rayft
>>> with rayft.Cluster(controllers=3, brokers=3) as cluster:
...     print(cluster.bootstrap_servers)
>>> table = rayft.read("localhost:9092", "orders", start="2026-11-01").read_all()  # of any Kafka, as Arrow
>>> rayft.write("localhost:9092", "copy", table)  # and back
>>> rayft.Replay("localhost:9092").state(as_of=1998182)  # its metadata, at any moment

This module is the public API. A name's module is imported on first use, so `import rayft` alone loads nothing else.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors import __file__ as _ACTORS_FILE
from actors import __name__ as _ACTORS
from fastpath import __file__ as _FASTPATH_FILE

if TYPE_CHECKING:
    from actors import replay
    from actors.arrow.following import follow
    from actors.arrow.metadata_replay import Replay
    from actors.arrow.reading import read
    from actors.arrow.scanning import scan
    from actors.arrow.writing import write
    from actors.host.cluster.on_processes import Cluster
    from actors.host.cluster_error import ClusterError
    from actors.pipeline import ray, spark
    from actors.testing.container import KafkaContainer

__version__ = "0.1.0"
__all__ = [
    "Cluster", "ClusterError", "KafkaContainer", "Replay", "__version__", "follow", "ray", "read", "replay", "scan", "spark",
    "write",
]  # fmt: skip

_WHERE = {
    "Cluster": "host.cluster.on_processes",
    "ClusterError": "host.cluster_error",
    "KafkaContainer": "testing.container",
    "Replay": "arrow.metadata_replay",
    "follow": "arrow.following",
    "main": "command.cli",
    "read": "arrow.reading",
    "scan": "arrow.scanning",
    "write": "arrow.writing",
}
"""The module of a name; `main` is the command, and no part of the API."""

_MODULES = {"pytest_plugin": "testing.plugin", "ray": "pipeline.ray", "replay": "replay", "spark": "pipeline.spark"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{_ACTORS}.{_MODULES[name]}")
    if name not in _WHERE:
        raise AttributeError(f"module 'rayft' has no attribute {name!r}")
    return getattr(import_module(f"{_ACTORS}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _refuse_strangers() -> None:
    """Raise ImportError if, in a checkout, another package named `actors` or `fastpath` comes first on the path: modules of
    both would mix. What a wheel installs lies below `rayft`, where no other can."""
    here = Path(__file__).resolve().parent
    for file in (_ACTORS_FILE, _FASTPATH_FILE):
        package = Path(str(file)).resolve().parent
        if package.parent != here:
            raise ImportError(
                f"another package named {package.name!r} stands in front of rayft's, in {package.parent}: take it off "
                f"sys.path."
            )


_refuse_strangers()
