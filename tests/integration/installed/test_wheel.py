"""`make wheel`: what is installed lies below `rayft`, needs no compiler, and does all that a checkout does.

Needs the network, or pip's cache, for rayft's dependencies.
"""

import re
import subprocess
import textwrap
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.ports import free_port
from tests.integration.installed.conftest import Environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
OURS = {"rayft", "pyspark_rayft.py"}
PROJECT = """
import pytest


def test_orders(kafka):
    topic = kafka.topic("orders", partitions=2)
    kafka.produce(topic, ["a", "b"])
    assert sorted(one.value for one in kafka.consume(topic, 2)) == [b"a", b"b"]


@pytest.mark.rayft(own=True)
def test_the_leader_dies(kafka):
    kafka.cluster.kill(kafka.cluster.leader_id())
    assert kafka.topic()
"""


def written(environment: Environment) -> set[str]:
    """The names in site-packages that rayft's own wheel put there."""
    (about,) = environment.packages.glob("rayft-*.dist-info")
    listed = [line.partition(",")[0] for line in (about / "RECORD").read_text().splitlines()]
    return {line.partition("/")[0] for line in listed if not line.startswith("../")} - {about.name, "__pycache__"}


@contextmanager
def cluster(environment: Environment, *words: str) -> Iterator[str]:
    """A cluster by the installed command, with its address."""
    port, where = free_port(), ("--dir", str(environment.home / "data"))
    environment.run("rayft", "up", "--port", str(port), *where, "--detach", *words)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        environment.run("rayft", "down", *where)


def test_from_pip_install_to_a_consumed_record_without_a_compiler(
    wheel: Path, environment: Callable[[str], Environment], record_property: Callable[[str, object], None]
) -> None:
    empty = environment("empty")
    began = time.monotonic()
    empty.install("--only-binary", ":all:", str(wheel))
    installed = time.monotonic()
    with cluster(empty, "--controllers", "1", "--brokers", "1") as servers:
        there = ("-b", servers)
        empty.run("rayft", "topic", "create", "greetings", *there)
        empty.run("rayft", "produce", "greetings", *there, stdin="hello\n")
        assert empty.run("rayft", "consume", "greetings", "--exit", *there) == "hello\n"
        took = time.monotonic() - began
        assert "well:" in empty.run("rayft", "health", *there)
    print(f"pip install {installed - began:.1f} s, to a consumed record {took:.1f} s")
    record_property("to_a_record_s", round(took, 1))
    assert took < 400, "it takes 20 s on a machine that does nothing else"

    assert written(empty) == OURS
    for name in ("actors", "fastpath"):
        assert not list(empty.packages.glob(f"{name}*"))
    asked = "import rayft, sys; print(*[name for name in sys.modules if name.split('.')[0] in ('actors', 'fastpath')])"
    assert empty.run("python", "-c", asked) == "\n"
    named = re.search(r'File "(rayft/fastpath/bytes/varint.pyx)", line \d+', shown_where_it_broke(empty))
    assert named is not None and (empty.packages / named[1]).is_file(), "Python itself shows no line of compiled code"
    assert re.fullmatch(r"rayft \d+\.\d+\.\d+\n", empty.run("rayft", "--version"))
    for shell in ("bash", "zsh", "fish"):  # made when the wheel was built: shtab is not here
        assert len(empty.run("rayft", "completion", shell)) > 10_000


def shown_where_it_broke(environment: Environment) -> str:
    """The traceback of an error in compiled code."""
    failing = """
        import traceback
        from rayft.fastpath.bytes.varint import decode_uvarint
        try:
            decode_uvarint(bytes(1), 7)
        except ValueError:
            print(traceback.format_exc())
    """
    return environment.run("python", "-c", textwrap.dedent(failing))


