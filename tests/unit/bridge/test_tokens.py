"""Delegation tokens between ZooKeeper and the log: taken over, followed, written back with Apache Kafka's bytes."""

import json
from typing import Any

import pytest

from actors.bridge import tokens, znodes
from actors.bridge.asks import Apply, Look, Make
from actors.bridge.checks import findings
from actors.bridge.stages import Stage
from actors.bridge.tokens import Token, token
from actors.bridge.znodes import BadZnode
from actors.controller.principals import delegation_tokens
from actors.metadata.ops import EntityGone, EntitySet
from actors.ports.zookeeper import Children, Create, Rejected, Znode
from tests.unit.bridge.played import Bridge, add_topic, cluster
from tests.unit.bridge.test_znodes import looked

ID, OTHER = "AAECAwQFBgcICQoLDA0ODw", "bm90aGluZyBvZiBhIGtpbg"
PATH = f"/delegation_token/tokens/{ID}"
HOUR_MS = 3_600_000
ISSUED_MS, LAST_MS, EXPIRES_MS = 1637700000000, 1638304800000, 1637786400000
ALICE = Token("User:alice", "User:alice", (), ISSUED_MS, LAST_MS, EXPIRES_MS)
WRITTEN = {
    "of 2.8.2": (
        ALICE,
        1,
        b'{"issueTimestamp":1637700000000,"renewers":[],"tokenId":"AAECAwQFBgcICQoLDA0ODw","owner":"User%3Aalice",'
        b'"expiryTimestamp":1637786400000,"maxTimestamp":1638304800000,"version":1}',
    ),
    "of 2.8.2, with names that are encoded": (
        ALICE._replace(owner="User:o=b ~*+é/x", requester="User:o=b ~*+é/x", renewers=("User:carol", "User:bob")),
        1,
        b'{"issueTimestamp":1637700000000,"renewers":["User%3Acarol","User%3Abob"],"tokenId":"AAECAwQFBgcICQoLDA0ODw",'
        b'"owner":"User%3Ao%3Db%20%7E%2A%2B%C3%A9%2Fx","expiryTimestamp":1637786400000,"maxTimestamp":1638304800000,'
        b'"version":1}',
    ),
    "of 3.9.1": (
        ALICE._replace(requester="User:dave"),
        3,
        b'{"issueTimestamp":1637700000000,"renewers":[],"tokenRequester":"User%3Adave","tokenId":"AAECAwQFBgcICQoLDA0ODw",'
        b'"owner":"User%3Aalice","expiryTimestamp":1637786400000,"maxTimestamp":1638304800000,"version":3}',
    ),
}
"""What DelegationTokenManager of these releases makes of a token."""


def op(found: Token = ALICE, id: str = ID) -> EntitySet:
    """A token as a record has it."""
    made = tokens.difference(Bridge(cluster()).image, id, Znode(tokens.data(id, found)))
    assert isinstance(made, EntitySet)
    return made


def put(zookeeper: Any, found: Token | None = ALICE, id: str = ID, version: int = 1, notice: bool = True) -> None:
    """What a broker does with a token: its znode first, then the notification. None: it is ended."""
    if found is None:
        zookeeper.remove(tokens.path_of(id))
    else:
        zookeeper.put(tokens.path_of(id), tokens.data(id, found, version))
    if notice:
        notify(zookeeper, id)


def notify(zookeeper: Any, content: str) -> None:
    if zookeeper.get(znodes.TOKEN_CHANGES) is None:
        zookeeper.put(znodes.TOKEN_CHANGES, b"")
    made = zookeeper.multi(0, [Create(f"{znodes.TOKEN_CHANGES}/token_change_", content.encode(), sequential=True)])
    assert not isinstance(made, Rejected)


def notices(zookeeper: Any) -> list[bytes | None]:
    names = zookeeper.names(znodes.TOKEN_CHANGES) or ()
    return [zookeeper.get(f"{znodes.TOKEN_CHANGES}/{name}") for name in names]


def begun(zookeeper: Any = None, watch: bool = True, **more: Any) -> Bridge:
    bridge = Bridge(cluster() if zookeeper is None else zookeeper, **more)
    bridge.take_over()
    assert bridge.stage is Stage.DRIVING, bridge.told
    if watch:
        bridge.watch()
    return bridge


