"""After the faults, with idle clients (I7 of KIP-497's requirement file), no proposal and no reassignment is left, and
every replica's log ends where its leader's does, with everything committed.

Also, what an image keeps beside the records, and no snapshot shows, agrees with the records: counts, chains, names.
"""

from actors.broker.replication.isr_transitions import Stage
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import MetadataLog
from tests.simulator.cluster import Cluster
from tests.simulator.world import Process


class QuietCluster:
    name = "quiet_cluster_agrees"

    def __init__(self, metadata: MetadataLog, cluster: Cluster) -> None:
        self._metadata = metadata
        self._cluster = cluster

    def finish(self) -> None:
        """Check every partition of every topic. A coordinator may still write about members that are gone."""
        for process in (*self._cluster.controllers.values(), *self._cluster.brokers.values()):
            self._image(process)
        image = self._metadata.image
        for topic in image.topics():
            if image.topic_name(topic).startswith("__"):
                continue
            topic_id = image.topic_id(topic) or b""
            for row in image.topic_partitions(topic):
                if image.adding(row) or image.removing(row):
                    where = f"partition {image.number(row)} of topic {topic_id.hex()}"
                    raise Violation("reassignments_end", f"{where} still has {image.removing(row)} to give up")
                self._partition(topic_id, image.number(row), image.leader(row), image.replicas(row))

    @staticmethod
    def _image(process: Process) -> None:
        if process.node is None:
            return
        controller, broker = process.node.controller, process.node.broker
        for part in (controller, None if broker is None else broker.cache):
            try:
                if part is not None:
                    part.image.check()
            except AssertionError as error:
                raise Violation("images_are_sound", f"{process.name}: {error!r}") from error

    def _partition(self, topic_id: bytes, number: int, leader: int, replicas: tuple[int, ...]) -> None:
        ends = {}
        for replica in replicas:
            process = self._cluster.brokers[replica]
            partition = process.node.broker.replicas.get(topic_id, number) if process.node is not None else None
            if partition is None:
                raise Violation(self.name, f"{process.name} has no replica {number} of topic {topic_id.hex()}")
            ends[replica] = partition.log.log_end_offset, partition.high_watermark
            if replica == leader and partition.isr.stage is not Stage.SETTLED:
                raise Violation("no_proposal_is_left", f"{process.name} still wants another ISR of {partition!r}")
        if any(end != ends[leader][0] or mark != end for end, mark in ends.values()):
            raise Violation(self.name, f"partition {number} of topic {topic_id.hex()}, led by {leader}, ends at {ends}")
