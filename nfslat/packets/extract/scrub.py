"""A packet as captured -> what of it tells neither who nor what: headers with pseudonyms, of RPC the header alone.

What is understood is written anew; behind it, and behind anything else (tunnels, ICMP, extension headers), the packet
ends. The length that it had on the wire stays with the packet, so that Wireshark takes it for one that was cut short.
Layouts: RFC 791, 8200, 9293, 768, 5531; link types: tcpdump.org/linktypes.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable

Rename = Callable[[str], str]  # an IP or MAC address -> that which is written

_ETHERNET, _NULL, _LOOP, _SLL, _SLL2 = 1, 0, 108, 113, 276
_RAW = frozenset((12, 14, 101, 228, 229))
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLANS = frozenset((0x8100, 0x88A8, 0x9100))
_MOST_TAGS = 8
_ARPHRD_ETHERNET = 1
_TCP, _UDP, _FRAGMENT = 6, 17, 44
_IPV4_HEADER, _IPV6_HEADER, _TCP_HEADER, _UDP_HEADER, _FRAGMENT_HEADER = 20, 40, 20, 8, 8
_NOP = b"\x01"  # as option of IPv4 and of TCP
# End, no-op, MSS, window scale, SACK permitted, SACK, timestamps: no address, no name, no key is in these.
_TCP_OPTIONS = frozenset((0, 1, 2, 3, 4, 5, 8))
_CALL, _REPLY = 0, 1
_RPC_VERSION = 2
_ACCEPTED, _DENIED = 0, 1
_MOST_ACCEPT, _MOST_REJECT = 5, 1  # RFC 5531 section 9
_MOST_AUTH = 400  # bytes of a verifier
_LAST_FRAGMENT = 1 << 31  # of a record mark
_LEAST_REPLY = 16  # XID to reject_stat
_CALL_HEADER = 24  # XID to procedure; the credential behind it names the machine


def scrub(packet: bytes, linktype: int, address_of: Rename) -> bytes:
    """What may be shown of `packet`; `address_of` gives pseudonyms for its addresses ("10.0.0.1", "00:16:3e:00:00:01").

    Checksums of IPv4 headers are right; those of TCP and UDP, which would tell of what is left out, are zero (of UDP in
    IPv6, where that is not allowed, all ones). Nothing at all is left of a link type that is not known here.
    """
    if linktype == _ETHERNET:
        return _ethernet(packet, address_of)
    if linktype in (_NULL, _LOOP):
        return packet[:4] + _ip(packet[4:], address_of)
    if linktype == _SLL:
        return _cooked(packet, (2, 4, 6, 14), 16, address_of)
    if linktype == _SLL2:
        return _cooked(packet, (8, 11, 12, 0), 20, address_of)
    return _ip(packet, address_of) if linktype in _RAW else b""


def _ethernet(packet: bytes, address_of: Rename) -> bytes:
    if len(packet) < 14:
        return b""
    head = _mac(packet[0:6], address_of) + _mac(packet[6:12], address_of)
    return head + _typed(packet[12:], address_of)


def _typed(packet: bytes, address_of: Rename) -> bytes:
    """From an EtherType on, behind any number of VLAN tags."""
    out = b""
    for _ in range(_MOST_TAGS):
        kind = int.from_bytes(packet[:2], "big")
        if kind not in _VLANS or len(packet) < 6:
            break
        out, packet = out + packet[:4], packet[4:]
    out += packet[:2]
    return out + _ip(packet[2:], address_of) if kind in (_IPV4, _IPV6) else out


def _cooked(packet: bytes, fields: tuple[int, int, int, int], length: int, address_of: Rename) -> bytes:
    """Linux's cooked capture; `fields` are where hardware type, length of address, address and protocol stand."""
    if len(packet) < length:
        return b""
    hardware, size, address, protocol = fields
    head = bytearray(packet[:length])
    width = 2 if hardware == 2 else 1  # of the length
    known = int.from_bytes(head[hardware : hardware + 2], "big") == _ARPHRD_ETHERNET
    mac = bytes(head[address : address + 6])
    is_mac = known and int.from_bytes(head[size : size + width], "big") == len(mac)
    head[address : address + 8] = (_mac(mac, address_of) if is_mac else bytes(6)) + bytes(2)
    kind = int.from_bytes(head[protocol : protocol + 2], "big")
    if kind in _VLANS:
        # The tag stands behind the header, and then the type that it is of.
        return bytes(head) + (packet[length : length + 2] + _typed(packet[length + 2 :], address_of))
    return bytes(head) + (_ip(packet[length:], address_of) if kind in (_IPV4, _IPV6) else b"")


def _mac(address: bytes, address_of: Rename) -> bytes:
    return bytes.fromhex(address_of(address.hex(":")).replace(":", ""))


# --- IP ---------------------------------------------------------------------------------------------------------------


