"""One partition of the groups' log in memory: which value is visible, and of which keys the log may have one."""

from actors.broker.groups import shard as shards
from actors.broker.groups.records import CommittedOffset, ForeignLine
from actors.broker.groups.shard import NO_WRITE, Missing, OffsetKey, Shard
from actors.wire.errors import ErrorCode

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
VALUE = CommittedOffset(5, -1, "", 0)


def shard(*keys: OffsetKey, group: str = "g") -> Shard:
    made = Shard(0, 1)
    for key in keys:
        made.set(group, key, VALUE)
    return made


def line(key: bytes, removed: bool = False, offset: OffsetKey | None = None) -> ForeignLine:
    return ForeignLine("g", key, removed, offset, "why")


def test_a_key_is_unsettled_until_the_last_write_of_it_is_committed() -> None:
    one = shard()
    one.wrote("g", T0, 7)
    one.wrote("g", T0, 8)
    one.settled("g", T0, 7, ErrorCode.NONE)
    assert one.unsettled_of("g") == {T0: 8}, "an earlier write says nothing of the last"
    one.settled("g", T0, 8, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert one.unsettled_of("g") == {T0: NO_WRITE} and one.holds_key("g", T0), "it may be committed still"
    one.wrote("g", T0, 9)
    one.settled("g", T0, 9, ErrorCode.NONE)
    assert not one.unsettled and not one.holds("g") and not one.holds_key("g", T0)


def test_the_last_removal_of_a_group_leaves_nothing_of_it() -> None:
    one = shard(T0, T1)
    one.set("g", T0, None)
    one.set("g", T0, None)
    assert list(one.offsets_of("g")) == [T1] and one.holds("g")
    one.set("g", T1, None)
    one.set("h", T1, None)
    assert not one.offsets and list(one.with_offsets()) == []


def test_each_key_that_the_log_may_have_is_named_once() -> None:
    one = shard(T0)
    one.wrote("g", T0, 1)
    one.wrote("g", T1, 2)
    one.transactional.wrote(9, "g", U0, 1, VALUE)
    one.transactional.wrote(9, "h", U0, 2, VALUE)
    assert set(one.keys("g")) == {T0, T1, U0} and one.keys_at_most("g") == 4
    assert list(one.with_offsets()) == ["g", "h"]
    assert {key for part in one.portions("g") for key in part} == {T0, T1, U0}


def test_a_group_is_found_by_its_id_whatever_its_kind() -> None:
    one = shard(T0)
    one.of("classic")["a"], one.of("share")["b"] = "A", "B"
    assert [one.find(id) for id in "abc"] == ["A", "B", None] and one.of("classic") is one.of("classic")
    one.forget("b")
    assert one.find("b") is None and one.holds("g"), "what it has committed stays"


def test_a_group_is_foreign_as_long_as_the_log_has_what_cannot_be_read() -> None:
    one = shard()
    assert one.take_foreign(line(b"1")) and not one.take_foreign(line(b"2", offset=T0))
    assert one.foreign == {"g": {b"1", b"2"}} and one.unreadable == {"g": {b"2"}}
    assert not one.take_foreign(line(b"2", removed=True)) and one.unreadable == {} and one.foreign == {"g": {b"1"}}
    one.known("g", b"1")
    one.known("h", b"9")
    assert one.foreign == {} and one.take_foreign(line(b"1")), "it is the first again"


def test_offsets_of_topics_that_are_gone_are_found_in_portions_and_once() -> None:
    many = [("t", number) for number in range(shards.PORTION_KEYS + 1)]
    one = shard(*many, U0)
    one.forget_topics(["t"])
    one.forget_topics(["v"])
    (walk,) = one.walks
    assert walk.topics == {"t", "v"} and not walk.begun, "one look for both"
    assert walk.gone("g", [T0, U0]) == [T0] and walk.begun
    found = []
    while (portion := walk.next()) is not None:
        assert len(portion[1]) <= shards.PORTION_KEYS
        found += walk.gone(*portion)
    assert len(found) == len(many) - 1 and T0 not in found and U0 not in found
    one.forget_topics(["w"])
    assert len(one.walks) == 2, "a look that has begun does not grow"


def test_a_topic_is_asked_for_once_whether_it_exists() -> None:
    asked: list[str] = []

    def exists(topic: str) -> bool:
        asked.append(topic)
        return topic == "t"

    one, missing = shard(T0, T1, U0), Missing(exists)
    one.look_for(missing)
    one.look_for(Missing(exists))
    assert one.walks[0].gone("g", [T0, T1, U0]) == [U0] and len(one.walks) == 1
    assert asked == ["t", "u"]


def test_a_group_that_is_dropped_leaves_nothing_behind() -> None:
    one = shard(T0)
    one.of("classic")["g"] = "G"
    one.wrote("g", T1, 3)
    one.transactional.wrote(9, "g", U0, one.transactional.next(), VALUE)
    one.drop("g")
    assert one.find("g") is None and set(one.keys("g")) == {U0}, "the log may have it until the transaction ends"
    one.transactional.ended(9, True, one.transactional.next())
    assert one.transactional.take_in(10) == (1, []) and not one.holds("g")
