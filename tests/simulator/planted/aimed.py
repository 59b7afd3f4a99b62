"""Faults that are aimed: each makes, again and again, the situation in which one kind of mistake does its harm.

They keep the rules of `faults.py`. Some choose the moment by what a node is about to do, but they do nothing that
chance could not.
"""

from collections.abc import Callable
from typing import Any

from actors.broker.replication.isr_transitions import Stage
from actors.metadata.image import Image
from actors.metadata.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from actors.raft import Role
from tests.simulator.directories import FailingDirectories
from tests.simulator.disk import VirtualDisk
from tests.simulator.planted.rough import RoughFaults
from tests.simulator.world import Process

COORDINATED = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC)


class AimedFaults(RoughFaults):
    """The rough faults, and those below."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._voter: Process | None = None
        """Processes that lose power with every vote that they give."""
        self._voted = 0
        self._reigned = -1
        """The epoch of the last leader that lost power; -1: leaders are left alone."""
        self._awaited: tuple[Process, tuple[bytes, int], Process] | None = None
        """(leader, partition, member): the member restarts as soon as the leader has sent a proposal; None: none is
        awaited."""
        self._outpaced: Process | None = None
        """The active controller that loses power as soon as a voter holds what its own disk does not."""
        self.world.turned.append(self._turned)

    def _more(self) -> dict[str, Callable[[], bool]]:
        return {
            "controller alone": self.controller_alone,
            "late pushes": self.late_pushes,
            "broker silent": self.broker_silent,
            "broker deaf": self.broker_deaf,
            "late lease": self.late_lease,
            "long freeze": self.long_freeze,
            "follower freezes": self.follower_freezes,
            "last of the isr dies": self.last_dies,
            "slow proposals": self.slow_proposals,
            "proposal overtaken": self.proposal_overtaken,
            "coordinator dies": self.coordinator_dies,
            "leader falls behind": self.leader_falls_behind,
            "split vote": self.split_vote,
            "short reigns": self.short_reigns,
            "one controller stays down": self.one_stays_down,
            "leader outpaced": self.leader_outpaced,
            "stops and loses power": self.stops_and_loses_power,
            "unnoticed power cut": self.unnoticed_power_cut,
            "rot": self.rot,
            "disk lost": self.disk_lost,
        }

    # ---- tools

    def _apart(self, pairs: list[tuple[str, str]], milliseconds: int) -> None:
        """Block everything from the first to the second of each pair for a while."""
        if self.over:
            return
        for one, other in pairs:
            self.world.block(one, other)
        self.world.say("network", f"FAULT {pairs} do not get through")
        self._after(milliseconds, lambda: self._join(pairs))

    def _slow(self, pairs: list[tuple[str, str]], delay_us: int, milliseconds: int) -> None:
        """Slow down everything from the first to the second of each pair for a while."""
        if self.over:
            return
        for pair in pairs:
            self.world.slow_us[pair] = delay_us
        self.world.say("network", f"FAULT {pairs} are slow")
        self._after(milliseconds, lambda: [self.world.slow_us.pop(pair, None) for pair in pairs])

    def _join(self, pairs: list[tuple[str, str]]) -> None:
        for pair in pairs:
            self.world.partitions.pop(pair, None)

    def _after(self, milliseconds: int, function: Callable[[], Any]) -> None:
        self.world.after(milliseconds * 1000, function)

    def _between(self, low_ms: int, high_ms: int) -> int:
        return self.choose.randint(low_ms, high_ms)

    def _kill(self, process: Process, why: str) -> None:
        if process in self._free() and not self.over:
            self.world.say(process.name, f"FAULT killed {why}")
            process.kill()

    def _pause(self, process: Process, milliseconds: int) -> None:
        self._after(milliseconds, self._freeze(process))

    def _controllers(self) -> list[str]:
        return [process.name for process in self.cluster.controllers.values()]

    def _partition(self, internal: bool = False) -> tuple[Image, int, Process] | None:
        """A partition with its image, its row and its leader. None: there is none, or no broker may be hurt now."""
        image = self.metadata.image
        rows = [
            row
            for topic in image.topics()
            if internal is (image.topic_name(topic) in COORDINATED)
            for row in image.topic_partitions(topic)
            if image.leader(row) >= 0
        ]
        if not rows:
            return None
        row = rows[self.choose.randrange(len(rows))]
        return None if self._on_guard() else (image, row, self.cluster.brokers[image.leader(row)])

    def _untouched(self) -> bool:
        """Whether no link is cut, and no broker's power cut is still unknown."""
        return not self.world.partitions and not self._on_guard()

    # ---- the controllers

    def controller_alone(self) -> bool:
        """The active controller and the other controllers receive nothing from each other; brokers reach all of them. A
        broker dies."""
        active = self.cluster.active()
        if active is None or active.frozen or not self._untouched():
            return False
        others = [name for name in self._controllers() if name != active.name]
        pairs = [(active.name, other) for other in others] + [(other, active.name) for other in others]
        self._apart(pairs, self._between(2_500, 5_000))
        broker = self._some(list(self.cluster.brokers.values()))
        self._after(self._between(0, 1_500), lambda: self._kill(broker, "beside a lone controller"))
        return True

    def late_pushes(self) -> bool:
        """What the active controller sends to one broker that is told arrives late. It freezes while such a request is under
        way: the next controller tells the broker everything before that request arrives."""
        active = self.cluster.active()
        told = [one for one in self.cluster.brokers.values() if one.config.is_pushed and one.alive]
        if active is None or active.frozen or not told or not self._untouched():
            return False
        broker = self._some(told)
        self._slow([(active.name, broker.name)], self._between(4_500, 7_500) * 1000, 2_000)
        life, id = active.life, broker.config.broker_id

        def look(left: int) -> None:
            if active.life != life or active.node is None or active.frozen:
                return
            outbox = active.node.controller.pusher._outboxes.get(id)
            if outbox is not None and outbox.in_flight is not None:
                self._after(self._between(8_000, 11_000), self._freeze(active))
            elif left:
                self._after(5, lambda: look(left - 1))

        look(400)
        return True

    def split_vote(self) -> bool:
        """The active controller loses power, the others do not reach each other, and it loses power with every vote
        that it gives."""
        active = self.cluster.active()
        if active is None or not self._untouched():
            return False
        one, other = (name for name in self._controllers() if name != active.name)
        lasts_ms = self._between(1_000, 3_000)
        self._apart([(one, other), (other, one)], lasts_ms)
        self._slow([(one, active.name)], self.choose.randint(1_000, 80_000), lasts_ms)
        self._voter = active
        self._after(lasts_ms, self._leave_voter)
        self._cut_power(active)
        return True

    def short_reigns(self) -> bool:
        """Each new leader of the quorum loses power soon, again and again."""
        active = self.cluster.active()
        if active is None:
            return False
        self._reigned = active.node.quorum.raft.epoch if active.node is not None else 0
        self._after(self._between(1_000, 3_000), self._let_reign)
        self._cut_power(active)
        return True

    def _let_reign(self) -> None:
        self._reigned = -1

    def _leave_voter(self) -> None:
        self._voter = None

    def _turned(self, process: Process) -> None:
        if self.over:
            return
        if self._awaited is not None and process is self._awaited[0]:
            self._follow_proposal(*self._awaited)
        if process is self._outpaced:
            self._outrun(process)
        node = process.node
        if (
            self._reigned >= 0
            and node is not None
            and node.quorum.raft.role is Role.LEADER
            and node.quorum.raft.epoch > self._reigned
        ):
            self._reigned = node.quorum.raft.epoch
            self._cut_power_after(self.choose.randint(0, 40_000), process)
        if process is not self._voter or node is None:
            return
        hard = node.quorum.raft._core.hard
        if hard.voted is None or hard.voted.id == node.config.controller_id or hard.epoch <= self._voted:
            return
        self._voted = hard.epoch
        self._cut_power_after(self.choose.randint(*self.choose.choice(((450, 3_000), (3_000, 60_000)))), process)

    def _cut_power_after(self, delay_us: int, process: Process) -> None:
        """Cut its power after a delay, unless it has ended by itself."""
        life = process.life
        self.world.after(delay_us, lambda: self._cut_power(process) if process.life == life else None)

    def _cut_power(self, process: Process) -> None:
        """Cut its power and restore it at once."""
        if process.alive and not self.over:
            self.world.say(process.name, "FAULT power cut")
            process.crash()
            self.world.after(self.choose.randint(500, 20_000), lambda: self._start(process))

    def one_stays_down(self) -> bool:
        """Some controllers, or all, lose power; one of them comes back last."""
        alive = [process for process in self.cluster.controllers.values() if process.alive]
        if not alive:
            return False
        active = self.cluster.active()
        late = active if active is not None and self.choose.randrange(2) else self._some(alive)
        self._down[late.name] = None
        for process in alive:
            if process is late or self.choose.randrange(2):
                self._cut_power(process)
        self._after(self._between(100, 2_000), lambda: self._up([late]))
        return True

    def leader_outpaced(self) -> bool:
        """The active controller reaches one voter slowly, and the other voter is faster than the leader's disk. Then
        the leader loses power, and that voter for longer."""
        active = self.cluster.active()
        if active is None or active.frozen or not self._untouched() or self._down:
            return False
        late = self._some([process for process in self.cluster.controllers.values() if process is not active])
        lasts_ms = self._between(500, 1_500)
        self._slow([(active.name, late.name)], self.choose.randint(30_000, 100_000), lasts_ms)
        self._outpaced = active
        self._after(lasts_ms, self._forget_outpaced)
        return True

    def _forget_outpaced(self) -> None:
        self._outpaced = None

    def _outrun(self, leader: Process) -> None:
        core = leader.node.quorum.raft._core if leader.node is not None else None
        if core is None or core.leading is None:
            return
        ahead = [key.id for key, it in core.leading.voters.items() if it.end_offset > core.log.durable_offset]
        if not ahead:
            return
        self._outpaced = None
        fast = self.cluster.controllers[ahead[0]]
        self._cut_power_after(self.choose.randint(0, 3_000), leader)
        self._cut_power_after(self.choose.randint(0, 3_000), fast)
        self._down[fast.name] = None
        self._after(self._between(500, 2_000), lambda: self._up([fast]))

    # ---- leases

    def long_freeze(self) -> bool:
        """A broker is frozen for longer than its lease."""
        free = [process for process in self._free_brokers() if not process.frozen]
        if not free:
            return False
        self._pause(self._some(free), self._between(3_500, 7_000))
        return True

    def broker_silent(self) -> bool:
        """No controller receives anything from a broker for longer than its lease; all others do."""
        return self._broker_apart(to_controllers=True)

    def broker_deaf(self) -> bool:
        """A broker receives nothing from any controller for longer than its lease."""
        return self._broker_apart(to_controllers=False)

    def _broker_apart(self, *, to_controllers: bool) -> bool:
        if not self._untouched():
            return False
        broker = self._some(list(self.cluster.brokers.values())).name
        pairs = [(broker, name) if to_controllers else (name, broker) for name in self._controllers()]
        self._apart(pairs, self._between(3_500, 7_000))
        return True

    def late_lease(self) -> bool:
        """A broker gets the answer that grants its lease late, and its own messages get lost after that."""
        if not self._untouched():
            return False
        broker = self._some(list(self.cluster.brokers.values())).name
        late = [(name, broker) for name in self._controllers()]
        slow_us = self.choose.randint(300_000, 900_000)
        self._slow(late, slow_us, 3_000)
        lasts_ms, silent = self._between(3_500, 6_000), [(broker, name) for name in self._controllers()]
        self._after(self._between(1_500, 2_500), lambda: self._apart(silent, lasts_ms))
        return True

    # ---- the ISR

    def follower_freezes(self) -> bool:
        """A follower is frozen until its leader proposes an ISR without it."""
        found = self._partition()
        if found is None:
            return False
        image, row, leader = found
        replicas = [self.cluster.brokers[id] for id in image.replicas(row)]
        free = [process for process in replicas if process is not leader and process.alive and not process.frozen]
        if not free:
            return False
        self._pause(self._some(free), self._between(550, 1_600))
        return True

    def last_dies(self) -> bool:
        """All followers are frozen until the leader is alone in the ISR. Then it dies."""
        found = self._partition()
        if found is None or any(one.frozen for one in self.cluster.brokers.values()):
            return False
        image, row, leader = found
        lasts_ms = self._between(800, 2_000)
        for id in image.replicas(row):
            process = self.cluster.brokers[id]
            if process is not leader and process.alive:
                self._pause(process, lasts_ms)
        self._after(max(lasts_ms - self._between(-200, 400), 0), lambda: self._kill(leader, "being the last"))
        return True

    def slow_proposals(self) -> bool:
        """A leader's requests reach the controllers late, or their answers reach it late, while one of its followers is
        frozen."""
        found = self._partition()
        if found is None:
            return False
        leader = found[2].name
        there, back = self.choose.choice(((True, False), (False, True), (True, True)))
        pairs = [(leader, name) for name in self._controllers() if there]
        pairs += [(name, leader) for name in self._controllers() if back]
        self._slow(pairs, self.choose.randint(50_000, 500_000), self._between(1_000, 3_000))
        self.follower_freezes()
        return True

    def proposal_overtaken(self) -> bool:
        """A leader proposes an ISR without a frozen follower. While that is on its way, a member restarts and the
        leader's connections are cut: what the leader repeats is based on an old ISR."""
        found = self._partition()
        if found is None or not self._untouched() or self._awaited is not None:
            return False
        image, row, leader = found
        others = [self.cluster.brokers[id] for id in image.isr(row) if id != image.leader(row)]
        if len(others) < 2 or any(one.frozen or not one.alive for one in (leader, *others)):
            return False
        frozen, member = self.choose.sample(others, 2)
        self._pause(frozen, self._between(800, 1_600))
        ways = [(leader.name, name) for name in self._controllers()]
        self._slow(ways, self.choose.randint(50_000, 200_000), 2_000)
        self._slow([(name, leader.name) for _, name in ways], self.choose.randint(100_000, 400_000), 2_000)
        key = image.topic_id(image.topic_of(row)) or b"", image.number(row)
        self._awaited = leader, key, member
        self._after(1_500, self._forget_awaited)
        return True

    def _forget_awaited(self) -> None:
        self._awaited = None

    def _follow_proposal(self, leader: Process, key: tuple[bytes, int], member: Process) -> None:
        """Act as soon as the leader has sent its proposal."""
        broker = leader.node.broker if leader.node is not None else None
        partition = broker.replicas.get(*key) if broker is not None else None
        if partition is None or partition.isr.stage is not Stage.SENT:
            return
        self._awaited = None
        self._kill(member, "under a proposal")
        self._after(self._between(1, 10), lambda: self._start(member))
        self._after(self._between(20, 120), lambda: self._reset(leader))

    def leader_falls_behind(self) -> bool:
        """A leader's messages to its followers are slow. Then it dies, is frozen, or loses its connections."""
        return self._strike(internal=False)

    def coordinator_dies(self) -> bool:
        """Do to a coordinator of groups or of transactions what `leader_falls_behind` does to a leader."""
        return self._strike(internal=True)

    def _strike(self, *, internal: bool) -> bool:
        found = self._partition(internal)
        if found is None:
            return False
        image, row, leader = found
        pairs = [(leader.name, f"b{id}") for id in image.replicas(row) if id != image.leader(row)]
        lasts_ms = self._between(100, 1_500)
        self._slow(pairs, self.choose.randint(20_000, 400_000), lasts_ms + 500)
        self._after(lasts_ms, lambda: self._kill(leader, "behind slow links"))
        return True

    # ---- power

    def stops_and_loses_power(self) -> bool:
        """A broker stops in order, and its machine loses power after that."""
        process = self._some(list(self.cluster.brokers.values()))
        if not self._guard(process):
            return False
        self._shutdown(process)
        life = process.life

        def ended() -> None:
            if process.life == life:
                self._after(20, ended)
            elif not process.alive:
                self.world.say(process.name, "FAULT power cut after its end")
                process.disk.crash(self.world.power)

        self._after(20, ended)
        return True

    def unnoticed_power_cut(self) -> bool:
        """A broker loses power and is back before a controller learns that its connections are gone. Its requests to
        leaders then come late."""
        process = self._some(list(self.cluster.brokers.values()))
        if not self._guard(process):
            return False
        lasts_ms = self._between(5, 60)
        self.world.say(process.name, "FAULT power cut")
        pairs = [(process.name, name) for name in self._controllers()]
        self._apart(pairs, lasts_ms)
        process.crash()
        self._after(lasts_ms + 1, lambda: self._start(process))
        slow = [(other.name, process.name) for other in self.cluster.brokers.values() if other is not process]
        self._slow(slow, self.choose.randint(50_000, 400_000), self._between(500, 2_000))
        return True


