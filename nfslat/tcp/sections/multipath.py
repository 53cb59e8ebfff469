"""Subflows of MPTCP connections -> items of the answer."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.report.blocks import Block, Item
from nfslat.report.text_layout import count
from nfslat.tcp.model import Report

_SHOWN = 8  # connections, and subflows of one


def multipath_items(report: Report) -> Iterator[Block]:
    """Which conversations are one connection, those with most subflows first, and whose connection is not known."""
    found = sorted(report.multipath, key=lambda one: -len(one.streams))
    for one in found[:_SHOWN]:
        known = len(one.streams) > 1
        yield Item(
            f"MPTCP: {'conversations' if known else 'conversation'} {_numbers(one.streams)} "
            f"{'are the subflows' if known else 'is the only subflow in the capture'} of one connection"
        )
    if len(found) > _SHOWN:
        yield Item(f"MPTCP: {count(len(found) - _SHOWN)} more connections; --json has all")
    of_known = {stream for one in found for stream in one.streams}
    alone = tuple(line.stream for line in report.conversations if line.is_mptcp and line.stream not in of_known)
    if alone:
        yield Item(
            f"MPTCP: {'conversations' if len(alone) > 1 else 'conversation'} {_numbers(alone)}; its connection is "
            "not known, because its MP_CAPABLE is not in the capture"
        )


def _numbers(streams: tuple[int, ...]) -> str:
    if len(streams) > _SHOWN:
        return f"{', '.join(map(str, streams[:_SHOWN]))} and {count(len(streams) - _SHOWN)} more"
    *most, last = map(str, streams)
    return f"{', '.join(most)} and {last}" if most else last
