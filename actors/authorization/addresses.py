"""The one form in which the addresses of peers are compared, however they are written.

The same peer is `::ffff:192.0.2.9` on a listener for both families and `192.0.2.9` on one for IPv4; an IPv6 address may
be written short, long as Java does it, in capitals, or with the name of the interface behind it. This file alone
decides which of these texts are the same address: access rules, connection limits and quotas by address all ask it; and
which of them is the address to listen on every interface, which cannot be dialled.
"""

import ipaddress
import re
from functools import lru_cache

_ZEROS = re.compile(r"(0x0+|0+)(\.(0x0+|0+)){0,3}", re.IGNORECASE | re.ASCII)
"""Zero as the C library reads an address of IPv4: one to four parts, decimal, octal or hexadecimal."""


@lru_cache(maxsize=4096)
def address(text: str) -> str | None:
    """An address in the one form in which it is compared; None: the text is no address."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def is_every_interface(host: str) -> bool:
    """Whether a host stands for every interface of a machine: an empty one, and the address of zeros in any spelling,
    in brackets or not. The short forms that the system itself accepts (`0`, `0.0`, `0x0`) count too."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    return not bare or address(bare) in ("0.0.0.0", "::") or _ZEROS.fullmatch(bare) is not None


def canonical(host: str) -> str:
    """An address in the one form in which it is compared. A text that is no address stays as it is."""
    return address(host) or host
