"""Kubernetes' own CEL libraries of amounts and places: quantities, addresses, URLs.

What it must never do: resolve names or touch the network; everything here is text.
"""

from __future__ import annotations

import ipaddress
import re
from fractions import Fraction
from functools import total_ordering
from urllib.parse import parse_qs, urlsplit

from echelon.hub.cel_overloads import function, method, opaque
from echelon.hub.cel_types import BOOL, DOUBLE, INT, STRING, list_of, map_of
from echelon.hub.cel_values import CelError, succeeds
from echelon.hub.gotext import INT64_MAX, INT64_MIN, quote
from echelon.rules.quantity import InvalidQuantity, parse_quantity


@total_ordering
class Quantity:
    """An amount such as 500m or 2Gi."""

    __slots__ = ("value",)
    cel_type = "kubernetes.Quantity"

    def __init__(self, value: Fraction) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __hash__(self) -> int:
        return hash(self.value)


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(parse_quantity(text))
    except InvalidQuantity:
        raise CelError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _as_integer(value: Quantity) -> int:
    if value.value.denominator != 1 or not INT64_MIN <= value.value <= INT64_MAX:
        raise CelError("cannot convert value to integer")
    return int(value.value)


def _quantities() -> None:
    kind = opaque("kubernetes.Quantity", Quantity)
    function("quantity", (STRING,), kind, _quantity)
    function("isQuantity", (STRING,), BOOL, succeeds(_quantity))
    method("isInteger", (kind,), BOOL, succeeds(_as_integer))
    method("asInteger", (kind,), INT, _as_integer)
    method("asApproximateFloat", (kind,), DOUBLE, lambda a: float(a.value))
    method("sign", (kind,), INT, lambda a: (a.value > 0) - (a.value < 0))
    method("add", (kind, kind), kind, lambda a, b: Quantity(a.value + b.value))
    method("add", (kind, INT), kind, lambda a, b: Quantity(a.value + b))
    method("sub", (kind, kind), kind, lambda a, b: Quantity(a.value - b.value))
    method("sub", (kind, INT), kind, lambda a, b: Quantity(a.value - b))
    method("isLessThan", (kind, kind), BOOL, lambda a, b: a.value < b.value)
    method("isGreaterThan", (kind, kind), BOOL, lambda a, b: a.value > b.value)
    method("compareTo", (kind, kind), INT, lambda a, b: (a.value > b.value) - (a.value < b.value))


class Ip:
    """An address."""

    __slots__ = ("value",)
    cel_type = "net.IP"

    def __init__(self, value: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ip) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return str(self.value)


def _ip(text: str) -> Ip:
    try:
        if "%" in text:
            raise CelError(f"IP Address {quote(text)} parse error during conversion from string: zone")
        value = ipaddress.ip_address(text)
    except ValueError:
        raise CelError(
            f"IP Address {quote(text)} parse error during conversion from string: ParseAddr({quote(text)}): "
            "unable to parse IP"
        ) from None
    if isinstance(value, ipaddress.IPv6Address) and value.ipv4_mapped is not None:
        raise CelError("IPv4-mapped IPv6 address is not allowed")
    return Ip(value)


class Cidr:
    """An address range; the address may have bits beyond the prefix."""

    __slots__ = ("address", "network")
    cel_type = "net.CIDR"

    def __init__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address, prefix: int) -> None:
        self.address = address
        self.network = ipaddress.ip_network((address, prefix), strict=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cidr) and self.address == other.address and self.network == other.network

    def __hash__(self) -> int:
        return hash(self.network)

    def __str__(self) -> str:
        return f"{self.address}/{self.network.prefixlen}"


def _cidr(text: str) -> Cidr:
    address, slash, prefix = text.partition("/")
    bad = CelError(
        f"network address parse error during conversion from string: netip.ParsePrefix({quote(text)})"
    )
    if not slash or not prefix.isdecimal() or not prefix.isascii() or (prefix[0] == "0" and prefix != "0"):
        raise bad
    try:
        return Cidr(_ip(address).value, int(prefix))
    except (ValueError, CelError):
        raise bad from None


def _contains_ip(range_: Cidr, address: Ip) -> bool:
    return address.value.version == range_.network.version and address.value in range_.network


