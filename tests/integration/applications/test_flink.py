"""Exactly once with Apache Flink over 400 partitions: a job whose source and sink are Kafka's, whose tasks fail and whose
process is killed with -9 a hundred times. Where it was is in Flink's own checkpoints: what it asks of the brokers is that a
transaction which is part of a checkpoint can be committed by whoever comes after, and that all others end. It also commits
the offsets of all partitions to its group.

The jars are fetched by Maven into `.kafka/flink` when they are needed first; `FLINK_LIBS` names another folder.
"""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

import rayft
from tests.integration.applications.copying import TARGET
from tests.integration.applications.programs import PATIENCE_SECONDS, Reader
from tests.integration.applications.test_replaced_copiers import (
    A_SECOND,
    PARTITIONS,
    ROUNDS,
    Source,
    copied_once,
    source_and_target,
)
from tests.integration.applications.test_streams import CONFIG
from tests.integration.conftest import ROOT

LIBS = Path(os.environ.get("FLINK_LIBS", ROOT / ".kafka" / "flink"))
PROGRAM = Path(__file__).with_name("FlinkCopies.java")
FETCH_SECONDS_MAX = 600
PLACES = ("record", "snapshot", "complete")
"""Where a task may fail."""
KILLED = 5
"""Of so many replacements one is a kill of the whole process."""
JAVA = ("java", "-Xmx768m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens=java.base/java.util=ALL-UNNAMED",
        "--add-opens=java.base/java.lang=ALL-UNNAMED", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.producer.internals.Sender=error",
        "-Dorg.slf4j.simpleLogger.log.org.apache.flink.metrics=error")  # fmt: skip


def fetched() -> str:
    """The class path of Flink. The test is skipped where the jars cannot be had."""
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} on the path: `make kafka` installs it where it may")
    if not any(LIBS.glob("flink-connector-kafka-*.jar")):
        if shutil.which("mvn") is None:
            pytest.skip("the jars of Flink are not there, and no Maven to fetch them: install it, or set FLINK_LIBS")
        new = LIBS.with_name(LIBS.name + ".new")
        shutil.rmtree(new, ignore_errors=True)
        command = ["mvn", "-q", "-B", "-f", str(ROOT / ".ci" / "flink.xml"), "dependency:copy-dependencies"]
        try:
            done = subprocess.run(
                [*command, f"-DoutputDirectory={new}"], capture_output=True, text=True, timeout=FETCH_SECONDS_MAX
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"the jars of Flink do not come within {FETCH_SECONDS_MAX} s")
        if done.returncode:
            pytest.skip(f"the jars of Flink cannot be fetched: {(done.stdout + done.stderr)[-500:]}")
        new.rename(LIBS)
    return f"{LIBS}/*"


class Job:
    """The job, which goes on from its newest checkpoint when it was killed."""

    def __init__(self, folder: Path, servers: str, naming: str) -> None:
        self.folder, self.servers, self.naming = folder, servers, naming
        self.checkpoints = folder / "checkpoints"
        self.log = folder / "flink.log"
        self.started = 0
        (folder / "classes").mkdir()
        path = fetched()
        command = ["javac", "-nowarn", "-d", str(folder / "classes"), "-cp", path, str(PROGRAM)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.path = f"{folder / 'classes'}:{path}"

    def start(self) -> None:
        """Start it where it was."""
        written = sorted(self.checkpoints.glob("*/chk-*/_metadata"), key=lambda file: file.stat().st_mtime_ns)
        newest = [str(written[-1].parent)] if written else []
        arguments = [self.servers, str(PARTITIONS), self.naming, self.checkpoints.as_uri(), *newest]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*JAVA, "-cp", self.path, "FlinkCopies", *arguments], stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        self.started += 1

    def __enter__(self) -> "Job":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it by kill -9."""
        self.process.kill()
        self.process.communicate()

    def fail(self, place: str) -> None:
        """Have a task fail."""
        assert self.process.stdin is not None and self.runs(), self.said()
        self.process.stdin.write(f"{place}\n".encode())
        self.process.stdin.flush()

    def runs(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    def failures(self) -> int:
        """How often a task has failed as it was told."""
        return self.log.read_text(errors="replace").count("failing: ")

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]


def committed(admin: AdminClient) -> int:
    """The sum of the offsets that the job has committed to its group."""
    (group,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("flink")]).values()
    return sum(place.offset for place in group.result(60).topic_partitions or () if place.offset > 0)


@pytest.mark.slow
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])
@pytest.mark.parametrize("rounds", [ROUNDS])
def test_each_record_is_copied_once_by_a_flink_job_that_fails(tmp_path: Path, naming: str, rounds: int) -> None:
    fetched()
    choose = random.Random(rounds)
    kills = failures = 0
    with rayft.Cluster(controllers=1, brokers=3, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = cluster.bootstrap_servers
        admin = source_and_target(cluster)
        with (
            Job(tmp_path, servers, naming) as job,
            Reader(servers, [TARGET]) as reader,
            Source(servers) as source,
        ):

            def more(count: int) -> bool:
                wanted = len(reader.read[TARGET]) + count

                def enough() -> bool:
                    return len(reader.read[TARGET]) >= wanted

                return reader.until(lambda: enough() or not job.runs(), PATIENCE_SECONDS) and enough()

            for _ in range(rounds):
                assert more(A_SECOND), job.said()
                if choose.randrange(KILLED) == 0:
                    job.kill()
                    job.start()
                    kills += 1
                    continue
                before = job.failures()
                job.fail(choose.choice(PLACES))
                assert reader.until(lambda before=before: job.failures() > before, PATIENCE_SECONDS), job.said()
                failures += 1
            source.finish()
            whole = reader.until(lambda: len(reader.read[TARGET]) >= source.count, PATIENCE_SECONDS)
            assert whole, f"{len(reader.read[TARGET])} of {source.count}\n{job.said()}"
            reader.quiet()
            told = reader.until(lambda: committed(admin) == source.count, PATIENCE_SECONDS)
            assert told, f"the group has committed {committed(admin)} of {source.count}\n{job.said()}"
        print(f"{source.count} records, {failures} failures of tasks, {kills} kills, {job.started} processes")
    copied_once(reader, source)
