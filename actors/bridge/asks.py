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
    """Ask to read znodes; the results come in the same order."""

    reads: Sequence[Read]
    watch: bool = True


class Make(NamedTuple):
    """Ask to change znodes, all or none; the results come in the same order."""

    changes: Sequence[Change]


class Apply(NamedTuple):
    """Ask to write ops into the metadata log. Those of an inner list become one batch."""

    ops: Sequence[Any]


class Settle(NamedTuple):
    """Ask to wait until all that has been applied so far is committed."""


class Follow(NamedTuple):
    """Report all brokers that ZooKeeper has."""

    brokers: Sequence[LiveBroker]


class Become(NamedTuple):
    """Report something that leads to another stage."""

    what: Happens


class Hold(NamedTuple):
    """Report that ZooKeeper has this controller as the controller under this epoch, so that brokers may be told. None:
    they may not."""

    epoch: int | None


class Tell(NamedTuple):
    """Ask to tell the operator a sentence."""

    text: str
    error: bool = False


class TellAgain(NamedTuple):
    """Ask to tell a broker everything once more, since a directory of it may have failed."""

    broker: int


class End(NamedTuple):
    """Ask whether all brokers in ZooKeeper mode have given up a topic that is deleted; those that have not are told."""

    what: Ending


class Pause(NamedTuple):
    """Ask to go on after `ms`."""

    ms: int


Ask = Look | Make | Apply | Settle | Follow | Become | Hold | Tell | TellAgain | End | Pause
Job = Generator[Ask, Any, Any]


OneSubject = Callable[["Here", Any], Job]


def apart(what: str) -> Callable[[OneSubject], OneSubject]:
    """Marks a job that writes one subject, which `what` names. If the subject cannot be written, the operator is told,
    the sentence is kept (`Here.unwritten`), and what comes after the job goes on."""
    return _alone(what + " {verb} left out: {error}", lambda here: here.unwritten)


def taken(what: str) -> Callable[[OneSubject], OneSubject]:
    """Marks a job that takes one subject over from ZooKeeper, which `what` names. If that fails, the operator is told,
    and the sentence is kept (`Here.untaken`)."""
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
    """Run the jobs of `kept` once more, since an operator may have mended what was left out. What is left in `kept`
    afterwards still fails."""
    for job, subject in list(kept):
        yield from job(here, subject)


PLURAL = ("settings", "access rules", "states")


class Claim(NamedTuple):
    """The proof that this controller is in /controller."""

    epoch: int
    """The number in /controller_epoch."""
    version: int
    """The version of that znode: a controller that claims after this one changes it, and no write of this one is made
    then."""


class Here:
    """The controller that a job runs on, with what its session has found out."""

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
        """The metadata at the end of the log."""
        self.me = me
        self.cluster_id = cluster_id
        self.controllers = controllers
        """Ids of the quorum, `me` among them."""
        self.endpoints = endpoints
        """The addresses where brokers in ZooKeeper mode reach this controller."""
        self.has_token_key = has_token_key
        """Whether this node can make the secrets of delegation tokens."""
        self.claim: Claim | None = None
        self.wall_ms = 0
        self.deletes_topics = True
        """The setting delete.topic.enable of this node."""
        self.moved: dict[tuple[bytes, int], None] = {}
        """Partitions, by topic id and number, whose state has changed since it was written to ZooKeeper."""
        self.unswept: deque[tuple[bytes, int]] = deque()
        """Topics, by id with the first partition that is left, whose states have not been compared in this session."""
        self.since = 0
        """The transaction of rayft's claim before this one: what others have written later may not be in the log. 0:
        the claim is not known, or the log has all of it."""
        self.agreed: dict[str, Mapping[bytes, bytes]] = {}
        """The bases (`bases.py`) that ZooKeeper does not have yet, by the path of their znode."""
        self.has_bases = False
        """Whether a subject without a base in ZooKeeper had no settings and no rules when both sides agreed last."""
        self.anew: set[str] = set()
        """Entity paths of topics that are new under their names: what ZooKeeper has belongs to the one before."""
        self.unbroken = False
        """Whether only rayft has claimed since the log took the cluster over: what ZooKeeper has and the log has not
        was deleted by rayft."""
        self.request_bytes = REQUEST_BYTES_MAX
        """The most bytes of a request; less than the default if ZooKeeper has closed the connection over smaller ones.
        """
        self.new_id = new_id
        """Makes a topic id."""
        self.unwritten: dict[tuple[OneSubject, Any], str] = {}
        """What the log has and ZooKeeper cannot have, or does not have since its znode cannot be read: job and subject
        -> the sentence that the operator was told."""
        self.untaken: dict[tuple[OneSubject, Any], str] = {}
        """What ZooKeeper has and the log cannot have, in the same form."""
        self.reads_broker_ids = False
        """Whether a job reads /brokers/ids, so that no other reads it meanwhile: the older list would count."""
        self.names: dict[bytes, str] = {}
        """Topic id -> name, of the topics that ZooKeeper has."""
        self.handled: dict[str, int] = {}
        """Path of a folder of notifications -> number of the newest that was handled."""
        self.given_back = 0
        """How many partition states have been written for the old controller, while the cluster is handed back."""
        self.wrote: dict[str, dict[str, int]] = {}
        """The writes of rayft whose notifications may not have been handled yet, oldest first: path of a folder of
        notifications -> subject -> a number by which the newest write is known again."""

    def usable(self) -> frozenset[int]:
        """The brokers that may lead."""
        return frozenset(broker.id for broker in self.image.unfenced_brokers())


def op_groups(groups: Sequence[Sequence[Op]]) -> Apply:
    """The ask to write groups of ops, each of which becomes visible at once."""
    return Apply([list(group) for group in groups if group])
