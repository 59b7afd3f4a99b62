"""Clusters of both kinds for the tests of Arrow, which are the same for both. On Apache Kafka they take minutes: a short
one is among the tests of the client."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.bridge.zookeeper_mode import RELEASES
from tests.integration.client.conftest import started

KINDS = ["rayft", *(pytest.param(one, marks=pytest.mark.slow) for one in ("apache", *RELEASES))]


@pytest.fixture(scope="package", params=KINDS)
def kafka(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A running cluster of each kind: `.bootstrap_servers`, `.kill(node)`."""
    with started(request.param) as cluster:
        yield cluster
