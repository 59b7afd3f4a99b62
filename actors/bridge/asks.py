"""What a job of the bridge asks of the controller that runs it.

A job is a generator: it yields asks and is sent their results. So the order of a takeover is written down in one place,
from the top to the bottom, and runs without a socket: in a node, in the simulator, in a test. What ZooKeeper refuses is
raised where the job waits for it (`Rejected`). A job whose session ends is dropped, and begun anew with the next
session.
"""

from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

from actors.bridge.stages import Happens
from actors.bridge.znodes import BadZnode
from actors.controller.brokers.zookeeper_brokers import LiveBroker
from actors.controller.pushes.pushes import Ending
from actors.metadata.image import Image
from actors.metadata.ops import EndPoint, Op
from actors.ports.zookeeper import REQUEST_BYTES_MAX, Change, Read, Unsendable


class Look(NamedTuple):
    """Read znodes; the results, in order."""

    reads: Sequence[Read]
    watch: bool = True


class Make(NamedTuple):
    """Change znodes, all or none; the results, in order."""

    changes: Sequence[Change]


class Apply(NamedTuple):
    """Write ops into the metadata log. Those of an inner list become one batch."""

    ops: Sequence[Any]


class Settle(NamedTuple):
    """Wait until all that has been applied so far is committed."""


class Follow(NamedTuple):
    """These are all brokers that ZooKeeper has."""

    brokers: Sequence[LiveBroker]


class Become(NamedTuple):
    """Something has happened that leads to another stage."""

    what: Happens


class Hold(NamedTuple):
    """ZooKeeper has this controller as the controller under this epoch: brokers may be told. None: they may not."""

    epoch: int | None


class Tell(NamedTuple):
    """A sentence for the operator."""

    text: str
    error: bool = False


class TellAgain(NamedTuple):
    """Tell a broker everything once more: a directory of it may have failed."""

    broker: int


class End(NamedTuple):
    """Whether all brokers in ZooKeeper mode have given up a topic that is deleted; those that have not are told."""

    what: Ending


class Pause(NamedTuple):
    """Go on after a while."""

    ms: int


Ask = Look | Make | Apply | Settle | Follow | Become | Hold | Tell | TellAgain | End | Pause
Job = Generator[Ask, Any, Any]


OneSubject = Callable[["Here", Any], Job]


def apart(what: str) -> Callable[[OneSubject], OneSubject]:
    """A job that writes one subject, which `what` names: where it cannot be written, this is told and kept
    (`Here.unwritten`), and what comes after it goes on."""
    return _alone(what + " {verb} left out: {error}", lambda here: here.unwritten)


def taken(what: str) -> Callable[[OneSubject], OneSubject]:
    """The same for a job that takes one subject over from ZooKeeper (`Here.untaken`)."""
    return _alone(what + " {verb} not taken over: {error}", lambda here: here.untaken)


def _alone(sentence: str, kept: Callable[["Here"], dict[tuple[OneSubject, Any], str]]) -> Callable[..., OneSubject]:
    def made(job: OneSubject) -> OneSubject:
        @wraps(job)
        def alone(here: "Here", subject: Any) -> Job:
            key = (alone, subject)
            try:
                result = yield from job(here, subject)
            except (Unsendable, BadZnode) as error:
                verb = "are" if sentence.startswith(PLURAL) else "is"
                name = getattr(subject, "name", subject)
                kept(here)[key] = sentence.format(name, verb=verb, error=error)
                yield Tell(kept(here)[key], error=True)
                return None
            kept(here).pop(key, None)
            return result

        return alone

    return made


def again(here: "Here", kept: dict[tuple[OneSubject, Any], str]) -> Job:
    """Try once more what was left out: others may have mended it. What is left in `kept` then is so now."""
    for job, subject in list(kept):
        yield from job(here, subject)


PLURAL = ("settings", "access rules", "states")


class Claim(NamedTuple):
    """That this controller is in /controller."""

    epoch: int
    """What /controller_epoch says."""
    version: int
    """The version of that znode: whoever claims after this controller changes it, and no write of this one is made
    then."""


class Here:
    """The controller that a job runs on."""

    def __init__(
        self,
        image: Image,
        me: int,
        cluster_id: str,
        controllers: Collection[int],
        endpoints: Sequence[EndPoint],
        has_token_key: bool = True,
        new_id: Callable[[], bytes] = lambda: b"",
    ) -> None:
        self.image = image
        """At the end of the log."""
        self.me = me
        self.cluster_id = cluster_id
        self.controllers = controllers
        """Ids of the quorum, `me` among them."""
        self.endpoints = endpoints
        """Where brokers in ZooKeeper mode reach this controller."""
        self.has_token_key = has_token_key
        """Whether this node can make the secrets of delegation tokens."""
        self.claim: Claim | None = None
        self.wall_ms = 0
        self.deletes_topics = True
        """delete.topic.enable"""
        self.moved: dict[tuple[bytes, int], None] = {}
        """Partitions, by topic id and number, whose state has changed since it was written to ZooKeeper."""
        self.unswept: deque[tuple[bytes, int]] = deque()
        """Topics, by id with the first partition that is left, whose states have not been compared in this session."""
        self.since = 0
        """The transaction of rayft's claim before this one: what others have written later may not be in the log. 0: not
        known, or all of it is."""
        self.agreed: dict[str, Mapping[bytes, bytes]] = {}
        """Path of a znode -> its base (`bases.py`), of those that ZooKeeper does not have yet."""
        self.has_bases = False
        """Whether what has no base in ZooKeeper had no settings and no rules when both sides agreed last."""
        self.anew: set[str] = set()
        """Entity paths of topics that are new under their names: what ZooKeeper has belongs to the one before."""
        self.unbroken = False
        """Whether nobody but rayft has claimed since the log took the cluster over: what ZooKeeper has and the log has not
        was deleted by rayft."""
        self.request_bytes = REQUEST_BYTES_MAX
        """How large a request may be; less where ZooKeeper has closed the connection of smaller ones."""
        self.new_id = new_id
        """Makes a topic id."""
        self.unwritten: dict[tuple[OneSubject, Any], str] = {}
        """What the log has and ZooKeeper cannot have, or does not have since what is there cannot be read: job and subject
        -> the sentence that was told."""
        self.untaken: dict[tuple[OneSubject, Any], str] = {}
        """What ZooKeeper has and the log cannot have, in the same form."""
        self.looks_who_is_there = False
        """Whether a job reads /brokers/ids: no other reads it meanwhile, or what is older would count."""
        self.names: dict[bytes, str] = {}
        """Topic id -> name, of the topics that ZooKeeper has."""
        self.handled: dict[str, int] = {}
        """Path of a folder of notifications -> number of the newest that was handled."""
        self.given_back = 0
        """How many partitions' states have been written for the old controller, while the cluster is handed back."""
        self.wrote: dict[str, dict[str, int]] = {}
        """Path of a folder of notifications -> what rayft has written itself, oldest first, as long as the notifications
        of these writes may not have been handled: subject -> a number by which the newest write is known again."""

    def usable(self) -> frozenset[int]:
        """Brokers that may lead."""
        return frozenset(broker.id for broker in self.image.unfenced_brokers())


def op_groups(groups: Sequence[Sequence[Op]]) -> Apply:
    """Each group becomes visible at once."""
    return Apply([list(group) for group in groups if group])
