"""What the bench of a broker under load counts as cut, and how it reads Apache Kafka's state change log."""

from bench.overload import cuts
from bench.overload_clients import Acknowledged
from bench.overload_kafka import COMMITTED, IDLE, LOADED, OBEYED, Moved

AT = {Moved(0, LOADED, 0): 100, Moved(0, IDLE, 1): 200, Moved(0, LOADED, 2): 400}
OBEYED_AT = {Moved(0, LOADED, 0): 110, Moved(0, IDLE, 1): 250, Moved(0, LOADED, 2): 450}


def counted(acks: int, answered: int, appended: int, left: str = "another") -> dict[str, int | None]:
    one = Acknowledged(0, 7, "mine", acks, answered)
    return cuts([one], {(0, 7): left}, AT, OBEYED_AT, {(0, 7): appended})


def test_a_record_that_is_still_there_is_not_cut() -> None:
    found = counted(1, 300, 300, "mine")
    assert (found["acknowledged"], found["cut"], found["cut_after_obeyed"]) == (1, 0, 0)


def test_a_record_is_cut_before_or_after_the_change_by_when_it_was_answered() -> None:
    assert [counted(1, at, 150)["cut_after_commit"] for at in (190, 210, 390, 410)] == [0, 1, 1, 0]
    assert counted(1, 190, 150)["cut"] == 1


def test_a_record_is_cut_although_the_broker_had_obeyed_by_when_it_was_appended() -> None:
    assert [counted(1, 460, at)["cut_after_obeyed"] for at in (240, 260, 440, 455)] == [0, 1, 1, 0]


def test_a_cut_record_with_acks_all_is_counted_apart() -> None:
    found = counted(-1, 210, 150)
    assert (found["cut"], found["cut_after_commit"], found["cut_all"]) == (0, 0, 1)


def test_without_the_times_of_appends_it_is_not_known_what_was_cut_after_the_broker_had_obeyed() -> None:
    assert cuts([], {}, AT, OBEYED_AT, None)["cut_after_obeyed"] is None


def test_lines_of_apache_kafka_2_8_2() -> None:
    changed = COMMITTED.match(
        "2026-11-26 12:31:33,472 [Controller id=3001 epoch=1] Changed partition moved-0 from OnlinePartition to "
        "OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=3, isr=List(1, 2), zkVersion=3)"
    )
    assert changed is not None
    assert changed.groups() == ("2026-11-26 12:31:33,472", "0", "2", "3")
    follows = OBEYED.match(
        "2026-11-26 12:31:35,067 [Broker id=1] Follower moved-0 starts at leader epoch 3 from offset 0 with high watermark "
        "0. Previous leader epoch was 2."
    )
    assert follows is not None
    assert follows.groups() == ("2026-11-26 12:31:35,067", "Follower", "0", "3")
