"""What a takeover would meet: what forbids it, what an operator should know, and how much there is.

This file alone decides whether a cluster can be taken over as it is. Rules:

1. Every reason is one sentence, which says what to do. All are told at once, REASONS_MAX of them.
2. What cannot be read forbids a takeover: rayft does not guess what a znode should have said.
3. What is only left behind is a notice.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import Any, NamedTuple

from actors.bridge import tokens, znodes
from actors.bridge.asks import Here
from actors.bridge.reading import Snapshot
from actors.bridge.subjects import rules, settings
from actors.bridge.subjects.brokers import broker, listeners
from actors.bridge.subjects.topics import Topic, partition, state_path, topic
from actors.bridge.znodes import BadZnode, field, fields, number
from actors.controller.brokers.zookeeper_brokers import LiveBroker
from actors.controller.principals.delegation_tokens import TOKENS_MAX
from actors.controller.principals.scram_credentials import KIND as SCRAM
from actors.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION, TRANSACTION_VERSION
from actors.metadata.image import Image
from actors.metadata.ops import EntitySet, Op
from actors.metadata.topic_names import METADATA_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC

REASONS_MAX = 50
AT_ONCE = 500
FORMAT = "message.format.version"
OLD_FORMATS = ("0.8", "0.9", "0.10")
"""Message formats before v2: batches that rayft's brokers do not read."""
PARTITION_SETTINGS = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
}
"""The topics of coordinators, each with the setting by which brokers of 2.8 say, from their start on, how many
partitions it has."""
UNDER_WAY = "/migration is there: Apache Kafka's own controllers have begun to take this cluster over (KIP-866)."
COORDINATED = (TRANSACTION_VERSION, GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION)
_EMPTY = Image()


class Findings(NamedTuple):
    """The result of the checks: whether the cluster can be taken over, and what is there."""

    cluster_id: str
    refusals: list[str]
    """The reasons why the cluster cannot be taken over; empty: it can."""
    notices: list[str]
    brokers: list[LiveBroker]
    listeners: list[str]
    """The names of the listeners that every broker has: a controller needs one of each."""
    topics: int
    partitions: int
    rules: int
    users: int
    controller: int
    """The broker that is the controller now; -1: none."""
    controller_epoch: int
    credentials: list[EntitySet]
    """The credentials of users that log in with SCRAM."""
    tokens: int
    """How many delegation tokens there are."""


def findings(snapshot: Snapshot, controllers: Collection[int] = (), again: bool = False) -> Findings:
    """Judge what was read. `controllers`: ids of our quorum. `again`: the log has taken this cluster over already, so
    entries of our controllers and topics that are being deleted may be left of that."""
    steps = judged(snapshot, controllers, again)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Findings = end.value
            notices = list(_notices(snapshot, found.brokers, [topic(*one) for one in _readable(snapshot)]))
            return found._replace(notices=notices)


def judged(
    snapshot: Snapshot, controllers: Collection[int] = (), again: bool = False
) -> Generator[None, None, Findings]:
    """Judge what was read, as `findings` does but without notices, in steps of AT_ONCE znodes: a controller has others
    to answer meanwhile."""
    refusals: list[str] = []
    present = [
        one
        for one in _sound(refusals, broker, snapshot.below(znodes.BROKER_IDS))
        if one.id not in controllers  # the entry that the active controller makes for itself
    ]
    read = yield from _in_steps(_sound(refusals, topic, snapshot.below(znodes.TOPICS)))
    states = (
        (path, znode, replicas)
        for one in read
        for place, replicas in one.replicas.items()
        if (znode := snapshot.get(path := state_path(one.name, place))) is not None
    )
    yield from _in_steps(None for _ in _sound(refusals, partition, states))
    changes = _sound(refusals, lambda entity: _changes(snapshot, entity), ((one,) for one in snapshot.entities()))
    credentials = yield from _in_steps(
        [op for op in ops if isinstance(op, EntitySet) and op.kind == SCRAM] for ops in changes
    )

    def single(read_one: Callable[[Snapshot], Any], default: Any) -> Any:
        return next(_sound(refusals, read_one, [(snapshot,)]), default)

    single(next_producer_id, 0)
    epoch, now, id = single(controller_epoch, 0), single(holder, -1), single(cluster_id, "")
    yield from _in_steps(None for _ in _sound(refusals, tokens.token, snapshot.below(znodes.TOKENS)))
    ruled = yield from _in_steps(len(found) for found in _sound(refusals, rules.rules, snapshot.rule_znodes()))
    refusals += _reasons(snapshot, present, read, controllers, again)
    more = yield from _in_steps(list(_topic_reasons(one, snapshot)) for one in read)
    refusals += (reason for some in more for reason in some)
    users = {entity.split("/")[1] for entity in snapshot.entities() if entity.startswith("users/")}
    return Findings(
        id,
        refusals[:REASONS_MAX],
        [],
        present,
        listeners(present),
        len(read),
        sum(len(one.replicas) for one in read),
        sum(ruled),
        len(users - {settings.DEFAULT}),
        now,
        epoch,
        [op for ops in credentials for op in ops],
        len(snapshot.children(znodes.TOKENS)),
    )


