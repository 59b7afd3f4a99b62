"""Karapace, a schema registry that keeps all it knows in the compacted topic `_schemas`, is killed with -9 and started again
on a log that was compacted: it knows the same as before.

It is not on PyPI, so it cannot be fetched by `make`. KARAPACE gives the command that starts an installed one (such as
`karapace`); without it the test is skipped.
"""

import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from bench.ports import free_ports
from tests.integration.applications.programs import Reader
from tests.integration.conftest import until

CONFIG = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}
TOPIC = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "10000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "600000",
}
SUBJECTS = 12
LEVELS = ("BACKWARD", "FORWARD", "FULL", "NONE")
START_SECONDS_MAX = 60


class Registry:
    """A process and its REST address."""

    def __init__(self, command: list[str], servers: str, folder: Path) -> None:
        (self._port,) = free_ports(1)
        self._log = folder / "karapace.log"
        config = folder / "karapace.json"
        settings = {
            "advertised_hostname": "127.0.0.1",
            "bootstrap_uri": servers,
            "client_id": "registry",
            "compatibility": "BACKWARD",
            "group_id": "schema-registry",
            "host": "127.0.0.1",
            "port": self._port,
            "karapace_rest": False,
            "karapace_registry": True,
            "topic_name": "_schemas",
            "replication_factor": 1,
            "session_timeout_ms": 6000,
        }
        config.write_text(json.dumps(settings))
        self._command = [*command, str(config)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it takes schemas."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + START_SECONDS_MAX
        while self.ask("PUT", "/config", {"compatibility": "BACKWARD"}) is None:
            assert self._process.poll() is None and time.monotonic() < end, self._log.read_text()[-3000:]
            time.sleep(0.2)

    def kill(self) -> None:
        """End it, and what it has started, with SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The decoded answer; None while it cannot answer."""
        kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        data = json.dumps(body).encode() if body is not None else None
        asked = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, kind, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                return None
            return {"status": error.code}
        except OSError:
            return None

    def register(self, subject: str, fields: int) -> Any:
        """Register a record with so many fields."""
        names = [{"name": f"f{number}", "type": "string", "default": ""} for number in range(fields)]
        schema = {"type": "record", "name": "Order", "fields": names}
        return self.ask("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema)})

    def known(self) -> dict[str, Any]:
        """All that it answers about all its subjects, deleted ones included."""
        found: dict[str, Any] = {"config": self.ask("GET", "/config"), "subjects": self.ask("GET", "/subjects")}
        for subject in self.ask("GET", "/subjects?deleted=true"):
            found[f"{subject} config"] = self.ask("GET", f"/config/{subject}")
            versions = self.ask("GET", f"/subjects/{subject}/versions?deleted=true")
            found[f"{subject} versions"] = versions, self.ask("GET", f"/subjects/{subject}/versions")
            for version in versions:
                told = self.ask("GET", f"/subjects/{subject}/versions/{version}?deleted=true")
                found[f"{subject} {version}"] = told, self.ask("GET", f"/schemas/ids/{told['id']}")
        return found


def keys(servers: str) -> Counter[bytes]:
    """How often each key is in the topic."""
    with Reader(servers, ["_schemas"]) as reader:
        reader.quiet(0.7)
        return Counter(key for _, _, key, _ in reader.read["_schemas"] if key is not None)


@pytest.mark.timeout(200)
def test_the_registry_knows_the_same_after_compaction(tmp_path: Path) -> None:
    command = shlex.split(os.environ.get("KARAPACE", "karapace"))
    if shutil.which(command[0]) is None:
        pytest.skip("no schema registry: Karapace is not on PyPI; KARAPACE names the command of an installed one")
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic("_schemas", 1, 1, config=TOPIC)])["_schemas"].result(30)
        registry = Registry(command, servers, tmp_path)
        try:
            registry.start()
            subjects = [f"orders-{number}" for number in range(SUBJECTS)]
            for number, subject in enumerate(subjects):
                for fields in range(1, 3 + number % 3):
                    assert registry.register(subject, fields)["id"] > 0
            for _, level, subject in itertools.product(range(8), LEVELS, subjects):
                assert registry.ask("PUT", f"/config/{subject}", {"compatibility": level}) == {"compatibility": level}
            assert registry.ask("DELETE", f"/subjects/{subjects[0]}/versions/1") == 1
            assert registry.ask("DELETE", f"/subjects/{subjects[1]}") == [1, 2, 3]
            assert registry.ask("DELETE", f"/subjects/{subjects[1]}?permanent=true") == [1, 2, 3]
            registry.ask("PUT", f"/config/{subjects[2]}", {"compatibility": "BACKWARD"})
            written = SUBJECTS * len(LEVELS) * 8
            # The values that were overwritten are gone, save for the last segment, which is not cleaned.
            until(lambda: keys(servers).total() < written / 2)
            left = keys(servers)
            assert 0 < sum(count for key, count in left.items() if b"CONFIG" in key) < written / 2
            before = registry.known()
            assert len(before["subjects"]) == SUBJECTS - 1
            latest = max(told[0]["id"] for name, told in before.items() if isinstance(told, tuple) and "id" in told[0])
            registry.kill()
            cluster.kill(1)
            cluster.wait_ready(1)
            registry.start()
            assert registry.known() == before
            # It goes on: a new schema gets a new id, a known one its own, one that does not fit is refused.
            assert registry.register(subjects[0], 9)["id"] > latest
            assert registry.register(subjects[2], 1)["id"] == before[f"{subjects[2]} 1"][0]["id"]
            wrong = {"type": "record", "name": "Order", "fields": [{"name": "f0", "type": "int"}]}
            refused = registry.ask("POST", f"/subjects/{subjects[2]}/versions", {"schema": json.dumps(wrong)})
            assert refused == {"status": 409}
        finally:
            registry.kill()
