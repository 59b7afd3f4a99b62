"""Groups that stand still, out of one look after another."""

from actors.page.live.troubles import Standing
from actors.why.groups import STANDS_MS, GroupSample

PART, OTHER = ("orders", 0), ("orders", 1)


def look(time_ms: int, committed: int, end: int = 100) -> dict[str, GroupSample]:
    """The group g, which has read everything of another partition."""
    return {"g": GroupSample(time_ms, 0, {PART: committed, OTHER: 5}, {PART: end, OTHER: 5})}


def test_a_group_stands_since_it_committed_last() -> None:
    standing = Standing()
    for time_ms, committed in ((0, 7), (5_000, 9), (10_000, 9), (5_000 + STANDS_MS - 1, 9)):
        standing.look(look(time_ms, committed))
        assert standing.found == ()
    for time_ms in (5_000 + STANDS_MS, 5_000 + 5 * STANDS_MS):
        standing.look(look(time_ms, 9))
        (one,) = standing.found
        assert (one.group, one.lag, one.stands_ms, one.partitions) == ("g", 91, time_ms - 5_000, ("orders-0",))
    standing.look(look(400_000, 10))
    assert standing.found == ()


def test_a_group_that_has_read_everything_or_is_gone_does_not_stand() -> None:
    standing = Standing()
    for time_ms in (0, STANDS_MS, 2 * STANDS_MS):
        standing.look(look(time_ms, 100))
        assert standing.found == ()
    standing.look(look(3 * STANDS_MS, 100, 200))
    assert standing.found == (), "what it lacks came just now"
    standing.look({})
    standing.look(look(9 * STANDS_MS, 100, 200))
    assert standing.found == (), "it is another one with that name"
