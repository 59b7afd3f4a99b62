"""The compiled modules with address and undefined-behaviour sanitizers: their unit tests, and a minute of mutated input.

Everything is compiled anew in a copy of the tree. Python takes its memory from the C library there, so that a read behind
the end of a `bytes` is seen as well.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "*.c", "*.so", "*.html", "rayft-data", "results")
COMPILE_S_MAX = 1_500
TESTS = ["tests/unit/fastpath", "tests/unit/wire", "tests/unit/arrow/values"]
SECONDS = int(os.environ.get("MUTATED_SECONDS", "60"))
FOUND = ("ERROR: AddressSanitizer", "runtime error:")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(COMPILE_S_MAX + 900)]


@pytest.fixture(scope="module")
def around() -> dict[str, str]:
    """The environment of a Python that loads such modules. The test is skipped where the compiler has no sanitizers."""
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    found = []
    for name in ("libasan.so", "libubsan.so"):
        said = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
        if not Path(said.strip()).is_absolute():
            pytest.skip(f"{compiler} has no {name}: install its sanitizers (libasan, libubsan)")
        found.append(str(Path(said.strip()).resolve()))
    return os.environ | {
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONFAULTHANDLER": "",
    }


@pytest.fixture(scope="module")
def tree(around: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the source with its modules compiled."""
    copy = tmp_path_factory.mktemp("sanitized") / "tree"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
    made = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=copy,
        env=os.environ | {"RAYFT_SANITIZE": "1"},
        capture_output=True,
        text=True,
        timeout=COMPILE_S_MAX,
    )
    assert made.returncode == 0, made.stderr[-4000:]
    yield copy
    shutil.rmtree(copy, ignore_errors=True)


def run(
    tree: Path, around: dict[str, str], *arguments: str, seconds: float = 900
) -> "subprocess.CompletedProcess[str]":
    """Python in the copy, which imports the copy."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=around | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def test_an_access_outside_of_a_buffer_is_seen(tree: Path, around: dict[str, str]) -> None:
    """Or the two below would find nothing: a module's own C, compiled with the same flags, reads one byte too many."""
    (tree / "outside.pyx").write_text(
        "def last(bytes data):\n"
        "    cdef const unsigned char *p = data\n"
        "    return p[len(data) + 1]\n"
        "def shifted(int by):\n"
        "    return 1 << by\n"
    )
    build = (
        "import setup, setuptools; from Cython.Build import cythonize;"
        "setuptools.setup(script_args=['-q', 'build_ext', '--inplace'], ext_modules=cythonize("
        "[setup.extension('outside', 'outside.pyx')], compiler_directives={'cdivision': True, 'language_level': 3}))"
    )
    made = run(tree, os.environ | {"RAYFT_SANITIZE": "1"}, "-c", build)
    assert made.returncode == 0, made.stderr[-2000:]
    said = run(tree, around, "-c", "import outside; print(outside.last(b'x' * 100))")
    assert said.returncode != 0 and "heap-buffer-overflow" in said.stderr, said.stderr[-2000:]
    said = run(tree, around, "-c", "import outside; print(outside.shifted(77))")
    assert said.returncode != 0 and "runtime error: shift exponent" in said.stderr, said.stderr[-2000:]


def test_the_unit_tests_of_compiled_code(tree: Path, around: dict[str, str]) -> None:
    said = run(tree, around, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", *TESTS)
    print(said.stdout[-2000:])
    assert not any(words in said.stdout + said.stderr for words in FOUND), said.stderr[-6000:]
    assert said.returncode == 0, said.stdout[-6000:] + said.stderr[-2000:]


def test_a_minute_of_mutated_input(tree: Path, around: dict[str, str]) -> None:
    said = run(tree, around, "-m", "tests.mutated", "--seconds", str(SECONDS), "--seed", str(os.getpid() << 20))
    print(said.stdout)
    assert said.returncode == 0 and not any(words in said.stderr for words in FOUND), said.stderr[-6000:]
