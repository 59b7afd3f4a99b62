"""The clusters of a test run: started when a test first wants one, shared by the tests that want the same, ended with the
run."""

from contextlib import ExitStack
from pathlib import Path

from actors.client.properties import own_names, properties
from actors.host.cluster.early_supervisor import EarlySupervisor
from actors.host.cluster.on_processes import Cluster
from actors.host.cluster.secure_cluster import CLIENT_PROPERTIES
from actors.testing.wanted import Wanted


class Clusters:
    """The clusters that run."""

    def __init__(self, early: EarlySupervisor | None = None) -> None:
        """`early`: a process that was started ahead, for the first of them."""
        self._early = early
        self._shared: dict[Wanted, Cluster] = {}
        self._ending = ExitStack()

    def get(self, wanted: Wanted) -> Cluster:
        """A running cluster that is as wanted, and whole: a test before may have killed nodes of it. Raises ClusterError and
        ConfigError."""
        if wanted not in self._shared:
            self._shared[wanted] = self._ending.enter_context(self.made(wanted))
        cluster = self._shared[wanted]
        if not cluster.running:
            cluster.start()
        cluster.heal()
        return cluster

    def made(self, wanted: Wanted) -> Cluster:
        """A cluster of a test's own, which is not started yet."""
        early, self._early = self._early, None
        return Cluster(
            wanted.controllers, wanted.brokers, config=wanted.settings, combined=wanted.is_small, secure=wanted.secure,
            early=early,
        )  # fmt: skip

    def end(self) -> None:
        """Stop them all."""
        self._shared.clear()
        self._ending.close()
        if self._early is not None:
            self.made(Wanted()).stop()


def client_settings(cluster: Cluster) -> dict[str, str]:
    """How a client connects, by the names of Java's clients: addresses, and TLS and a login where the cluster wants them."""
    file = Path(cluster.dir) / "security" / CLIENT_PROPERTIES
    given = own_names(properties(file.read_text("latin-1"))) if cluster.secure else {}
    return given | {"bootstrap.servers": cluster.bootstrap_servers}
