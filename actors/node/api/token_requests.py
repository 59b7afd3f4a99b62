"""Whether a peer may ask for delegation tokens at all (KIP-48).

This file alone decides it, as Apache Kafka does: somebody whom a listener knows, and who has not come with a token.
Otherwise a token could be made to live for ever, by making new ones.
"""

from actors.node.api.contexts import Context
from actors.node.net.connections import ANONYMOUS
from actors.node.runtime.calls import Call


def may_ask(context: Context, call: Call) -> bool:
    """Whether requests about tokens are taken on this connection. What a broker has passed on it has looked at itself, but
    for the token."""
    if call.by_token:
        return False
    if call.forwarded:
        return True
    protocol = next(one.protocol for one in context.config.listeners if one.name == call.listener_name)
    return protocol.startswith("SASL_") or (protocol == "SSL" and call.principal != ANONYMOUS)
