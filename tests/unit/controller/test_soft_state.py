"""What a controller knows without the log: when a high watermark was reached, and which brokers can be used."""

from actors.controller.soft_state import Commits, Departure, Shutdown
from tests.unit.controller.cluster import Cluster

GRAIN_MS = Commits.GRAIN_MS


def commits() -> Commits:
    made = Commits()
    made.begin(1_000, 5)
    return made


def test_nothing_is_known_of_the_time_before_a_takeover() -> None:
    assert Commits().before(0) is None
    made = commits()
    assert made.before(999) is None and made.before(1_000) == made.before(10**12) == 5
    made.begin(2_000, 7)
    assert made.before(1_999) is None and (made.since_ms, made.at_takeover) == (2_000, 7)


def test_a_high_watermark_is_known_by_the_time_at_which_it_was_reached() -> None:
    made = commits()
    made.note(1_000 + GRAIN_MS - 1, 6, 60_000)
    assert made.before(10**12) == 5, "within a grain"
    for at, mark in ((1_000 + GRAIN_MS, 7), (5_000, 9)):
        made.note(at, mark, 60_000)
    assert [made.before(at) for at in (1_000, 1_099, 1_100, 4_999, 5_000)] == [5, 5, 7, 7, 9]


def test_of_the_past_so_much_is_kept_and_never_nothing() -> None:
    made = commits()
    for at in range(2_000, 12_000, 1_000):
        made.note(at, at, 3_000)
    assert made.before(7_999) is None and made.before(8_000) == 8_000, "what held 3 s ago is known still"
    made.note(10**9, 1, 3_000)
    assert made.before(10**9 - 1) == 11_000 and made.before(10**9) == 1


def test_a_broker_that_leaves_stops_or_has_given_up_is_not_used() -> None:
    c = Cluster(brokers=4)

    def usable() -> frozenset[int]:
        c.soft.changed()
        return c.soft.usable(c.image).ids

    assert usable() == {1, 2, 3, 4}
    c.soft.stopping[1] = Shutdown(0)
    c.soft.leases[2].given_up = True
    c.soft.leaving[3] = Departure("test", newcomer=False)
    assert usable() == {4}
    assert [c.soft.may_stay(one) for one in (1, 2, 3, 4, 9)] == [True, True, False, False, False]
    del c.soft.leases[4]
    assert c.soft.usable(c.image).ids == {4}, "it is computed when something has changed"
    assert usable() == frozenset()
