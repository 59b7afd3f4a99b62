"""What each principal may do on this node: the rules of its metadata image, super users, and what a resource without rules
means.

This file alone decides how a request is judged. Rules, as in Apache Kafka's StandardAuthorizer:

1. Without `authorizer.class.name` everything is allowed, and there are no access rules to create, describe or delete.
2. A super user may do everything. A principal that names nodes (`speakers.py`) is none: `super.users` lets it in as a node,
   as a rule does that allows it CLUSTER_ACTION. Being let in it may do what nodes need (`rights.NODE_MAY`), and for the
   rest it needs rules. A rule that denies CLUSTER_ACTION to its name shuts it out of everything, `super.users` or not.
3. Otherwise the rules decide (`authorization/decisions.py`); a resource without rules is open only with
   `allow.everyone.if.no.acl.found`.

A broker judges by the metadata that is committed and that it has replayed, an active controller by its latest state, whose
answers leave when that is committed. All that a request is denied is one line in the log, however many names it has; what is
allowed is a line each with `rayft.authorizer.log.allowed`; what is only left out of a list is not told. Of each principal a
few lines are written, the others are counted (`runtime/peer_lines.py`).
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from actors.authorization.decisions import RuleIndex
from actors.authorization.resources import CLUSTER_NAME, OPERATIONS, Operation, Resource
from actors.node.api.security.api_rights import NODE_MAY
from actors.node.api.security.speakers import named
from actors.node.runtime.calls import Call, Refusals
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.slices import SliceCount
from actors.settings.node_config import NodeConfig
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeConfigsRequest, IncrementalAlterConfigsRequest

NOT_ASKED = -(1 << 31)
"""Authorized operations in an answer whose request did not ask for them (KIP-430)."""
LOGGED_CHARACTERS_MAX = 300
"""How much of a name stands in a line about a refusal."""
SHOWN_MAX = 3
"""Resources that a line about a refusal names."""


class Refusal(NamedTuple):
    """One thing that a principal was denied."""

    call: Call
    operation: Operation
    resource: Resource
    name: str


class Authorizer:
    """One role's judge."""

    def __init__(self, runtime: Runtime, config: NodeConfig, rules: Callable[[], RuleIndex]) -> None:
        """`rules`: those of the image as it is now; the image may be replaced by a snapshot."""
        self._log, self._lines = runtime.log, runtime.peer_lines
        self._rules = rules
        self.enabled = bool(config.value("authorizer.class.name"))
        """Whether there is an authorizer at all."""
        users = frozenset(one for one in map(str.strip, config.value("super.users").split(";")) if one)
        self._let_in = frozenset(one for one in users if named(one) is not None)
        """Nodes that need no rule to be one."""
        self._super_users = users - self._let_in
        self._open = config.value("allow.everyone.if.no.acl.found")
        self._tells_allowed: bool = config.value("rayft.authorizer.log.allowed")

    def allowed(self, call: Call, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Whether the principal of `call` may do that. A refusal is logged."""
        if not self.enabled:
            return True
        allowed = self._may(call, operation, resource, name)
        if not allowed:
            self._deny(Refusal(call, operation, resource, name))
        elif self._tells_allowed:
            self._tell_allowed(call, operation, resource, name)
        return allowed

    def shown(self, call: Call, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """`allowed`, for what is only left out of a list: nobody is told, and no refusal is logged."""
        if not self.enabled:
            return True
        allowed = self._may(call, operation, resource, name)
        if allowed and self._tells_allowed:
            self._tell_allowed(call, operation, resource, name)
        return allowed

    def allowed_some(self, call: Call, operation: Operation, resource: Resource) -> bool:
        """Whether there is any resource of that kind on which the principal may do that."""
        if not self.enabled or call.principal in self._super_users:
            return True
        if self._may(call, operation, resource, "hardcode"):  # as in Kafka: a name like any other
            return True
        if named(call.principal) is not None and self.shuts_out(call.principal, call.client_host):
            return False
        return self._rules().allows_some(call.principal, call.client_host, operation, resource)

    def operations(self, call: Call, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """The operations that the principal may do, a bit each (KIP-430)."""
        may = self._may if self.enabled else lambda *_: True
        return sum(1 << one for one in OPERATIONS[resource] if may(call, one, resource, name))

    def looked(self, resource: Resource) -> int:
        """What `operations` looks at, in entries of a slice: to judge two operations takes as long as one entry."""
        return len(OPERATIONS[resource]) // 2 if self.enabled else 0

    def beside_own_rules(
        self, call: Call, operation: Operation, resource: Resource, name: str = CLUSTER_NAME
    ) -> tuple[bool, bool, bool]:
        """Whether the principal may do that to every resource that fares as this one up to `RuleIndex.alike_until`: to those
        without rules of their own names; and to those that have some, for others than this principal. And whether rules say
        so: else it holds for every name, whatever its rules."""
        if not self.enabled or call.principal in self._super_users:
            return True, True, False
        rules, who, host = self._rules(), call.principal, call.client_host
        if named(who) is not None:
            let_in = self._let_in_as_node(call, operation, resource)
            if let_in is not None:
                return let_in, let_in, False
        verdict = rules.decide(who, host, operation, resource, name, own=False)
        return (self._open, False, True) if verdict is None else (verdict, verdict, True)

    @property
    def rules(self) -> RuleIndex:
        """The rules as they are now."""
        return self._rules()

    @property
    def tells_allowed(self) -> bool:
        """Whether the log has a line about each name that somebody is shown."""
        return self.enabled and self._tells_allowed

    def allowed_names(
        self, call: Call, operation: Operation, resource: Resource, names: Iterable[str]
    ) -> Generator[None, None, set[str]]:
        """The names, out of these, on which the principal may do that. Judged in slices."""
        return self._names(self.allowed, call, operation, resource, names)

    def shown_names(
        self, call: Call, operation: Operation, resource: Resource, names: Iterable[str]
    ) -> Generator[None, None, set[str]]:
        """`allowed_names`, for what is only left out of a list."""
        return self._names(self.shown, call, operation, resource, names)

    def _names(
        self,
        judge: Callable[[Call, Operation, Resource, str], bool],
        call: Call,
        operation: Operation,
        resource: Resource,
        names: Iterable[str],
    ) -> Generator[None, None, set[str]]:
        if not self.enabled:
            return set(names)
        verdicts: dict[str, bool] = {}
        pace = SliceCount()
        for name in names:
            if name not in verdicts:
                verdicts[name] = judge(call, operation, resource, name)
            if pace.over():
                yield
        return {name for name, allowed in verdicts.items() if allowed}

    def shuts_out(self, principal: str, host: str) -> bool:
        """Whether a rule keeps a node out that its certificate would let in."""
        return self.enabled and self._rules().denies_by_name(
            principal, host, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME
        )

    def refuse(self, call: Call, api: str, why: str) -> None:
        """Log that a node asks what is not its own. `why` follows its name."""
        text = f"{_line(call.principal)} at {call.client_host} {why} in {api}: refused"
        self._lines.of_principal(self._log.warning, _line(call.principal), text)

    def tell(self, refusals: Refusals, *, more: bool = False) -> None:
        """Write the line about what a request was denied. `more`: not all of it has been looked at."""
        if not refusals.told:
            self._write(refusals.first, refusals.count, more)
        refusals.told, refusals.count = True, 0
        refusals.first.clear()

    def _deny(self, refusal: "Refusal") -> None:
        gathered = refusal.call.refusals
        if gathered is None:
            self._write([refusal], 1, False)
        elif not gathered.told:
            gathered.count += 1
            if len(gathered.first) < SHOWN_MAX:
                gathered.first.append(refusal)

    def _write(self, first: Sequence["Refusal"], count: int, more: bool) -> None:
        call, operation, resource, name = first[0]
        who = _line(call.principal)
        text = f"{who} is denied {operation.name} from {call.client_host} on {resource.name}:{_line(name)}"
        for _, other, kind, one in first[1:]:
            text += f", {'' if other is operation else f'{other.name} on '}{kind.name}:{_line(one)}"
        if count > len(first) or more:
            text += f" and {'at least ' if more else ''}{count - len(first)} more"
        self._lines.of_principal(self._log.info, who, f"{text} (API {call.api_key})")

    def _tell_allowed(self, call: Call, operation: Operation, resource: Resource, name: str) -> None:
        self._log.info(
            f"{_line(call.principal)} is allowed {operation.name} from {call.client_host} on "
            f"{resource.name}:{_line(name)} (API {call.api_key})"
        )

    def _may(self, call: Call, operation: Operation, resource: Resource, name: str) -> bool:
        if call.principal in self._super_users:
            return True
        if named(call.principal) is not None:
            return self._node_may(call, operation, resource, name)
        verdict = self._rules().decide(call.principal, call.client_host, operation, resource, name)
        return self._open if verdict is None else verdict

    def _node_may(self, call: Call, operation: Operation, resource: Resource, name: str) -> bool:
        let_in = self._let_in_as_node(call, operation, resource)
        if let_in is not None:
            return let_in
        verdict = self._rules().decide(call.principal, call.client_host, operation, resource, name)
        return self._open if verdict is None else verdict

    def _let_in_as_node(self, call: Call, operation: Operation, resource: Resource) -> bool | None:
        """Whether a node may do that to any resource of that kind; None: the rules of the resource say it."""
        rules, who, host = self._rules(), call.principal, call.client_host
        if self.shuts_out(who, host):
            return False
        if (operation, resource) in NODE_MAY and not call.forwarded:
            if who in self._let_in:
                return True
            let_in = rules.decide(who, host, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
            if self._open if let_in is None else let_in:
                return True
        return None


def _line(name: str) -> str:
    """A name that a peer has chosen, as it may stand in a log: it begins no line and fills no disk."""
    if name.isprintable() and len(name) <= LOGGED_CHARACTERS_MAX:
        return name
    return repr(name[:LOGGED_CHARACTERS_MAX])


def from_broker(authorizer: Authorizer, config: NodeConfig, call: Call) -> bool:
    """Whether a broker speaks: on the listener that brokers use among themselves, and with the right to be one. No version
    or field of a request makes its client a broker."""
    if call.listener_name != config.inter_broker_listener:
        return False
    return authorizer.shown(call, Operation.CLUSTER_ACTION, Resource.CLUSTER)


def cluster_operations(authorizer: Authorizer, call: Call) -> int:
    """The operations on the cluster that a principal is told of: none if it may not describe it."""
    if not authorizer.shown(call, Operation.DESCRIBE, Resource.CLUSTER):
        return 0
    return authorizer.operations(call, Resource.CLUSTER)


CONFIGURED = {
    2: (Resource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    32: (Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
"""Type of a resource with settings -> what has to be allowed, and the error otherwise. Any other belongs to the cluster."""


def config_error(
    authorizer: Authorizer,
    call: Call,
    operation: Operation,
    resource: "DescribeConfigsRequest.DescribeConfigsResource | IncrementalAlterConfigsRequest.AlterConfigsResource",
) -> ErrorCode:
    """The error with which settings of a resource are denied; NONE: they are not."""
    kind, code = CONFIGURED.get(resource.resource_type, (Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    name = CLUSTER_NAME if kind is Resource.CLUSTER else resource.resource_name
    return ErrorCode.NONE if authorizer.allowed(call, operation, kind, name) else code
