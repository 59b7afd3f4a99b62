"""Clients that must be compiled before a test can run them, and a cluster whose first broker has the id 0."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import rayft
from actors.host.cluster import plan as plans
from tests.integration.conftest import CONFIG

SOURCES = Path(__file__).parent / "go"
FETCH_SECONDS_MAX = 120


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rayft.Cluster]:
    """Three controllers and three brokers: 0, 1 and 2. Zero is an id like any other, and easily taken for none."""
    home = tmp_path_factory.mktemp("cluster")
    plans.create(home, 3, 3, common=CONFIG, first_broker=0)
    with rayft.Cluster(dir=home) as running:
        yield running


@pytest.fixture(scope="session")
def franz_go() -> Iterator[Path]:
    """The program in `go/`, which speaks through franz-go. It is built beside the tree: `-mod=mod` may write to go.mod.

    The first build compiles Go's own library and franz-go, a minute and a half of processor time. Sessions that run at
    once take turns: whoever is later finds it all in Go's cache.
    """
    if shutil.which("go") is None:
        pytest.skip("no go on the path: franz-go is a library for Go 1.26 or newer")
    environment = os.environ | {"GOFLAGS": "-mod=mod"}
    with tempfile.TemporaryDirectory(prefix="rayft-franz-go-") as home, (SOURCES / "go.mod").open() as turn:
        folder = Path(shutil.copytree(SOURCES, Path(home) / "go"))
        fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            fetched = subprocess.run(
                ["go", "mod", "download"],
                cwd=folder, env=environment, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pytest.skip(f"franz-go's modules do not come within {FETCH_SECONDS_MAX} s")
        if fetched.returncode:
            pytest.skip(f"franz-go's modules cannot be had: {fetched.stderr.strip()}")
        built = subprocess.run(
            ["go", "build", "-o", "program", "."], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert not built.returncode, built.stderr
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield folder / "program"
