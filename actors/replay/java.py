"""Find a Java that Spark can use.

This file alone decides where it is searched, in this order: JAVA_HOME, the path, /usr/lib/jvm.
"""

import os
import shutil
import subprocess
from pathlib import Path

JAVA_MIN = 17
"""The oldest version that Spark 4 accepts."""
JAVA_HOMES = Path("/usr/lib/jvm")


class Unfit(RuntimeError):
    """This machine cannot run Spark. The message is one sentence that says what to do."""


def java_home() -> str | None:
    """The home of a Java of at least JAVA_MIN: JAVA_HOME's, the path's (None: Spark finds it by itself), or one under
    /usr/lib/jvm."""
    homes = [os.environ.get("JAVA_HOME"), None, *sorted(map(str, JAVA_HOMES.glob("*")))]
    for home in homes:
        program = f"{home}/bin/java" if home else shutil.which("java")
        if program and java_version(program) >= JAVA_MIN:
            return home
    raise Unfit(
        f"Spark needs Java {JAVA_MIN} or newer: install openjdk-17-jre-headless, or set JAVA_HOME to where one is."
    )


def java_version(program: str) -> int:
    """The version of a java program, such as 17; 0 if it does not run."""
    try:
        said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except OSError:
        return 0
    number = said.partition('version "')[2].partition('"')[0].split(".")
    return int("".join(filter(str.isdigit, number[1] if number[0] == "1" else number[0])) or 0) if number[0] else 0
