"""Stories of the controller: State and Image without a node (KIP-631, Broker Registration and State Management)."""

from pathlib import Path
from typing import Any

import pytest

from actors.controller.brokers import heartbeat_leases
from actors.controller.brokers.controlled_shutdown import controlled_shutdown
from actors.controller.brokers.offline_replicas import answered_replicas, offline_replicas
from actors.controller.brokers.zookeeper_brokers import LiveBroker, follow
from actors.controller.partitions.alter_isr import alter_isr
from actors.controller.partitions.zookeeper_alter_partition import AlterPartition
from actors.controller.soft_state import Soft
from actors.metadata.ops import (
    BrokerGone,
    BrokerSet,
    ConfigSet,
    EndPoint,
    FeatureSet,
    PartitionsChanged,
    PartitionsSet,
    TopicSet,
)
from actors.wire.messages import message
from tests.transcripts.driver import play, stories
from tests.unit.controller.cluster import LISTENER, Cluster

STATES = {"FENCED": 2, "ACTIVE": 3, "SHUTDOWN": 4}
NAMES = {0: "UNKNOWN", 1: "INITIAL", 2: "FENCED", 3: "ACTIVE", 4: "SHUTDOWN"}


class Lab:
    """The commands of these stories. Each shows the records that an operation writes, then its answer."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.clock_ms = 0
        self.incarnations: dict[str, bytes] = {}
        self.epochs: dict[str, int] = {}

    def commands(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (
            "level", "heartbeat", "wait", "work", "topic", "isr", "alter", "stop", "znodes", "successor", "told", "show",
            "hold", "release")}  # fmt: skip

    # ---- the world

    def level(self, level: str) -> str:
        """Start again with this metadata.format."""
        self.cluster = Cluster(level=int(level))
        return ""

    def wait(self, seconds: str) -> str:
        """Let time pass. Then leases that have ended are fenced."""
        ms = int(float(seconds) * 1000)
        self.cluster.later(ms)
        self.clock_ms += ms
        ended = heartbeat_leases.expired(self.cluster.soft, self.cluster.now)
        said = [f"lease of {broker} has ended" for broker in ended]
        self.cluster.expire()
        return "\n".join(said + self._ops())

    def hold(self) -> str:
        """Commit nothing from now on."""
        self.cluster.held = self.cluster.image.next_offset
        return ""

    def release(self) -> str:
        """Commit everything that is held."""
        self.cluster.held = None
        return ""

    def work(self) -> str:
        """Run the bulk work of the next ticks."""
        self.cluster.settle()
        return "\n".join(self._ops())

    # ---- requests

    def heartbeat(self, process: str, target: str = "ACTIVE", **fields: str) -> str:
        """`1a`: process a of broker 1. It sends the epoch that it was last told, or -1."""
        broker = int(process.rstrip("abcdefgh"))
        incarnation = self.incarnations.setdefault(process, bytes([len(self.incarnations) + 1]) * 16)
        given: dict[str, Any] = {"incarnation_id": incarnation, "lease_start_time_ms": self.clock_ms}
        if "offset" in fields:
            given["cur_metadata_offset"] = int(fields["offset"])
        if "host" in fields:
            given["listeners"] = [(LISTENER[0], fields["host"], *LISTENER[2:])]
        if "previous" in fields:
            given["previous_broker_epoch"] = int(fields["previous"])
        epoch = int(fields.get("epoch", self.epochs.get(process, -1)))
        reply = self.cluster.beat(broker, epoch, STATES[target], **given)
        if reply.broker_epoch >= 0:
            self.epochs[process] = reply.broker_epoch
        words = [NAMES[reply.next_state]]
        if reply.error_code:
            words.append(f"error={reply.error_code}")
        words.append(f"epoch={reply.broker_epoch}")
        if reply.lease_end_time_ms:
            words.append(f"lease={reply.lease_end_time_ms / 1000:g}s")
        return "\n".join([*self._ops(), " ".join(words)])

    def topic(self, name: str, *replicas: str) -> str:
        """`topic t 1,2,3 2,3,1`: one list for each partition."""
        result = self.cluster.topic(name, *(tuple(map(int, one.split(","))) for one in replicas))
        return "\n".join([*self._ops(), f"error={result.error_code}"])

    def isr(self, partition: str, isr: str, sender: str = "", epoch: str = "") -> str:
        """`isr t-0 1,2`: its leader proposes this ISR, under the present epoch unless `epoch` says otherwise."""
        name, _, number = partition.rpartition("-")
        _, leader, present = self.cluster.partition(name, int(number))
        kind = message("AlterIsrRequest")
        version = int(epoch) if epoch else present
        broker = int(sender) if sender else leader
        entry = kind.PartitionData(
            partition_id=int(number),
            leader=broker,
            leader_epoch=version,
            isr=[int(one) for one in isr.split(",")],
            current_zk_version=version,
        )
        lease = self.cluster.soft.leases.get(broker)
        request = kind(
            broker_id=broker,
            broker_epoch=lease.epoch if lease else 0,
            topics=[kind.TopicData(topic=name, partitions=[entry])],
        )
        reply = self.cluster.run(alter_isr, request)
        code = reply.error_code or reply.topics[0].partitions[0].error_code
        return "\n".join([*self._ops(), f"error={code}"])

    def znodes(self, *named: str) -> str:
        """`znodes 1@100 2@101`: what is in /brokers/ids, with the czxid of each."""
        live = []
        for one in named:
            id, _, epoch = one.partition("@")
            live.append(LiveBroker(int(id), int(epoch), (EndPoint("PLAINTEXT", f"h{id}", 9092),)))
        later = self.cluster.run(follow, live)
        return "\n".join([*self._ops(), *(["later " + " ".join(map(str, later))] if later else [])])

    def successor(self, seconds: str = "0") -> str:
        """Another controller becomes active; it knows the log alone."""
        cluster = self.cluster
        cluster.soft = Soft()
        cluster.soft.commits.begin(cluster.mono_ms, cluster.image.next_offset)
        heartbeat_leases.take_over(cluster.soft, cluster.image, cluster.now, cluster.options.lease_ms(2), 0)
        return ""

    def alter(self, version: str, partition: str, isr: str, sender: str, epoch: str, broker_epoch: str) -> str:
        """`alter 0 t-0 1,2 1 5 100`: AlterPartition of that version; a leader in that leader epoch and broker epoch."""
        kind = message("AlterPartitionRequest")
        name, _, number = partition.rpartition("-")
        members = [int(one) for one in isr.split(",")]
        image, by_id = self.cluster.image, int(version) >= 2
        row = image.topic(name)
        topic = kind.TopicData(
            topic_name="" if by_id else name,
            topic_id=(image.topic_id(row) if row >= 0 else b"unknown topic id") if by_id else bytes(16),
            partitions=[
                kind.PartitionData(
                    partition_index=int(number),
                    leader_epoch=int(epoch),
                    partition_epoch=int(epoch),
                    new_isr=members if int(version) < 3 else [],
                    new_isr_with_epochs=[kind.BrokerState(broker_id=one) for one in members]
                    if int(version) >= 3
                    else [],
                )
            ],
        )
        request = kind(broker_id=int(sender), broker_epoch=int(broker_epoch), topics=[topic])
        reply = self.cluster.run(AlterPartition(int(version)), request)
        if reply.error_code:
            return f"error={reply.error_code}"
        (one,) = reply.topics[0].partitions
        said = f"leader={one.leader_id} isr={','.join(map(str, one.isr))} epoch={one.leader_epoch}"
        return "\n".join(
            [*self._ops(), f"error={one.error_code}" if one.error_code else f"{said} {one.partition_epoch}"]
        )

    def told(self, broker: str, **codes: str) -> str:
        """`told 1 t-0=56 t-1=0`: a broker's answer to LeaderAndIsr, with an error code for each partition."""
        kind = message("LeaderAndIsrResponse")
        image, topics = self.cluster.image, []
        for partition, code in codes.items():
            name, _, number = partition.rpartition("-")
            one = kind.LeaderAndIsrPartitionError(partition_index=int(number), error_code=int(code))
            topics.append(
                kind.LeaderAndIsrTopicError(topic_id=image.topic_id(image.topic(name)), partition_errors=[one])
            )
        self.cluster.run(offline_replicas, answered_replicas(int(broker), kind(topics=topics)))
        return "\n".join(self._ops())

    def stop(self, broker: str, epoch: str) -> str:
        """ControlledShutdown of a broker, under its epoch."""
        request = message("ControlledShutdownRequest")(broker_id=int(broker), broker_epoch=int(epoch))
        reply = self.cluster.run(controlled_shutdown, request)
        left = [f"{one.topic_name}-{one.partition_index}" for one in reply.remaining_partitions]
        if self.cluster.result.wait is not None:
            return "waits"
        return f"error={reply.error_code} leads {','.join(left) or 'nothing'}"

    def show(self, *names: str) -> str:
        """Show the registered brokers, or the partitions of topics."""
        image = self.cluster.image
        if not names:
            return "brokers " + " ".join(f"{broker.id}@{broker.epoch}" for broker in image.brokers())
        lines = []
        for name in names:
            for row in image.topic_partitions(image.topic(name)):
                isr = ",".join(map(str, image.isr(row)))
                lines.append(
                    f"{name}-{image.number(row)} leader={image.leader(row)} isr={isr} epoch={image.leader_epoch(row)}"
                )
        return "\n".join(lines)

    def _ops(self) -> list[str]:
        lines: list[str] = []
        for op in self.cluster.ops:
            lines += self._op(op)
        return lines

    def _op(self, op: Any) -> list[str]:
        image = self.cluster.image
        if isinstance(op, BrokerSet):
            return [f"+ Broker {op.id} epoch={op.epoch} {op.endpoints[0].host}"]
        if isinstance(op, BrokerGone):
            return [f"+ DeleteBroker {op.id}"]
        if isinstance(op, TopicSet):
            return [f"+ Topic {op.name}"]
        if isinstance(op, PartitionsSet | PartitionsChanged):
            word = "Partition" if isinstance(op, PartitionsSet) else "IsrChange"
            return [
                f"+ {word} {image.topic_name(image.topic_by_id(state.topic_id))}-{state.number} "
                f"leader={state.leader} isr={','.join(map(str, state.isr))} epoch={state.leader_epoch}"
                for state in op
            ]
        assert isinstance(op, ConfigSet | FeatureSet)
        return [f"+ {op}"]


@pytest.mark.parametrize("story", stories("controller"), ids=lambda path: path.stem)
def test_story(story: Path, rewrite: bool) -> None:
    play(story, Lab().commands(), rewrite)
