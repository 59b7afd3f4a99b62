"""The transactions of a claim, one by one: what they check, and what they leave for the next controller."""

from typing import Any

from actors.bridge import claim, znodes
from actors.bridge.asks import Claim, Here, Look, Make
from actors.bridge.reading import Snapshot
from actors.bridge.znodes import AGREED, BRIDGE, CLAIMED, CONTROLLER, CONTROLLER_EPOCH, WANTED
from actors.metadata.image import Image
from actors.ports.zookeeper import Change, Check, Create, Delete, Write, Znode

HOLDER = b'{"version":1,"brokerid":2,"timestamp":"5"}'


def here() -> Here:
    return Here(Image(), 7, "cluster", (7,), ())


def there(**found: Znode) -> Snapshot:
    paths = {"epoch": CONTROLLER_EPOCH, "holder": CONTROLLER, "bridge": BRIDGE, "claimed": CLAIMED, "agreed": AGREED}
    return Snapshot({paths[name]: znode for name, znode in found.items()}, {})


def ran(job: Any, *answers: Any) -> tuple[list[Change], Any]:
    """The changes that a job asks for, and what it returns."""
    changes: list[Change] = []
    left = list(answers)
    try:
        asked = next(job)
        while True:
            if isinstance(asked, Make):
                changes += asked.changes
                asked = job.send(())
            else:
                assert isinstance(asked, Look)
                asked = job.send(left.pop(0))
    except StopIteration as end:
        return changes, end.value


def test_the_first_claim_of_a_cluster_makes_what_is_not_there() -> None:
    me = here()
    changes, made = ran(claim.claim(me, there()))
    assert [type(one) for one in changes] == [Create] * 5
    assert [one.path for one in changes] == [CONTROLLER_EPOCH, CONTROLLER, BRIDGE, AGREED, CLAIMED]
    assert made == me.claim == Claim(1, 0) and not me.has_bases


def test_a_claim_holds_only_if_nothing_has_changed_since_it_was_read() -> None:
    me = here()
    found = there(epoch=Znode(b"4", version=9), holder=Znode(HOLDER, version=3, ephemeral=True), bridge=Znode(b""))
    changes, made = ran(claim.claim(me, found))
    assert changes[:3] == [Write(CONTROLLER_EPOCH, b"5", 9), Delete(CONTROLLER, 3), changes[2]]
    assert isinstance(changes[2], Create) and not changes[2].ephemeral, (
        "no broker takes its place when the session ends"
    )
    assert made == Claim(5, 10)
    persistent = there(epoch=Znode(b"4", version=9), holder=Znode(HOLDER, version=3), bridge=Znode(b""))
    changes, _ = ran(claim.claim(here(), persistent))
    assert isinstance(changes[1], Write) and (changes[1].path, changes[1].version) == (CONTROLLER, 3)


def test_a_claim_behind_another_controller_is_none_of_the_chain_before_it_is_mended() -> None:
    me = here()
    found = there(epoch=Znode(b"6"), claimed=Znode(b"4"), agreed=Znode(b"4"))
    assert not claim.is_unbroken(found) and claim.last_claimed(found) == 4
    changes, _ = ran(claim.claim(me, found, chained=False))
    assert not {CLAIMED, AGREED} & {one.path for one in changes} and me.has_bases
    mended, _ = ran(claim.mended(me), [Znode(b"4", version=1), Znode(b"4", version=2)])
    assert mended == [Check(CONTROLLER_EPOCH, 1), Write(AGREED, b"7"), Write(CLAIMED, b"7")]


def test_what_was_agreed_on_counts_if_it_was_kept_up_to_the_claim_before() -> None:
    for agreed, kept in ((b"4", True), (b"3", False), (b"", False)):
        me = here()
        found = there(epoch=Znode(b"4"), claimed=Znode(b"4"), agreed=Znode(agreed))
        changes, _ = ran(claim.claim(me, found))
        assert claim.is_unbroken(found) and me.has_bases is kept
        assert [one.data for one in changes if isinstance(one, Write) and one.path == AGREED] == [b"5" if kept else b""]


def test_what_cannot_be_read_proves_no_chain() -> None:
    for znode in (Znode(b"x"), Znode(b"")):
        assert claim.last_claimed(there(claimed=znode)) == -1
    assert claim.last_claimed(there(bridge=Znode(b'{"version":1,"controller_epoch":3}'))) == 3, "as rayft 1.0 noted it"
    assert claim.last_claimed(there()) == claim.last_claimed(there(bridge=Znode(b"{"))) == -1


def test_changes_are_made_in_portions_each_of_which_checks_the_claim() -> None:
    me = here()
    me.claim = Claim(5, 10)
    many = [Delete(f"/a{number}") for number in range(claim.CHANGES_MAX + 1)]
    first, second = list(claim.made(me, many))
    for one, wanted in ((first, many[:-1]), (second, many[-1:])):
        assert one.changes == [Check(CONTROLLER_EPOCH, 10), *wanted]
    me.request_bytes = 1_000
    large = [Write("/a", b"x" * 300), Write("/b", b"x" * 300), Write("/c", b"x" * 5_000)]
    assert [one.changes[1:] for one in claim.made(me, large)] == [[one] for one in large], (
        "one is asked for however large"
    )
    assert list(claim.made(me, [])) == []


def test_a_controller_that_was_replaced_knows_it_by_the_version() -> None:
    me = here()
    mine = b'{"version":1,"brokerid":7,"timestamp":"5"}'
    assert not claim.is_ours(me, there(epoch=Znode(b"5", version=10), holder=Znode(mine)))
    me.claim = Claim(5, 10)
    assert claim.is_ours(me, there(epoch=Znode(b"5", version=10), holder=Znode(mine)))
    assert not claim.is_ours(me, there(epoch=Znode(b"6", version=11), holder=Znode(mine)))
    assert not claim.is_ours(me, there(epoch=Znode(b"5", version=10), holder=Znode(HOLDER)))
    assert not claim.is_ours(me, there(holder=Znode(mine)))


def test_what_the_operator_wants() -> None:
    assert claim.wanted(Snapshot({WANTED: Znode(b"back")}, {})) == "back" and claim.wanted(there()) == ""
    assert set(claim.wanted(Snapshot({WANTED: Znode(b"\xff")}, {}))) == {"\ufffd"}


def test_the_note_has_the_newest_writes_only() -> None:
    me = here()
    me.claim = Claim(5, 10)
    wrote = {znodes.TOPICS: {f"t{number}": number for number in range(claim.WROTE_NOTED_MAX + 5)}, znodes.CONFIG: {}}
    noted = znodes.fields(BRIDGE, Znode(claim.note(me, wrote)))
    assert noted["controller_epoch"] == 5 and list(noted["wrote"]) == [znodes.TOPICS]
    names = list(noted["wrote"][znodes.TOPICS])
    assert (len(names), names[0]) == (claim.WROTE_NOTED_MAX, "t5")
