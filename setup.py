"""The Cython extensions and how each is compiled, and what is installed; all other metadata is in pyproject.toml.

Every ``.pyx`` below ``fastpath/`` is an extension of its own. Four switches, read from the environment:

RAYFT_DEBUG=1     bounds checks and assertions in the compiled code, no optimisation
RAYFT_SANITIZE=1  address and undefined-behaviour sanitizers, as tests/integration/test_sanitizers.py runs them
RAYFT_ANNOTATE=1  an HTML page beside each module that shows where it touches Python
RAYFT_BUILT=1     the modules were built in place just now: install without compiling them again

What a wheel installs lies below `rayft`, since `actors` and `fastpath` are names that another project may use:

- `rayft.py` becomes `rayft/__init__.py`, `actors/` and `fastpath/` become `rayft/actors/` and `rayft/fastpath/`. That is a
  copy, made in `build/installed` and compiled there, in which statements that import `actors.x` import `rayft.actors.x`.
  Nothing else of a file changes, so lines of tracebacks are those of the repository, and nothing is done at run time.
- `pyspark_rayft.py` stays beside it: Spark looks for modules of such names.
- In a checkout (`build_ext --inplace`, an editable install), in a source distribution and for all who ask for its name the
  tree is as it is.
- Texts that name a module are not changed: code takes them from its own package (`actors/import_path.py`).

A wheel also gets the completion of the command's words, which shtab makes (`actors/command/output/completions.py`).

A first build must be quick, on any machine. What costs is the C compiler, and these are the rules:

- Cython's typed memoryviews are 20,000 lines of C. They are compiled once, as `fastpath.cython_utility`, not in every
  module that uses one.
- -O3 is for modules whose loops run over records, bytes or partitions; -O2 for those listed in `QUIET`, with the reason.
- No debugging information (RAYFT_DEBUG=1 adds it) and no signatures in docstrings: the .pyi files have them.
- No code for pickling, which no class here offers.
- The largest modules first, so that no core has nothing to do at the end.
"""

import contextlib
import os
import re
import shutil
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_py import build_py

DEBUG = os.environ.get("RAYFT_DEBUG") == "1"
SANITIZE = os.environ.get("RAYFT_SANITIZE") == "1"
ANNOTATE = os.environ.get("RAYFT_ANNOTATE") == "1"
BUILT = os.environ.get("RAYFT_BUILT") == "1"
IN_PLACE = BUILT or not {"bdist_wheel", "build", "build_py", "dist_info", "install"} & set(sys.argv)
"""Whether this is about the tree as it is: it is built in place, packed, or asked for its name."""
COMPILES = bool({"bdist_wheel", "build", "build_ext", "editable_wheel", "install"} & set(sys.argv))
"""Otherwise it is asked what there is."""
INSTALLED = Path("build", "installed")
"""Where the copy is made that is installed."""
TREE = Path() if IN_PLACE else INSTALLED
PREFIX = "" if IN_PLACE else "rayft."
IMPORTS = re.compile(r"^(\s*(?:from|c?import) +)(actors|fastpath)(?=[. ])", re.MULTILINE)
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MEMORYVIEWS = "fastpath.cython_utility"
DATA = {
    "": ["*.pyx", "*.pxd", "*.pyi", "py.typed"],
    f"{PREFIX}actors.page": ["static/*"],
    f"{PREFIX}actors.wire": ["schemas/**/*.schema", "schemas/**/*.pyi"],
}

QUIET = {
    MEMORYVIEWS: "runs when a buffer is opened and closed, not per item",
    "fastpath.arrow.partition_columns": "runs once a table that somebody asks for",
    "fastpath.arrow.partition_moves": "a pass over what has changed, with a probe of a table for each",
    "fastpath.bytes.byte_builder": "grows memory; what is hot is inline in its .pxd",
    "fastpath.bytes.frame_pool": "takes a buffer and gives it back; no loop over bytes",
    "fastpath.bytes.mapped_file": "maps a file; its pages are read elsewhere",
    "fastpath.bytes.open_buffer": "opens and closes buffers; no loop over bytes",
    "fastpath.flusher": "waits for the disk",
    "fastpath.image.blocks": "copies rows one by one; the loops over blocks are in columns and read_records",
    "fastpath.image.broker_counts": "one probe of a small table",
    "fastpath.image.copy_on_write": "moves pages by reference",
    "fastpath.image.interned_lists": "one probe of a hash table",
    "fastpath.messages.layout": "compiles a message class once, and compares messages in tests",
    "fastpath.messages.plan": "compiles a message version once",
    "fastpath.records.zstd_frames": "reads a header a block of 128 KB",
}
"""Compiled with -O2, and why that is enough."""

