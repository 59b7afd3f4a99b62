"""The list of Cython extensions, nothing else: all other metadata is in pyproject.toml.

Every ``fastpath/*.pyx`` is an extension of its own. Four switches, read from the environment:

RAYFT_DEBUG=1     bounds checks and assertions in the compiled code, no optimisation
RAYFT_SANITIZE=1  address and undefined-behaviour sanitizers
RAYFT_ANNOTATE=1  an HTML page beside each module that shows where it touches Python
RAYFT_BUILT=1     the modules were built in place just now: install without compiling them again
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("RAYFT_DEBUG") == "1"
SANITIZE = os.environ.get("RAYFT_SANITIZE") == "1"
ANNOTATE = os.environ.get("RAYFT_ANNOTATE") == "1"
BUILT = os.environ.get("RAYFT_BUILT") == "1"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

compile_args = ["-O0", "-g"] if DEBUG else ["-O3", "-fno-plt"]
link_args: list[str] = []
if SANITIZE:
    compile_args += ["-fsanitize=address,undefined"]
    link_args += ["-fsanitize=address,undefined"]

extensions = [
    Extension(f"fastpath.{source.stem}", [str(source)], extra_compile_args=compile_args, extra_link_args=link_args)
    for source in sorted(Path("fastpath").glob("*.pyx"))
    if not BUILT
]

# Cython compiles in processes of its own, which import this file where they are not forked (macOS, Python 3.14).
if __name__ == "__main__":
    setup(
        options={"build_ext": {"parallel": CORES}},
        ext_modules=cythonize(
            extensions,
            nthreads=CORES,
            annotate=ANNOTATE,
            compiler_directives={
                "language_level": 3,
                "boundscheck": DEBUG,
                "wraparound": False,
                "initializedcheck": DEBUG,
                "cdivision": True,
                "embedsignature": True,
            },
        ),
    )
