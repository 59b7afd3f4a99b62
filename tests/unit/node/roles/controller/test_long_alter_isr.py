"""A long AlterIsr at the controller: others are served between its portions, and its sender is told the truth (G-51)."""

from typing import Any

import pytest

from actors.controller.partitions.topics import create_topics
from actors.metadata.dialects import dialect
from actors.metadata.ops import PartitionsChanged
from actors.node.runtime.answers import Close, Done, Held, Sliced
from actors.node.runtime.calls import Listener
from actors.wire.messages import message
from tests.served import TABLE
from tests.unit.node.roles.controller.test_role import Host, call, joined, topic

PARTITIONS = 1_100
A_PORTION = 250
KIND = message("AlterIsrRequest")


def led() -> tuple[Host, dict[int, int], list[int]]:
    """A controller with a topic on two brokers, their epochs, and the partitions that broker 1 leads."""
    host = Host()
    host.lead()
    epochs = joined(host, 1, 2)
    host.controller.submit(create_topics, topic("t", 2 * PARTITIONS, 2), call(19))
    host.turn()
    image = host.controller.image
    numbers = [image.number(row) for row in image.topic_partitions(image.topic("t")) if image.leader(row) == 1]
    assert len(numbers) >= 4 * A_PORTION
    return host, epochs, numbers


def asked(host: Host, epoch: int, numbers: list[int], isr: tuple[int, ...] = (1,), connection: int = 1) -> Any:
    """What becomes of a request of broker 1 for this ISR, as it arrives."""
    image = host.controller.image
    rows = {number: image.partition(image.topic("t"), number) for number in numbers}
    entries = [
        KIND.PartitionData(
            partition_id=number, leader=1, leader_epoch=image.leader_epoch(row), isr=list(isr),
            current_zk_version=image.partition_epoch(row),
        )
        for number, row in rows.items()
    ]  # fmt: skip
    request = KIND(broker_id=1, broker_epoch=epoch, topics=[KIND.TopicData(topic="t", partitions=entries)])
    return TABLE[Listener.CONTROLLER, 56].handler(host.context, request, call(56, connection))


def codes(reply: Any) -> set[int]:
    return {one.error_code for entry in reply.topics for one in entry.partitions}


def changes(batches: Any) -> int:
    return sum(len(op) for batch in batches for _, op in dialect(2).decode(batch) if isinstance(op, PartitionsChanged))


def test_each_turn_writes_a_portion_and_the_answer_waits_for_the_last():
    host, epochs, numbers = led()
    answer, written = asked(host, epochs[1], numbers), []
    while isinstance(answer, Sliced):
        written.append(changes(host.turn()))
        answer = answer.again()
    written.append(changes(host.turn()))
    assert isinstance(answer, Held) and answer.offset == host.controller.image.next_offset - 1
    assert max(written) == A_PORTION and sum(written) == len(numbers) and sum(map(bool, written)) >= 4
    assert codes(answer.reply) == {0} and [one.partition_id for one in answer.reply.topics[0].partitions] == numbers


def test_as_many_as_a_portion_has_are_decided_at_once():
    host, epochs, numbers = led()
    answer = asked(host, epochs[1], numbers[:A_PORTION])
    assert isinstance(answer, Held) and changes(host.turn()) == A_PORTION


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("committed", [0, 1, 2])
def test_a_controller_that_loses_the_leadership_in_the_middle_says_so(committed, again):
    """What is committed stays; the rest is undone. Nobody hears of a grant that there is not. `again`: it leads once more
    before it goes on."""
    host, epochs, numbers = led()
    answer = asked(host, epochs[1], numbers)
    while changes(host.turn(commit=committed > 0)) == 0:
        answer = answer.again()
    for _ in range(committed - 1):
        answer = answer.again()
        host.turn()
    answer = answer.again()
    host.turn(commit=False)
    assert isinstance(answer, Sliced)
    host.quorum.log.clear()
    host.controller.lost()
    if again:
        host.lead(epoch=2)
    while isinstance(answer, Sliced):
        answer = answer.again()
        host.turn()
    image = host.controller.image
    rows = [image.partition(image.topic("t"), number) for number in numbers]
    assert [image.isr(row) for row in rows[: committed * A_PORTION]] == [(1,)] * committed * A_PORTION
    if not again:
        assert isinstance(answer, Done) and answer.reply.error_code == 41
        assert {tuple(sorted(image.isr(row))) for row in rows[committed * A_PORTION :]} == {(1, 2)}
        return
    assert isinstance(answer, Held) and answer.reply.error_code == 0
    told = [one.error_code for one in answer.reply.topics[0].partitions]
    assert told == [95] * committed * A_PORTION + [0] * (len(numbers) - committed * A_PORTION)
    assert {image.isr(row) for row in rows} == {(1,)}


def test_a_leader_that_is_fenced_in_the_middle_gets_no_further():
    host, epochs, numbers = led()
    answer = asked(host, epochs[1], numbers)
    while changes(host.turn()) == 0:
        answer = answer.again()
    host.controller.broker_link_lost(1)
    host.channels.probes.pop()[1](True)
    while host.controller._pending():
        host.turn()
    while isinstance(answer, Sliced):
        answer = answer.again()
    assert isinstance(answer, Held) and (answer.reply.error_code, answer.reply.topics) == (77, [])
    image = host.controller.image
    rows = [image.partition(image.topic("t"), number) for number in numbers]
    assert {image.isr(row) for row in rows[:A_PORTION]} == {(1,)}, "the last member stays"
    assert {image.isr(row) for row in rows[A_PORTION:]} == {(2,)}


def test_what_changes_between_two_portions_counts():
    """Partitions of which another request has changed the ISR meanwhile are refused, and no others are."""
    host, epochs, numbers = led()
    answer = asked(host, epochs[1], numbers)
    host.turn()
    other = asked(host, epochs[1], numbers[-10:])
    assert isinstance(other, Held) and codes(other.reply) == {0}
    while isinstance(answer, Sliced):
        answer = answer.again()
        host.turn()
    told = [one.error_code for one in answer.reply.topics[0].partitions]
    assert told == [0] * (len(numbers) - 10) + [95] * 10


def test_r497_52_the_newer_connection_of_a_broker_ends_the_older_one():
    host, epochs, numbers = led()
    answer = asked(host, epochs[1], numbers, connection=7)
    assert isinstance(answer, Sliced)
    assert isinstance(asked(host, epochs[1], numbers[-10:], connection=8), Held)
    assert isinstance(asked(host, epochs[1], numbers, connection=7), Close)