def _contains_cidr(outer: Cidr, inner: Cidr) -> bool:
    if outer.network.version != inner.network.version:
        return False
    return outer.network.prefixlen <= inner.network.prefixlen and inner.address in outer.network


def _addresses() -> None:
    ip, cidr = opaque("net.IP", Ip), opaque("net.CIDR", Cidr)
    function("ip", (STRING,), ip, _ip)
    function("isIP", (STRING,), BOOL, succeeds(_ip))
    function("ip.isCanonical", (STRING,), BOOL, lambda text: str(_ip(text)) == text)
    function("string", (ip,), STRING, str)
    method("family", (ip,), INT, lambda a: a.value.version)
    method("isUnspecified", (ip,), BOOL, lambda a: a.value.is_unspecified)
    method("isLoopback", (ip,), BOOL, lambda a: a.value.is_loopback)
    method("isLinkLocalMulticast", (ip,), BOOL, _is_link_local_multicast)
    method("isLinkLocalUnicast", (ip,), BOOL, lambda a: a.value.is_link_local)
    method("isGlobalUnicast", (ip,), BOOL, _is_global_unicast)
    function("cidr", (STRING,), cidr, _cidr)
    function("isCIDR", (STRING,), BOOL, succeeds(_cidr))
    function("string", (cidr,), STRING, str)
    method("containsIP", (cidr, ip), BOOL, _contains_ip)
    method("containsIP", (cidr, STRING), BOOL, lambda a, b: _contains_ip(a, _ip(b)))
    method("containsCIDR", (cidr, cidr), BOOL, _contains_cidr)
    method("containsCIDR", (cidr, STRING), BOOL, lambda a, b: _contains_cidr(a, _cidr(b)))
    method("ip", (cidr,), ip, lambda a: Ip(a.address))
    method("prefixLength", (cidr,), INT, lambda a: a.network.prefixlen)
    method("masked", (cidr,), cidr, lambda a: Cidr(a.network.network_address, a.network.prefixlen))


def _is_link_local_multicast(address: Ip) -> bool:
    packed = address.value.packed
    if address.value.version == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_global_unicast(address: Ip) -> bool:
    value = address.value
    broadcast = value.version == 4 and value.packed == b"\xff\xff\xff\xff"
    return not (
        value.is_unspecified or value.is_loopback or value.is_multicast or value.is_link_local or broadcast
    )


class Url:
    """A URL in its parts."""

    __slots__ = ("parts", "text")
    cel_type = "kubernetes.URL"

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts = urlsplit(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def host(self) -> str:
        """Return host and port as written, without user information."""
        return self.parts.netloc.rpartition("@")[2]

    def query(self) -> dict[str, list[str]]:
        """Return the parameters."""
        return parse_qs(self.parts.query, keep_blank_values=True)


_BAD_URL = re.compile(r"[\x00-\x20\x7f]|%(?![0-9a-fA-F]{2})")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|/")


def _url(text: str) -> Url:
    bad = CelError(
        f"URL parse error during conversion from string: parse {quote(text)}: invalid URI for request"
    )
    if _BAD_URL.search(text) or not _SCHEME.match(text):
        raise bad
    try:
        url = Url(text)
        url.parts.port  # noqa: B018 - the property checks the port
    except ValueError:
        raise bad from None
    rest = text.partition(":")[2]
    if url.parts.scheme and not rest.startswith("/"):
        raise bad
    return url


def _urls() -> None:
    url = opaque("kubernetes.URL", Url)
    function("url", (STRING,), url, _url)
    function("isURL", (STRING,), BOOL, succeeds(_url))
    method("getScheme", (url,), STRING, lambda a: a.parts.scheme)
    method("getHost", (url,), STRING, Url.host)
    method("getHostname", (url,), STRING, lambda a: _hostname(a.host()))
    method("getPort", (url,), STRING, lambda a: _port(a.host()))
    method("getEscapedPath", (url,), STRING, lambda a: a.parts.path)
    method("getQuery", (url,), map_of(STRING, list_of(STRING)), Url.query)


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _port(host: str) -> str:
    after = host.partition("]")[2] if host.startswith("[") else host
    return after.rpartition(":")[2] if ":" in after else ""


_quantities()
_addresses()
_urls()
