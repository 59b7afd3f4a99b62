"""The bridge from ZooKeeper on the active controller: it runs one job after another, and does what each asks for.

`actors/bridge/` decides what a job does. This file alone decides which job runs when, and what becomes of one that
fails. Rules:

1. Only the active controller has a session. A standby knows what the metadata log says, and nothing else.
2. A session begins with the takeover, which leads to DRIVING. From then on what is committed and what ZooKeeper says
   has changed are worked off, one subject at a time, as long as the session lasts.
3. What happens to a subject while it waits is one thing: its state at the time of the job counts.
4. A job that ZooKeeper refuses, or whose znodes cannot be read, is run again after a pause. The job for /controller,
   which runs before it, finds out whether the claim is gone. A connection that is lost ends every job, and the next
   session begins the way anew; so does a refusal while the cluster is handed back. A subject that cannot be sent, or
   with which the connection was lost twice, is told of and left out (`asks.apart`).
5. One turn writes one portion into the log at most.
6. Brokers that have died are looked for at once: a job that takes long, such as a comparison of all topics, is held
   meanwhile.
"""

from collections.abc import Callable
from typing import Any, Protocol

from actors.bridge import following, writing
from actors.bridge.asks import (
    Apply,
    Become,
    End,
    Follow,
    Here,
    Hold,
    Job,
    Look,
    Make,
    Pause,
    Settle,
    Tell,
    TellAgain,
)
from actors.bridge.stages import NEXT, Happens, Progress, Stage, progress
from actors.bridge.takeover import stay_back, take_over
from actors.bridge.tokens import SECRET
from actors.bridge.writing import STATES, Subject, moved, subjects
from actors.bridge.znodes import BROKER_IDS, CONTROLLER, BadZnode
from actors.controller.soft_state import Soft
from actors.controller.state import Result
from actors.metadata.image import Image
from actors.metadata.ops import BrokerSet, EndPoint, Op, TopicGone
from actors.node.quorum.replica import QuorumReplica
from actors.node.runtime.runtime import Runtime
from actors.ports.zookeeper import (
    REQUEST_BYTES_MAX,
    Away,
    Began,
    Changed,
    Close,
    Event,
    Lost,
    Open,
    Rejected,
    Unsendable,
    is_path,
    request_bytes,
    unsendable,
)

AGAIN_MS = 1000
SUSPECT_BYTES = 32_768
"""The size in bytes below which a request is never too large for ZooKeeper."""
STEPS_A_TURN = 20
"""How many asks of a job are answered in one turn."""
UNFORESEEN = (ValueError, LookupError, TypeError, RecursionError)
WAITS = object()
"""Stands for the answer to an ask that comes later."""
FIRST = (CONTROLLER, BROKER_IDS)
"""The paths that are looked at before anything else: whether the claim holds, and which brokers have died."""
WORKS_OFF = frozenset({Stage.DRIVING})
FOLLOWS_BROKERS = frozenset({Stage.WRITING, Stage.DRIVING})
"""The stages in which a job is held for a broker that has come or gone: before them brokers are not registered; after
them they are told nothing."""


class Controller(Protocol):
    """The controller whose brokers the bridge drives."""

    image: Image
    soft: Soft
    pusher: Any

    @property
    def me(self) -> int: ...
    def apply(self, result: Result) -> None: ...
    def follow_zookeeper(self, live: Any) -> None: ...


