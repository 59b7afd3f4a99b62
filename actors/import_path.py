"""The import path on which the Python processes that rayft starts find rayft's own code, and its name there.

`python -m` puts the current directory first on the import path, and Ray puts the current directory of its driver there. A
folder named `actors` or `fastpath` in that directory, for example in a user's own project or in a checkout that is not
built, would be imported in place of rayft's packages. So child processes run with Python's safe path, rayft's own
directory stands first on their path, and rayft's commands join Ray from rayft's own directory.

In a checkout rayft's packages are `actors` and `fastpath`; what a wheel installs are `rayft.actors` and `rayft.fastpath`
(`setup.py`). So code that names a module in a text takes its own package's name, or PACKAGE.

This file alone decides that path. It imports nothing of rayft, so that hosts and replay can both use it.
"""

import contextlib
import os
from pathlib import Path

PACKAGE = __package__
"""The name of this package: `actors`, or `rayft.actors` where a wheel was installed."""
ROOT = Path(__file__).resolve().parents[1 + PACKAGE.count(".")]
"""The directory from which these packages are imported."""
SAFE_PATH = "PYTHONSAFEPATH"
"""The environment variable that keeps Python from putting the current directory first on the import path."""


def python_path(*more: str) -> str:
    """A value for PYTHONPATH: rayft's directory first, then the present value, then `more`; each directory once."""
    present = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys(path for path in (str(ROOT), *present, *more) if path))


def joining_ray() -> "contextlib.chdir[Path]":
    """A context for `ray.init` in rayft's own commands: Ray's workers get rayft's directory as their first import path."""
    return contextlib.chdir(ROOT)