if DEBUG:
    OPTIMISED = QUIETLY = ["-O0", "-g"]
elif SANITIZE:
    OPTIMISED = QUIETLY = ["-O1", "-g1", "-fno-omit-frame-pointer"]
else:
    OPTIMISED, QUIETLY = ["-O3", "-g0", "-fno-plt"], ["-O2", "-g0", "-fno-plt"]
SANITIZERS = ["-fsanitize=address,undefined"] if SANITIZE else []


def lay_out(tree: Path, installed: Path) -> None:
    """Make the copy of the tree that is installed, below `rayft`."""
    shutil.rmtree(installed, ignore_errors=True)
    inside = installed / "rayft"
    for top, made in (("actors", ()), ("fastpath", ("*.so", "*.c", "*.html"))):
        shutil.copytree(tree / top, inside / top, ignore=shutil.ignore_patterns("__pycache__", *made))
    shutil.copy(tree / "rayft.py", inside / "__init__.py")
    shutil.copy(tree / "actors" / "py.typed", inside)
    shutil.copy(tree / "pyspark_rayft.py", installed)
    for path in installed.rglob("*.p[yx]*"):
        if path.suffix in (".py", ".pyi", ".pyx", ".pxd"):
            path.write_bytes(IMPORTS.sub(r"\1rayft.\2", path.read_bytes().decode()).encode())


def extension(name: str, source: Path) -> Extension:
    flags = (QUIETLY if name in QUIET else OPTIMISED) + SANITIZERS
    return Extension(PREFIX + name, [str(source)], extra_compile_args=flags, extra_link_args=SANITIZERS)


def compiled() -> list[Extension]:
    """The extensions, as C where something is to be compiled. Cython runs where the packages begin, so that tracebacks name
    `rayft/fastpath/x.pyx`."""
    with contextlib.chdir(TREE):
        top = Path(PREFIX.rstrip("."))
        sources = sorted((top / "fastpath").rglob("*.pyx"), key=lambda source: -source.stat().st_size)
        named = [(".".join(source.relative_to(top).with_suffix("").parts), source) for source in sources]
        extensions = [extension(*one) for one in named]
        if COMPILES:
            extensions = cythonize(
                [*extensions, extension(MEMORYVIEWS, top / "fastpath" / "cython_utility.c")],
                nthreads=CORES,
                annotate=ANNOTATE,
                shared_utility_qualified_name=PREFIX + MEMORYVIEWS,
                compiler_directives={
                    "language_level": 3,
                    "boundscheck": DEBUG,
                    "wraparound": False,
                    "initializedcheck": DEBUG,
                    "cdivision": True,
                    "auto_pickle": False,
                },
            )
    for one in extensions:
        one.sources = [str(TREE / source) for source in one.sources]
    return extensions


class WithCompletions(build_py):
    """The step that collects Python sources, and behind it writes what is made of them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        sys.path.insert(0, str(Path(__file__).parent))
        from actors.command.output import completions

        try:
            completions.write(Path(self.build_lib, "rayft", "actors", "command", "output"))
        except ValueError as reason:  # without an environment of its own, a build takes what is there
            print(f"rayft: {reason}", file=sys.stderr)


# Cython compiles in processes of its own, which import this file where they are not forked (macOS, Python 3.14).
if __name__ == "__main__":
    if not IN_PLACE:
        lay_out(Path(), INSTALLED)
    packages = find_packages(
        str(TREE), include=[f"{top}*" for top in (("actors", "fastpath") if IN_PLACE else ("rayft",))]
    )
    setup(
        options={"build_ext": {"parallel": CORES}},
        cmdclass={"build_py": WithCompletions},
        package_dir={"": str(TREE)},
        packages=packages,
        py_modules=["rayft", "pyspark_rayft"] if IN_PLACE else ["pyspark_rayft"],
        package_data=DATA,
        exclude_package_data={"": ["*.c"]},
        ext_modules=[] if BUILT else compiled(),
    )
