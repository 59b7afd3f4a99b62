"""The rule that of all ISR proposals which are based on one version of a partition, at most one is granted (I4 of
KIP-497's requirement file). The same proposal may be granted again: if its first answer was lost, it asks for the ISR
that exists already. AlterIsr is checked when it is sent, requests and answers, so an answer counts even if it never
arrives."""

from typing import Any

from actors.wire import framing
from actors.wire.errors import ErrorCode
from tests.simulator.checkers.hooks import Violation

ALTER_ISR = framing.rpc("AlterIsr").key
Asked = tuple[str, int, int, int]
"""(process, its life, its connection, correlation id)"""


class OneWinner:
    name = "one_proposal_wins"

    def __init__(self) -> None:
        self._asked: dict[Asked, Any] = {}
        self._granted: dict[tuple[bytes, int, int], frozenset[int]] = {}
        """(topic id, partition, version) -> the ISR that was granted on it."""

    def sent(self, link: Any, sender: Any, frame: memoryview) -> None:
        """Look at a frame that leaves: an AlterIsr request, or the answer to one."""
        conn = link.conns[sender.name]
        if conn < 0:
            if int.from_bytes(frame[:2], "big") == ALTER_ISR:
                header, position = framing.decode_request_header(frame)
                request = framing.decode_request("AlterIsr", header.api_version, frame, position)
                self._asked[sender.name, sender.life, conn, header.correlation_id] = request
        elif self._asked:
            asker = link.other(sender)
            key = asker.name, asker.life, link.conns[asker.name], int.from_bytes(frame[:4], "big")
            request = self._asked.pop(key, None)
            if request is not None:
                self._answered(request, framing.decode_response("AlterIsr", 0, frame))

    def _answered(self, request: Any, reply: Any) -> None:
        if reply.error_code != ErrorCode.NONE:
            return
        errors = {(topic.topic, one.partition_id): one.error_code for topic in reply.topics for one in topic.partitions}
        for topic in request.topics:
            for one in topic.partitions:
                if errors.get((topic.topic, one.partition_id)) == ErrorCode.NONE:
                    self._grant((topic.topic_id, one.partition_id, one.current_zk_version), topic.topic, one)

    def _grant(self, key: tuple[bytes, int, int], name: str, proposal: Any) -> None:
        isr = frozenset(proposal.isr)
        if self._granted.setdefault(key, isr) != isr:
            raise Violation(
                self.name,
                f"{name}-{proposal.partition_id}: on version {proposal.current_zk_version} both "
                f"{sorted(self._granted[key])} and {sorted(isr)} were granted",
            )