class LastMembers(FailingDirectories):
    """A directory fails whose broker is the only member of an ISR, and is away for a while."""

    first_ms = back_ms = (1_000, 2_000)

    def _candidates(self) -> list[Process]:
        return [one for one in super()._candidates() if one.more and self._last(one)]

    def _last(self, process: Process) -> bool:
        image, me = self._faults.metadata.image, int(process.name[1:])
        rows = [row for row in self._rows(process) if process.more[0].found(self._name(row))]
        return any(set(image.isr(row)) == {me} for row in rows)

    def _kinds(self, process: Process, disk: VirtualDisk) -> list[str]:
        return ["whole"] if self._bare(process) else ["away"]


class AwayFaults(AimedFaults):
    """Aimed faults, and such directories."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.directories = LastMembers(self)


class DirectoriesInUse(FailingDirectories):
    """Directories fail early, while replicas are moved from them and to them."""

    first_ms, back_ms = (1_000, 10_000), (500, 3_000)


class RelocatedFaults(AimedFaults):
    """Aimed faults, such directories, and brokers that die at a step of a move."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.directories = DirectoriesInUse(self)
        self._mover: tuple[Process, str, bool] | None = None
        """(broker, step, power): the broker dies as soon as a move has come to that step; None: none is awaited."""

    def _more(self) -> dict[str, Callable[[], bool]]:
        return {**super()._more(), "dies in a move": self.dies_in_a_move}

    def dies_in_a_move(self) -> bool:
        """A broker is killed, or loses power, at a certain step of its next move."""
        process = self._some(list(self.cluster.brokers.values()))
        step = self.choose.choice(("filled", "settling", "taken", "taken", "named"))
        self._mover = process, step, bool(self.choose.randrange(2))
        return True

    def _turned(self, process: Process) -> None:
        super()._turned(process)
        if self._mover is None or process is not self._mover[0] or process.node is None:
            return
        _, step, power = self._mover
        futures = process.node.broker.logs.futures
        there = {
            "filled": any(log.log_end_offset > 0 for log in futures.by_partition.values()),
            "settling": bool(futures.held),
            "taken": bool(futures.superseded),
            "named": any(name.endswith("-delete") for disk in process.disks for name in disk.listed("")),
        }
        if there[step]:
            self._mover = None
            self.world.after(0, lambda: self._die(process, step, power))

    def _die(self, process: Process, step: str, power: bool) -> None:
        if not process.alive or process.frozen or self.over:
            return
        if power and self._guard(process):
            self.world.say(process.name, f"FAULT power cut, a move is {step}")
            process.crash()
        elif process in self._free():
            self.world.say(process.name, f"FAULT killed, a move is {step}")
            process.kill()
