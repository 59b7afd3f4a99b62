"""The one form in which the addresses of peers are compared, whoever writes them how.

The same peer is `::ffff:192.0.2.9` on a listener for both families and `192.0.2.9` on one for IPv4; an IPv6 address may
be written short, long as Java does it, in capitals, or with the name of the interface behind it. This file alone decides
which of these texts are the same address: access rules, connection limits and quotas by address all ask it.
"""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def address(text: str) -> str | None:
    """An address in the one form in which it is compared; None: the text is no address."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def canonical(host: str) -> str:
    """The same, for a text that may be no address: it stays as it is."""
    return address(host) or host
