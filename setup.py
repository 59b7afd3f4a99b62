"""The Cython extensions and how each is compiled; all other metadata is in pyproject.toml.

Every ``.pyx`` below ``fastpath/`` is an extension of its own. Four switches, read from the environment:

RAYFT_DEBUG=1     bounds checks and assertions in the compiled code, no optimisation
RAYFT_SANITIZE=1  address and undefined-behaviour sanitizers, as tests/integration/test_sanitizers.py runs them
RAYFT_ANNOTATE=1  an HTML page beside each module that shows where it touches Python
RAYFT_BUILT=1     the modules were built in place just now: install without compiling them again

A wheel also gets the completion of the command's words, which shtab makes (`actors/command/output/completions.py`).

A first build must be quick, on any machine. What costs is the C compiler, and these are the rules:

- Cython's typed memoryviews are 20,000 lines of C. They are compiled once, as `fastpath.cython_utility`, not in every
  module that uses one.
- -O3 is for modules whose loops run over records, bytes or partitions; -O2 for those listed in `QUIET`, with the reason.
- No debugging information (RAYFT_DEBUG=1 adds it) and no signatures in docstrings: the .pyi files have them.
- No code for pickling, which no class here offers.
- The largest modules first, so that no core has nothing to do at the end.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_py import build_py

DEBUG = os.environ.get("RAYFT_DEBUG") == "1"
SANITIZE = os.environ.get("RAYFT_SANITIZE") == "1"
ANNOTATE = os.environ.get("RAYFT_ANNOTATE") == "1"
BUILT = os.environ.get("RAYFT_BUILT") == "1"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MEMORYVIEWS = "fastpath.cython_utility"

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


def extension(name: str, source: Path) -> Extension:
    flags = (QUIETLY if name in QUIET else OPTIMISED) + SANITIZERS
    return Extension(name, [str(source)], extra_compile_args=flags, extra_link_args=SANITIZERS)


class WithCompletions(build_py):
    """The step that collects Python sources, and behind it writes what is made of them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        sys.path.insert(0, str(Path(__file__).parent))
        from actors.command.output import completions

        try:
            completions.write(Path(self.build_lib, "actors", "command", "output"))
        except ValueError as reason:  # without an environment of its own, a build takes what is there
            print(f"rayft: {reason}", file=sys.stderr)


sources = sorted(Path("fastpath").rglob("*.pyx"), key=lambda source: -source.stat().st_size)
extensions = [extension(".".join(source.with_suffix("").parts), source) for source in sources]
extensions.append(extension(MEMORYVIEWS, Path("fastpath/cython_utility.c")))

# Cython compiles in processes of its own, which import this file where they are not forked (macOS, Python 3.14).
if __name__ == "__main__":
    setup(
        options={"build_ext": {"parallel": CORES}},
        cmdclass={"build_py": WithCompletions},
        ext_modules=[]
        if BUILT
        else cythonize(
            extensions,
            nthreads=CORES,
            annotate=ANNOTATE,
            shared_utility_qualified_name=MEMORYVIEWS,
            compiler_directives={
                "language_level": 3,
                "boundscheck": DEBUG,
                "wraparound": False,
                "initializedcheck": DEBUG,
                "cdivision": True,
                "auto_pickle": False,
            },
        ),
    )
