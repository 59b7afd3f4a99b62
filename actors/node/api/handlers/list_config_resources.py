"""ListConfigResources (74), versions 0 and 1: what could be asked for its settings.

Behaviour: every topic, every broker with its logger, every subscription to clients' metrics, every group with settings; no
list of types means all. Version 0 asks for client metrics only. A broker shows what it knows from its own replay.

Errors: UNSUPPORTED_VERSION (a type that nobody knows).
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ListConfigResourcesRequest

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
TYPES = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)
"""In the order of the answer."""


@rpc(74, "ListConfigResources", range(0, 2), listeners=(Listener.CLIENT,), lane=Lane.DATA, reads=Subject.METADATA)
def list_config_resources(context: BrokerContext, request: "ListConfigResourcesRequest", call: Call) -> Answer:
    """The names of resources that have settings, by type."""
    kind = message("ListConfigResourcesResponse")
    wanted = set(request.resource_types) or set(TYPES) if call.api_version > 0 else {CLIENT_METRICS}
    if not wanted.issubset(TYPES):
        return Done(kind(error_code=ErrorCode.UNSUPPORTED_VERSION))
    image = context.cache.image
    brokers = [str(broker.id) for broker in image.brokers()]  # fenced ones too: they have settings, and will be back
    names = {BROKER: brokers, BROKER_LOGGER: brokers, TOPIC: [image.topic_name(row) for row in image.topics()]}
    for named in {CLIENT_METRICS, GROUP} & wanted:
        names[named] = [name for (type, name), set in image.configs.items() if type == named and set]
    return Done(
        kind(
            config_resources=[
                kind.ConfigResource(resource_name=name, resource_type=type)
                for type in TYPES
                if type in wanted
                for name in names.get(type, ())
            ]
        )
    )