def have(bridge: Bridge, id: str = ID) -> Token | None:
    return tokens.here(bridge.image, id)


# ---- the znode


@pytest.mark.parametrize("name", WRITTEN)
def test_a_token_is_read_and_written_with_the_bytes_of_apache_kafka(name: str) -> None:
    found, version, data = WRITTEN[name]
    assert token(PATH, Znode(data)) == found
    assert tokens.data(ID, found, version) == data


def test_who_has_asked_for_a_token_is_not_lost_where_2_8_has_no_field_for_it() -> None:
    for_carol = ALICE._replace(owner="User:carol")
    data = tokens.data(ID, for_carol)
    assert json.loads(data)["version"] == 1 and token(PATH, Znode(data)) == for_carol
    zookeeper = cluster()
    put(zookeeper, for_carol)
    bridge = begun(zookeeper)
    renewed = json.loads(data) | {"expiryTimestamp": EXPIRES_MS + HOUR_MS}
    del renewed["tokenRequester"]  # a broker of 2.8 has renewed it
    zookeeper.put(PATH, json.dumps(renewed).encode())
    notify(zookeeper, ID)
    bridge.follow()
    assert have(bridge) == for_carol._replace(expires_ms=EXPIRES_MS + HOUR_MS)


GOOD = json.loads(WRITTEN["of 2.8.2"][2])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no JSON"),
        (b"\xed\xa0\x80", "is no JSON"),
        (b"[]", "holds no JSON object"),
        (b'"' + b"x" * (1 << 20), "1048576 at most"),
        (GOOD | {"version": 4}, "has the version"),
        (GOOD | {"version": True}, "has the version"),
        (GOOD | {"version": None}, "has the version"),
        (GOOD | {"tokenId": OTHER}, "the name of the znode"),
        (GOOD | {"owner": "alice"}, "must read User:name"),
        (GOOD | {"owner": "User:" + "x" * 1025}, "must read User:name"),
        (GOOD | {"owner": "User:"}, "must read User:name"),
        (GOOD | {"owner": 7}, "owner"),
        (GOOD | {"owner": "Group%3Aadmins"}, "of users only"),
        (GOOD | {"owner": "User:\ud800"}, "is no JSON"),
        (GOOD | {"renewers": "User%3Abob"}, "renewers"),
        (GOOD | {"renewers": [None]}, "as a renewer"),
        (GOOD | {"renewers": ["User:bob"] * 101}, "101 renewers"),
        (GOOD | {"tokenRequester": []}, "as tokenRequester"),
        (GOOD | {"maxTimestamp": -1}, "maxTimestamp"),
        (GOOD | {"maxTimestamp": 1 << 63}, "maxTimestamp"),
        (GOOD | {"expiryTimestamp": "1"}, "expiryTimestamp"),
        ({name: GOOD[name] for name in GOOD if name != "issueTimestamp"}, "lacks the field issueTimestamp"),
    ],
)
def test_a_token_that_is_not_as_it_must_be(content: Any, words: str) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(BadZnode, match=r"^znode /delegation_token/tokens/") as caught:
        token(PATH, Znode(data))
    assert words in str(caught.value)


def test_a_name_that_is_no_id_is_not_read() -> None:
    with pytest.raises(BadZnode, match="no id of a delegation token"):
        token(f"{znodes.TOKENS}/a b", Znode(WRITTEN["of 2.8.2"][2]))


# ---- before


def too_many(zookeeper: Any) -> None:
    for number in range(3):
        put(zookeeper, id=f"id{number}", notice=False)


def test_a_cluster_with_tokens_is_described_and_what_cannot_be_taken_over_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zookeeper = cluster()
    assert findings(looked(zookeeper)).tokens == 0
    put(zookeeper)
    found = findings(looked(zookeeper))
    assert found.refusals == [] and found.tokens == 1
    (notice,) = [one for one in found.notices if "delegation" in one]
    assert "there are 1 delegation tokens: delegation.token.secret.key of every node has to be" in notice
    zookeeper.put(tokens.path_of(OTHER), b"?")
    (reason,) = findings(looked(zookeeper)).refusals
    assert reason.startswith(f"znode {tokens.path_of(OTHER)}: is no JSON") and "?" not in reason
    zookeeper.remove(tokens.path_of(OTHER))
    monkeypatch.setattr("actors.bridge.checks.TOKENS_MAX", 2)
    too_many(zookeeper)
    assert any("4 delegation tokens, and rayft has 2 at most" in one for one in findings(looked(zookeeper)).refusals)