def test_the_page_the_plugin_and_tables(wheel: Path, environment: Callable[[str], Environment], tmp_path: Path) -> None:
    lent = environment("lent")
    lent.install("--only-binary", ":all:", str(wheel))
    lent.lend(["starlette", "uvicorn", "pyarrow", "pytest"])
    assert lent.run("python", "-c", "from importlib.util import find_spec; print(find_spec('actors'))") == "None\n"
    with cluster(lent) as servers:
        lent.run("rayft", "topic", "create", "t", "-p", "3", "-b", servers)
        lent.run("rayft", "produce", "t", "-b", servers, stdin="a\nb\nc\n")
        reading = f"import rayft; print(rayft.__file__, rayft.read({servers!r}, 't').read_all().num_rows)"
        assert lent.run("python", "-c", reading) == f"{lent.packages / 'rayft' / '__init__.py'} 3\n"
        page_shows_the_cluster(lent, servers)
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_project.py").write_text(PROJECT)
    ran = lent.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project))
    assert "2 passed" in ran, ran


def page_shows_the_cluster(lent: Environment, servers: str) -> None:
    words = [lent.programs / "rayft", "ui", "-b", servers, "--port", "0"]
    with subprocess.Popen(
        words, env=lent.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as page:
        assert page.stdout is not None
        try:
            printed = ""
            while not (found := re.search(r"http://[\w.:]+\S*", printed)):
                line = page.stdout.readline()
                assert line, printed
                printed += line
            with urllib.request.urlopen(found[0], timeout=60) as answer:
                assert b"<html" in answer.read()
        finally:
            page.terminate()
            page.wait(60)


def test_ray_and_spark_read_by_it(wheel: Path, environment: Callable[[str], Environment]) -> None:
    """Their workers are processes of their own, which find the modules of what they are given by name."""
    lent = environment("lent")
    lent.install("--only-binary", ":all:", str(wheel))
    lent.lend(["ray", "pyspark", "pyarrow"])
    lent.variables |= {"PATH": f"{lent.programs}:/usr/bin:/bin", "RAY_USAGE_STATS_ENABLED": "0"}
    with cluster(lent, "--controllers", "1", "--brokers", "1") as servers:
        for topic in ("t", "by-ray", "by-spark"):
            lent.run("rayft", "topic", "create", topic, "-p", "3", "-b", servers)
        lent.run("rayft", "produce", "t", "-b", servers, stdin="a\nb\nc\n")
        ray = f"""
            import ray, rayft
            ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
            read = rayft.ray.read({servers!r}, "t")
            print("count", read.count())
            read.select_columns(["value"]).write_datasink(rayft.ray.Sink({servers!r}, "by-ray", sink="one"))
        """
        assert "count 3" in lent.run("python", "-c", textwrap.dedent(ray))
        assert rows(lent, servers, "by-ray") == 3
        spark = f"""
            from pyspark.sql import SparkSession
            session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
            read = session.read.format("rayft").option("kafka.bootstrap.servers", {servers!r})
            read = read.option("subscribe", "t").load()
            print("count", read.count())
            to = {{"kafka.bootstrap.servers": {servers!r}, "topic": "by-spark", "sinkId": "two"}}
            read.select("value").write.format("rayft").options(**to).mode("append").save()
            session.stop()
        """
        assert "count 3" in lent.run("python", "-c", textwrap.dedent(spark))
        assert rows(lent, servers, "by-spark") == 3
        own = f"""
            import rayft
            session = rayft.spark.session("own", "local[1]", "512m")
            print("count", session.read.format("rayft").option("kafka.bootstrap.servers", {servers!r})
                  .option("subscribe", "t").load().count())
            session.stop()
        """
        assert "count 3" in lent.run("python", "-c", textwrap.dedent(own))


def rows(lent: Environment, servers: str, topic: str) -> int:
    reading = f"""
        import rayft
        print(rayft.read({servers!r}, {topic!r}, config={{"isolation.level": "read_committed"}}).read_all().num_rows)
    """
    return int(lent.run("python", "-c", textwrap.dedent(reading)))
