"""A leader whose followers have just died: who waits for them is answered when they are fenced."""

from tests.simulator.test_rot import _cluster, _produce, _state


def test_a_produce_waits_no_longer_than_until_the_followers_are_fenced():
    world, cluster, client = _cluster()
    _produce(cluster, client, 0)
    leader = _state(cluster)[0]
    for id, process in cluster.brokers.items():
        if id != leader:
            process.kill()
    assert world.run_until(lambda: _state(cluster)[1] == {leader}, 30_000)
    # The leader has not heard of it: it takes the record in for three members, and must answer without the other two.
    _produce(cluster, client, 1)
