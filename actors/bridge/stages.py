"""How far a takeover is: the table of its stages on the active controller.

This file alone decides what may follow what. `docs/bridge.md` draws the table. Rules:

1. Before DRIVING nothing is told to a broker. From CLAIMING on no broker of the old cluster is its controller.
2. A session that is lost begins the way anew, up to where the log says that it was already: a cluster that was taken
   over once is claimed without being looked at.
3. While ZooKeeper is away, brokers are driven on as they were.
4. Another controller in /controller is answered by a claim with a higher epoch.
"""

from enum import Enum, IntEnum

from actors.metadata.image import Image
from actors.metadata.ops import EntitySet

KIND = "zk_migration"
FIELD = "zk_migration_state"


class Progress(IntEnum):
    """What the metadata log says of the takeover: Apache Kafka's ZkMigrationState (KIP-866)."""

    NONE = 0
    """There is no bridge."""
    PRE_MIGRATION = 1
    """ZooKeeper has the truth: a takeover has begun, or the cluster was handed back."""
    MIGRATION = 2
    """The log has the truth, and ZooKeeper follows."""
    POST_MIGRATION = 3
    """ZooKeeper is not needed any more."""


class Stage(Enum):
    """Where the active controller is."""

    AWAY = "away"
    """There is no session with ZooKeeper."""
    LOOKING = "looking"
    """It reads, and claims nothing."""
    REFUSED = "refused"
    """What it has read forbids a takeover. It looks again after a while."""
    CLAIMING = "claiming"
    """It writes itself into /controller."""
    READING = "reading"
    """It is the controller, and reads everything with watches."""
    WRITING = "writing"
    """What it has read goes into the metadata log."""
    DRIVING = "driving"
    """Brokers are told what is committed; both sides follow each other."""
    RETURNING = "returning"
    """Leaders and ISRs go back into ZooKeeper; brokers are told nothing."""
    RETURNED = "returned"
    """A broker of the old cluster is its controller again."""
    LET_GO = "let go"
    """No broker needs ZooKeeper any more."""


class Happens(Enum):
    """What leads from one stage to the next."""

    BEGAN = "a session begins"
    LOST = "the session or its connection is lost"
    SEEN = "nothing forbids it"
    FORBIDDEN = "something forbids it"
    KNOWN = "the log says that the cluster is taken over"
    WANTED_BACK = "the operator wants the old controller back"
    AGAIN = "it is tried again"
    CLAIMED = "ZooKeeper has made the claim"
    TAKEN = "somebody else was faster"
    READ = "everything is read"
    COMMITTED = "everything is committed"
    USURPED = "another controller is in /controller"
    GIVEN_UP = "ZooKeeper has taken the claim back"
    UNNEEDED = "no broker in ZooKeeper mode is left, and the operator says so"


NEXT: dict[tuple[Stage, Happens], Stage] = {
    (Stage.AWAY, Happens.BEGAN): Stage.LOOKING,
    (Stage.LOOKING, Happens.SEEN): Stage.CLAIMING,
    (Stage.LOOKING, Happens.KNOWN): Stage.CLAIMING,
    (Stage.LOOKING, Happens.FORBIDDEN): Stage.REFUSED,
    (Stage.LOOKING, Happens.WANTED_BACK): Stage.RETURNED,
    (Stage.REFUSED, Happens.AGAIN): Stage.LOOKING,
    (Stage.RETURNED, Happens.AGAIN): Stage.LOOKING,
    (Stage.CLAIMING, Happens.CLAIMED): Stage.READING,
    (Stage.CLAIMING, Happens.TAKEN): Stage.LOOKING,
    (Stage.READING, Happens.READ): Stage.WRITING,
    (Stage.READING, Happens.FORBIDDEN): Stage.REFUSED,
    (Stage.WRITING, Happens.COMMITTED): Stage.DRIVING,
    (Stage.DRIVING, Happens.USURPED): Stage.LOOKING,
    (Stage.DRIVING, Happens.WANTED_BACK): Stage.RETURNING,
    (Stage.DRIVING, Happens.UNNEEDED): Stage.LET_GO,
    (Stage.RETURNING, Happens.GIVEN_UP): Stage.RETURNED,
    **{(stage, Happens.LOST): Stage.AWAY for stage in Stage if stage is not Stage.LET_GO},
}
"""Anything else is a mistake in the source."""


def progress(image: Image) -> Progress:
    """What the log says."""
    found = image.entity(KIND, ())
    return Progress.NONE if found is None else Progress(dict(found.fields)[FIELD])  # type: ignore[arg-type]


def reached(what: Progress) -> EntitySet:
    """The op that says so."""
    return EntitySet(KIND, (), ((FIELD, int(what)),))
