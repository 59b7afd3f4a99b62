"""Worlds in which the controller decides long requests an entry at a time, a turn each: AlterIsr, and what clients ask for
many topics or partitions. Controllers end amid such requests.

The mistakes here are planted where a portion ends and the next one begins, and where another controller has taken over
between two of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from actors.controller import portions
from actors.controller.partitions.alter_isr import alter_isr
from actors.controller.portions import Nested
from actors.node.api.handlers import alter_isr as handler
from actors.node.roles.controller.role import ControllerRole
from actors.node.runtime.answers import Done, Held
from actors.wire.messages import message
from tests.simulator.planted.aimed import AimedFaults
from tests.simulator.planted.registry import Patch, instead, mistake
from tests.simulator.world import Process

TURNS = 20
"""A turn that waits for nothing comes 50 us behind the one before."""
MENU = {"ends amid a request": 8, "follower freezes": 8, "kill": 2, "controllers lose power": 1, "slow proposals": 3,
        "leader falls behind": 3, "short reigns": 1, "long freeze": 2, "orderly restart": 2, "slow link": 1}  # fmt: skip


class AmidFaults(AimedFaults):
    """The aimed faults, and controllers that end amid a long request."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._after_turns = -1
        """The turns with a long request under way after which the active controller ends; -1: it goes on."""

    def _more(self) -> dict[str, Any]:
        return {**super()._more(), "ends amid a request": self.ends_amid}

    def ends_amid(self) -> bool:
        """A follower freezes, and the controller that is asked for the ISRs without it ends amid that."""
        self._after_turns = self._between(0, 3 * TURNS)
        return self.follower_freezes()

    def _turned(self, process: Process) -> None:
        super()._turned(process)
        role = process.node.controller if process.node is not None else None
        if self.over or self._after_turns < 0 or role is None or not getattr(role, "under_way", 0):
            return
        self._after_turns -= 1
        if self._after_turns < 0:
            act = self.choose.randrange(5)
            if act == 0:
                self._pause(process, self._between(3_000, 6_000))
            elif act == 1:
                self._cut_power_after(0, process)
            elif act == 2:
                self._after(0, lambda: self._kill(process, "amid a request"))
            else:
                self._after(0, lambda: self._shutdown(process) if process.alive else None)


def one_by_one() -> Sequence[Patch]:
    """An entry a portion, and some turns between two of them."""
    in_portions, cut_into = ControllerRole._in_portions, Nested.portions

    def followed(self: Any, *given: Any) -> Any:
        self.under_way = getattr(self, "under_way", 0) + 1
        try:
            return (yield from in_portions(self, *given))
        finally:
            self.under_way -= 1

    def slowly(self: Nested, *given: Any) -> Iterator[Any]:
        for portion in cut_into(self, *given):
            yield portion
            yield from [None] * TURNS

    return [
        instead(Nested, "portions", slowly),
        instead(portions, "ENTRIES_A_PORTION", 1),
        instead(portions, "LOOKED_AT_ONCE", 2),
        instead(handler, "PROPOSED", handler.PROPOSED._replace(times=1)),
        instead(ControllerRole, "_in_portions", followed),
    ]


def _while_active(otherwise: Any) -> Sequence[Patch]:
    """Requests in portions whose answer is another one where the leadership was lost between two of them. `otherwise`:
    that answer, of (role, replies so far)."""

    def in_portions(self: Any, operation: Any, request: Any, call: Any, cut: Any) -> Any:
        epoch, reply = self.epoch, None
        self.under_way = getattr(self, "under_way", 0) + 1
        try:
            for portion in cut.portions(request, self.image):
                if portion is not None:
                    reply = portions.added(cut, reply, cut.shown(request, self._run(operation, portion).reply))
                    if cut.ends(reply):
                        break
                yield
                if not self.active or self.epoch != epoch:
                    if reply is None:
                        return self.submit(operation, request, call, cut)
                    return otherwise(self, request, reply)
            return Held(self.image.next_offset - 1, reply)
        finally:
            self.under_way -= 1

    return [instead(ControllerRole, "_in_portions", in_portions)]


