"""A copy of the tree in which a mutation is tried.

Whatever a test starts in the copy imports the copy: its folder is the current one and stands first in PYTHONPATH, which
counts more than an editable install. A mutated file gets a time of its own, since Python takes compiled code by its
source's time and size.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.kips.mutations import Edit, Mutation

ROOT = Path(__file__).parent.parent.parent
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "*.c", "*.html", "rayft-data", "results")
LINKED = (".kafka", ".tools")
"""Fetched for tests that skip themselves without it."""
PLUGINS = ("pytest_timeout", "_hypothesis_pytestplugin")
"""All that the suite needs; loading every installed one takes 2 s a test."""
TEST_S_MAX = 120
COMPILE_S_MAX = 300
NOT_BEHAVIOUR = (
    "NameError",
    "UnboundLocalError",
    "ImportError",
    "ModuleNotFoundError",
    "SyntaxError",
    "IndentationError",
)


STARTS = "from tests.simulator.test_control_plane import Lab; Lab()"
"""A cluster in virtual time becomes ready."""


class Outcome(NamedTuple):
    """`word`: killed, survived, skipped or broken; `said`: the last lines of the test or of the compiler."""

    word: str
    said: str
    seconds: float
    assertion: str = ""
    """What failed in the test: where, and the first line of what was raised. Of `killed` alone."""


class Scratch:
    """One copy; tries one mutation at a time."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kips-", ignore_cleanup_errors=True)
        self.root = Path(self._folder.name) / "tree"
        shutil.copytree(ROOT, self.root, ignore=LEFT_OUT, symlinks=True)
        for name in LINKED:
            if (ROOT / name).exists():
                (self.root / name).symlink_to((ROOT / name).resolve())
        self._edited = 0
        where = self._run(
            [sys.executable, "-c", "import actors, fastpath.bytes.crc32c as c; print(actors.__file__, c.__file__)"], 60
        )
        if where[1].count(f"{self.root}/") != 2:
            raise RuntimeError(f"a process started in {self.root} does not import what is there: {where[1]}")

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._folder.cleanup()

    def tried(self, mutation: Mutation) -> Outcome:
        """Apply a mutation, run its test, put everything back."""
        began = time.monotonic()
        try:
            with self._applied(mutation.edits):
                word, said = self._tested([mutation.test])
                place, what = _failure(said)
                if word == "failed" and place != mutation.test.partition("::")[0]:
                    self._check_start()
        except _Unfit as unfit:
            word, said = "broken", str(unfit)
        word = {"passed": "survived", "failed": "killed"}.get(word, word)
        return Outcome(word, said, time.monotonic() - began, f"{place}: {what}" if word == "killed" else "")

    def noticed(self, edit: Edit, tests: list[str]) -> Outcome:
        """Apply a mechanical change, and run all of these tests until one fails. A change that no node starts with, or with
        which a test hangs, is `broken`: it is noticed, and proves nothing about the row."""
        began = time.monotonic()
        try:
            with self._applied((edit,)):
                word, said = self._tested(tests)
        except _Unfit as unfit:
            word, said = "broken", str(unfit)
        word = {"passed": "survived", "failed": "killed"}.get(word, word)
        place, what = _failure(said)
        return Outcome(word, said, time.monotonic() - began, f"{place}: {what}" if word == "killed" else "")

    def _check_start(self) -> None:
        """The test has failed elsewhere than in its own file: that counts if a cluster starts with the mutation. One whose
        brokers are never let in is a behaviour; a node that raises is none."""
        code, said = self._run([sys.executable, "-c", STARTS], TEST_S_MAX)
        last = said.splitlines()[-1]
        if code and not last.startswith("AssertionError"):
            raise _Unfit(f"no node starts with the mutation: {last}")

    def unchanged(self, tests: list[str]) -> list[str]:
        """The tests that do not pass without any mutation; those that are skipped count as passing."""
        if not tests or self._tested(tests)[0] in ("passed", "skipped"):
            return []
        return [test for test in tests if self._tested([test])[0] not in ("passed", "skipped")]

    @contextmanager
    def _applied(self, edits: tuple[Edit, ...]) -> Iterator[None]:
        kept: dict[Path, tuple[bytes, os.stat_result]] = {}
        compiled = sorted({edit.file for edit in edits if edit.file.endswith(".pyx")})
        try:
            for edit in edits:
                path = self.root / edit.file
                if not path.is_file():
                    raise _Unfit(f"{edit.file} is not there")
                kept.setdefault(path, (path.read_bytes(), path.stat()))
                text = path.read_text()
                if text.count(edit.before) != 1:
                    raise _Unfit(f"{edit.file} holds the text before {text.count(edit.before)} times, not once")
                path.write_text(text.replace(edit.before, edit.after))
                self._edited += 1
                os.utime(path, (kept[path][1].st_mtime + self._edited,) * 2)
                if path.suffix == ".py":
                    _check_syntax(path)
            for file in compiled:
                module = next((self.root / file).parent.glob(f"{Path(file).stem}.*.so"))
                kept[module] = (module.read_bytes(), module.stat())
                self._compile(Path(file), module)
            yield
        finally:
            for path, (content, stat) in kept.items():
                path.unlink(missing_ok=True)  # a module that is mapped somewhere is not written over
                path.write_bytes(content)
                path.chmod(stat.st_mode)
                os.utime(path, (stat.st_atime, stat.st_mtime))

    def _compile(self, file: Path, module: Path) -> None:
        """One Cython module, in a folder that has no other, so that setup.py finds nothing else."""
        with tempfile.TemporaryDirectory(prefix="kips-build-") as name:
            folder = Path(name)
            shutil.copytree(self.root / "fastpath", folder / "fastpath", ignore=shutil.ignore_patterns("*.pyx", "*.so"))
            shutil.copy(self.root / file, folder / file)
            for needed in ("setup.py", "pyproject.toml", "README.md"):
                shutil.copy(self.root / needed, folder / needed)
            code, said = self._run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], COMPILE_S_MAX, folder)
            if code:
                raise _Unfit(f"{file} does not compile:\n{said}")
            module.unlink()
            shutil.copy(folder / module.relative_to(self.root), module)

    def _tested(self, tests: list[str]) -> tuple[str, str]:
        words = ["-m", "pytest", "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", "--timeout", str(TEST_S_MAX)]
        words += [word for name in PLUGINS for word in ("-p", name)]
        words += ["-x", f"--basetemp={self._folder.name}/t", "--hypothesis-seed=0"]
        code, said = self._run([sys.executable, *words, *tests], TEST_S_MAX * len(tests) + 60)
        count = {
            word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error|skipped)\b", said.splitlines()[-1])
        }
        last = "\n".join(said.splitlines()[-40:])
        if code == 0:
            return ("passed" if "passed" in count else "skipped"), last
        if re.search(r"^E +Failed: Timeout|^\+\++ Timeout \++$", said, re.MULTILINE):
            return "broken", f"it hangs, which is no failure\n{last}"
        raised = re.findall(r"^(?:FAILED .* - |E +)(\w+Error)\b", said, re.MULTILINE)
        if code == 1 and "failed" in count and "error" not in count and not set(raised) & set(NOT_BEHAVIOUR):
            return "failed", last
        return "broken", last

    def _run(self, command: list[str], seconds_max: int, folder: Path | None = None) -> tuple[int, str]:
        """Exit code and everything said; what it started ends with it."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "COLUMNS": "300",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        environment.pop("PYTEST_ADDOPTS", None)
        environment.pop("PYTEST_CURRENT_TEST", None)
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(
                command, cwd=folder or self.root, env=environment, stdin=subprocess.DEVNULL,
                stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            late = ""
            try:
                code = process.wait(seconds_max)
            except subprocess.TimeoutExpired:
                code, late = -1, f"\nit did not end in {seconds_max} s"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            said.seek(0)
            return code, (said.read() + late).strip() or "(nothing said)"


def _failure(said: str) -> tuple[str, str]:
    """(the file in which a test failed, the first line of what was raised) out of what pytest says."""
    places = re.findall(r"^(\S+\.py):\d+: (?:in |\w*(?:Error|Exception|Violation)\b)", said, re.MULTILINE)
    raised = re.findall(r"^E +(.+)$", said, re.MULTILINE)
    return places[-1] if places else "", raised[0] if raised else ""


class _Unfit(Exception):
    """The mutation itself is at fault; says why."""


def _check_syntax(path: Path) -> None:
    try:
        compile(path.read_text(), str(path), "exec")
    except SyntaxError as error:
        raise _Unfit(f"with the mutation {path.name} is no Python: {error}") from None
