"""The stages of a takeover on the active controller, as a table.

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
    """The cluster has no bridge."""
    PRE_MIGRATION = 1
    """ZooKeeper has the truth: a takeover has begun, or the cluster was handed back."""
    MIGRATION = 2
    """The log has the truth, and ZooKeeper follows."""
    POST_MIGRATION = 3
    """ZooKeeper is not needed any more."""


class Stage(Enum):
    """A stage of the bridge on the active controller."""

    AWAY = "away"
    """The controller has no session with ZooKeeper."""
    LOOKING = "looking"
    """The controller reads, and claims nothing."""
    REFUSED = "refused"
    """The controller has read something that forbids a takeover, and looks again after a while."""
    CLAIMING = "claiming"
    """The controller writes itself into /controller."""
    READING = "reading"
    """The controller is in /controller, and reads everything with watches."""
    WRITING = "writing"
    """What the controller has read goes into the metadata log."""
    DRIVING = "driving"
    """Brokers are told what is committed; the log and ZooKeeper follow each other."""
    RETURNING = "returning"
    """Leaders and ISRs go back into ZooKeeper; brokers are told nothing."""
    RETURNED = "returned"
    """A broker of the old cluster is its controller again."""
    LET_GO = "let go"
    """No broker needs ZooKeeper any more."""


class Happens(Enum):
    """An event that leads from one stage to the next."""

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
"""The next stage after an event. A pair that is missing is a mistake in the source."""


def progress(image: Image) -> Progress:
    """How far the log says that the takeover is."""
    found = image.entity(KIND, ())
    return Progress.NONE if found is None else Progress(dict(found.fields)[FIELD])  # type: ignore[arg-type]


def reached(what: Progress) -> EntitySet:
    """The op that notes in the log how far the takeover is."""
    return EntitySet(KIND, (), ((FIELD, int(what)),))
