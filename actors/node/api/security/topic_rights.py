"""Which topics a principal is shown when it asks for all, found along their names in order.

This file alone decides how far one verdict holds. All names between two places where other prefixes begin to apply fare
alike, except those with rules of their own (`RuleIndex.alike_until`), so a verdict is found once for a run of names, and no
object is made for a topic. Where each name that is shown is told to the log, a run has one name.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from actors.authorization.resources import OPERATIONS, Operation, Resource
from actors.node.api.security.authorizer import NOT_ASKED, Authorizer
from actors.node.runtime.calls import Call
from fastpath.image.name_order import NameOrder

DESCRIBE, TOPIC = Operation.DESCRIBE, Resource.TOPIC


class Run(NamedTuple):
    """Names that fare alike. `shown`: what stands in each topic as authorized operations; None: it is hidden."""

    until: str | None
    """The first name behind them; None: there is none."""
    shown: int | None
    own: Mapping[str, Mapping[Any, Any]] | None = None
    """Name -> its own rules by whom they are for. None: no name has any that matter."""
    whoever: tuple[Any, ...] = ()
    """For whom own rules have to be to be this principal's."""
    others: int | None = None
    """`shown` of a name with own rules, of which none is this principal's."""
    judge: Callable[[str], int | None] | None = None
    """`shown` of a name with own rules of this principal's."""

    @property
    def hides_all(self) -> bool:
        """Whether no name of the run is shown."""
        return self.shown is None and self.own is None

    def of(self, name: str) -> int | None:
        """`shown` of one name of the run."""
        rules = None if self.own is None else self.own.get(name)
        if rules is None:
            return self.shown
        if self.judge is not None and any(one in rules for one in self.whoever):
            return self.judge(name)
        return self.others


class TopicRights:
    """The topics that one request is shown, by the rules as they are while they are asked."""

    def __init__(self, authorizer: Authorizer, call: Call, asked: bool) -> None:
        """`asked`: whether the request asks for authorized operations (KIP-430)."""
        self._authorizer, self._call = authorizer, call
        self._operations = OPERATIONS[TOPIC] if asked else ()

    def shared_by(self, order: NameOrder) -> Hashable | None:
        """A value that all have who are shown the same topics, as long as rules and names stay as they are. None: nobody
        else is, since each name is told to the log."""
        may, call = self._authorizer, self._call
        if may.tells_allowed:
            return None
        run = self.run("", order)
        if run.until is None and run.own is None:
            return (run.shown,)
        return call.principal, call.client_host, bool(self._operations)

    def run(self, name: str, order: NameOrder) -> Run:
        """The run that begins with a name. `order`: all names."""
        may, call = self._authorizer, self._call
        if not may.enabled:
            return Run(None, self._bits(True, list(self._operations)))
        if may.tells_allowed:
            return Run(next((one for one, _ in order.following(name, 1, True)), None), self._judge(name))
        alone, others, by_rules = may.beside_own_rules(call, DESCRIBE, TOPIC, name)
        verdicts = [(one, may.beside_own_rules(call, one, TOPIC, name)) for one in self._operations]
        shown = self._bits(alone, [one for one, verdict in verdicts if verdict[0]])
        if not (by_rules or any(verdict[2] for _, verdict in verdicts)):
            return Run(None, shown)
        rules = may.rules
        return Run(
            rules.alike_until(TOPIC, name),
            shown,
            rules.literal(TOPIC) or None,
            rules.whoever(call.principal, call.client_host),
            self._bits(others, [one for one, verdict in verdicts if verdict[1]]),
            self._judge,
        )

    def _judge(self, name: str) -> int | None:
        if not self._authorizer.shown(self._call, DESCRIBE, TOPIC, name):
            return None
        return self._authorizer.operations(self._call, TOPIC, name) if self._operations else NOT_ASKED

    def _bits(self, shown: bool, allowed: list[Operation]) -> int | None:
        if not shown:
            return None
        return sum(1 << one for one in allowed) if self._operations else NOT_ASKED
