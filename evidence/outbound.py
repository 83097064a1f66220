"""Where this server may connect to when somebody else names the address.

A name is looked up once and every address that it has is judged; the connection then goes to one of
those very addresses, so that a second look-up cannot lead elsewhere. One address that is not of the
internet refuses the name. The judgement is that of the library which fetches client documents.
"""

import ipaddress
import socket
from collections.abc import Sequence

from oauth2_provider.cimd import CIMDError, _resolve_and_validate


class UnreachableError(Exception):
    """The name has no address that may be connected to."""


def public_addresses(host: str, port: int) -> Sequence[str]:
    """Every address of ``host``, all of the internet. Blocks; raises ``UnreachableError``."""
    try:
        addresses: list[str] = _resolve_and_validate(host, port)
    except (CIMDError, UnicodeError) as error:
        raise UnreachableError(str(error)) from None
    # Those of many at once are of the internet for the library.
    if any(ipaddress.ip_address(each).is_multicast for each in addresses):
        raise UnreachableError("the host is not one machine")
    return addresses


def own_addresses(host: str, port: int) -> Sequence[str]:
    """Every address of ``host``, all on this very machine. Raises ``UnreachableError``."""
    try:
        found = socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)
    except OSError:
        raise UnreachableError("the host could not be resolved") from None
    addresses = [str(each[4][0]) for each in found]
    if not all(ipaddress.ip_address(each).is_loopback for each in addresses):
        raise UnreachableError("the host is not this machine")
    return addresses
