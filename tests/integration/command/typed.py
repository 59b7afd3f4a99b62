"""Commands as they are typed, and what they print as golden text, in which `<n>` stands for a number, `<id>` for an id."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.integration.conftest import ROOT

APACHE = {
    "offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "1", "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1", "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1",
}  # fmt: skip
"""Settings of a small Apache Kafka of one broker."""


class Ran(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


def typed(
    servers: str, *words: str, stdin: bytes = b"", config: Path | None = None, env: Mapping[str, str] = {}
) -> Ran:
    """Run `rayft` with these words."""
    more = () if config is None else ("--config", str(config))
    done = subprocess.run(
        [sys.executable, "-m", "actors.command.cli", *words, *more],
        cwd=ROOT, env=os.environ | {"RAYFT_BOOTSTRAP": servers} | dict(env), input=stdin, capture_output=True, timeout=90,
        check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def golden(text: str, **names: str) -> re.Pattern[str]:
    """What is to be printed, as a pattern. Spaces between columns may be more."""
    for name, value in names.items():
        text = text.replace(f"<{name}>", value)
    pattern = re.escape(text.lstrip("\n")).replace("<n>", r"\d+").replace("<id>", r"[\w-]+")
    return re.compile(re.sub(r"(?:\\ ){2,}", " +", pattern))


def check(ran: Ran, text: str, **names: str) -> None:
    """It has ended well, and printed this and nothing else."""
    assert ran.code == 0, ran
    assert golden(text, **names).fullmatch(ran.text), f"wanted:{text}\nprinted:\n{ran.text}"


def made(servers: str, name: str, partitions: int = 1) -> None:
    check(
        typed(servers, "topic", "create", name, "-p", str(partitions), "-r", "1"), "created topic <name>\n", name=name
    )
