"""Packets that came late although they were sent again: reordering where both copies came, a loss where one did not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scenario import Scenario
from simulated import Simulated

from nfslat.decode.engine import choose
from nfslat.model.causes import Cause
from nfslat.pipeline import analyse, correlate
from nfslat.results import Analysis, Side
from nfslat.select import Filters

MS = 1_000_000


def _correlated(server: Path, client: Path, folder: Path) -> Analysis:
    def no_tools() -> Any:
        raise AssertionError("Wireshark's tools are not needed for this")

    engine = choose("native", no_tools, folder, rereads=False)
    return analyse(correlate(
        engine.open(str(server)), engine.open(str(client)), engine, filters=Filters(), srt="nfslat", may_swap=True,
        progress=lambda _: None,
    ))  # fmt: skip


def _behind_a_late_piece(folder: Path, late_ms: float | None, again_ms: float) -> dict[Cause, int]:
    """READs, 1 ms apart, with replies of four pieces. Of every tenth the second piece comes `late_ms` after it was sent
    (None: never), and is sent again after 1 ms, which takes `again_ms`. -> ops that waited behind it, by cause."""
    lines = []
    for xid in range(1, 104):
        begin = 1.0 * xid
        sent = [begin + 0.4 + 0.01 * piece for piece in range(4)]
        came = [f"{t + 0.1:.6f}" for t in sent]
        if xid % 10 == 0:
            came[1] = "-" if late_ms is None else f"{sent[1] + late_ms:.6f}"
            again = sent[1] + 1
            lines.append(f"{again:.6f} < {again + again_ms:.6f} retransmit {xid} 2/4")
        lines.append(f"{begin:.6f} > {begin + 0.1:.6f} READ {xid} 0 8192")
        lines.append(f"{','.join(f'{t:.6f}' for t in sent)} < {','.join(came)} reply {xid}")
    made = Scenario({"purpose": "late copies", "timeline": "\n".join(lines), "expect": {}}).write(folder)
    charges = _correlated(*made, folder).charges
    assert charges is not None
    return {cause: one.ops for (part, cause), one in charges.sums().items() if part == "after" and cause is not None}


@pytest.mark.parametrize(("late_ms", "again_ms"), [(2.5, 3.0), (2.5, 0.6)], ids=["the first", "the second"])
def test_where_both_copies_came_it_is_reordering(tmp_path: Path, late_ms: float, again_ms: float) -> None:
    """Whichever copy fills the hole, nothing was lost: who waited behind it waited for what had been overtaken."""
    found = _behind_a_late_piece(tmp_path, late_ms, again_ms)
    assert set(found) == {Cause.REORDERING}
    assert found[Cause.REORDERING] >= 10


def test_where_one_copy_never_came_it_is_a_loss(tmp_path: Path) -> None:
    """The same with a piece that is lost."""
    found = _behind_a_late_piece(tmp_path, None, 0.6)
    assert set(found) == {Cause.BEHIND_LOSS}
    assert found[Cause.BEHIND_LOSS] >= 10


def _with_rtt(side: Side, rtt_ns: int, **others: Any) -> Side:
    details = side.decoded.details
    tcp = replace(details.tcp, rtt_count=details.tcp.rtt_count * 0 + 1, rtt_min_ns=details.tcp.rtt_min_ns * 0 + rtt_ns)
    return replace(side, decoded=replace(side.decoded, details=replace(details, tcp=tcp), **others))


def test_the_distance_is_no_longer_than_the_shortest_round_trip_of_tcp(tmp_path: Path) -> None:
    """What the clocks leave room for is less than that where the path is never empty; a capture that missed packets
    shows no round trips that can be relied on."""
    made = _correlated(*Simulated(ops=100, delay_ms=5.0).run().write(tmp_path), tmp_path)
    assert made.charges is not None
    assert 2 * made.charges.half_trip_ns == pytest.approx(10 * MS, rel=0.02)
    far, near = 40 * MS, 3 * MS
    for at_server, at_client, lost, trip_ns in (
        (far, near, 0, near),
        (near, far, 0, near),
        (far, far, 0, 2 * made.charges.half_trip_ns),
        (near, near, 1, 2 * made.charges.half_trip_ns),
    ):
        one = analyse(
            replace(
                made,
                server=_with_rtt(made.server, at_server, lost_ranges=lost),
                client=_with_rtt(made.client, at_client, lost_ranges=lost),
            )
        )
        assert one.charges is not None
        assert 2 * one.charges.half_trip_ns == trip_ns