class Bridge:
    """The bridge of one controller."""

    def __init__(
        self,
        runtime: Runtime,
        quorum: QuorumReplica,
        role: Controller,
        cluster_id: str,
        connect: str,
        session_ms: int,
        endpoints: tuple[EndPoint, ...],
    ) -> None:
        self._runtime = runtime
        self._quorum = quorum
        self._role = role
        self._cluster_id = cluster_id
        self._open = Open(connect, session_ms)
        self._endpoints = endpoints
        self.stage = Stage.AWAY
        self._here: Here | None = None
        """What the jobs know of this controller; None: it is not active, or needs no ZooKeeper."""
        self._job: Job | None = None
        self._again: Callable[[], None] = lambda: None
        """Called after a pause, if the job that runs fails."""
        self._answer: Any = None
        """What the job is sent next; an exception is raised there. WAITS: it is not known yet."""
        self._held: tuple[Job, Any, Callable[[], None]] | None = None
        """Job, answer and `_again` of a job that goes on when the list of brokers was read (rule 6)."""
        self._settles = -1
        """Offset below which everything has to be committed before the job goes on; -1: it does not wait for that."""
        self._changed: dict[str, None] = {}
        """The paths of ZooKeeper to look at again, oldest first."""
        self._subjects: dict[Subject, None] = {}
        """The subjects that were committed and that ZooKeeper has to be told of, oldest first."""
        self._turn_over = False
        self._request_bytes = REQUEST_BYTES_MAX
        """The most bytes of a request; see `Here.request_bytes`."""
        self._in_flight = 0
        """The bytes of the changes that are asked for and not answered."""
        self._lost_with = 0
        """The bytes of the changes, SUSPECT_BYTES at least, with which the connection was lost last."""

    # ---- what the role calls

    def gained(self, controllers: frozenset[int]) -> None:
        """Begin a session, since this controller is the active one now."""
        if progress(self._role.image) == Progress.POST_MIGRATION:
            self.stage = Stage.LET_GO
            return
        has_token_key = bool(self._runtime.config.value(SECRET))
        self._here = Here(
            self._role.image,
            self._role.me,
            self._cluster_id,
            controllers,
            self._endpoints,
            has_token_key,
            self._runtime.random.uuid,
        )
        self._here.request_bytes = self._request_bytes
        self._here.deletes_topics = bool(self._runtime.config.value("delete.topic.enable"))
        self.stage = Stage.AWAY
        self._runtime.zookeeper.append(self._open)

    def lost(self) -> None:
        """End the session, since this controller is no longer active."""
        if self._here is not None:
            self._runtime.zookeeper.append(Close())
        self._drop()
        self._here, self.stage = None, Stage.AWAY

    def happened(self, event: Event) -> None:
        """Take an event of the session with ZooKeeper."""
        if self._here is None:
            return
        if isinstance(event, Changed):
            if name := following.job_of(event.path):
                self._changed[name] = None
            return
        if self.stage is not Stage.AWAY:
            self._become(Happens.LOST)
        self._drop()
        if isinstance(event, Lost):
            self._lost_in_flight()
            self._runtime.log.warning("the connection to ZooKeeper is lost: brokers are driven on as they are")
            return
        assert isinstance(event, Began)
        self._runtime.log.info(f"session {event.session:#x} with ZooKeeper")
        self._become(Happens.BEGAN)
        self._begin(take_over(self._here), self._start_anew)

    def committed(self, ops: list[Op]) -> None:
        """Take ops that are committed; the image has them."""
        if self._here is None or self.stage not in (Stage.WRITING, *WORKS_OFF):
            return
        for op in ops:
            if isinstance(op, BrokerSet) and not op.zookeeper and self._role.pusher is not None:
                for name in self._role.pusher.ending:  # a broker of rayft finds out by itself what is deleted
                    self.given_up(name)
            self._here.moved.update(dict.fromkeys(moved(op)))
            for subject in subjects(self._here.image, op):
                if subject.kind == "gone":
                    self._gone(op)
                else:
                    self._subjects[subject] = None

    def given_up(self, name: str) -> None:
        """Take the news that brokers have given up a topic that is deleted."""
        if self.wants_ops:
            self._subjects[Subject("topic", name)] = None

    @property
    def wants_ops(self) -> bool:
        """Whether `committed` has to be called."""
        return self._here is not None and self.stage in (Stage.WRITING, *WORKS_OFF)

    def end(self) -> None:
        """Let the job go on, at the end of a turn of the active controller."""
        self._turn_over = False
        for _ in range(STEPS_A_TURN):
            if self._turn_over or not self.ready:
                return
            self._step()

    # ---- jobs

    @property
    def ready(self) -> bool:
        """Whether the bridge has something to do at once."""
        if self._here is None:
            return False
        if self._settles >= 0 and self._quorum.raft.high_watermark >= self._settles:
            self._settles, self._answer = -1, None
        if self._job is not None:
            return self._answer is not WAITS
        waits = self._changed or self._subjects or self._here.moved or self._here.unswept
        return self.stage in WORKS_OFF and bool(waits)

    def _step(self) -> None:
        if self._job is None:
            self._next()
        elif self._is_urgent:
            del self._changed[BROKER_IDS]
            self._held = self._job, self._answer, self._again
            assert self._here is not None
            self._begin(following.live(self._here), lambda: None)
        job, answer = self._job, self._answer
        assert job is not None and self._here is not None
        self._here.wall_ms = self._runtime.now.wall_ms
        self._answer = WAITS
        try:
            ask = job.throw(answer) if isinstance(answer, Exception) else job.send(answer)
        except StopIteration:
            self._job, self._answer = None, None
            self._go_on()
            return
        except (Rejected, BadZnode) as error:
            self._failed(error)
            return
        except UNFORESEEN as error:  # of what others have written: it may end a job, and never the controller
            self._failed(error)
            return
        answered = ASKS[type(ask)](self, ask)
        if answered is not WAITS and self._job is job:
            self._answer = answered

    def _next(self) -> None:
        """Begin the job of the next subject: whether the claim holds, which brokers are there, then what is committed,
        what has changed in ZooKeeper, and last the states of partitions."""
        here = self._here
        assert here is not None
        first = next((one for one in FIRST if one in self._changed), None)
        if self._subjects and first is None:
            subject = next(iter(self._subjects))
            del self._subjects[subject]
            self._begin(writing.job(here, subject), lambda: self._subjects.setdefault(subject))
            return
        if not self._changed:
            self._begin(writing.job(here, STATES), lambda: None)
            return
        path = first or next(iter(self._changed))
        del self._changed[path]
        self._begin(following.job(here, path), lambda: self._changed.setdefault(path))

    @property
    def _is_urgent(self) -> bool:
        """Whether the job is to be held, since a broker has come or gone."""
        return (
            BROKER_IDS in self._changed
            and self.stage in FOLLOWS_BROKERS
            and self._held is None
            and self._here is not None
            and not self._here.reads_broker_ids
        )

    def _go_on(self) -> None:
        """Let a job that was held go on."""
        if self._held is not None:
            self._job, self._answer, self._again = self._held
            self._held = None

    def _begin(self, job: Job, again: Callable[[], None]) -> None:
        self._job, self._answer, self._again, self._settles = job, None, again, -1

    def _failed(self, error: Exception) -> None:
        again, here = self._again, self._here
        self._job, self._answer = None, None
        self._runtime.log.warning(f"the bridge tries again: {error}")
        if self._held is not None:
            self._go_on()

            def again() -> None:
                self._changed[BROKER_IDS] = None

        def after() -> None:
            if self._here is not here:
                return
            if self.stage is Stage.RETURNING:
                self._start_anew()
                return
            self._changed[CONTROLLER] = None
            again()

        self._runtime.waiting.timers.at(self._runtime.now.mono_ms + AGAIN_MS, after)

    def _start_anew(self) -> None:
        if self._job is None and self.stage is not Stage.AWAY and self._here is not None:
            self._become(Happens.LOST)
            self._become(Happens.BEGAN)
            self._begin(take_over(self._here), self._start_anew)

    def _lost_in_flight(self) -> None:
        """Note what was in flight when the connection was lost. ZooKeeper closes the connection of a request that is
        larger than it takes (jute.maxbuffer), and does not say so: what was lost twice in a row with the same large
        request is not sent a third time."""
        size, self._in_flight = self._in_flight, 0
        if size < SUSPECT_BYTES:
            return
        if size == self._lost_with:
            self._request_bytes = size - 1
            self._runtime.log.error(
                f"ZooKeeper has closed the connection twice at a request of {size} bytes: none of that size is sent any "
                f"more (jute.maxbuffer of the ZooKeeper servers)"
            )
            if self._here is not None:
                self._here.request_bytes = self._request_bytes
        self._lost_with = size

    def _drop(self) -> None:
        self._job, self._answer, self._held, self._settles = None, None, None, -1
        self._changed, self._subjects = {}, {}
        if self._here is not None:
            self._here.reads_broker_ids = False
            self._here.moved.clear()
            self._here.unswept.clear()

    def _gone(self, op: Op) -> None:
        """Note that a topic is deleted: only its id is known, so the name that ZooKeeper has counts."""
        assert isinstance(op, TopicGone) and self._here is not None
        name = self._here.names.pop(op.id, None)
        if name is not None:
            self._subjects[Subject("topic", name)] = None

    # ---- what a job asks for

    def _become(self, what: Happens) -> None:
        before, self.stage = self.stage, NEXT[self.stage, what]
        self._runtime.log.info(f"bridge: {before.value}, {what.value}: {self.stage.value}")
        here = self._here
        assert here is not None
        if what is Happens.COMMITTED:
            self._changed.update(dict.fromkeys(following.FOLLOWED))
            writing.sweep(here)
        elif what is Happens.USURPED:
            self._drop()
            self._begin(take_over(here), self._start_anew)
        elif what is Happens.GIVEN_UP:
            self._drop()
            self._begin(stay_back(here), self._start_anew)
        elif what is Happens.UNNEEDED:
            self._drop()
            self._here = None
            self._runtime.zookeeper.append(Close())

    def _moved(self, ask: Become) -> Any:
        self._become(ask.what)
        return None

    def _look(self, ask: Look) -> Any:
        for one in ask.reads:
            if not is_path(one.path):
                return Unsendable(f"{ascii(one.path)[:100]} is no path of a znode")
        self._runtime.read_zookeeper(ask.reads, ask.watch, self._told_to(self._job))
        return WAITS

    def _make(self, ask: Make) -> Any:
        assert self._here is not None
        if (why := unsendable(ask.changes, self._here.request_bytes)) is not None:
            return why
        self._in_flight = request_bytes(ask.changes)
        self._runtime.change_zookeeper(ask.changes, self._told_to(self._job))
        return WAITS

    def _told_to(self, job: Job | None) -> Callable[[Any], None]:
        def then(result: Any) -> None:
            # Of a connection that was lost an event tells, which ends every job.
            if self._job is job and not isinstance(result, Away):
                if self._in_flight >= self._lost_with:  # whatever the answer is, ZooKeeper takes that much
                    self._lost_with = 0
                self._answer, self._in_flight = result, 0

        return then

    def _apply(self, ask: Apply) -> Any:
        self._turn_over = True
        self._role.apply(Result(ask.ops, None, atomic=False))
        return None

    def _settle(self, ask: Settle) -> Any:
        self._settles = self._role.image.next_offset
        return WAITS

    def _follow(self, ask: Follow) -> Any:
        self._role.follow_zookeeper(ask.brokers)
        return None

    def _hold(self, ask: Hold) -> Any:
        soft = self._role.soft
        before, soft.zookeeper_epoch = soft.zookeeper_epoch, ask.epoch
        if ask.epoch != before and self._role.pusher is not None:
            self._role.pusher.forget_deletions()
        if before is not None and ask.epoch not in (None, before):
            for broker in soft.legacy:  # another controller may have told them something under the epoch between
                self._tell_again(TellAgain(broker))
        return None

    def _tell(self, ask: Tell) -> Any:
        (self._runtime.log.error if ask.error else self._runtime.log.info)(ask.text)
        return None

    def _tell_again(self, ask: TellAgain) -> Any:
        if self._role.pusher is not None:
            self._role.pusher.tell_again(ask.broker)
        return None

    def _end(self, ask: End) -> Any:
        if self._role.pusher is None or self._role.soft.zookeeper_epoch is None:
            return not ask.what.brokers
        return self._role.pusher.gave_up(ask.what)

    def _pause(self, ask: Pause) -> Any:
        job = self._job

        def over() -> None:
            if self._job is job and job is not None:
                self._answer = None

        self._runtime.waiting.timers.at(self._runtime.now.mono_ms + ask.ms, over)
        return WAITS


ASKS: dict[type, Callable[[Bridge, Any], Any]] = {
    Look: Bridge._look,
    Make: Bridge._make,
    Apply: Bridge._apply,
    Settle: Bridge._settle,
    Follow: Bridge._follow,
    Become: Bridge._moved,
    Hold: Bridge._hold,
    Tell: Bridge._tell,
    TellAgain: Bridge._tell_again,
    End: Bridge._end,
    Pause: Bridge._pause,
}
