"""The assignor of share groups: everything is assigned, evenly, and what a member has stays as far as that allows."""

from hypothesis import given
from hypothesis import strategies as st

from actors.broker.groups.share.assignor import ShareGroupSpec, simple
from actors.broker.groups.share.state import Target

T, U, V = (bytes([number]) * 16 for number in (1, 2, 3))


@st.composite
def orders(draw: st.DrawFn) -> ShareGroupSpec:
    partitions = {topic: frozenset(range(draw(st.integers(0, 6)))) for topic in (T, U, V)}
    same = draw(st.booleans())
    topics = st.sets(st.sampled_from((T, U, V)), min_size=1).map(frozenset)
    all_of = draw(topics)
    subscribed = {f"m{number}": all_of if same else draw(topics) for number in range(draw(st.integers(0, 8)))}
    present = {
        member: {
            topic: held for topic in (T, U, V) if (held := frozenset(draw(st.sets(st.integers(0, 7), max_size=4))))
        }
        for member in draw(st.sets(st.sampled_from([*subscribed, "gone"])))
    }
    return ShareGroupSpec(subscribed, partitions, present)


def size(target: Target) -> int:
    return sum(map(len, target.values()))


@given(orders())
def test_every_partition_has_a_member_and_nobody_gets_what_it_does_not_ask_for(order: ShareGroupSpec) -> None:
    targets = simple(order)
    assert targets.keys() == order.subscribed.keys()
    for member, target in targets.items():
        assert target.keys() <= order.subscribed[member] and all(target.values())
        assert all(numbers <= order.partitions[topic] for topic, numbers in target.items())
    for topic, numbers in order.partitions.items():
        if any(topic in topics for topics in order.subscribed.values()):
            assert frozenset().union(*(target.get(topic, frozenset()) for target in targets.values())) == numbers


@given(orders())
def test_what_is_even_already_stays_as_it_is(order: ShareGroupSpec) -> None:
    targets = simple(order)
    assert simple(order._replace(present=targets)) == targets


@given(orders())
def test_two_members_differ_by_one_at_most_where_all_subscribe_to_the_same(order: ShareGroupSpec) -> None:
    if len(set(order.subscribed.values())) == 1:
        sizes = [size(target) for target in simple(order).values()]
        assert max(sizes) - min(sizes) <= 1


def test_with_more_members_than_partitions_each_member_has_one() -> None:
    members = {f"m{number}": frozenset((T,)) for number in range(5)}
    targets = simple(ShareGroupSpec(members, {T: frozenset((0, 1))}, {}))
    assert [size(target) for target in targets.values()].count(0) == 0


def test_each_topic_is_spread_among_those_who_subscribe_to_it() -> None:
    members = {"a": frozenset((T,)), "b": frozenset((U,)), "c": frozenset((T, U))}
    four = frozenset(range(4))
    targets = simple(ShareGroupSpec(members, {T: four, U: four}, {}))
    assert {member: size(target) for member, target in targets.items()} == {"a": 2, "b": 2, "c": 4}


def test_a_member_that_comes_takes_only_what_is_due_to_it() -> None:
    members = {"a": frozenset((T,)), "b": frozenset((T,))}
    before = {"a": {T: frozenset(range(4))}}
    targets = simple(ShareGroupSpec(members, {T: frozenset(range(4))}, before))
    assert targets["a"][T] < before["a"][T] and size(targets["a"]) == 2
