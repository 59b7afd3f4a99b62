"""What a wheel must do wherever it was installed: a cluster, a record written and read, by the command and the API.

`python .ci/wheel_smoke.py`, with the Python that has the wheel; it imports nothing of the repository."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import rayft


def rayft_command(*words: str, stdin: str = "") -> str:
    """What the command prints."""
    done = subprocess.run(
        [Path(sysconfig.get_path("scripts"), "rayft"), *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    """Use it once. Raises AssertionError."""
    assert sorted(name for name in sys.modules if name.partition(".")[0] in ("actors", "fastpath")) == []
    assert rayft_command("--version") == f"rayft {rayft.__version__}\n"
    with rayft.Cluster(controllers=1, brokers=1, combined=True) as cluster:
        there = ("-b", cluster.bootstrap_servers)
        rayft_command("topic", "create", "smoke", "-p", "2", *there)
        rayft_command("produce", "smoke", *there, stdin="a\nb\n")
        assert sorted(rayft_command("consume", "smoke", "--exit", *there).split()) == ["a", "b"]
    print("well")


if __name__ == "__main__":
    main()
