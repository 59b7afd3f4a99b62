"""Which moments are kept, and that what they hold stays within a bound."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from actors import replay
from actors.metadata.ops import FeatureSet, Op, PartitionsChanged, PartitionsSet, TopicSet
from actors.replay.timeline import pins
from tests.unit.replay import metadata_logs

TOPIC = metadata_logs.TOPIC


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which each record changes another one of 40,000 partitions: ten chunks of them."""
    count = 40_000
    ops: list[Op] = [FeatureSet("metadata.format", 2), TopicSet("orders", TOPIC)]
    ops.append(PartitionsSet(TOPIC, range(count), [[1, 2]] * count, [[1, 2]] * count))
    order = np.random.default_rng(1).permutation(count).tolist()
    ops += [PartitionsChanged.one(TOPIC, number, [1], 1, 1, 1) for number in order[:6_000]]
    return metadata_logs.write(tmp_path_factory.mktemp("churn"), metadata_logs.batches(ops, 100))


@pytest.mark.parametrize("bytes_max", [64 << 20, 8 << 20, 3 << 20, 0])
def test_what_pins_hold_stays_within_the_bound(churn: Path, bytes_max: int) -> None:
    history = replay.History(churn, step=100, pins_bytes_max=bytes_max)
    assert history.pins_bytes <= bytes_max or len(history.pins) == 2
    assert [one.offset for one in history.pins][:: len(history.pins) - 1] == [0, history.now.offset]
    if len(history.pins) > 4:
        behind = [one.offset for one in history.pins if one.offset > 40_000]
        gaps = [later - earlier for earlier, later in pairwise(behind[:-1])]
        assert max(gaps) <= 2 * min(gaps), "about equally far from one another"
    history.close()


def test_a_pin_costs_what_was_changed_before_the_next(churn: Path) -> None:
    """100 partitions in ten chunks change between two pins: these ten chunks are there twice, and nothing else is."""
    history = replay.History(churn, step=100, pins_bytes_max=1 << 40)
    late = [one for one in history._pins.all if one.offset > 40_100]
    costs = [pins.cost(one.moment, other.moment) for one, other in pairwise(late)]
    chunks = 10 * pins.CHUNK_BYTES
    assert len(costs) > 50 and all(chunks <= one <= 1.1 * chunks for one in costs)
    assert pins.cost(late[0].moment, late[0].moment) < pins.CHUNK_BYTES // 2
    history.close()


def test_there_are_never_more_than_a_thousand(churn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "PINS_MAX", 20)
    history = replay.History(churn, step=100, pins_bytes_max=1 << 40)
    assert 8 <= len(history.pins) <= 20
    history.close()


def test_now_is_the_last_pin_and_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    made = metadata_logs.batches(metadata_logs.ops(), 1)
    history = replay.History(metadata_logs.write(tmp_path, made[:1]), step=6)
    offsets = []
    for batch in made[1:]:
        history.append(bytes(batch.data))
        offsets.append([one.offset for one in history.pins])
        assert history.pins[-1].offset == batch.last_offset + 1 == history.now.offset
    assert offsets[2:6] == [[0, 4], [0, 5], [0, 6], [0, 6, 10]] and offsets[-1] == [0, 6, 14, 19]
    history.close()
