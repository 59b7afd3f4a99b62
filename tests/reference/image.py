"""The image as plain dictionaries, copied whole for every undo point and every pin: slow, and plainly right."""

import copy

from actors.metadata import ops


class SlowImage:
    """Partitions as {(topic id, number): dict}; everything else as it comes."""

    def __init__(self):
        self.state = {"topics": {}, "partitions": {}, "brokers": {}, "configs": {}, "features": {}, "producer": 0}
        self.next_offset = 0
        self.history = []

    def replay(self, offset, op):
        """Keeps a copy of the state before, by offset. Raises ValueError and changes nothing."""
        before = copy.deepcopy(self.state)
        try:
            getattr(self, type(op).__name__)(op)
        except Exception:
            self.state = before
            raise
        self.history.append((offset, before))
        self.next_offset = offset + ops.records(op)

    def commit(self, offset):
        self.history = [entry for entry in self.history if entry[0] >= offset]

    def undo(self, offset):
        while self.history and self.history[-1][0] >= offset:
            self.next_offset, self.state = self.history.pop()

    def pin(self):
        return copy.deepcopy(self.state)

    def BrokerSet(self, op):
        self.state["brokers"][op.id] = op

    def BrokerGone(self, op):
        self.state["brokers"].pop(op.id, None)
        for one in self.state["partitions"].values():
            if op.id not in one["isr"]:
                continue
            left = one["isr"] - {op.id}
            if not left and one["leader"] != op.id:
                continue
            one["isr"] = left or one["isr"]
            one["leader"] = -1 if one["leader"] == op.id else one["leader"]
            one["leader_epoch"] += 1
            one["partition_epoch"] += 1

    def TopicSet(self, op):
        names = {name: topic_id for topic_id, (name, _) in self.state["topics"].items()}
        if names.get(op.name, op.id) != op.id:
            raise ValueError("name taken")
        if op.id in self.state["topics"] and self.state["topics"][op.id][0] != op.name:
            raise ValueError("renamed")
        self.state["topics"][op.id] = (op.name, op.deleting)

    def TopicGone(self, op):
        name, _ = self.state["topics"].pop(op.id, None) or self._no("no such topic")
        self.state["configs"].pop((2, name), None)
        self.state["partitions"] = {key: one for key, one in self.state["partitions"].items() if key[0] != op.id}

    def _no(self, why):
        raise ValueError(why)

    def _checked(self, one):
        if not one["isr"] <= set(one["replicas"]):
            raise ValueError("ISR is not a subset of the replicas")
        if one["leader"] >= 0 and one["leader"] not in one["isr"]:
            raise ValueError("leader outside the ISR")
        return one

    def PartitionsSet(self, op):
        if op.topic_id not in self.state["topics"]:
            raise ValueError("no such topic")
        for state in op:
            self.state["partitions"][state.topic_id, state.number] = self._checked(
                {
                    "replicas": state.replicas,
                    "isr": set(state.isr),
                    "leader": state.leader,
                    "leader_epoch": state.leader_epoch,
                    "partition_epoch": state.partition_epoch,
                    "directories": state.directories or (),
                    "removing": state.removing or (),
                    "adding": state.adding or (),
                    "recovery": state.recovery or 0,
                    "elr": state.elr or (),
                    "last_known_elr": state.last_known_elr or (),
                }
            )

    def PartitionsChanged(self, op):
        for state in op:
            one = self.state["partitions"].get((state.topic_id, state.number)) or self._no("no such partition")
            moved = state.replicas is not None and state.replicas != one["replicas"]
            if moved and state.directories is None:
                one["directories"] = ()
            for name in ("replicas", "directories", "removing", "adding", "recovery", "elr", "last_known_elr"):
                if getattr(state, name) is not None:
                    one[name] = getattr(state, name)
            if state.isr is not None:
                one["isr"] = set(state.isr)
            if state.leader != -2:
                one["leader"] = state.leader
            if state.leader_epoch >= 0:
                one["leader_epoch"] = state.leader_epoch
            elif state.leader != -2:
                one["leader_epoch"] += 1
            if state.partition_epoch >= 0:
                one["partition_epoch"] = state.partition_epoch
            else:
                one["partition_epoch"] += 1
            self._checked(one)

    def ConfigSet(self, op):
        values = self.state["configs"].setdefault((op.resource_type, op.resource_name), {})
        values.pop(op.name, None)
        if op.value is not None:
            values[op.name] = op.value
        if not values:
            del self.state["configs"][op.resource_type, op.resource_name]

    def FeatureSet(self, op):
        self.state["features"].pop(op.name, None)
        if op.level:
            self.state["features"][op.name] = op.level

    def ProducerIdsSet(self, op):
        if op.next_producer_id < self.state["producer"]:
            raise ValueError("producer ids go back")
        self.state["producer"] = op.next_producer_id
