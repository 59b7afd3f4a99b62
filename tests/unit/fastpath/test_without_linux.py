"""What takes the place of Linux's own calls in C, run on Linux: those modules, compiled as if for another system."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FLAGS = ("-U__linux__", "-U__linux", "-Ulinux", "-U__gnu_linux__")
MODULES = {
    "flusher": "unit/fastpath/test_flusher.py",
    "bytes/mapped_file": "unit/replay/logs/test_files.py",
    "records/offset_map": "unit/fastpath/records/test_cleaner.py",
}
"""The modules that include a header of the system, and their tests."""
OWN = ("__linux__", "<sys/", "<linux/", "<fcntl.h>", "<pthread.h>", "posix.mman", "posix.unistd")
COMPILE_S = 300


def test_each_module_that_uses_the_system_is_in_the_table() -> None:
    """Cython's own names of POSIX are in it too."""
    using = {
        str(path.relative_to(ROOT / "fastpath").with_suffix(""))
        for path in (ROOT / "fastpath").rglob("*.p[yx][xd]")
        if any(word in path.read_text() for word in OWN)
    }
    assert using == set(MODULES)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_fall_backs_do_what_linux_does(tmp_path: Path) -> None:
    package = tmp_path / "fastpath"
    for module in MODULES:
        source = (ROOT / "fastpath" / module).with_suffix(".c")
        assert source.is_file(), "what setup.py makes of it when it builds in place"
        where = package / Path(module).parent
        made = [
            *sysconfig.get_config_var("CC").split(),
            "-shared",
            "-fPIC",
            "-O1",
            "-Werror=implicit-function-declaration",
        ]
        made += [*FLAGS, f"-I{sysconfig.get_path('include')}", str(source), "-o"]
        where.mkdir(parents=True, exist_ok=True)
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        subprocess.run([*made, str((package / module).with_suffix(suffix))], check=True, timeout=COMPILE_S)
    for path in (ROOT / "fastpath").rglob("*"):  # all other modules as they are
        there = package / path.relative_to(ROOT / "fastpath")
        if path.is_file() and path.suffix in (".so", ".py") and not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(path)
    for name in ("actors", "tests", "rayft.py"):
        (tmp_path / name).symlink_to(ROOT / name)
    asked = "import fastpath.flusher as f; print(f.__file__)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}
    said = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.startswith(str(package))
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "--confcutdir",
        str(tmp_path),
    ]
    tests = [str(tmp_path / "tests" / one) for one in MODULES.values()]
    ran = subprocess.run([*words, *tests], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-2000:]
