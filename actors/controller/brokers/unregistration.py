"""UnregisterBroker (64): an operator gives a broker up, also where it holds the last copy (A32, G-12)."""

from typing import TYPE_CHECKING

from actors.controller.brokers import heartbeat_leases
from actors.controller.brokers.registration import registration_key
from actors.controller.soft_state import Soft
from actors.controller.state import Result, State
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import UnregisterBrokerRequest


def unregister_broker(state: State, request: "UnregisterBrokerRequest", now: Now, random: Random) -> Result:
    """Carry out an UnregisterBrokerRequest. Errors: 102 BROKER_ID_NOT_REGISTERED; 7 REQUEST_TIMED_OUT if it takes too
    long.

    A fenced broker counts as registered: last copies are given up, and a fenced broker has such copies too. Where
    fencing has ended the registration (A31), an ISR that holds the broker shows that the cluster knows it.
    """
    kind = message("UnregisterBrokerResponse")
    broker = request.broker_id
    known = state.image.is_registered(broker) or state.image.counts(broker)[2] > 0
    departure = state.soft.leaving.get(broker)
    if broker in state.soft.unregistered and departure is None:
        return Result((), kind())
    if not known:
        return Result(
            (),
            kind(
                error_code=int(ErrorCode.BROKER_ID_NOT_REGISTERED),
                error_message=f"Broker ID {broker} is not currently registered.",
            ),
        )
    state.soft.unregistered.add(broker)
    heartbeat_leases.revoke(state.soft, broker, "unregistered", give_up=True)
    late = kind(error_code=int(ErrorCode.REQUEST_TIMED_OUT), error_message=ErrorCode.REQUEST_TIMED_OUT.text)
    return Result((), late, wait=registration_key(broker))


def turn_ended(soft: Soft) -> None:
    """Clear the set of brokers that are gone, at the end of a turn. Every UnregisterBroker that waited for one of them
    has been answered in it, unless its connection broke, and a further request is about the registration that exists
    then."""
    soft.unregistered.intersection_update(soft.leaving)
