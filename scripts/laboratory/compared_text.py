"""What a comparison with the kernel found -> tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from .compared import Comparison, Row, pooled

_NS_PER_MS = 1e6
_MEANING = """\
rtt: from when the client's kernel had the call ready until a worker has read the reply's XID. unsent: the part of it
until the call's first byte left, most of it in the socket; first byte: from there until that of the reply.
execute: from when a thread has read the call until its reply is ready. wait: from the call's last byte until a thread
takes it (svc_xprt_dequeue), the time in which TCP holds it back behind a loss included. queue: what nfslat infers of
that from packets, without that time. wakeup: from when the kernel woke a thread until it took the call, if it slept.
"""


def text(found: Sequence[Comparison]) -> str:
    """A table for each folder, and one of all of them; times in ms."""
    blocks = [f"{one.name}\n{_table(one.rows)}\n{_said(one)}" for one in found]
    if len(found) > 1:
        blocks.append(f"all {len(found)} together\n{_table(pooled(found))}\n")
    return "\n".join([*blocks, _MEANING])


def _table(rows: Sequence[Row]) -> str:
    def ms(ns: float) -> str:
        return f"{ns / _NS_PER_MS:.3f}"

    head = ["ms", "RPCs", "nfslat", "kernel", "min", "p1", "p50", "p99", "max", "mean", "<= 0.1", "<= 1"]
    cells = [
        [
            row.name,
            f"{row.count:,}",
            *map(ms, (row.found_ns / row.count, row.true_ns / row.count)),
            *map(ms, (row.min_ns, row.p1_ns, row.p50_ns, row.p99_ns, row.max_ns, row.mean_ns)),
            f"{row.within_100us * 100:.1f} %",
            f"{row.within_1ms * 100:.1f} %",
        ]
        for row in rows
    ]
    if not cells:
        return "nothing could be compared"
    return tabulate(cells, head, tablefmt="simple", disable_numparse=True, colalign=("left", *["right"] * 11))


def _said(found: Comparison) -> str:
    lines = []
    for one in found.coverage:
        why = {
            "retransmitted": one.sent_again,
            "not whole in the capture": one.not_whole,
            "outside the trace's time": one.outside,
            "ambiguous": one.ambiguous,
            "not in the trace": one.missing,
        }
        left = ", ".join(f"{count:,} {name}" for name, count in why.items() if count)
        lines.append(
            f"{one.side}: {one.joined:,} of {one.ops:,} ops joined with {one.traced:,} traced RPCs"
            + (f"; left out: {left}" if left else "")
            + (f"; lines that cannot be read: {one.unreadable:,}" if one.unreadable else "")
        )
    return "".join(f"{line}\n" for line in [*lines, *(f"note: {note}" for note in found.notes)])
