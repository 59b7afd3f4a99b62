"""The acknowledgements of a ShareFetch or a ShareAcknowledge: of each partition, whether they hold (KIP-932).

This file alone decides what is answered to the acknowledgements of a partition. Rules:

1. A partition's are judged by themselves: what is refused in one changes nothing in another.
2. They hold once they are stored. Until then the answer waits.
"""

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.share.delivery.acknowledgement import AcknowledgementBatch, check_form
from actors.broker.groups.share.delivery.in_flight import DeliveryChange
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.delivery.share_sessions import Named, SessionOwner
from actors.broker.replication.admission import RequestRefused
from actors.node.api.contexts import BrokerContext
from actors.node.roles.broker.groups.share.share_partitions import LedSharePartition
from actors.node.runtime.calls import Call
from actors.node.runtime.slices import SliceCount
from actors.wire.errors import ErrorCode, text


class AcknowledgementsOutcome(NamedTuple):
    """What is said of a partition's acknowledgements."""

    code: ErrorCode
    text: str | None = None


HOLDS = AcknowledgementsOutcome(ErrorCode.NONE)
RENEWALS_FROM = 2
CODES = {int(code): code for code in ErrorCode}


class Acknowledgements:
    """The acknowledgements of one request. `outcomes`: of the partitions of which it is known; `left`: of the others, what
    waits."""

    def __init__(self, context: BrokerContext, owner: SessionOwner, call: Call, *, renewing: bool) -> None:
        self._context = context
        self.owner = owner
        self._call = call
        self._renewals = call.api_version >= RENEWALS_FROM
        self._renewing = renewing
        self.outcomes: dict[Named, AcknowledgementsOutcome] = {}
        self.left: dict[Named, tuple[LedSharePartition, DeliveryChange]] = {}

    def take_in(self, topics: Any, *, empty: bool) -> Iterator[None]:
        """Take in what the request says, slice by slice. `empty`: a partition without acknowledgements is answered too."""
        pace = SliceCount()
        for topic in topics:
            name = self._context.cache.topic_name(topic.topic_id)
            allowed = name is not None and self._context.authorizer.allowed(
                self._call, Operation.READ, Resource.TOPIC, name
            )
            for one in topic.partitions:
                batches = one.acknowledgement_batches
                if batches or empty:
                    self._take(topic.topic_id, name, one.partition_index, batches, allowed)
                if pace.over(1 + len(batches)):
                    yield

    def waits(self) -> list[Hashable]:
        """Note what is stored by now; the waiting keys of what is not."""
        for named, (_, change) in list(self.left.items()):
            if change.done:
                del self.left[named]
                code = CODES[change.error]
                self.outcomes[named] = HOLDS if code is ErrorCode.NONE else AcknowledgementsOutcome(code, text(code))
        return [held.key for held, _ in self.left.values()]

    def _take(self, topic_id: bytes, topic: str | None, number: int, batches: Any, allowed: bool) -> None:
        named = topic_id, number
        try:
            if topic is None:
                raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_ID)
            given = [AcknowledgementBatch(one.first_offset, one.last_offset, one.acknowledge_types) for one in batches]
            check_form(given, renewals=self._renewals, renewing=self._renewing)
            if not allowed:
                raise RequestRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            self.outcomes[named] = HOLDS
            if given:
                self._acknowledge(named, given)
        except RequestRefused as refused:
            self.outcomes[named] = AcknowledgementsOutcome(refused.code, str(refused) or text(refused.code))

    def _acknowledge(self, named: Named, given: list[AcknowledgementBatch]) -> None:
        context, (topic_id, number) = self._context, named
        partition = context.replicas.get(topic_id, number)
        if partition is None:
            raise RequestRefused(context.availability.absent(topic_id, number))
        if not partition.leads:
            raise RequestRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        held = context.shares.find(SharePartitionKey(self.owner.group, topic_id, number))
        if held is None:
            raise RequestRefused(ErrorCode.INVALID_RECORD_STATE, "nothing is acquired in that share partition")
        limits = context.shares.settings.limits(self.owner.group)
        change = held.share.acknowledge(self.owner.member, given, context.runtime.now.mono_ms, limits)
        context.shares.gather(held)
        if change is not None:
            del self.outcomes[named]
            self.left[named] = held, change
