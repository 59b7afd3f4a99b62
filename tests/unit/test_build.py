"""The compiled sources are accepted by the oldest Cython that pyproject.toml allows, not just by the newest.

Which one a machine gets depends on its package index, so what only a newer compiler understands breaks somebody's first
`make`. Needs the network once; without it there is nothing to compile with, and the test says so.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.leavings import MARK

ROOT = Path(__file__).parent.parent.parent


def oldest(requirements: list[str], name: str) -> str:
    """`name==version` for the `name>=version` among `requirements`, which must be there."""
    (found,) = [each for each in requirements if each.startswith(f"{name}>=")]
    return found.replace(">=", "==") + ".0"


@pytest.mark.slow
def test_the_oldest_cython_allowed_compiles_every_module(tmp_path: Path) -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    fetched = subprocess.run(
        [*pip, "--target", str(tmp_path / "old"), oldest(required, "cython")], capture_output=True, text=True
    )
    if fetched.returncode:
        pytest.skip(f"no old Cython to compile with: {fetched.stderr.strip().splitlines()[-1]}")
    sources = sorted((ROOT / "fastpath").rglob("*.pyx"))
    compiled = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from Cython.Build import cythonize;"
            "cythonize(sys.argv[2:], build_dir=sys.argv[1], force=True, quiet=True, language_level=3, annotate=False)",
            str(tmp_path / "c"),
            *map(str, sources),
        ],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path / "old"), "PATH": "/usr/bin:/bin", MARK: os.environ[MARK]},
        capture_output=True,
        text=True,
    )
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    assert len(list((tmp_path / "c").rglob("*.c"))) == len(sources)
