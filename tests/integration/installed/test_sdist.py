"""The source distribution: what it holds, and that a wheel of it is the one that the tree makes."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.integration.installed.conftest import BUILD_S, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * BUILD_S)]
BESIDE = {
    "LICENSE",
    "NOTICE",
    "PKG-INFO",
    "README.md",
    "pyproject.toml",
    "pyspark_rayft.py",
    "rayft.py",
    "setup.cfg",
    "setup.py",
}
"""The files beside the packages. setuptools writes PKG-INFO and setup.cfg."""
BYTES_MAX = 4 << 20


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("sdist")
    words = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(where), "sdist", "--dist-dir", str(where)]
    subprocess.run(words, cwd=ROOT, check=True, env=os.environ | {"RAYFT_BUILT": "0"}, timeout=BUILD_S)
    (made,) = where.glob("rayft-*.tar.gz")
    return made


def tracked(*tops: str) -> set[str]:
    """The files of the repository below these folders, but for those that are made."""
    return {
        str(path.relative_to(ROOT))
        for top in tops
        for path in (ROOT / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
        if not (top == "fastpath" and path.suffix in (".so", ".c", ".html"))
    }


def test_it_has_all_that_a_build_needs_and_nothing_else(sdist: Path) -> None:
    with tarfile.open(sdist) as tar:
        names = {name.partition("/")[2] for name in (one.name for one in tar.getmembers() if one.isfile())}
    assert {name for name in names if "/" not in name} == BESIDE
    below = {name for name in names if "/" in name and not name.startswith("rayft.egg-info/")}
    assert below == tracked("actors", "fastpath")
    assert sdist.stat().st_size < BYTES_MAX


def test_a_wheel_of_it_is_the_wheel_of_the_tree(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """Compiled in an environment of pip's own, with what pyproject.toml asks for."""
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(sdist)]
    around = {name: value for name, value in os.environ.items() if name not in ("RAYFT_BUILT", "PYTHONPATH")}
    done = subprocess.run(words, env=around, capture_output=True, text=True, timeout=BUILD_S)
    if "No matching distribution" in done.stderr or "connection" in done.stderr.lower():
        pytest.skip(f"nothing to build with: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-3000:]
    (made,) = tmp_path.glob("rayft-*.whl")
    with zipfile.ZipFile(made) as ours, zipfile.ZipFile(wheel) as of_the_tree:
        assert ours.namelist() == of_the_tree.namelist()
        for name in ours.namelist():
            if name.endswith((".py", ".pyi", ".pyx", ".pxd", "entry_points.txt", "top_level.txt")):
                assert ours.read(name) == of_the_tree.read(name), name
