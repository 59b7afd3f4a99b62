"""A leader whose followers have just died: a produce that waits for them is answered when they are fenced."""

from tests.simulator.one_topic import OneTopic


def test_a_produce_waits_no_longer_than_until_the_followers_are_fenced():
    t = OneTopic()
    t.produce(b"before")
    for id, process in t.cluster.brokers.items():
        if id != t.leader:
            process.kill()
    t.until(lambda: t.isr == {t.leader}, 30_000)
    # The leader has not heard of it: it takes the record in for three members, and must answer without the other two.
    assert t.produce(b"after") == 1
