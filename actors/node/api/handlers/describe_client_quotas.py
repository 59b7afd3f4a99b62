"""DescribeClientQuotas (48), versions 0 and 1 (KIP-546): quotas by entity, as this broker's metadata has them.

Behaviour: a component asks for one name of a type (exact), for its default, or for any of them. An entity is shown if it has
every type that is asked for; `strict`: and no other type. No component: all entities.

Version notes: 1 flexible.

Errors: INVALID_REQUEST, UNSUPPORTED_VERSION (a type of entity that nobody knows).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.quotas.levels import CLIENT_ID, IP, USER, QuotaLimits
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeClientQuotasRequest, DescribeClientQuotasResponse

EXACT, DEFAULT, SPECIFIED = range(3)
NAMES = {EXACT: "MATCH_TYPE_EXACT", DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}

Matches = Callable[[str | None], bool]
"""Whether an entity of that name is asked for; None: the default."""


class _Invalid(Exception):
    """What is wrong with a request: error code and sentence."""


@rpc(48, "DescribeClientQuotas", range(2), listeners=(Listener.CLIENT,), lane=Lane.DATA, reads=Subject.METADATA)
@in_slices
def describe_client_quotas(context: BrokerContext, request: "DescribeClientQuotasRequest", call: Call) -> Steps:
    """Quotas of each entity that is asked for."""
    return _described(context.quotas.limits, request)


@rpc(48, "DescribeClientQuotas", range(2), listeners=[Listener.BRIDGE], lane=Lane.DATA)
@in_slices
def on_a_controller(context: ControllerContext, request: "DescribeClientQuotasRequest", call: Call) -> Steps:
    """Quotas as a controller knows them, for clients of brokers in ZooKeeper mode."""
    return _described(QuotaLimits(context.role.image.every("quota")), request)


def _described(limits: QuotaLimits, request: "DescribeClientQuotasRequest") -> Steps:
    kind = message("DescribeClientQuotasResponse")
    try:
        wanted = _wanted(request)
    except _Invalid as error:
        code, text = error.args
        return Done(kind(error_code=code, error_message=text, entries=None))
    entries: list[DescribeClientQuotasResponse.EntryData] = []
    pace = SliceCount()
    for entity, values in list(limits.by_entity.items()):
        if pace.over():
            yield
        names = dict(entity)
        if request.strict and len(names) != len(wanted):
            continue
        if all(type in names and matches(names[type]) for type, matches in wanted.items()):
            entries.append(
                kind.EntryData(
                    entity=[kind.EntityData(entity_type=type, entity_name=name) for type, name in entity],
                    values=[kind.ValueData(key=key, value=value) for key, value in values.items()],
                )
            )
    return Done(kind(entries=entries))


def _wanted(request: "DescribeClientQuotasRequest") -> dict[str, Matches]:
    """What is asked of each type. Raises _Invalid."""
    wanted: dict[str, Matches] = {}
    for one in request.components:
        type, match = one.entity_type, one.match
        if not type:
            raise _Invalid(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if type in wanted:
            raise _Invalid(ErrorCode.INVALID_REQUEST, f"Entity type {type} cannot appear more than once in the filter.")
        if type not in (USER, CLIENT_ID, IP):
            raise _Invalid(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {type}")
        wanted[type] = _matches(one.match_type, match)
    if IP in wanted and len(wanted) > 1:
        raise _Invalid(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component.",
        )
    return wanted


def _matches(match_type: int, match: str | None) -> Matches:
    name = NAMES.get(match_type)
    if name is None:
        raise _Invalid(ErrorCode.INVALID_REQUEST, f"Unknown match type {match_type}")
    if match_type == EXACT:
        if match is None:
            raise _Invalid(ErrorCode.INVALID_REQUEST, f"Request specified {name}, but set match string to null.")
        return lambda given: given == match
    if match is not None:
        raise _Invalid(ErrorCode.INVALID_REQUEST, f"Request specified {name}, but also specified a match string.")
    return (lambda given: given is None) if match_type == DEFAULT else (lambda given: True)
