"""Resolve a host and refuse addresses that are not public.

A host is resolved once and all its addresses are checked; callers connect to one of these addresses,
so that a second lookup cannot return another one. A single non-public address blocks the host. The
library that fetches client metadata documents uses the same check.
"""

import ipaddress
import socket
from collections.abc import Sequence
from typing import TypeAlias

from oauth2_provider import cimd
from oauth2_provider.cimd import CIMDError, _resolve_and_validate

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def _networks(*blocks: str) -> Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(block) for block in blocks]


NOT_PUBLIC = _networks(
    # Blocks that some versions of `ipaddress` call global, or that lead to other machines than the
    # address says.
    "192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24",
    "::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/32", "2001::/23", "2001:db8::/32",
    "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fec0::/10",
)  # fmt: skip
"""IANA's special-purpose registries and deprecated forms, as far as ``is_global`` may allow them."""
PRIVATE = _networks(
    "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128",
    "fc00::/7",
)  # fmt: skip
"""Networks of homes, companies and overlays such as Tailscale, and this machine."""
METADATA = _networks(
    "100.100.100.200/32", "168.63.129.16/32", "fd00:42::42/128", "fd00:100::100:200/128",
    "fd00:a9fe:a9fe::/48", "fd00:c1::/32", "fd00:ec2::/32", "fd20:ce::/32",
)  # fmt: skip
"""Where clouds serve the credentials of a machine, outside of link-local and special blocks."""


class BlockedAddressError(Exception):
    """The host does not resolve, or resolves to an address that is not allowed."""


def is_public(address: str) -> bool:
    """Return whether an address is one machine on the internet.

    IPv4-mapped and NAT64 addresses are judged by the IPv4 address in them. Other forms that embed
    one (6to4, Teredo, IPv4-compatible, IPv4-translated) are refused whatever they embed.
    """
    try:
        found = _target(address)
    except ValueError:
        return False
    is_special = _is_in(found, NOT_PUBLIC) or _is_in(found, METADATA)
    return found.is_global and not found.is_multicast and not is_special


def _target(address: str) -> Address:
    """Parse an address, or the IPv4 address in an IPv4-mapped or NAT64 one. Raises ValueError."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return found.ipv4_mapped
        if found in NAT64:
            return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    return found


def _is_in(
    address: Address, blocks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]
) -> bool:
    return any(address in block for block in blocks if block.version == address.version)


# The library fetches client documents itself, and asks this function of its own about each address.
cimd._ip_is_public = is_public  # noqa: SLF001 - it has no setting for this


def public_addresses(host: str, port: int) -> Sequence[str]:
    """Return every address of ``host``, all public. Blocks. Raises ``BlockedAddressError``."""
    try:
        addresses: list[str] = _resolve_and_validate(host, port)
    except (CIMDError, UnicodeError) as error:
        raise BlockedAddressError(str(error)) from None
    return addresses


def loopback_addresses(host: str, port: int) -> Sequence[str]:
    """Return every address of ``host``, all loopback. Raises ``BlockedAddressError``."""
    try:
        infos = socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)
    except OSError:
        raise BlockedAddressError("the host could not be resolved") from None
    addresses = [str(address[4][0]) for address in infos]
    if not all(ipaddress.ip_address(address).is_loopback for address in addresses):
        raise BlockedAddressError("the host is not a loopback address")
    return addresses


def private_addresses(host: str, port: int) -> Sequence[str]:
    """Return every address of a host that the owner allows to be in the own network.

    Metadata of clouds and every other special address are refused all the same. Blocks. Raises
    ``BlockedAddressError``.
    """
    try:
        infos = socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        raise BlockedAddressError("the host could not be resolved") from None
    addresses = [str(info[4][0]) for info in infos]
    for address in addresses:
        found = _target(address)
        is_private = _is_in(found, PRIVATE) and not _is_in(found, METADATA)
        if not is_private and not is_public(address):
            raise BlockedAddressError("the host has an address that is never allowed")
    return addresses
