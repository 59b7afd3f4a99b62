"""How a class of Apache Kafka's tests is run, with rayft's nodes or with Apache Kafka's own in-process cluster.

This file alone decides where the jars are, how the tests are started, and what an outcome is. The jars are fetched into
`.kafka/tests` when they are needed first, by Maven from `.ci/kafka-tests.xml`; `KAFKA_TEST_LIBS` names another folder.

A test is *not applicable* when it asks for an object of Kafka's broker that nobody can be outside of its process, or for
TLS listeners: the replaced class ends it as aborted. One that Apache Kafka itself has disabled is not counted.
"""

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
NEWEST = "kafka-group-coordinator"
"""The jar that came last into the list: a folder without it was fetched for an earlier one."""
LIBS = Path(os.environ.get("KAFKA_TEST_LIBS", ROOT / ".kafka" / "tests"))
CLASSES = ROOT / "build" / "kafka-tests"
"""The compiled classes of `java/`."""
POM = ROOT / ".ci" / "kafka-tests.xml"
TEST_SECONDS_MAX = 90
FETCH_SECONDS_MAX = 900
MARK = re.compile(rb"Lorg/apache/kafka/common/test/api/Cluster(Test|Tests|Template);")
"""The annotations of such tests, as class files name them."""
FRAMEWORK = ("org.apache.kafka.common.test.api.", "org.apache.kafka.common.test.junit.")
"""Packages of Kafka's test framework, whose classes name the annotations as well."""


class NotThere(Exception):
    """The tests cannot be run on this machine. The message says why."""


class Outcome(Enum):
    """What became of a test."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


class Result(NamedTuple):
    """One test."""

    outcome: Outcome
    why: str
    """Of a test that did not pass: the message and the stack."""


def classes() -> list[str]:
    """The classes that are run, in order."""
    return (HERE / "classes.txt").read_text().split()


def listed() -> dict[str, dict[str, str]]:
    """Class -> {test: reason} of the tests that pass with Apache Kafka and not with rayft. The test `*`: none of the class
    could pass, so it is not run."""
    found: dict[str, dict[str, str]] = {}
    data = _list()
    data.pop("chance")
    reasons = data.pop("reasons")
    for name, tests in data.items():
        for key, names in tests.items():
            for test in names:
                assert test not in found.setdefault(name, {}), f"{name}.{test} has two reasons"
                found[name][test] = reasons[key]
    return found


def by_chance() -> set[str]:
    """The reasons for which a listed test passes now and then."""
    data = _list()
    return {data["reasons"][key] for key in data["chance"]}


def _list() -> dict[str, Any]:
    with (HERE / "listed.toml").open("rb") as file:
        return tomllib.load(file)


WHOLE = "*"


def reason(tests: dict[str, str], test: str) -> str | None:
    """Why a test of a class is listed; None: it is not. A name without a number stands for all runs of a test."""
    return tests.get(test) or tests.get(test.partition("[")[0])


@functools.cache
def prepare() -> None:
    """Fetch the jars and compile the replaced classes, if need be. Raises NotThere."""
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            raise NotThere(f"needs {tool}: install a JDK, 17 or newer")
    if not all(any(LIBS.glob(f"{name}-*-test.jar")) for name in ("kafka-clients-integration-tests", NEWEST)):
        _fetch()
    sources = sorted(str(path) for path in (HERE / "java").rglob("*.java"))
    CLASSES.mkdir(parents=True, exist_ok=True)
    _must(["javac", "-nowarn", "-cp", f"{LIBS}/*", "-d", str(CLASSES), *sources], "the classes cannot be compiled")


def _fetch() -> None:
    if shutil.which("mvn") is None:
        raise NotThere("needs Maven to fetch the jars of Apache Kafka's tests: install it, or set KAFKA_TEST_LIBS")
    new = LIBS.with_name(LIBS.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={new}"]
    _must(command, "the jars of Apache Kafka's tests cannot be fetched")
    new.rename(LIBS)


def _must(command: list[str], otherwise: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise NotThere(f"{otherwise}: it takes more than {FETCH_SECONDS_MAX} s") from None
    if done.returncode:
        raise NotThere(f"{otherwise}: {(done.stdout + done.stderr)[-2000:]}")


def found_in_jars() -> list[str]:
    """Every class with such tests in the jars."""
    names = set()
    for jar in LIBS.glob("*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".class") and MARK.search(archive.read(name)):
                    names.add(name.removesuffix(".class").partition("$")[0].replace("/", "."))
    return sorted(name for name in names if not name.startswith(FRAMEWORK))


def run(side: str, name: str, out: Path) -> dict[str, Result]:
    """The outcome of every test of a class by its name, such as `testList[2]`. `side`: rayft or kafka. `name`: a class, or
    `class#method`. `out` gets the report, the console and, of rayft, a folder a test with its nodes' logs."""
    path = [str(CLASSES)] if side == "rayft" else []
    path += [str(HERE / "log"), f"{LIBS}/*"]
    select = "--select-method" if "#" in name else "--select-class"
    rayft = [sys.executable, "-m", "actors.command.cli"]
    command = [
        "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Drayft.command={shlex.join(rayft)}", f"-Drayft.work={out / 'nodes'}",
        "-Dkafka.test.run.flaky=true", "-cp", os.pathsep.join(path),
        "org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=summary",
        select, name, "--reports-dir", str(out),
        "--config", "junit.jupiter.extensions.autodetection.enabled=true",
        "--config", f"junit.jupiter.execution.timeout.default={TEST_SECONDS_MAX}s",
    ]  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    console = out / "console.log"
    with console.open("wb") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
    found: dict[str, Result] = {}
    for report in out.glob("TEST-*.xml"):
        found.update(_outcomes(report))
    if not found:
        raise AssertionError(f"{name} did not run:\n{console.read_text()[-4000:]}")
    return found


def _outcomes(report: Path) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        test = _unique(re.sub(r"\(.*?\)(?=\[|$)", "", case.get("name", "")), found)
        marks = [mark for mark in case if mark.tag in ("failure", "error", "skipped")]
        text = "\n".join((mark.get("message") or "") + "\n" + (mark.text or "") for mark in marks)
        if not marks:
            found[test] = Result(Outcome.PASSED, "")
        elif marks[0].tag != "skipped":
            found[test] = Result(Outcome.FAILED, text)
        elif "not applicable: " in text:
            found[test] = Result(Outcome.NOT_APPLICABLE, text)
    return found


def _unique(test: str, found: dict[str, Result]) -> str:
    """Tests with parameters may share a name; the second one is called `name[2]`."""
    times = sum(1 for one in found if one.partition("[")[0] == test)
    return f"{test}[{times + 1}]" if test in found else test
