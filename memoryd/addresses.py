"""Check where a model may be asked: which URLs, and which network addresses they lead to.

A configuration or a name server may lead the daemon to a cloud's metadata service or another link-local address. The
daemon would then send a key and people's words to that service. So the URL is checked when it is read. The address is
checked again at each connection, because a name can then mean another address. Plain http is only for this machine and
its private networks. Everything else needs https.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address

# These metadata services are outside the link-local range, as their vendors document (AWS over IPv6, Alibaba, Oracle).
_METADATA = frozenset(map(ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "instance-data", "metadata.azure.internal"})
# These are the private ranges: RFC 1918, RFC 4193, and the shared range (RFC 6598) that overlay networks use.
_PRIVATE = tuple(
    map(
        ip_network,
        ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
    )
)
# By the URL standard, a host whose last label is such a number is an IPv4 address.
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAT64 = ip_network("64:ff9b::/96")  # RFC 6052: the last four bytes are an IPv4 address


class AddressError(ValueError):
    """Report that a model may not be asked at a URL or address, and what to write instead."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """Hold the parts of a base URL."""

    scheme: str  # http | https
    host: str  # in lower case; an IPv6 address has no brackets
    port: int

    @property
    def is_local(self) -> bool:
        """Return True if the host is this machine or in a private network, where no key is needed."""
        literal = _literal(self.host)
        is_private = literal is not None and _is_private(_unwrap_ipv4(literal))
        return self.host == "localhost" or self.host.endswith(".localhost") or is_private


def parse_base_url(text: str) -> BaseUrl:
    """Check a base URL and return its parts.

    Raises:
        AddressError: it is not an http or https URL of a host, or its host must never be asked.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise AddressError("is not a URL", "such as https://api.openai.com/v1") from None
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme not in {"http", "https"} or not host or any(ord(mark) <= 0x20 for mark in text):
        raise AddressError("must be an http or https URL with a host", "such as https://api.openai.com/v1")
    if parts.username is not None or parts.query or parts.fragment:
        raise AddressError(
            "must hold no user, query or fragment", "the key belongs in the variable llm.api_key_env names"
        )
    url = BaseUrl(parts.scheme, host, port or (443 if parts.scheme == "https" else 80))
    _check_host(url)
    return url


def _check_host(url: BaseUrl) -> None:
    if url.host in _METADATA_NAMES:
        raise AddressError("names a metadata service, which is never asked")
    literal = _literal(url.host)
    if literal is not None:
        check_address(literal, scheme=url.scheme)
    elif _NUMERIC.fullmatch(url.host.rpartition(".")[2]):
        # Resolvers read such hosts in different ways: 0x7f.1, 2852039166.
        raise AddressError("names a host by a number that is not an address", "write the address as four numbers")


def check_address(address: Address, *, scheme: str) -> None:
    """Check an address before a connection to it.

    Raises:
        AddressError: it is link-local, a metadata service or no single host. Or it is public, and the scheme is not
            https.
    """
    meant = _unwrap_ipv4(address)
    if meant in _METADATA or meant.is_link_local:
        raise AddressError("leads to a link-local or metadata address, which is never asked")
    if meant.is_multicast or meant.is_unspecified:
        raise AddressError("leads to an address that is not a single host", "127.0.0.1 is this machine")
    if scheme == "http" and not _is_private(meant):
        raise AddressError("sends the key in the clear over a public network", "use https")


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _is_private(address: Address) -> bool:
    return any(address.version == network.version and address in network for network in _PRIVATE)


def _unwrap_ipv4(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or else the address itself."""
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or address
    return address