@mistake("portions")
def what_was_decided_before_the_leadership_was_lost_is_told() -> Sequence[Patch]:
    """A request in the middle of which the leadership is lost is answered with what its first portions were granted, though
    that may be undone, and for the rest with nothing."""
    return _while_active(lambda role, request, reply: Done(reply))


@mistake("portions")
def all_of_a_request_is_granted_by_its_first_portion() -> Sequence[Patch]:
    """Of the proposals of an AlterIsr the first portion is decided, and the others are answered as it was."""
    in_portions = ControllerRole._in_portions

    def first_only(self: Any, operation: Any, request: Any, call: Any, cut: Any) -> Any:
        if operation is not alter_isr:
            return (yield from in_portions(self, operation, request, call, cut))
        found = next(one for one in cut.portions(request, self.image) if one is not None)
        first = self._run(operation, found).reply
        if first.error_code or not first.topics:
            return Held(self.image.next_offset - 1, first)
        code, kind = first.topics[0].partitions[0].error_code, message("AlterIsrResponse")
        topics = [
            kind.TopicData(
                topic=topic.topic,
                partitions=[
                    kind.PartitionData(partition_id=one.partition_id, error_code=code) for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return Held(self.image.next_offset - 1, kind(topics=topics))

    return [instead(ControllerRole, "_in_portions", first_only)]


@mistake("portions")
def portions_are_decided_by_the_state_at_the_beginning() -> Sequence[Patch]:
    """All portions of an AlterIsr are decided at once and written later: what has changed meanwhile is overwritten."""
    in_portions = ControllerRole._in_portions

    def early(self: Any, operation: Any, request: Any, call: Any, cut: Any) -> Any:
        if operation is not alter_isr:
            return (yield from in_portions(self, operation, request, call, cut))
        epoch, reply = self.epoch, None
        state, now, random = self.state(), self._runtime.now, self._runtime.random
        found = [one for one in cut.portions(request, self.image) if one is not None]
        results = [operation(state, one, now, random) for one in found]
        self.under_way = getattr(self, "under_way", 0) + 1
        try:
            for result in results:
                for _ in range(3 * TURNS):
                    yield
                    if not self.active or self.epoch != epoch:
                        return self.submit(operation, request, call, cut)
                self._apply(result)
                if reply is None or cut.ends(result.reply):
                    reply = result.reply
                elif not cut.ends(reply):
                    cut.join(reply, result.reply)
            return Held(self.image.next_offset - 1, reply)
        finally:
            self.under_way -= 1

    return [instead(ControllerRole, "_in_portions", early)]


@mistake("portions")
def a_portion_is_left_out_and_granted() -> Sequence[Patch]:
    """The last portion of a long AlterIsr is answered like the one before it, and never decided."""
    cut_into = Nested.portions

    def without_last(self: Nested, request: Any, image: Any) -> Iterator[Any]:
        found = list(cut_into(self, request, image))
        whole = [one for one in found if one is not None]
        yield from found if self.topics != "topics" or self.name != "topic" or len(whole) < 2 else whole[:-1]

    in_portions = ControllerRole._in_portions

    def granted(self: Any, operation: Any, request: Any, call: Any, cut: Any) -> Any:
        answer = yield from in_portions(self, operation, request, call, cut)
        if operation is alter_isr and isinstance(answer, Held) and not answer.reply.error_code:
            kind = message("AlterIsrResponse")
            told = {(topic.topic, one.partition_id) for topic in answer.reply.topics for one in topic.partitions}
            for topic in request.topics:
                rest = [one for one in topic.partitions if (topic.topic, one.partition_id) not in told]
                entries = [kind.PartitionData(partition_id=one.partition_id, error_code=0) for one in rest]
                if entries:
                    answer.reply.topics.append(kind.TopicData(topic=topic.topic, partitions=entries))
        return answer

    return [instead(Nested, "portions", without_last), instead(ControllerRole, "_in_portions", granted)]
