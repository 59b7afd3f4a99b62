"""A delta of the metadata becomes what the replicas of this broker do.

This file alone decides when a replica begins here, changes its part, ends, or is offline because its files cannot be
used. What a replica does in each part is in `broker/partition.py`. Rules:

1. Nothing follows the image before it has once reached what the leader says is committed: what was before is history,
   what is on the own disk too; a topic may have been made again under its name since.
2. While the registration in the image is not of this process, it leads nothing, whatever an older process led.
3. A replica whose files are lost begins anew once it is no member of the ISR: until then it would be taken for a copy
   of what was committed, and it is empty.
"""

from actors.broker.partition import NO_LEADER, Assignment, Partition
from actors.broker.recently_fenced import RecentlyFenced
from actors.broker.replicas import Offline, Replicas
from actors.metadata.image import TOPIC_RESOURCE, Delta
from actors.node.roles.broker.gathered import Gathered
from actors.node.roles.broker.group_coordinator import GroupCoordinator
from actors.node.roles.broker.heartbeats import BrokerHeartbeats
from actors.node.roles.broker.metadata_cache import LEADERS_KEY, TOPICS_KEY, MetadataCache
from actors.node.roles.broker.replication import Replication
from actors.node.roles.broker.storage import BrokerStorage
from actors.node.runtime.runtime import Runtime


class MetadataApplier:
    """From rows of the image to partitions of this broker."""

    def __init__(
        self,
        runtime: Runtime,
        cache: MetadataCache,
        replicas: Replicas,
        storage: BrokerStorage,
        heartbeats: BrokerHeartbeats,
        replication: Replication,
        groups: GroupCoordinator,
        recently_fenced: RecentlyFenced,
        gathered: Gathered,
    ) -> None:
        self._runtime = runtime
        self._cache = cache
        self._me = cache.me
        self._replicas = replicas
        self._storage = storage
        self._heartbeats = heartbeats
        self._replication = replication
        self._groups = groups
        self._recently_fenced = recently_fenced
        self._gathered = gathered
        self._opened = False
        """What was assigned before this process began has been opened."""
        self._registered = False
        """Rule 2: the registration in the image is of this process."""

    @property
    def caught_up(self) -> bool:
        """Rule 1: partitions follow the image."""
        return self._storage.in_use

    def catch_up(self) -> None:
        """Begin to follow the image, if it is there."""
        if not self.caught_up and self._heartbeats.metadata().caught_up:
            self._storage.begin_use()
            self._heartbeats.use_interval()
            self._apply_all()
            self._opened = True

    def loaded(self) -> None:
        """A snapshot has put another image in the place of the last one."""
        if self.caught_up:
            self._apply_all()
            for partition in self._replicas:
                self._storage.configure(partition)
            self._heartbeats.use_interval()

    def apply(self, touched: Delta) -> None:
        """What one record has changed."""
        if not self.caught_up:
            return
        image, replicas = self._cache.image, self._replicas
        for broker in touched.brokers:
            self._apply_broker(broker)
        for name, topic_id in touched.removed:
            for partition in list(replicas.by_id.get(topic_id, {}).values()):
                self.drop(partition)
            for key in [key for key in replicas.offline if key[0] == topic_id]:
                del replicas.offline[key]
                self._storage.give_up_lost(name, key[1])
            self._groups.topic_deleted(name)
        for row in touched.partitions:
            row = int(row)
            if image.is_partition(row):
                self._assign(row)
        for kind, name in touched.configs:
            self._configure(kind, name)
        waiting = self._runtime.waiting
        if touched.topics:
            waiting.signal(TOPICS_KEY)
        if touched.brokers or len(touched.partitions):
            waiting.signal(LEADERS_KEY)
        if touched.features:
            self._heartbeats.use_interval()

    def _apply_all(self) -> None:
        image, replicas = self._cache.image, self._replicas
        replicas.cluster.registered.clear()
        for id in {broker.id for broker in image.brokers()}.union(self._recently_fenced.present):
            self._apply_broker(id)
        here: set[tuple[bytes, int]] = set()
        for topic in image.topics():
            for row in image.topic_partitions(topic):
                if self._me in image.replicas(row):
                    here.add(self._assign(row))
        for partition in list(replicas):
            if (partition.topic_id, partition.number) not in here:
                self.drop(partition)
        for key in [key for key in replicas.offline if key not in here]:
            del replicas.offline[key]
        self._gathered.run()

    def _apply_broker(self, broker: int) -> None:
        image, now_ms = self._cache.image, self._runtime.now.mono_ms
        registration = image.broker(broker)
        usable = registration is not None and not registration.fenced
        epoch = registration.epoch if usable and registration is not None else None
        self._recently_fenced.note(broker, registration if usable else None, now_ms)
        self._replicas.registered(broker, epoch, now_ms)
        self._replication.broker_changed(broker)
        if broker == self._me:
            own = registration is not None and registration.incarnation_id == self._heartbeats.incarnation_id
            if own is not self._registered:
                self._registered = own
                for row in image.rows_led_by(self._me):
                    self._assign(int(row))

    def _assign(self, row: int) -> tuple[bytes, int]:
        image, replicas = self._cache.image, self._replicas
        topic, number = image.topic_of(row), image.number(row)
        topic_id = image.topic_id(topic)
        assert topic_id is not None, "a partition's topic has an id"
        if self._me not in image.replicas(row):
            partition = replicas.get(topic_id, number)
            if partition is not None:
                self.drop(partition)
            if replicas.offline.pop((topic_id, number), None) is not None:
                self._storage.give_up_lost(image.topic_name(topic), number)
            return topic_id, number
        if self._is_offline(row, topic_id, number):
            return topic_id, number
        leader = image.leader(row)
        if leader == self._me and not self._registered:
            leader = NO_LEADER
        replicas.assign(
            image.topic_name(topic),
            topic_id,
            number,
            Assignment(
                image.replicas(row), image.isr(row), leader, image.leader_epoch(row), image.partition_epoch(row)
            ),
            self._runtime.now.mono_ms,
        )
        return topic_id, number

    def _is_offline(self, row: int, topic_id: bytes, number: int) -> bool:
        """Whether the files of a replica assigned here cannot be used."""
        image, offline, key = self._cache.image, self._replicas.offline, (topic_id, number)
        name, in_isr = image.topic_name(image.topic_of(row)), self._me in image.isr(row)
        why = offline.get(key)
        if why is None and self._replicas.get(topic_id, number) is None:
            before = not self._opened
            if not self._storage.lost(name, topic_id, number, before=before):
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
            self._storage.give_up_lost(name, number)
            return False
        if why is Offline.REMOVED and not in_isr and image.leader(row) not in (self._me, NO_LEADER):
            self._runtime.stop(
                1, f"{name}-{number} was removed here and was given up: start again to fetch it from its leader"
            )
        return why is not None

    def drop(self, partition: Partition) -> None:
        """This broker has no replica of it any more."""
        self._replicas.remove(partition)
        self._storage.delete(partition)

    def _configure(self, kind: int, name: str) -> None:
        if kind == TOPIC_RESOURCE:
            for partition in self._replicas.by_name.get(name, {}).values():
                self._storage.configure(partition)
        elif name in ("", str(self._me)):
            for partition in self._replicas:
                self._storage.configure(partition)