def _ip(packet: bytes, address_of: Rename) -> bytes:
    version = packet[0] >> 4 if packet else 0
    if version == 4:
        return _ipv4(packet, address_of)
    return _ipv6(packet, address_of) if version == 6 else b""


def _ipv4(packet: bytes, address_of: Rename) -> bytes:
    length = (packet[0] & 15) * 4
    if length < _IPV4_HEADER or len(packet) < length:
        return b""
    head = bytearray(packet[:length])
    for at in (12, 16):
        head[at : at + 4] = _renamed(packet[at : at + 4], address_of)
    # Options hold addresses: routes, and those who were passed.
    head[_IPV4_HEADER:] = _NOP * (length - _IPV4_HEADER)
    head[10:12] = bytes(2)
    head[10:12] = _checksum(bytes(head))
    # Of a super packet the length may be 0. What is behind it is the link's padding.
    end = int.from_bytes(packet[2:4], "big") or len(packet)
    flags = int.from_bytes(packet[6:8], "big")
    if flags & 0x1FFF:  # a fragment that is not the first one
        return bytes(head)
    return bytes(head) + _transport(packet[9], packet[length:end], is_ipv6=False)


def _ipv6(packet: bytes, address_of: Rename) -> bytes:
    if len(packet) < _IPV6_HEADER:
        return b""
    ends = b"".join(_renamed(packet[at : at + 16], address_of) for at in (8, 24))
    head, protocol = packet[:8] + ends, packet[6]
    length = int.from_bytes(packet[4:6], "big")
    payload = packet[_IPV6_HEADER : _IPV6_HEADER + length if length else None]
    if protocol == _FRAGMENT and len(payload) >= _FRAGMENT_HEADER:
        head += payload[:_FRAGMENT_HEADER]
        if int.from_bytes(payload[2:4], "big") >> 3:  # not the first one
            return head
        protocol, payload = payload[0], payload[_FRAGMENT_HEADER:]
    return head + _transport(protocol, payload, is_ipv6=True)


def _renamed(address: bytes, address_of: Rename) -> bytes:
    pseudonym = ipaddress.ip_address(address_of(str(ipaddress.ip_address(address))))
    packed: bytes = pseudonym.packed
    return packed


def _checksum(data: bytes) -> bytes:
    """RFC 1071."""
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


# --- TCP, UDP, RPC ----------------------------------------------------------------------------------------------------


def _transport(protocol: int, packet: bytes, *, is_ipv6: bool) -> bytes:
    if protocol == _TCP and len(packet) >= _TCP_HEADER:
        length = max((packet[12] >> 4) * 4, _TCP_HEADER)
        head = packet[:16] + bytes(2) + packet[18:_TCP_HEADER]
        return head + _tcp_options(packet[_TCP_HEADER:length], length - _TCP_HEADER) + _record(packet[length:])
    if protocol == _UDP and len(packet) >= _UDP_HEADER:
        return packet[:6] + (b"\xff\xff" if is_ipv6 else bytes(2)) + _message(packet[_UDP_HEADER:])
    return b""


def _tcp_options(options: bytes, length: int) -> bytes:
    """Those of `_TCP_OPTIONS`; no-ops in place of all others. Of those that were cut off nothing, not even no-ops."""
    out, at = b"", 0
    while at < len(options):
        kind = options[at]
        size = 1 if kind <= 1 else options[at + 1] if at + 1 < len(options) else 0
        if kind == 0 or (kind > 1 and size < 2) or at + size > len(options):
            break
        out += options[at : at + size] if kind in _TCP_OPTIONS else _NOP * size
        at += size
    return out + bytes(len(options) - len(out)) if len(options) == length else out


def _record(payload: bytes) -> bytes:
    """Record mark and header of the message that begins here; nothing where none does."""
    size = int.from_bytes(payload[:4], "big") & ~_LAST_FRAGMENT
    header = _message(payload[4 : 4 + size])
    return payload[:4] + header if header else b""


def _message(message: bytes) -> bytes:
    """XID to procedure of a call; XID to accept_stat of a reply, a verifier in zeros; nothing of anything else."""
    if len(message) < _LEAST_REPLY:
        return b""
    _, kind, second, third, length, sixth = struct.unpack(">6I", message[:_CALL_HEADER].ljust(_CALL_HEADER, b"\0"))
    if kind == _CALL and second == _RPC_VERSION and len(message) >= _CALL_HEADER:
        return message[:_CALL_HEADER]
    if kind != _REPLY:
        return b""
    if second == _DENIED and third <= _MOST_REJECT:
        return message[:_LEAST_REPLY]
    if second != _ACCEPTED or length > _MOST_AUTH:
        return b""
    accept = 20 + length + -length % 4
    status = sixth if not length else int.from_bytes(message[accept : accept + 4], "big")
    if status > _MOST_ACCEPT or len(message) < accept + 4:
        return b""
    return message[:20] + bytes(accept - 20) + message[accept : accept + 4]