def test_a_controller_without_a_key_takes_tokens_over_and_says_what_they_need() -> None:
    zookeeper = cluster()
    put(zookeeper)
    bridge = Bridge(zookeeper)
    bridge.here.has_token_key = False
    bridge.take_over()
    assert have(bridge) == ALICE
    assert sum("this node has no delegation.token.secret.key" in line for line in bridge.told) == 1
    assert not any("has no delegation.token.secret.key" in line for line in begun(image=bridge.image, me=1002).told)


# ---- taken over


def test_tokens_are_taken_over_as_the_records_of_tokens_that_rayft_makes() -> None:
    zookeeper = cluster()
    renewed_by_bob = ALICE._replace(renewers=("User:bob",))
    put(zookeeper, renewed_by_bob)
    put(zookeeper, ALICE._replace(requester="User:dave"), OTHER, version=3)
    bridge = begun(zookeeper)
    assert have(bridge) == renewed_by_bob and have(bridge, OTHER) == ALICE._replace(requester="User:dave")
    assert dict(bridge.image.tokens[ID].fields)["token_id"] == ID
    assert delegation_tokens.expired(bridge.image.tokens[ID], EXPIRES_MS + 1)
    assert not any("changed in ZooKeeper" in line for line in bridge.told), "none is taken over a second time"


def test_many_tokens_are_taken_over_in_portions() -> None:
    zookeeper = cluster()
    zookeeper.put(znodes.TOKENS, b"")
    zookeeper.multi(0, [Create(tokens.path_of(f"t{n}"), tokens.data(f"t{n}", ALICE)) for n in range(1100)])
    bridge = Bridge(zookeeper)
    sizes: list[int] = []
    bridge.before = lambda ask: sizes.append(len(ask.ops)) if isinstance(ask, Apply) else None
    bridge.take_over()
    assert len(bridge.image.tokens) == 1100 and sorted(sizes)[-3:] == [100, 500, 500]


def test_tokens_that_were_ended_while_the_cluster_was_handed_back_do_not_come_back() -> None:
    zookeeper = cluster()
    put(zookeeper)
    put(zookeeper, id=OTHER)
    first = begun(zookeeper)
    zookeeper.put(znodes.WANTED, b"back")
    first.follow()
    assert first.stage is Stage.RETURNED and zookeeper.get(PATH) == WRITTEN["of 2.8.2"][2]
    zookeeper.remove(znodes.WANTED)
    put(zookeeper, None)
    second = begun(zookeeper, image=first.image, me=1002)
    assert have(second) is None and have(second, OTHER) == ALICE


# ---- followed


def test_tokens_that_brokers_make_renew_and_end_are_followed_once() -> None:
    bridge = begun()
    zookeeper = bridge.zookeeper
    put(zookeeper)  # the folder of notifications was not there yet
    bridge.follow()
    assert have(bridge) == ALICE
    put(zookeeper, ALICE._replace(expires_ms=EXPIRES_MS + HOUR_MS))
    put(zookeeper, id=OTHER)
    bridge.follow()
    assert have(bridge) == ALICE._replace(expires_ms=EXPIRES_MS + HOUR_MS) and have(bridge, OTHER) == ALICE
    put(zookeeper, None)
    bridge.follow()
    assert have(bridge) is None and have(bridge, OTHER) == ALICE
    assert json.loads(zookeeper.get(znodes.BRIDGE) or b"")["handled"][znodes.TOKEN_CHANGES] == 3
    bridge.apply(EntityGone("token", (OTHER,)))
    bridge.changed[znodes.TOKEN_CHANGES] = None
    bridge.follow()
    assert have(bridge, OTHER) is None, "no notification is obeyed twice"


