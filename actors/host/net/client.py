"""One attempt at an outgoing connection, and whether it was refused.

This file alone decides what counts as refused: at every address of the name, the system answered that nothing listens
there. A timeout, a missing route or an unknown name is not a refusal. The node revokes leases on refusals only.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial

from actors.host.net.link import Link
from actors.host.net.tls import HANDSHAKE_TIMEOUT_S, SHUTDOWN_TIMEOUT_S

CONNECT_TIMEOUT_S = 10.0
"""The time in s to resolve the name, and again for its addresses. Each address has an equal part, so that a silent one
leaves time for the next."""


async def dial(host: str, port: int, make: Callable[[str], Link], tls: ssl.SSLContext | None = None) -> bool | None:
    """Connect, with TLS if there is a context for it. None: the link that `make(address)` returned is open. Otherwise
    whether the connection was refused.
    Raises nothing but CancelledError."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            addresses = dict.fromkeys(str(row[4][0]) for row in await loop.getaddrinfo(host, port, type=1))
    except (OSError, ValueError):  # a name with an empty or too long part fails before the DNS is asked
        return False
    refused = bool(addresses)
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S / len(addresses)):
                if tls is None:
                    await loop.create_connection(partial(make, address), address, port)
                else:
                    await loop.create_connection(
                        partial(make, address),
                        address,
                        port,
                        ssl=tls,
                        server_hostname=host,
                        ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                        ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
                    )
            return None
        except ConnectionRefusedError:
            continue
        except OSError:
            refused = False
    return refused
