"""A capture in windows: nothing is lost, doubled or changed by where it is cut."""

from __future__ import annotations

import dataclasses
import itertools
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captures import SHARED, needs_captures
from live_captures import windows_of

from nfslat.decode import blocks, native
from nfslat.decode.in_line import in_line, parted
from nfslat.errors import InputError
from nfslat.model.decoded import Decoded
from nfslat.model.tables import Table

SAMPLES = Path(__file__).parents[2] / "samples"
CAPTURES = sorted(SAMPLES.glob("*/*.pcap.gz"))
# RPC retransmissions, losses, a stall, a reconnect, sessions, a grace period, a clock that is set.
_LAB = (
    "lab/b4_v3_rpc_retransmit lab/d4_v3_loss2_full lab/j_v3_client_stall lab/n_v3_nfsd_restart "
    "lab/f_v41_session_slots2 lab2/v4_grace_restart lab/g_clock_step3s"
).split()


def _whole(path: Path, tmp_path: Path) -> Decoded:
    source = native.open_source(str(path), _no_tools, tmp_path, rereads=False)
    return blocks.decode(source, _no_tools, lambda _: None)[1]


def _no_tools() -> Any:
    pytest.fail("Wireshark's programs are not needed")


def _differences(a: Any, b: Any, name: str = "") -> list[str]:
    found = []
    for field in dataclasses.fields(a):
        x, y, here = getattr(a, field.name), getattr(b, field.name), f"{name}.{field.name}"
        if isinstance(x, Table) or dataclasses.is_dataclass(x):
            found += _differences(x, y, here)
        elif isinstance(x, np.ndarray):
            found += [] if np.array_equal(x, y) else [here]
        elif x != y:
            found.append(here)
    return found


def _hold(path: Path, tmp_path: Path, seconds: float) -> None:
    whole, parts = _whole(path, tmp_path), windows_of(path, seconds)
    assert len(parts) > 1
    assert all((one.decoded.ops.t3 < one.end_ns).all() for one in parts[:-1])
    assert all(before.end_ns <= after.begin_ns for before, after in itertools.pairwise(parts))
    # Whether a dissector shows messages first or last goes by whether packets are cut, which a window may not show; and
    # a stretch of unread bytes that a window cuts is two rows.
    allowed = {".ops.flags"} | {f".details.unread.{name}" for name in whole.details.unread.columns()}
    joined = in_line([one.decoded for one in parts])
    assert set(_differences(whole, joined)) <= allowed
    assert whole.details.unread.bytes.sum() == joined.details.unread.bytes.sum()


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_windows_add_up_to_the_whole(path: Path, tmp_path: Path) -> None:
    """Every column of every table, every count: what a plain decode makes, whatever the width."""
    _hold(path, tmp_path, 0.7)


@needs_captures
@pytest.mark.parametrize("name", _LAB)
def test_windows_of_the_lab_add_up_to_the_whole(name: str, tmp_path: Path) -> None:
    """The same of what is sent again, lost, answered twice, answered late, and where a clock is set."""
    if not (SHARED / name).is_dir():
        pytest.skip(f"no {name}")
    _hold(next((SHARED / name).glob("client.pcap*")), tmp_path, 0.7)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_what_is_parted_can_be_joined(share: float, tmp_path: Path) -> None:
    """Whichever ops go, all rows of both sides together are those of the whole, and lead to the same ops."""
    whole = _whole(CAPTURES[0], tmp_path)
    goes = np.random.default_rng(1).random(len(whole.ops)) < share
    middle_ns = int(np.median(whole.ops.t3))
    first, rest = parted(whole, goes, middle_ns)
    assert len(first.ops) == goes.sum()
    assert (rest.details.events.t_ns >= middle_ns).all()
    # Ops of one frame may change places, which the rows that lead to them follow.
    joined = in_line([first, rest])
    assert sorted(joined.ops.xid) == sorted(whole.ops.xid)
    assert joined.messages == whole.messages
    for table in ("failures", "slots", "names"):
        a, b = getattr(joined.details, table), getattr(whole.details, table)
        assert sorted(joined.ops.xid[a.op]) == sorted(whole.ops.xid[b.op])


def test_no_window_is_refused() -> None:
    """There is nothing that an empty list could be."""
    with pytest.raises(ValueError, match="nothing to join"):
        in_line([])


def test_what_is_no_capture_is_said_in_a_line(tmp_path: Path) -> None:
    """A FIFO cannot be looked at before: what the decoder refuses in its thread is told as of a plain decode."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"garbage" * 1000,), daemon=True)
    writer.start()
    with pytest.raises(InputError, match=f"{fifo}: neither pcap, pcapng, snoop nor ERF"):
        windows_of(fifo, 1)
    writer.join(10)
