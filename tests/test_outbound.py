"""Which addresses the server connects to: none of IANA's special-purpose registries."""

import ipaddress

import pytest
from oauth2_provider import cimd

from evidence.ssrf_guard import (
    BlockedAddressError,
    is_public,
    private_addresses,
    public_addresses,
)

# https://www.iana.org/assignments/iana-ipv4-special-registry, and multicast.
IPV4 = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
    "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
)  # fmt: skip
# https://www.iana.org/assignments/iana-ipv6-special-registry, multicast, and deprecated blocks. The
# NAT64 prefix 64:ff9b::/96 is missing: it is judged by the address in it.
IPV6 = (
    "::1/128", "::/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001::/32",
    "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32",
    "2001:4:112::/48", "2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32",
    "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10",
    "fec0::/10", "ff00::/8", "::/96", "::ffff:0:0:0/96",
)  # fmt: skip
EMBEDDING = (
    "::ffff:127.0.0.1", "::ffff:192.0.0.192", "::127.0.0.1", "::ffff:0:127.0.0.1", "2002:7f00:1::",
    "2002:a00:1::", "64:ff9b::a00:1", "64:ff9b::7f00:1", "64:ff9b:1::a00:1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
)  # fmt: skip
METADATA = (
    "100.100.100.200", "168.63.129.16", "169.254.169.254", "169.254.170.2", "192.0.0.192",
    "fd00:42::42", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::a9fe:a9fe",
    "fd00:c1::a9fe:a9fe", "fd00:a9fe:a9fe::1", "fd00:100::100:200",
)  # fmt: skip
"""Where clouds serve the keys of a machine to whatever asks from it."""
EMBEDDED_METADATA = (
    "2002:a9fe:a9fe::", "64:ff9b::a9fe:a9fe", "64:ff9b::a83f:8110", "::ffff:169.254.169.254",
    "::ffff:168.63.129.16", "::ffff:100.100.100.200", "::169.254.169.254", "64:ff9b:1::a9fe:a9fe",
    "::ffff:0:169.254.169.254",
)  # fmt: skip


@pytest.mark.parametrize("address", METADATA + EMBEDDED_METADATA)
def test_metadata_of_clouds_is_refused_where_private_addresses_are_allowed(address: str) -> None:
    assert not is_public(address)
    for addresses in (public_addresses, private_addresses):
        with pytest.raises(BlockedAddressError):
            addresses(address, 80)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "127.0.0.1", "fd12:3456::1", "::1",
     "8.8.8.8", "::ffff:192.168.1.1"],
)  # fmt: skip
def test_addresses_of_the_own_network_are_allowed_where_the_owner_says_so(address: str) -> None:
    assert private_addresses(address, 80) == [address]


@pytest.mark.parametrize("block", IPV4 + IPV6)
def test_no_address_of_a_special_purpose_block_is_public(block: str) -> None:
    network = ipaddress.ip_network(block)
    middle = network[network.num_addresses // 2]
    for address in (network[0], middle, network[-1]):
        assert not is_public(str(address)), address


@pytest.mark.parametrize("address", [*EMBEDDING, "192.0.0.192", "no address"])
def test_an_address_that_embeds_a_private_one_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address", ["192.0.0.192", "fec0::1", "64:ff9b:1::1", "::ffff:0:127.0.0.1"]
)
def test_a_name_with_a_special_address_is_refused(address: str) -> None:
    with pytest.raises(BlockedAddressError):
        public_addresses(address, 443)


def test_client_documents_are_judged_by_the_same_function() -> None:
    assert cimd._ip_is_public is is_public
