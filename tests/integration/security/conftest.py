"""One secure cluster for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.integration.security.nodes import SecureCluster


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    """Two nodes that ask everybody who they are, and that allow what access rules allow."""
    cluster = SecureCluster(tmp_path_factory.mktemp("secure"), {})
    yield cluster
    cluster.stop()