def _in_steps(found: Iterable[Any]) -> Generator[None, None, list[Any]]:
    every: list[Any] = []
    for place, one in enumerate(found):
        every.append(one)
        if place % AT_ONCE == AT_ONCE - 1:
            yield
    return every


def _readable(snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    for path, znode in snapshot.below(znodes.TOPICS):
        for _ in _sound([], topic, [(path, znode)]):
            yield path, znode


def fits(snapshot: Snapshot, here: Here) -> Iterator[str]:
    """Reasons why the ensemble does not hold the cluster that the log has taken over. It is checked in every session,
    before anything is claimed: a connect string may lead elsewhere, and an ensemble may have been restored."""
    try:
        id = cluster_id(snapshot)
    except BadZnode as error:
        yield f"{error}: see rayft.bridge.zookeeper.connect."
        return
    if id != here.cluster_id:
        yield (
            f"the ZooKeeper cluster has the id {id} and this quorum {here.cluster_id}: give "
            f"rayft.bridge.zookeeper.connect the ensemble and the chroot of the cluster that was taken over."
        )
    if snapshot.get(znodes.MIGRATION) is not None:
        yield UNDER_WAY
    present = [one for one in _sound([], broker, snapshot.below(znodes.BROKER_IDS)) if one.id not in here.controllers]
    ours = {one.name for one in here.endpoints}
    taken = {one.id for one in here.image.brokers() if not one.zookeeper} & {one.id for one in present}
    if taken:
        yield f"broker {min(taken)} in ZooKeeper has the id of a broker of rayft: stop one of them."
    if present and ours and not ours & set(listeners(present)):
        yield f"the controllers have the listeners {', '.join(sorted(ours))}, and no broker has one of these names."


def unreadable(image: Image) -> Iterator[str]:
    """Reasons against a takeover out of the features under which coordinators write what brokers in ZooKeeper mode
    cannot read: a broker of 2.8 or 3.3 that comes to lead such a partition of __consumer_offsets or __transaction_state
    loads nothing of it."""
    for name in COORDINATED:
        if level := image.feature(name):
            yield (
                f"{name} is {level}, and brokers in ZooKeeper mode cannot read what coordinators write under it: it has to "
                f"be 0 until ZooKeeper is let go."
            )


def _sound(refusals: list[str], read: Callable[..., Any], found: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """What `read` makes of each entry of `found`; the reason why an entry cannot be read is added to `refusals`."""
    for arguments in found:
        try:
            yield read(*arguments)
        except BadZnode as error:
            refusals.append(f"{error}.")


def _changes(snapshot: Snapshot, entity: str) -> list[Op]:
    return settings.differences(_EMPTY, entity, _settings(snapshot, entity))


def controller_epoch(snapshot: Snapshot) -> int:
    """The number in /controller_epoch; 0: there has been no controller. Raises BadZnode."""
    znode = snapshot.get(znodes.CONTROLLER_EPOCH)
    return 0 if znode is None else number(znodes.CONTROLLER_EPOCH, znode.data.decode("ascii", "replace"), "its content")


def holder(snapshot: Snapshot) -> int:
    """The id in /controller; -1: there is no controller. Raises BadZnode."""
    znode = snapshot.get(znodes.CONTROLLER)
    if znode is None:
        return -1
    return number(znodes.CONTROLLER, fields(znodes.CONTROLLER, znode).get("brokerid"), "brokerid")


def next_producer_id(snapshot: Snapshot) -> int:
    """The first producer id that no broker has taken from ZooKeeper. Raises BadZnode."""
    znode = snapshot.get(znodes.PRODUCER_IDS)
    if znode is None or not znode.data:
        return 0
    path = znodes.PRODUCER_IDS
    return number(path, fields(path, znode).get("block_end"), "block_end", (1 << 62)) + 1


def cluster_id(snapshot: Snapshot) -> str:
    """The id of the cluster. Raises BadZnode."""
    znode = snapshot.get(znodes.CLUSTER_ID)
    if znode is None:
        raise BadZnode(znodes.CLUSTER_ID, "is not there: no broker was ever here, or the chroot is wrong")
    return str(field(znodes.CLUSTER_ID, fields(znodes.CLUSTER_ID, znode), "id", str))


def _reasons(
    snapshot: Snapshot, present: list[LiveBroker], read: list[Topic], controllers: Collection[int], again: bool
) -> Iterator[str]:
    if not present:
        yield "no broker is registered in /brokers/ids: start the cluster's brokers first."
    is_ours = again or _held(snapshot, controllers)
    # A broker that has seen the entry of one that holds may have placed a new topic on it (`following.without_controllers`).
    placed = (one for one in read if not is_ours or snapshot.get(state_path(one.name, 0)) is not None)
    named = {id for one in placed for replicas in one.replicas.values() for id in replicas} & set(controllers)
    there = {int(name) for name in snapshot.children(znodes.BROKER_IDS) if name.isdigit()} & set(controllers)
    if named or (there and not is_ours):
        yield f"broker {min(named or there)} has the id of a controller of rayft: give the controllers other ids."
    if present and not listeners(present):
        yield "the brokers have no listener name in common, so no controller can be reached by all of them."
    if snapshot.get(znodes.REASSIGN) is not None:
        yield "a reassignment is under way (/admin/reassign_partitions): wait until it has ended."
    if snapshot.children(znodes.DELETE_TOPICS) and not again:
        name = snapshot.children(znodes.DELETE_TOPICS)[0]
        yield f"topic {name} is being deleted (/admin/delete_topics): wait until it is gone."
    if snapshot.get(znodes.MIGRATION) is not None:
        yield UNDER_WAY
    if (held := len(snapshot.children(znodes.TOKENS))) > TOKENS_MAX:
        yield f"there are {held} delegation tokens, and rayft has {TOKENS_MAX} at most: let some of them expire."
    folded: dict[str, str] = {}
    for one in read:
        other = folded.setdefault(one.name.replace(".", "_"), one.name)
        if other != one.name:
            yield f"topics {other} and {one.name} differ only in '.' and '_': rayft allows one of them. Delete the other."


def _held(snapshot: Snapshot, controllers: Collection[int]) -> bool:
    """Whether one of these controllers is in /controller already."""
    try:
        return holder(snapshot) in controllers
    except BadZnode:
        return False


def _topic_reasons(one: Topic, snapshot: Snapshot) -> Iterator[str]:
    if not one.id:
        yield (
            f"topic {one.name} has no topic id: the controller's inter.broker.protocol.version is older than 2.8. Raise it "
            f"to 2.8 or later on every broker."
        )
    if any(one.adding.values()) or any(one.removing.values()):
        yield f"topic {one.name} is being reassigned: wait until that has ended, or cancel it."
    if one.name in METADATA_TOPICS:
        yield f"topic {one.name} has the name of the metadata log: no topic can have it."
    try:
        text = _settings(snapshot, f"topics/{one.name}").get(FORMAT, "")
    except BadZnode:
        return
    if ".".join(text.split(".")[:2]) in OLD_FORMATS:
        yield f"topic {one.name} has {FORMAT}={text}: raise it to 2.8, and let old records be deleted or compacted."


def _notices(snapshot: Snapshot, present: list[LiveBroker], read: list[Topic]) -> Iterator[str]:
    ids = {one.id for one in present}
    away = sorted({id for one in read for replicas in one.replicas.values() for id in replicas} - ids)
    if away:
        who = f"broker{'s' if len(away) > 1 else ''} {', '.join(map(str, away))}"
        yield f"{who} with replicas not there: others lead their partitions, as far as others are in sync."
    unled = sum(
        1
        for one in read
        for place, replicas in one.replicas.items()
        if not ids & set(_isr(snapshot, one.name, place, replicas))
    )
    if unled:
        yield f"{unled} partitions have no live broker in their ISR: they stay without a leader until one is back."
    missing = {OFFSETS_TOPIC, TRANSACTIONS_TOPIC} - {one.name for one in read}
    for name in sorted(missing):
        setting = PARTITION_SETTINGS[name]
        yield f"{name} is not there yet: give rayft's nodes the old brokers' {setting}, which both sides have to agree on."
    if held := len(snapshot.children(znodes.TOKENS)):
        yield (
            f"there are {held} delegation tokens: {tokens.SECRET} of every node has to be what the old brokers have, whose "
            f"older name is {tokens.OLD_SECRET}. ZooKeeper does not say whether it is."
        )


def _isr(snapshot: Snapshot, name: str, place: int, replicas: tuple[int, ...]) -> tuple[int, ...]:
    path = state_path(name, place)
    znode = snapshot.get(path)
    try:
        return replicas if znode is None else partition(path, znode, replicas).isr
    except BadZnode:
        return replicas


def _settings(snapshot: Snapshot, entity: str) -> settings.Settings:
    path = settings.path_of(entity)
    return settings.settings(path, snapshot.get(path))