def test_what_cannot_be_read_is_told_of_and_nothing_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = begun()
    zookeeper = bridge.zookeeper
    zookeeper.put(tokens.path_of("bad"), b"?")
    for content in ("bad", "no id/", "gone"):
        notify(zookeeper, content)
    put(zookeeper)
    bridge.follow()
    assert have(bridge) == ALICE and set(bridge.image.tokens) == {ID}
    assert sum("is not taken over: znode" in line for line in bridge.told) == 1
    assert sum("a notification is passed over" in line for line in bridge.told) == 1
    monkeypatch.setattr("actors.bridge.token_changes.TOKENS_MAX", 1)
    put(zookeeper, id=OTHER)
    put(zookeeper, ALICE._replace(expires_ms=EXPIRES_MS + 1))
    bridge.follow()
    assert set(bridge.image.tokens) == {ID} and any(
        "one more than the 1 that rayft has" in line for line in bridge.told
    )
    assert have(bridge) == ALICE._replace(expires_ms=EXPIRES_MS + 1), "the one that is there is followed"
    again = begun(zookeeper, image=bridge.image, me=1002)
    assert zookeeper.get(tokens.path_of("bad")) == b"?" and zookeeper.get(tokens.path_of(OTHER)) is not None
    assert set(again.image.tokens) == {ID}


# ---- written back


def test_tokens_are_written_back_with_the_bytes_and_the_notification_of_apache_kafka() -> None:
    bridge = begun()
    zookeeper = bridge.zookeeper
    bridge.apply(op())
    bridge.write("token", ID)
    assert zookeeper.get(PATH) == WRITTEN["of 2.8.2"][2]
    assert zookeeper.names(znodes.TOKEN_CHANGES) == ("token_change_0000000000",) and notices(zookeeper) == [ID.encode()]
    before = len(zookeeper.history)
    bridge.write("token", ID)
    assert len(zookeeper.history) == before, "what is there is not written again"
    bridge.apply(op(ALICE._replace(expires_ms=1)))
    bridge.write("token", ID)
    assert token(PATH, Znode(zookeeper.get(PATH) or b"")).expires_ms == 1
    bridge.apply(EntityGone("token", (ID,)))
    bridge.write("token", ID)
    assert zookeeper.get(PATH) is None and notices(zookeeper) == [ID.encode()] * 3
    bridge.write("token", ID)
    assert len(notices(zookeeper)) == 3


def test_a_znode_of_3_x_keeps_its_version() -> None:
    zookeeper = cluster()
    put(zookeeper, version=3)
    bridge = begun(zookeeper)
    bridge.apply(op(ALICE._replace(expires_ms=5)))
    bridge.write("token", ID)
    assert zookeeper.get(PATH) == tokens.data(ID, ALICE._replace(expires_ms=5), 3)
    assert b'"version":3' in (zookeeper.get(PATH) or b"") and b"tokenRequester" in (zookeeper.get(PATH) or b"")


def test_notifications_of_rayft_bring_nothing_back() -> None:
    bridge = begun()
    bridge.apply(op())
    bridge.write("token", ID)
    bridge.apply(EntityGone("token", (ID,)))  # it is in the log, and not yet in ZooKeeper
    bridge.follow()
    assert have(bridge) is None
    bridge.write("token", ID)
    bridge.follow()
    assert have(bridge) is None and bridge.zookeeper.get(PATH) is None and bridge.here.wrote == {}


def test_a_brokers_change_behind_one_of_rayft_is_taken_over() -> None:
    bridge = begun()
    bridge.apply(op())
    bridge.write("token", ID)
    put(bridge.zookeeper, ALICE._replace(expires_ms=9))
    bridge.follow()
    assert have(bridge) == ALICE._replace(expires_ms=9)
    bridge.apply(op(ALICE._replace(expires_ms=10)))

    def faster(ask: Any) -> None:
        if isinstance(ask, Make) and any(change.path == PATH for change in ask.changes):
            bridge.before = lambda ask: None
            put(bridge.zookeeper, ALICE._replace(expires_ms=11))

    bridge.before = faster
    with pytest.raises(Rejected):
        bridge.write("token", ID)
    bridge.follow()
    assert have(bridge) == ALICE._replace(expires_ms=11), "what was refused is not taken for a write of rayft"


