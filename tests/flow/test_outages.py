"""An outage that is longer than a window waits for what is late: what was sent again is known in the next one, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario import Scenario
from windowed import windowed

from nfslat import api

_EVERY_MS, _READS = 50, 240
_LOST, _OUTAGE_MS = range(50, 55), 4_000.0  # READs whose replies are lost, and for how long none arrives


def _captures(folder: Path, *, is_lost: bool) -> tuple[Path, Path]:
    """READs with replies of four pieces. Of some all but the first piece are lost, and sent again seconds later; or
    they take so long by themselves."""
    lines = []
    for xid in range(1, _READS + 1):
        begin = _EVERY_MS * xid + (_OUTAGE_MS if xid >= _LOST.stop else 0.0)
        sent = [begin + 0.4 + 0.01 * piece for piece in range(4)]
        came = [f"{t + 0.1:.6f}" for t in sent]
        if xid in _LOST:
            late_ms = _OUTAGE_MS + _EVERY_MS * (_LOST.stop - _LOST.start)
            came[1:] = ["-" if is_lost else f"{t + late_ms + 0.1:.6f}" for t in sent[1:]]
            for piece in range(2, 5) if is_lost else ():
                again = sent[piece - 1] + late_ms
                lines.append(f"{again:.6f} < {again + 0.1:.6f} retransmit {xid} {piece}/4")
        lines.append(f"{begin:.6f} > {begin + 0.1:.6f} READ {xid} 0 8192")
        lines.append(f"{','.join(f'{t:.6f}' for t in sent)} < {','.join(came)} reply {xid}")
    return Scenario({"purpose": "an outage", "timeline": "\n".join(lines), "expect": {}}).write(folder)


@pytest.mark.parametrize(("is_lost", "cause"), [(True, "net-loss"), (False, "net-reordering")])
def test_what_is_sent_again_seconds_after_its_window_was_a_loss(tmp_path: Path, is_lost: bool, cause: str) -> None:
    """The server's ops of a window are handed on before their replies are sent again: only its connection tells. What
    was never sent again was overtaken."""
    server, client = _captures(tmp_path, is_lost=is_lost)
    for report in (api.correlate(server, client).summary, windowed(server, client, 1.0)):
        assert report.verdict is not None
        assert report.verdict.cause == cause
        assert {"net-loss", "net-reordering"} & {one.code for one in report.findings} == {cause}
