"""Static members (KIP-345) whose processes restart while coordinators die, freeze and are slow: committed offsets only rise,
and the group comes to rest."""

import pytest

from tests.simulator.planted.kinds import run
from tests.simulator.planted.worlds import WORLDS


@pytest.mark.parametrize("seed", [1, 2])
def test_static_members_restart_among_the_faults(seed: int) -> None:
    result = run(WORLDS["statics"], seed)
    assert result.ok, result.text
