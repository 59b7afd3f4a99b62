"""`make wheel`: what is installed from the wheel runs without a compiler.

Needs the network, or pip's cache, for rayft's dependencies.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from tests.integration import rays

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wheel_runs_without_a_compiler(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, env={**os.environ, "RAYFT_BUILT": "0"})
    (wheel,) = tmp_path.glob("rayft-*.whl")

    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    around = {"PATH": str(programs), "HOME": os.environ.get("HOME", str(tmp_path))}
    pip = [str(programs / "python"), "-m", "pip", "install", "-q", "--only-binary", ":all:", str(wheel)]
    installed = subprocess.run(pip, env=around, capture_output=True, text=True)
    if "No matching distribution" in installed.stderr or "connection" in installed.stderr.lower():
        pytest.skip(f"nothing to install from: {installed.stderr.strip().splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr

    completed = subprocess.run(
        [str(programs / "rayft"), "completion", "bash"], env=around, capture_output=True, check=True
    )
    assert b"complete -o bashdefault" in completed.stdout, "it was made when the wheel was built: shtab is not there"

    port, where = rays.free_port(), ("--dir", str(tmp_path / "data"))
    up = [
        str(programs / "rayft"),
        "up",
        "--controllers",
        "1",
        "--brokers",
        "1",
        "--port",
        str(port),
        *where,
        "--detach",
    ]
    subprocess.run(up, cwd=tmp_path, env=around, check=True, timeout=100)
    try:
        servers = f"127.0.0.1:{port}"
        with_acks = KafkaProducer(bootstrap_servers=servers, acks="all")
        with_acks.send("greetings", b"hello").get(30)
        with_acks.close()
        reader = KafkaConsumer("greetings", bootstrap_servers=servers, auto_offset_reset="earliest",
                               consumer_timeout_ms=20_000)  # fmt: skip
        assert next(iter(reader)).value == b"hello"
        reader.close()
    finally:
        subprocess.run([str(programs / "rayft"), "down", *where], cwd=tmp_path, env=around, check=True, timeout=100)
