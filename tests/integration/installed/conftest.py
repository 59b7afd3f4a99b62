"""What is made for other people's machines: the wheel, the source distribution, and environments that have them alone.

RAYFT_WHEEL and RAYFT_EARLIER_WHEEL name wheels that are there already, which are tried in the place of those of this tree
and of an earlier commit."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.leavings import MARK

ROOT = Path(__file__).resolve().parents[3]
BUILD_S = 900
"""A build compiles all modules, on a machine that may be busy."""


def build(tree: Path, into: Path) -> Path:
    """The wheel of a tree. The tree is left as it was, but for its folder `build`: what an earlier build has left there
    would be in the wheel."""
    for left in (tree / "build").glob("lib.*"):
        shutil.rmtree(left)
    words = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(into),
        str(tree),
    ]
    subprocess.run(words, check=True, env={**os.environ, "RAYFT_BUILT": "0"}, timeout=BUILD_S)
    (wheel,) = into.glob("rayft-*.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    if made := os.environ.get("RAYFT_WHEEL"):
        return Path(made)
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


class Environment:
    """A virtual environment that has nothing but what is installed into it: no compiler, and nothing of the repository."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.programs = home / "bin"
        kept = {"HOME": os.environ.get("HOME", str(home)), MARK: os.environ[MARK]}
        self.variables = {"PATH": str(self.programs), "CC": "false", **kept}
        venv.create(home, with_pip=True)

    @property
    def packages(self) -> Path:
        """Where modules are installed."""
        (found,) = (self.home / "lib").glob("python3*/site-packages")
        return found

    def install(self, *words: str) -> None:
        """Run `pip install`. The test is skipped where there is nothing to install from."""
        pip = [str(self.programs / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *words]
        done = subprocess.run(pip, env=self.variables, capture_output=True, text=True, timeout=BUILD_S)
        if "No matching distribution" in done.stderr or "connection" in done.stderr.lower():
            pytest.skip(f"nothing to install from: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr

    def run(self, program: str, *words: str, stdin: str = "", timeout: float = 300) -> str:
        """What a program of this environment prints; it has to succeed."""
        done = subprocess.run(
            [str(self.programs / program), *words],
            input=stdin, cwd=self.home, env=self.variables, capture_output=True, text=True, timeout=timeout,
        )  # fmt: skip
        assert done.returncode == 0, f"{program} {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def lend(self, modules: Sequence[str]) -> None:
        """Let this environment find, behind its own packages, those in whose folders the modules lie: large ones, which
        would have to be fetched again. The test is skipped where they are not here."""
        folders = {str(Path(str(pytest.importorskip(one).__file__)).resolve().parents[1]) for one in modules}
        (self.packages / "lent.pth").write_text("".join(f"{folder}\n" for folder in sorted(folders)))


@pytest.fixture
def environment(tmp_path: Path) -> Callable[[str], Environment]:
    """Makes an empty environment with a name."""
    return lambda name: Environment(tmp_path / name)
