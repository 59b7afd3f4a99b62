"""docs/security.md, "Three machines": its commands as they stand there, on three addresses of loopback."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.ports import free_ports
from tests.integration.conftest import ROOT, until

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")
PASSWORD = "guide-secret-1"


def blocks() -> list[str]:
    """The commands of that section."""
    text = (ROOT / "docs" / "security.md").read_text()
    section = text.partition("## Three machines\n")[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def test_from_nothing_to_three_machines(tmp_path: Path) -> None:
    clients, nodes, controller = free_ports(3)
    prepare, run = blocks()
    changes = {
        "192.0.2.": "127.0.0.",
        ":9092": f":{clients}",
        ":9192": f":{nodes}",
        ":9093": f":{controller}",
        "/etc/rayft/node": "node",
        "/etc/rayft": str(tmp_path / "security"),
        "/var/lib/rayft": str(tmp_path),
    }
    for old, new in changes.items():
        prepare, run = prepare.replace(old, new), run.replace(old, new)
    around = os.environ | {"ADMIN_PASSWORD": PASSWORD, "PYTHONPATH": str(ROOT), "PYTHON": sys.executable}
    shell = 'set -e\nrayft() { "$PYTHON" -m actors.command.cli "$@"; }\n'

    def bash(script: str) -> str:
        command = ["bash", "-c", shell + script]
        ran = subprocess.run(
            command, cwd=tmp_path, env=around, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    format_, start = run.rsplit("rayft node", 1)
    bash(prepare + f"for N in 1 2 3; do\n{format_}\ndone\n")
    running, logs = [], []
    try:
        for number in ("1", "2", "3"):
            log = tmp_path / f"{number}.log"
            logs.append(log)
            command = [sys.executable, "-m", "actors.command.cli", "node", *start.replace("$N", number).split()]
            running.append(
                subprocess.Popen(
                    command, cwd=tmp_path, env=around, stdout=log.open("w"), stderr=subprocess.STDOUT, text=True
                )
            )
        until(lambda: all("serves clients" in log.read_text() for log in logs))
        assert not any("authentication" in log.read_text() for log in logs), "no warning of an open port"
        settings = {
            "bootstrap.servers": f"127.0.0.2:{clients}",
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(tmp_path / "security" / "ca.pem"),
        }
        client = admin.AdminClient(settings)
        until(lambda: len(client.list_topics(timeout=20).brokers) == 3)
        client.create_topics([admin.NewTopic("orders", 3, 3)])["orders"].result(30)
        producer = confluent_kafka.Producer(settings | {"acks": "all"})
        producer.produce("orders", b"x")
        assert producer.flush(30) == 0
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait(60)
