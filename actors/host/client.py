"""Outgoing connections: one attempt, and whether it was refused.

This file alone decides what counts as refused: every address that the name stands for answered that nobody listens there.
A timeout, a missing route or a name that is not known is not a refusal; the node revokes leases on refusals only.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from actors.host.link import Link

CONNECT_TIMEOUT_S = 10.0
"""For the name, and again for its addresses, an equal part each: one that is silent leaves time for the next."""


async def dial(host: str, port: int, make: Callable[[str], Link]) -> bool | None:
    """Connect. None: the link that `make(address)` gave is open. Otherwise whether it was refused. Never raises but
    CancelledError."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            addresses = dict.fromkeys(str(row[4][0]) for row in await loop.getaddrinfo(host, port, type=1))
    except (OSError, ValueError):  # a name with an empty or too long part never comes as far as a question to the DNS
        return False
    refused = bool(addresses)
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S / len(addresses)):
                await loop.create_connection(partial(make, address), address, port)
            return None
        except ConnectionRefusedError:
            continue
        except OSError:
            refused = False
    return refused
