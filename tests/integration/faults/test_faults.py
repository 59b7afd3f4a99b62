"""Random faults on real clusters: no record is lost or duplicated, and writing is always possible again."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.ports import free_port
from tests.integration.faults import campaign
from tests.integration.faults.__main__ import report
from tests.integration.faults.nemesis import EVERYWHERE, WIRED, Fault
from tests.integration.faults.targets import OnRay, Target, Wired, small_disk
from tests.integration.rays import environment, started

RAY_LIVELY_S = 180.0
"""Ray starts a process with its own imports for each actor that it restarts: six at once are slow."""
SEED = int(os.environ.get("FAULTS_SEED", "0")) or int(time.time())


def hurt(target: Target, faults: Mapping[Fault, int], seconds: float, seed: int, **more: float) -> None:
    """One run. Its events are printed in any case."""
    print(f"seed {seed}")
    outcome = campaign.run(target, faults, seconds, seed, print, **more)
    text = report(outcome)
    print(text)
    assert outcome.clean, text
    assert outcome.verdict.acknowledged > 10 * seconds, "the clients hardly worked"


@pytest.mark.timeout(400)
def test_one_minute_of_faults(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as small, Wired(tmp_path / "c", 3, 3, campaign.CONFIG, small) as target:
        hurt(target, WIRED, 60, 1)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_ten_minutes_of_faults(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as small, Wired(tmp_path / "c", 3, 3, campaign.CONFIG, small) as target:
        hurt(target, WIRED, 600, SEED)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_three_minutes_of_faults_on_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    around = environment(tmp_path / "home")
    with (
        started(around) as address,
        OnRay(tmp_path / "cluster", address, around, 3, 3, campaign.CONFIG, free_port()) as target,
    ):
        hurt(target, EVERYWHERE, 180, SEED, lively_s=RAY_LIVELY_S)
        assert json.loads((tmp_path / "cluster" / "cluster.json").read_text())["brokers"]
