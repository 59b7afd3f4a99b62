"""Worlds in which a snapshot of the metadata takes seconds to load: a slice a batch, and a pause between two. Nodes fall
behind the log of the controllers again and again; they end, freeze, are elected or fall behind anew amid a load.

The mistakes here are planted where a slice ends and the next one begins, and where a snapshot takes the place of what was
known.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

from actors.metadata import snapshot as snapshots
from actors.metadata.image import Image
from actors.node.quorum import snapshots as snapshotting
from actors.node.quorum.replay import Replay
from actors.node.quorum.replica import QuorumReplica
from actors.node.quorum.snapshots import Snapshotting
from actors.node.roles.broker.metadata import metadata_publisher
from actors.node.roles.broker.metadata.metadata_publisher import MetadataApplier
from actors.node.roles.broker.role import BrokerRole
from actors.node.roles.controller.role import ControllerRole
from actors.raft import SnapshotId
from tests.simulator.planted.aimed import AimedFaults
from tests.simulator.planted.registry import Patch, instead, mistake
from tests.simulator.world import Process

SLICE_MS = 250
"""The time that a slice takes."""
REST_MS = 10
"""The time between two turns of a node that only loads."""
MENU = {"falls far behind": 8, "amid a load": 8, "kill": 2, "controllers lose power": 1, "controller alone": 1,
        "orderly restart": 2, "slow link": 1}  # fmt: skip


class LoadingFaults(AimedFaults):
    """The aimed faults, nodes that fall behind the log, and nodes that end while they load a snapshot."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._amid_ms = -1
        """How long after the beginning of the next load something happens to the node; -1: nothing does."""
        self._loads: tuple[Process, int, int] | None = None
        """(process, its life, time when that is); None: nobody loads."""

    def _more(self) -> dict[str, Any]:
        return {
            **super()._more(),
            "falls far behind": self.falls_behind,
            "amid a load": self.amid_a_load,
        }

    def falls_behind(self) -> bool:
        """A node hears nothing of the controllers while they take snapshots, and gets one when it hears of them again."""
        active = self.cluster.active()
        free = [process for process in self._free() if process is not active]
        if active is None or not free or not self._untouched():
            return False
        self._cut_off(self._some(free), self._between(1_000, 3_000))
        return True

    def amid_a_load(self) -> bool:
        """A node falls behind, and something happens to whoever loads a snapshot next: it ends, freezes, or falls behind
        again, so that it is sent a newer snapshot."""
        self._amid_ms = self._between(0, 4 * SLICE_MS)
        return self.falls_behind()

    def _cut_off(self, process: Process, milliseconds: int) -> None:
        """Keep everything of the controllers from a process, while the active one takes two snapshots: its log begins at the
        first of them then."""
        self._apart([(name, process.name) for name in self._controllers() if name != process.name], milliseconds)
        for part in (2, 1):
            self._after(milliseconds // part - 50, self._snapshot)

    def _snapshot(self) -> None:
        active = self.cluster.active()
        if active is not None and not active.frozen and not self.over:
            active.input(active.node.controller.snapshot)

    def _turned(self, process: Process) -> None:
        super()._turned(process)
        if self.over or process.node is None:
            return
        now_ms = self.world.time_us // 1000
        if self._loads is None:
            if self._amid_ms >= 0 and process.node.quorum.loading:
                self._loads, self._amid_ms = (process, process.life, now_ms + self._amid_ms), -1
        elif self._loads[0] is process and now_ms >= self._loads[2]:
            life, self._loads = self._loads[1], None
            if process.life == life and process.node.quorum.loading and process in self._free():
                self._happens(process)

    def _happens(self, process: Process) -> None:
        act = self.choose.randrange(7)
        if act == 0:
            self._pause(process, self._between(500, 4_000))
        elif act == 1 and process.node.controller is not None:
            # Not a broker's: nobody has told it that it is the last member of an ISR, so that it would have synced.
            self._cut_power_after(0, process)
        elif act <= 2:
            self._after(0, lambda: self._kill(process, "amid a load"))
        elif act == 3:
            self._after(0, lambda: self._shutdown(process) if process.alive else None)
        else:
            self._cut_off(process, self._between(500, 1_500))


def in_slices() -> Sequence[Patch]:
    """A batch a slice, then a replica a slice, and time between two."""
    whole, deadline_ms = Snapshotting._slices, QuorumReplica.deadline_ms
    compare, due_ms = MetadataApplier._compare, BrokerRole.deadline_ms

    def slowly(self: Snapshotting, *given: Any) -> Iterator[None]:
        for _ in chain(whole(self, *given), (None,)):
            until_ms = self._runtime.now.mono_ms + SLICE_MS
            while self._runtime.now.mono_ms < until_ms:
                yield

    def compared(self: MetadataApplier, *given: Any) -> Iterator[None]:
        for _ in compare(self, *given):
            until_ms = self._runtime.now.mono_ms + SLICE_MS // 2
            while self._runtime.now.mono_ms < until_ms:
                yield

    def rests(self: QuorumReplica) -> int:
        return max(deadline_ms(self), self._runtime.now.mono_ms + REST_MS) if self.loading else deadline_ms(self)

    def compares(self: BrokerRole) -> int:
        return max(due_ms(self), self._runtime.now.mono_ms + REST_MS) if self.applier.compares else due_ms(self)

    return [
        instead(snapshots, "SLICE_BYTES", 1),
        instead(Snapshotting, "_slices", slowly),
        instead(QuorumReplica, "deadline_ms", rests),
        instead(metadata_publisher, "COMPARED_A_TURN", 1),
        instead(MetadataApplier, "_compare", compared),
        instead(BrokerRole, "deadline_ms", compares),
    ]


@mistake("loading")
def a_snapshot_is_taken_over_before_its_last_slice() -> Sequence[Patch]:
    """Of a snapshot that is loaded in slices the last one is left out."""
    whole = snapshots.loading

    def short(data: Any, image: Any, end_offset: int, family: str = "drafts") -> Any:
        size = len(list(snapshots.verified_batches(data)))
        slices = whole(data, image, end_offset, family)
        for _ in range(size - 2):
            next(slices)
            yield
        for _ in image.end_load():
            pass
        image.next_offset = end_offset
        return snapshots.Loaded(None, 0, 0)

    return [instead(snapshots, "loading", short)]


@mistake("loading")
def what_is_committed_meanwhile_goes_into_the_old_image() -> Sequence[Patch]:
    """While a snapshot is loaded, the batches behind it are replayed: into what it replaces."""
    run, load = Replay.run, Replay.load

    def at_the_end(self: Replay, snapshot: SnapshotId) -> None:
        load(self, snapshot)
        self.applied = snapshot.end_offset

    def both(self: Replay, high_watermark: int) -> None:
        loading, applied = self.loading, self.applied
        run(self, high_watermark)
        if loading is None:
            return
        if self.loading is None:
            self.applied = max(applied, self.applied)
            return
        self.loading = None
        run(self, high_watermark)
        self.loading = loading

    return [instead(Replay, "load", at_the_end), instead(Replay, "run", both)]


@mistake("loading")
def a_newer_snapshot_is_what_is_being_loaded() -> Sequence[Patch]:
    """A snapshot that comes while another one is loaded counts as that one: the rest of the older one is loaded, and the log
    goes on behind the newer one."""
    load = Replay.load

    def goes_on(self: Replay, snapshot: SnapshotId) -> None:
        slices = self._slices if self.loading is not None else None
        if slices is None:
            load(self, snapshot)
        self.loading = snapshot

    return [instead(Replay, "load", goes_on)]


@mistake("loading")
def half_an_image_is_shown() -> Sequence[Patch]:
    """A node shows the image into which a snapshot is being loaded."""
    made: list[Image] = []

    def noted() -> Image:
        made.append(Image())
        return made[-1]

    of_broker, of_controller = BrokerRole.loading, ControllerRole.loading

    def broker(self: BrokerRole, data: Any, snapshot: SnapshotId) -> Iterator[None]:
        slices = of_broker(self, data, snapshot)
        next(slices, None)
        self.cache.image = made[-1]
        return slices

    def controller(self: ControllerRole, data: Any, snapshot: SnapshotId) -> Iterator[None]:
        slices = of_controller(self, data, snapshot)
        next(slices, None)
        self.image = made[-1]
        return slices

    return [
        instead(snapshotting, "Image", noted),
        instead(BrokerRole, "loading", broker),
        instead(ControllerRole, "loading", controller),
    ]


@mistake("loading")
def only_the_first_slice_is_compared() -> Sequence[Patch]:
    """Of the replicas of a broker those of the first slice follow a snapshot, and the others what is said of them later."""
    compare = MetadataApplier._compare

    def first_only(self: MetadataApplier, slices: Any, here: Any) -> Iterator[None]:
        yield from islice(compare(self, slices, here), 1)

    return [instead(MetadataApplier, "_compare", first_only)]
