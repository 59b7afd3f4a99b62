"""A delta of the metadata becomes what the replicas of this broker do.

This file alone decides when a replica begins here, changes its part, ends, or is offline because its files cannot be
used. What a replica does in each part is in `broker/replication/partition.py`; a delta is a value that says nothing of
where it comes from (`broker/replication/metadata_delta.py`). Rules:

1. Nothing follows the metadata before it has once reached what the leader says is committed: what was before is history,
   what is on the own disk too; a topic may have been made again under its name since.
2. While the registration in the metadata is not of this process, it leads nothing, whatever an older process led.
3. A replica whose files are lost begins anew once it is no member of the ISR: until then it would be taken for a copy
   of what was committed, and it is empty.
4. One record may take thousands of replicas away. The first few of a turn are removed at once; the others are leaving, and
   are removed a few in each turn.
5. A snapshot that takes the place of what was known is compared with the replicas a slice a turn. Until its turn has come a
   replica goes by what was known before, as on a broker that is behind; what the log says of it meanwhile holds at once.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from actors.broker.lifecycle.recently_fenced import RecentlyFenced
from actors.broker.replication.metadata_delta import MetadataDelta, PartitionState
from actors.broker.replication.partition import NO_LEADER, Assignment, Partition
from actors.broker.replication.replicas import Offline, Replicas
from actors.metadata.image import TOPIC_RESOURCE, Broker
from actors.node.roles.broker.groups.group_coordinator import GroupCoordinator
from actors.node.roles.broker.groups.share.share_coordinator import ShareCoordinator
from actors.node.roles.broker.lifecycle.heartbeats import BrokerHeartbeats
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata_cache import LEADERS_KEY, TOPICS_KEY
from actors.node.roles.broker.quotas.replication_throttles import Throttles
from actors.node.roles.broker.replication.partition_effects import PartitionEffects
from actors.node.roles.broker.replication.replication import Replication
from actors.node.runtime.runtime import Runtime

LEAVE_A_TURN = 100
"""How many replicas are removed in a turn: one takes 25 microseconds, and 100 with a directory that is renamed."""
COMPARED_A_TURN = 256
"""How many replicas are compared with a snapshot in a turn: one takes nine microseconds."""
END = object()


class MetadataApplier:
    """Makes the replicas of this broker follow deltas of the metadata."""

    def __init__(
        self,
        runtime: Runtime,
        me: int,
        replicas: Replicas,
        logs: LogManager,
        heartbeats: BrokerHeartbeats,
        replication: Replication,
        groups: GroupCoordinator,
        share_state: ShareCoordinator,
        recently_fenced: RecentlyFenced,
        partition_effects: PartitionEffects,
        throttles: Throttles,
    ) -> None:
        self._runtime = runtime
        self._me = me
        self._replicas = replicas
        self._logs = logs
        self._heartbeats = heartbeats
        self._replication = replication
        self._groups = groups
        self._share_state = share_state
        self._recently_fenced = recently_fenced
        self._partition_effects = partition_effects
        self._throttles = throttles
        self.crowded: Callable[[], bool] = lambda: False
        """Says whether one more partition is too many for this turn: then it is arriving, and follows the metadata later."""
        self._room = LEAVE_A_TURN
        """How many more replicas are removed at once in this turn."""
        self._opened = False
        """Whether what was assigned before this process began has been opened."""
        self._comparing: Iterator[None] | None = None
        """The slices of a comparison with a snapshot that are left (rule 5); None: there are none."""
        self._registered = False
        """Whether the registration in the metadata is of this process (rule 2)."""

    @property
    def caught_up(self) -> bool:
        """Whether partitions follow the metadata (rule 1)."""
        return self._logs.in_use

    def catch_up(self, whole: Callable[[], MetadataDelta]) -> None:
        """Begin to follow the metadata, if it is there. `whole`: everything that it says."""
        if not self.caught_up and self._heartbeats.metadata().caught_up:
            self.begin(whole())

    def begin(self, whole: MetadataDelta) -> None:
        """Follow the metadata from now on; `whole` is everything that it says."""
        self._logs.begin_use()
        self._heartbeats.use_interval()
        self._throttles.configure()
        self._apply_whole(whole)
        self._opened = True

    def replaced(
        self,
        brokers: MetadataDelta,
        slices: Callable[[int], Iterator[Iterable[PartitionState]]],
        here: Container[object],
    ) -> None:
        """Begin to compare everything with a snapshot that has taken the place of what was known (rule 5). `brokers`: what
        it says of brokers. `slices`: what the metadata says of partitions with a replica here, so many in a slice, each read
        when its turn has come. `here`: which partitions those are now, by topic id and number."""
        if self.caught_up:
            self._throttles.configure()
            self._groups.topics_changed()
            self._apply_registrations(brokers)
            self._comparing = self._compare(slices(COMPARED_A_TURN), here)
            self.go_on()
            self._partition_effects.run()
            self._heartbeats.use_interval()

    @property
    def compares(self) -> bool:
        """Whether a snapshot is not compared to its end."""
        return self._comparing is not None

    def go_on(self) -> None:
        """Compare a slice of a snapshot, if there is one left."""
        if self._comparing is not None and next(self._comparing, END) is END:
            self._comparing = None

    def _compare(self, slices: Iterator[Iterable[PartitionState]], here: Container[object]) -> Iterator[None]:
        replicas, looked = self._replicas, 0
        for states in slices:
            for state in states:
                self._assign(state)
                partition = replicas.here(state.topic_id, state.number)
                if partition is not None:
                    self._take_settings(partition)
            yield
        for topic_id in list(replicas.by_id):
            numbers = replicas.by_id.get(topic_id, {})
            looked += len(numbers)
            self._let_go(topic_id, [number for number in numbers if (topic_id, number) not in here])
            if looked >= COMPARED_A_TURN:
                looked = 0
                yield
        self._give_up_all_but(here)

    def loaded(self, whole: Callable[[], MetadataDelta]) -> None:
        """Compare everything at once, since all that was known of the metadata has been replaced by `whole`."""
        if self.caught_up:
            self._throttles.configure()
            self._apply_whole(whole())
            for partition in self._replicas:
                self._take_settings(partition)
            self._heartbeats.use_interval()

    def apply(self, delta: MetadataDelta) -> None:
        """Carry out one change of the metadata. Only once `caught_up`."""
        replicas = self._replicas
        for id, registration in delta.brokers:
            self._apply_broker(id, registration, delta.led_here)
        for name, topic_id in delta.deleted_topics:
            going = [*replicas.arriving.pop(topic_id, ()), *(key[1] for key in replicas.offline if key[0] == topic_id)]
            self._let_go(topic_id, list(replicas.by_id.get(topic_id, ())))
            for number in going:
                replicas.offline.pop((topic_id, number), None)
                self._logs.give_up(name, topic_id, number)
            self.forget_topic(name, topic_id)
        for state in delta.partitions:
            self._assign(state)
        for kind, name in delta.configs:
            self._configure(kind, name)
        waiting = self._runtime.waiting
        if delta.topics_changed:
            self._groups.topics_changed()
            waiting.signal(TOPICS_KEY)
        if delta.leaders_changed:
            waiting.signal(LEADERS_KEY)
        if delta.features_changed:
            self._heartbeats.use_interval()

    def _apply_whole(self, whole: MetadataDelta) -> None:
        replicas = self._replicas
        self._groups.topics_changed()
        self._apply_registrations(whole)
        here: set[tuple[bytes, int]] = set()
        for state in whole.partitions:
            here.add((state.topic_id, state.number))
            self._assign(state)
        for topic_id, partitions in list(replicas.by_id.items()):
            self._let_go(topic_id, [number for number in partitions if (topic_id, number) not in here])
        self._give_up_all_but(here)
        self._partition_effects.run()

    def _apply_registrations(self, whole: MetadataDelta) -> None:
        self._replicas.cluster.unfenced.clear()
        registrations = dict(whole.brokers)
        for id in set(registrations).union(self._recently_fenced.present):
            self._apply_broker(id, registrations.get(id), whole.led_here)

    def _give_up_all_but(self, here: Container[object]) -> None:
        offline = self._replicas.offline
        for key in [key for key in offline if key not in here]:
            del offline[key]
        self._logs.give_up_all_but(here)

    def _apply_broker(self, id: int, registration: Broker | None, led_here: Iterable[PartitionState]) -> None:
        # Alive: what leads, is in sync, and is named to clients. To them, and to an ISR, fenced and absent are the same.
        alive = None if registration is None or registration.fenced else registration
        now_ms = self._runtime.now.mono_ms
        self._recently_fenced.note(id, alive, now_ms)
        self._replicas.broker_changed(id, None if alive is None else alive.epoch, now_ms)
        self._replication.broker_changed(id)
        if id == self._me:
            # Registered, fenced or not: a fenced broker's process is the registered one still, and follows what it hosts.
            own = registration is not None and registration.incarnation_id == self._heartbeats.incarnation_id
            if own is not self._registered:
                self._registered = own
                for state in led_here:
                    if not self._led_in_turn(own, state):
                        self._assign(state)

    def _led_in_turn(self, own: bool, state: PartitionState) -> bool:
        """Whether a partition that is led here may follow the metadata later, in its turn: it may begin to be led later,
        and must cease at once, unless it has never begun."""
        arriving = self._replicas.arriving
        if own and self.crowded():
            arriving.setdefault(state.topic_id, {})[state.number] = None
            return True
        return state.number in arriving.get(state.topic_id, ()) and self._replicas.here(*state[1:3]) is None

    def _assign(self, state: PartitionState) -> None:
        replicas = self._replicas
        topic, topic_id, number, assignment = state
        if assignment is None:
            if replicas.here(topic_id, number) is not None:
                self._let_go(topic_id, [number])
            replicas.offline.pop((topic_id, number), None)
            self._logs.give_up(topic, topic_id, number)
            return
        if self._is_offline(topic, topic_id, number, assignment):
            replicas.put_in_line(topic_id, number, assignment.leader, assignment.isr)
            return
        if assignment.leader == self._me and not self._registered:
            assignment = assignment._replace(leader=NO_LEADER)
        self._make_way(topic, topic_id, number)
        replicas.assign(topic, topic_id, number, assignment, self._runtime.now.mono_ms)

    def _is_offline(self, name: str, topic_id: bytes, number: int, assignment: Assignment) -> bool:
        """Whether the files of a replica assigned here cannot be used."""
        offline, key, in_isr = self._replicas.offline, (topic_id, number), self._me in assignment.isr
        if offline.get(key) is Offline.AGAIN:
            del offline[key]
        why = offline.get(key)
        if why is None and self._replicas.here(topic_id, number) is None:
            before = not self._opened
            if not self._logs.lost(name, topic_id, number, before=before):
                return False
            why = Offline.LOST
            if in_isr:
                offline[key] = why
                self._runtime.log.error(
                    f"{name}-{number} is offline: this broker had files of it, and they are not there. It does not begin "
                    f"again empty while it counts as in sync; let another replica lead, by an unclean election if need be"
                )
        if why is Offline.LOST and not in_isr:
            offline.pop(key, None)
            self._logs.checkpoints.give_up_lost(name, number)
            return False
        if why is Offline.REMOVED and not in_isr and assignment.leader not in (self._me, NO_LEADER):
            self._runtime.stop(
                1, f"{name}-{number} was removed here and was given up: start again to fetch it from its leader"
            )
        return why is not None

    def forget_topic(self, name: str, topic_id: bytes) -> None:
        """Forget a topic that is deleted; the replicas of it are removed on their own."""
        self._groups.topic_deleted(name, topic_id)
        self._share_state.topic_deleted(topic_id)

    def set_aside(self, partition: Partition) -> None:
        """Remove a partition of which this broker has no replica any more, and keep its files: the controller has not
        said that its data may go."""
        self._replicas.remove(partition)
        self._logs.set_aside(partition)

    def _make_way(self, topic: str, topic_id: bytes, number: int) -> None:
        """Remove replicas of deleted topics that have the name and number of one that may begin, and so its directory."""
        namesake = next(iter(self._replicas.by_name.get(topic, {}).values()), None)
        if namesake is not None and namesake.topic_id != topic_id:  # a snapshot tells first of what there is
            self._replicas.leave(namesake.topic_id)
        for partition in self._replicas.left(topic, number):
            self.drop(partition)

    def _let_go(self, topic_id: bytes, numbers: Sequence[int]) -> None:
        """Remove replicas of a topic that are here: now, as far as the turn allows, and the others later (rule 4)."""
        partitions = self._replicas.by_id.get(topic_id, {})
        now, later = numbers[: self._room], numbers[self._room :]
        self._room -= len(now)
        for partition in [partitions[number] for number in now]:
            self.drop(partition)
        if later:
            self._replicas.leave(topic_id, later if len(later) < len(partitions) else None)

    def tick(self) -> None:
        """Remove the next replicas that are leaving."""
        self._room = LEAVE_A_TURN
        while self._room > 0 and (partition := self._replicas.next_left()) is not None:
            self._room -= 1
            self.drop(partition)

    def drop(self, partition: Partition) -> None:
        """Remove a partition of which this broker has no replica any more, with its files."""
        self._replicas.remove(partition)
        self._logs.delete(partition)

    def _take_settings(self, partition: Partition) -> None:
        self._logs.configure(partition)
        self._replicas.census.note(partition)

    def _configure(self, kind: int, name: str) -> None:
        if kind == TOPIC_RESOURCE:
            for partition in self._replicas.by_name.get(name, {}).values():
                self._take_settings(partition)
        elif name in ("", str(self._me)):
            self._throttles.configure()
            for partition in self._replicas:
                self._take_settings(partition)