def test_the_next_active_controller_goes_on_with_tokens() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1]])
    ended, renewed, theirs = "ended", "renewed", "theirs"
    put(zookeeper, id="kept")
    first = begun(zookeeper)
    for id in (ended, renewed):
        first.apply(op(id=id))
        first.write("token", id)
    # committed, and not written back before it ended; its own notifications are not handled either
    first.apply(EntityGone("token", (ended,)), op(ALICE._replace(expires_ms=7), renewed), op(id="made"))
    zookeeper.end(first.session)
    put(zookeeper, id=theirs)
    put(zookeeper, ALICE._replace(expires_ms=8), "kept")
    second = begun(zookeeper, image=first.image, me=1002)
    assert have(second, ended) is None and zookeeper.get(tokens.path_of(ended)) is None
    assert have(second, renewed) == ALICE._replace(expires_ms=7)
    assert have(second, theirs) == ALICE and have(second, "kept") == ALICE._replace(expires_ms=8)
    for id in ("made", renewed, theirs, "kept"):
        assert token(tokens.path_of(id), Znode(zookeeper.get(tokens.path_of(id)) or b"")) == have(second, id)
    assert set(notices(zookeeper)[-3:]) == {b"renewed", b"made", b"ended"}


def test_what_the_controller_before_wrote_in_its_last_moment_brings_nothing_back() -> None:
    first = begun()
    zookeeper = first.zookeeper
    second = Bridge(zookeeper, image=first.image, me=1002)

    def last_moment(ask: Any) -> None:
        if isinstance(ask, Make):  # the claim, for which everything was read
            second.before = lambda ask: None
            first.apply(op())
            first.write("token", ID)
            first.apply(EntityGone("token", (ID,)))

    second.before = last_moment
    second.take_over()
    assert second.stage is Stage.DRIVING and have(second) is None and zookeeper.get(PATH) is None


def test_a_token_that_is_made_while_everything_is_read_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = cluster()
    put(zookeeper, id=OTHER)
    read = zookeeper._read

    def made_behind(session: int, one: Any, watch: bool) -> Any:
        found = read(session, one, watch)
        if one == Children(znodes.TOKENS) and zookeeper.get("/controller_epoch") == b"8":
            monkeypatch.undo()
            put(zookeeper)
        return found

    monkeypatch.setattr(zookeeper, "_read", made_behind)
    bridge = begun(zookeeper)
    assert zookeeper._read == read and have(bridge) == ALICE


def test_tokens_of_a_cluster_in_which_none_was_ever_handled_are_taken_over() -> None:
    zookeeper = cluster()
    first = begun(zookeeper)
    put(zookeeper, notice=False)
    zookeeper.put(znodes.BRIDGE, b'{"version":1,"handled":{}}')
    second = begun(zookeeper, image=first.image, me=1002)
    assert have(second) == ALICE and zookeeper.get(PATH) is not None


def test_the_way_back_leaves_tokens_as_they_are_then() -> None:
    zookeeper = cluster()
    put(zookeeper, id="kept")
    bridge = begun(zookeeper)
    bridge.apply(op(), EntityGone("token", ("kept",)))  # committed, and not yet written back
    put(zookeeper, ALICE._replace(expires_ms=3), OTHER)  # and one that is not yet followed
    del bridge.changed[znodes.TOKEN_CHANGES]
    zookeeper.put(znodes.WANTED, b"back")
    bridge.follow()
    assert bridge.stage is Stage.RETURNED
    assert set(zookeeper.names(znodes.TOKENS) or ()) == {ID, OTHER}
    assert token(tokens.path_of(OTHER), Znode(zookeeper.get(tokens.path_of(OTHER)) or b"")).expires_ms == 3
    assert zookeeper.get(PATH) == WRITTEN["of 2.8.2"][2]


def test_a_token_that_a_broker_makes_while_both_sides_are_compared_stays() -> None:
    first = begun()
    zookeeper = first.zookeeper
    zookeeper.end(first.session)
    second = Bridge(zookeeper, image=first.image, me=1002)

    def made(ask: Any) -> None:
        if isinstance(ask, Look) and list(ask.reads) == [Children(znodes.TOKENS)]:
            second.before = lambda ask: None
            put(zookeeper)

    second.before = made
    second.take_over()
    second.watch()
    assert have(second) == ALICE and zookeeper.get(PATH) is not None


def test_a_note_of_many_writes_stays_small() -> None:
    bridge = begun()
    for number in range(150):
        bridge.apply(op(id=f"t{number}"))
        bridge.write("token", f"t{number}")
    noted = json.loads(bridge.zookeeper.get(znodes.BRIDGE) or b"")["wrote"][znodes.TOKEN_CHANGES]
    assert list(noted) == [f"t{number}" for number in range(50, 150)]
    assert len(bridge.here.wrote[znodes.TOKEN_CHANGES]) == 150
    bridge.follow()
    assert bridge.here.wrote == {}
