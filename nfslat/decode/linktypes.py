"""Names of link types that the native decoder does not know (tcpdump.org/linktypes.html)."""

from __future__ import annotations

_NAMES = {
    3: "AX.25",
    7: "ARCNET",
    8: "SLIP",
    11: "ATM",
    15: "BSD PPP",
    16: "BSD SLIP",
    99: "Symantec",
    100: "ATM",
    106: "ATM",
    107: "Frame Relay",
    109: "OpenBSD IPsec",
    114: "LocalTalk",
    117: "OpenBSD pflog",
    122: "IP over Fibre Channel",
    123: "SunATM",
    129: "ARCNET",
    138: "IP over IEEE 1394",
    143: "DOCSIS",
    166: "pppd",
    182: "multilink Frame Relay",
    187: "Bluetooth",
    189: "USB",
    195: "IEEE 802.15.4",
    197: "ERF",
    201: "Bluetooth",
    206: "Frame Relay",
    220: "USB",
    230: "IEEE 802.15.4",
    240: "netANALYZER",
    247: "InfiniBand",
    249: "USB",
    252: "Wireshark's exported PDUs",
    253: "Linux netlink",
    258: "macOS pktap",
    271: "Linux vsock",
}


def link_name(number: int) -> str:
    """What to call a link type: "link type 107 (Frame Relay)"."""
    name = _NAMES.get(number)
    return f"link type {number} ({name})" if name else f"link type {number}"
