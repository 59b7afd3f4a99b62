"""Clients that must be compiled before a test can run them."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent / "go"
FETCH_SECONDS_MAX = 120


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
