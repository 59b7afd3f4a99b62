"""A Java that fits Spark: found where there is one.

This file alone decides where one looks, in this order: JAVA_HOME, the path, /usr/lib/jvm.
"""

import os
import shutil
import subprocess
from pathlib import Path

JAVA_MIN = 17
"""Spark 4 needs it."""
JAVA_HOMES = Path("/usr/lib/jvm")


class Unfit(RuntimeError):
    """This machine cannot run Spark. The sentence says what to do."""


def java_home() -> str | None:
    """A Java of at least JAVA_MIN: JAVA_HOME's, the path's (None: it will be found), else one under /usr/lib/jvm."""
    homes = [os.environ.get("JAVA_HOME"), None, *sorted(map(str, JAVA_HOMES.glob("*")))]
    for home in homes:
        program = f"{home}/bin/java" if home else shutil.which("java")
        if program and java_version(program) >= JAVA_MIN:
            return home
    raise Unfit(
        f"Spark needs Java {JAVA_MIN} or newer: install openjdk-17-jre-headless, or set JAVA_HOME to where one is."
    )


def java_version(program: str) -> int:
    """Of a java program: 17; 0 for what does not run."""
    try:
        said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except OSError:
        return 0
    number = said.partition('version "')[2].partition('"')[0].split(".")
    return int("".join(filter(str.isdigit, number[1] if number[0] == "1" else number[0])) or 0) if number[0] else 0
