"""A replica that was moved to another broker leaves no files behind that could be mistaken for something else."""

import pytest

from tests.simulator.one_topic import DIRECTORY, OneTopic


def _value(number):
    return b"%02d" % number * 40


def _produce(t, first, end):
    for number in range(first, end):
        assert t.produce(_value(number)) == number


def _again(t, broker, stop):
    """Stop a broker in the given way, and start it again."""
    t.world.run_for(6_000)  # the checkpoints are written
    process = t.cluster.brokers[broker]
    if stop == "kill":
        process.kill()
    else:
        t.stop(broker)
    process.start()
    t.world.run_for(10_000)
    t.until(lambda: t.leader == broker)


def _is(t, first, end):
    assert t.read() == {number: _value(number) for number in range(first, end)}


def test_its_files_go_when_the_replica_has_gone():
    t = OneTopic([1])
    _produce(t, 0, 10)
    t.move([2])
    assert not t.cluster.brokers[1].disk.exists(DIRECTORY)
    t.world.run_for(70_000)
    assert not any("t-0" in path for path in t.cluster.brokers[1].disk.files), "they are unlinked"
    _is(t, 0, 10)


def test_its_files_go_when_a_reassignment_is_cancelled():
    t = OneTopic([1])
    _produce(t, 0, 10)
    t.cluster.brokers[3].freeze()  # so that it does not end
    t.reassign([2, 3])
    t.until(lambda: t.cluster.brokers[2].disk.exists(DIRECTORY))
    t.reassign(None)
    t.world.run_for(1_000)
    assert not t.cluster.brokers[2].disk.exists(DIRECTORY)


@pytest.mark.parametrize("stop", ["kill", "clean"])
def test_a_topic_of_the_same_name_keeps_what_is_written_to_it(stop):
    t = OneTopic([1])
    _produce(t, 0, 10)
    t.move([2])
    t.drop()
    t.create([1])
    _produce(t, 0, 12)
    _again(t, 1, stop)
    _is(t, 0, 12)


@pytest.mark.parametrize("stop", ["kill", "clean"])
def test_it_comes_back_as_it_was_elsewhere(stop):
    t = OneTopic([1])
    _produce(t, 0, 10)
    t.move([2])
    t.delete_records(5)
    _produce(t, 10, 13)
    t.move([1])
    _produce(t, 13, 33)
    _again(t, 1, stop)
    _is(t, 5, 33)
