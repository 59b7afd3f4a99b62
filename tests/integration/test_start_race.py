"""Several commands start one new directory at once: one cluster runs, the others say in one sentence why they do not."""

import subprocess
import sys
from pathlib import Path

import pytest

from actors.host import locks, storage
from actors.host import plan as plans
from tests.integration.conftest import ROOT, command

RAYFT = (sys.executable, "-m", "actors.cli")
pytestmark = pytest.mark.timeout(240)


def test_of_four_that_start_one_new_directory_one_cluster_runs(tmp_path: Path) -> None:
    home = tmp_path / "c"
    up = [*RAYFT, "up", "--dir", str(home), "--port", "0", "--controllers", "1", "--brokers", "1", "--detach"]
    starts = [
        subprocess.Popen(up, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = [(*start.communicate(timeout=120), start.returncode) for start in starts]
    try:
        assert sum(code == 0 for *_, code in said) >= 1, said
        for _, refused, code in said:
            if code:
                (sentence,) = [line for line in refused.splitlines() if line.strip()]
                assert any(
                    why in sentence for why in ("is in use by process", "another command changes the cluster")
                ), said
        plan = plans.load(home)
        assert plan is not None
        ids = {storage.check(member.config)[0].cluster_id for member in plan.members}
        assert len(ids) == 1
        assert all(locks.seen(member.config.metadata_log_dir) for member in plan.members)
    finally:
        ended = command("down", "--dir", str(home))
    assert ended.returncode == 0, ended.stderr
    assert locks.holder(str(home)) is None
