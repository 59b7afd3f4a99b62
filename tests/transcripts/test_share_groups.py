"""Stories of share groups (KIP-932): members and administrators of a broker."""

from pathlib import Path
from typing import Any

import pytest

from actors.metadata import ops
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.transcripts.driver import play, stories
from tests.unit.node.roles.broker.groups.share.cluster import Member, call, described, made, offsets


class Groups:
    """The commands of these stories. Assignments are written `t:0,1/u:0`, nothing as `-`."""

    def __init__(self) -> None:
        self.lab = made()
        self.ids = {"t": bytes(range(16))}
        self.members: dict[str, Member] = {}

    def commands(self) -> dict[str, Any]:
        names = (
            "topic",
            "join",
            "beat",
            "leave",
            "wait",
            "show",
            "offsets",
            "alter",
            "forget",
            "delete",
            "lose",
            "find",
        )
        return {name: getattr(self, name) for name in names}

    def topic(self, name: str, size: str) -> str:
        """A topic comes, grows, or goes (0)."""
        known = self.ids.get(name)
        if int(size) == 0:
            self.lab.commit(ops.TopicGone(self.ids.pop(name)))
        elif known is None:
            self.ids[name] = bytes([len(self.ids) + 40]) * 16
            self.lab.topic([2, 1], name, self.ids[name], partitions=int(size))
        else:
            row = self.lab.broker(1).cache.image.topic(name)
            present = len(self.lab.broker(1).cache.image.topic_partitions(row))
            added = range(present, int(size))
            self.lab.commit(ops.PartitionsSet(known, added, [[2, 1]] * len(added), [[2, 1]] * len(added)))
        self.lab.settle()
        return ""

    def join(self, member: str, *topics: str) -> str:
        self.members[member] = Member(self.lab, member, topics)
        return self._told(member, self.members[member].beat())

    def beat(self, member: str, epoch: str = "") -> str:
        found = self.members[member]
        return self._told(member, found.beat(int(epoch) if epoch else None))

    def leave(self, member: str) -> str:
        return self.members[member].leave().name

    def wait(self, ms: str) -> str:
        self.lab.pass_ms(int(ms))
        return ""

    def lose(self, api: str = "") -> str:
        """Requests of an API between brokers are lost from now on; without one: none is."""
        self.lab.lost.clear()
        if api:
            self.lab.lost.add(api)
        return ""

    def find(self) -> str:
        """What the group has in its log about share partitions."""
        group = self.lab.broker(1).groups.machine.find("g")
        if group is None:
            return "no group"
        rows = [
            f"{name}: {self._held({id: begun.partitions for id, begun in topics.items()})}"
            for name, topics in (("initialising", group.initializing), ("initialised", group.initialized))
        ]
        return "\n".join([*rows, f"deleting: {', '.join(sorted(group.deleting.values())) or '-'}"])

    def show(self) -> str:
        group = described(self.lab)
        if group.error_code:
            return ErrorCode(group.error_code).name
        rows = [f"{group.group_state} epoch={group.group_epoch} target={group.assignment_epoch}"]
        for member in sorted(group.members, key=lambda one: one.member_id):
            held = {one.topic_id: one.partitions for one in member.assignment.topic_partitions}
            rows.append(f"  {member.member_id} {member.member_epoch} has {self._held(held)}")
        return "\n".join(rows)

    def offsets(self) -> str:
        found = offsets(self.lab)
        return "\n".join(f"{name}-{number} at {at}, lag {lag}" for (name, number), (at, lag) in found.items()) or "none"

    def alter(self, topic: str, number: str, offset: str) -> str:
        kind = message("AlterShareGroupOffsetsRequest")
        part = kind.AlterShareGroupOffsetsRequestPartition(partition_index=int(number), start_offset=int(offset))
        named = [kind.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[part])]
        reply = call(self.lab, "AlterShareGroupOffsets", 0, kind(group_id="g", topics=named), ms=40_000)
        return ErrorCode(reply.error_code or reply.responses[0].partitions[0].error_code).name

    def forget(self, topic: str) -> str:
        kind = message("DeleteShareGroupOffsetsRequest")
        named = [kind.DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
        reply = call(self.lab, "DeleteShareGroupOffsets", 0, kind(group_id="g", topics=named), ms=40_000)
        return ErrorCode(reply.error_code or reply.responses[0].error_code).name

    def delete(self) -> str:
        reply = call(self.lab, "DeleteGroups", 2, message("DeleteGroupsRequest")(groups_names=["g"]), ms=40_000)
        return ErrorCode(reply.results[0].error_code).name

    def _told(self, member: str, reply: Any) -> str:
        if reply.error_code:
            return ErrorCode(reply.error_code).name
        given = "" if reply.assignment is None else f" {self._held(self.members[member].assigned)}"
        soon = " come back soon" if reply.heartbeat_interval_ms < 1_000 else ""
        return f"epoch {reply.member_epoch}{given}{soon}"

    def _held(self, held: Any) -> str:
        names = {id: name for name, id in self.ids.items()}
        shown = sorted((names.get(topic, "gone"), sorted(partitions)) for topic, partitions in held.items())
        return "/".join(f"{name}:{','.join(map(str, numbers))}" for name, numbers in shown) or "-"


@pytest.mark.parametrize("story", stories("share_groups"), ids=lambda path: str(path.stem))
def test_story(story: Path, rewrite: bool) -> None:
    play(story, Groups().commands(), rewrite)
