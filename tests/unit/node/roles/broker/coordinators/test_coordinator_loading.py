"""How much of the internal topics is loaded in a turn, and that it is all loaded in the end."""

from collections.abc import Iterable
from typing import Any

import pytest

from actors.broker.groups.records import CommittedOffset, offset_record
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.node.roles.broker.coordinators.coordinator_loading import COST_A_TURN
from fastpath.records import batch
from fastpath.records.compression import GZIP
from tests.unit.node.roles.broker.lab import Lab
from tests.unit.node.roles.broker.transactions.cluster import IDS

RECORDS = 3000


def offsets(partitions: int, per_batch: int, **header: Any) -> Lab:
    """A broker that leads so many partitions of `__consumer_offsets`, each with as many offsets."""
    lab = Lab(1, {"offsets.topic.num.partitions": str(partitions)})
    lab.topic([1], OFFSETS_TOPIC, IDS[OFFSETS_TOPIC], partitions=partitions)
    lab.topic([1])
    for number in range(partitions):
        for begin in range(0, RECORDS, per_batch):
            builder = batch.Builder(timestamp_ms=lab.now.wall_ms, **header)
            for one in range(begin, begin + per_batch):
                value = CommittedOffset(one + 1, -1, "", 1_700_000_000_000)
                builder.append(*offset_record(f"g-{number}", "t", one, value))
            lab.broker(1).appends.append_internal(OFFSETS_TOPIC, number, builder.build(), lambda error: None)
    lab.settle()
    return lab


def taken_in(lab: Lab) -> list[int]:
    """How many records each turn takes in, from now on."""
    machine, node = lab.broker(1).groups.machine, lab.nodes[1]
    load, turn = machine.load, node.turn
    counts: list[int] = []

    def counting(partition: int, epoch: int, records: Iterable[Any], producer_id: int = -1) -> list[str]:
        def seen() -> Iterable[Any]:
            for record in records:
                counts[-1] += 1
                yield record

        return load(partition, epoch, seen(), producer_id)

    def counted() -> None:
        counts.append(0)
        turn()

    machine.load = counting  # type: ignore[method-assign]
    node.turn = counted  # type: ignore[method-assign]
    return counts


def lead_anew(lab: Lab, partitions: int, epochs: int = 1) -> None:
    groups = lab.broker(1).groups
    for number in range(partitions):
        groups._gain(number, epochs + lab.partition(1, number, OFFSETS_TOPIC).leader_epoch)


def loaded(lab: Lab) -> bool:
    return all(shard.loaded for shard in lab.broker(1).groups.machine.shards.values())


@pytest.mark.parametrize(
    ("partitions", "per_batch", "header"),
    [(12, 1, {}), (12, 50, {}), (3, RECORDS, {}), (1, RECORDS, {"attributes": GZIP}), (1, RECORDS, {})],
)
def test_a_turn_takes_in_no_more_for_many_partitions_than_for_one(
    partitions: int, per_batch: int, header: dict[str, Any]
) -> None:
    lab = offsets(partitions, per_batch, **header)
    counts = taken_in(lab)
    lead_anew(lab, partitions)
    turns = 0
    while not loaded(lab):
        lab.turn()
        turns += 1
        assert turns < 2 * partitions * RECORDS
    assert sum(counts) == partitions * RECORDS
    assert max(counts) <= COST_A_TURN + 1
    machine = lab.broker(1).groups.machine
    for number in range(partitions):
        found = machine.shards[number].offsets[f"g-{number}"]
        assert [found["t", one].offset for one in range(RECORDS)] == list(range(1, RECORDS + 1))


@pytest.mark.parametrize("per_batch", [50, RECORDS])
def test_a_leadership_that_ends_inside_a_batch_leaves_nothing_to_the_next_one(per_batch: int) -> None:
    lab = offsets(2, per_batch)
    counts = taken_in(lab)
    lead_anew(lab, 2)
    while sum(counts) < COST_A_TURN + 10:
        lab.turn()
    assert not loaded(lab)
    seen = sum(counts)
    lead_anew(lab, 2, 2)
    while not loaded(lab):
        lab.turn()
    assert sum(counts) == seen + 2 * RECORDS
    assert len(lab.broker(1).groups.machine.shards[0].offsets["g-0"]) == RECORDS


@pytest.mark.parametrize("small", [0, 1])
def test_a_small_partition_does_not_wait_for_a_large_one(small: int) -> None:
    lab = offsets(2, 50)
    groups = lab.broker(1).groups
    lab.partition(1, small, OFFSETS_TOPIC).log.delete_records(RECORDS - 10)
    order: list[int] = []
    ended = groups.loaded

    def noted(partition: Any, epoch: int) -> None:
        order.append(partition.number)
        ended(partition, epoch)

    groups.loaded = noted  # type: ignore[method-assign]
    lead_anew(lab, 2)
    while not loaded(lab):
        lab.turn()
    assert order == [small, 1 - small]


def test_what_a_machine_does_not_want_is_passed_over() -> None:
    lab = offsets(2, 50)
    machine = lab.broker(1).groups.machine
    machine.load = lambda *_: []  # type: ignore[method-assign]
    lead_anew(lab, 2)
    for _ in range(200):
        lab.turn()
    assert loaded(lab) and not machine.shards[0].offsets
