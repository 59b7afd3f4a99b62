"""Assignors of the coordinator: fair, sticky, complete, for members that subscribe alike and for those that do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.groups.consumer.assignors import ASSIGNORS, ConsumerGroupSpec, Targets, Wish

T, U = b"t" * 16, b"u" * 16


def order(
    members: dict[str, frozenset[bytes]], sizes: dict[bytes, int], before: Targets | None = None
) -> ConsumerGroupSpec:
    return ConsumerGroupSpec({id: Wish(None, topics) for id, topics in members.items()}, sizes, before or {})


def alike(count: int, sizes: dict[bytes, int], before: Targets | None = None) -> ConsumerGroupSpec:
    return order({f"m{n:04}": frozenset(sizes) for n in range(count)}, sizes, before)


def loads(targets: Targets) -> list[int]:
    return sorted(sum(map(len, target.values())) for target in targets.values())


def moves(before: Targets, after: Targets) -> int:
    """Partitions that a member had and has no more."""
    return sum(
        len(partitions - after.get(id, {}).get(topic, frozenset()))
        for id, target in before.items()
        for topic, partitions in target.items()
    )


def check(asked: ConsumerGroupSpec, targets: Targets) -> None:
    """Each partition of a topic with a subscriber is given once, to a subscriber."""
    assert targets.keys() == asked.members.keys()
    given_out = [
        (topic, partition)
        for id, target in targets.items()
        for topic, partitions in target.items()
        for partition in partitions
    ]
    wanted = {topic for wish in asked.members.values() for topic in wish.topics}
    assert sorted(given_out) == sorted((topic, n) for topic in wanted for n in range(asked.sizes[topic]))
    assert all(target.keys() <= asked.members[id].topics for id, target in targets.items())
    assert all(all(target.values()) for target in targets.values()), "no topic without a partition"


GROUPS = st.lists(st.sets(st.sampled_from((T, U))).map(frozenset), min_size=1, max_size=7)


@given(st.sampled_from(sorted(ASSIGNORS)), GROUPS, GROUPS, st.integers(0, 9), st.integers(0, 9))
def test_each_partition_goes_to_one_subscriber(
    name: str, first: list[frozenset[bytes]], then: list[frozenset[bytes]], t: int, u: int
) -> None:
    asked = order({f"m{n}": topics for n, topics in enumerate(first)}, {T: t, U: u})
    before = ASSIGNORS[name](asked)
    check(asked, before)
    asked = order({f"m{n}": topics for n, topics in enumerate(then)}, {T: u, U: t}, before)
    check(asked, ASSIGNORS[name](asked))


@given(GROUPS, st.integers(0, 20), st.integers(0, 20))
def test_uniform_leaves_no_partition_that_could_go_to_a_member_with_two_fewer(
    wishes: list[frozenset[bytes]], t: int, u: int
) -> None:
    asked = order({f"m{n}": topics for n, topics in enumerate(wishes)}, {T: t, U: u})
    targets = ASSIGNORS["uniform"](asked)
    load = {id: sum(map(len, target.values())) for id, target in targets.items()}
    for id, target in targets.items():
        for topic in target:
            for other, wish in asked.members.items():
                assert topic not in wish.topics or load[id] - load[other] < 2


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 40))
def test_uniform_moves_no_more_than_fairness_asks_for(first: int, then: int, size: int) -> None:
    before = ASSIGNORS["uniform"](alike(first, {T: size}))
    after = ASSIGNORS["uniform"](alike(then, {T: size}, before))
    assert loads(after)[-1] - loads(after)[0] <= 1
    if then >= first:
        least, more = divmod(size, then)
        keepable = sorted((sum(map(len, target.values())) for target in before.values()), reverse=True)
        quotas = [least + 1] * more + [least] * (then - more)
        kept = sum(min(have, quota) for have, quota in zip(keepable, quotas, strict=False))
        assert moves(before, after) == size - kept
    else:
        assert all(
            moves({id: before[id]}, after) == 0 for id in after if sum(map(len, before[id].values())) <= size // then
        ), "who may keep all keeps it"


def test_range_gives_ranges_in_the_order_of_instances_then_members() -> None:
    members = {"a": Wish(None, frozenset((T, U))), "z": Wish("1", frozenset((T,))), "b": Wish(None, frozenset((T, U)))}
    targets = ASSIGNORS["range"](ConsumerGroupSpec(members, {T: 5, U: 3}, {}))
    assert targets["z"] == {T: frozenset((0, 1))}
    assert targets["a"] == {T: frozenset((2, 3)), U: frozenset((0, 1))}
    assert targets["b"] == {T: frozenset((4,)), U: frozenset((2,))}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_two_topics_are_partitioned_alike_for_those_that_join_them(name: str) -> None:
    targets = ASSIGNORS[name](alike(3, {T: 6, U: 6}))
    assert loads(targets) == [4, 4, 4]
    if name == "range":
        assert all(target[T] == target[U] for target in targets.values())


def test_a_topic_that_shrank_or_went_is_taken_from_who_had_it() -> None:
    before = {"m0000": {T: frozenset(range(9)), U: frozenset((1,))}}
    assert ASSIGNORS["uniform"](alike(1, {T: 4}, before)) == {"m0000": {T: frozenset(range(4))}}
