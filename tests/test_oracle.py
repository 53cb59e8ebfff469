"""Real captures against tshark's own statistics: the same calls, replies, pairs and mean SRTs, or a known difference.

It is the engine "tshark" that is held against tshark here; test_engines holds the two engines against each other.
"""

from __future__ import annotations

import bz2
import re
import subprocess
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np
import pytest
from captures import CAPTURES, SAMPLES, WITH_NFS, WITHOUT_NFS, Decoder, asked, id_of, name_of, needs_captures

from nfslat.decode.tshark.engine import preferences
from nfslat.decompose import srt_ns
from nfslat.model.protocol import NFS, op_name
from nfslat.model.tables import State, last_sent_ns
from nfslat.results import Side

# Captures in which messages are sent again or twice: there tshark counts pairs of frames and nfslat ops.
_SENT_AGAIN = {"b4_v3_rpc_retransmit", "d3_v3_loss1", "i_v3_any_sll2", "k_v3_dup", "n_v3_nfsd_restart"}
# Where a packet is lost, tshark holds back what came behind it and shows those messages in the frame that fills the
# gap; nfslat takes the frame that completes a message, or the one that begins it.
_SENT_AGAIN |= {"d4_v3_loss2_full", "packet-loss"}
# tshark sees a TCP retransmission of one call as a second call once TCP reassembly is off.
_SENT_AGAIN |= {"g_clock_drift5000ppm", "j_v3_client_stall", "h_v3_metadata"}


def _side(path: Path, decoder: Decoder) -> tuple[Side, list[str]]:
    """One capture by the engine that is held against tshark itself, and the preferences that it gave tshark."""
    side = decoder.side("tshark", path)
    assert side.decoded.reassembly is not None
    return side, preferences(side.decoded.reassembly)


def _tshark(decoder: Decoder, path: Path, *arguments: str) -> str:
    """What tshark prints; of a sample what it printed when it was asked (kept_answers.py)."""
    if path in SAMPLES:
        return decoder.oracle.said(f"samples/{id_of(path)}", arguments, lambda: _asked(path, *arguments))
    return _asked(path, *arguments)


def _asked(path: Path, *arguments: str) -> str:
    data = bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else None
    command = ["tshark", "-n", "-r", "-" if data else str(path), *arguments]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode()


@pytest.mark.parametrize("path", asked(WITH_NFS))
def test_calls_replies_and_pairs_equal_an_independent_count(path: Path, decoder: Decoder) -> None:
    """As many calls and replies as a plain ``tshark -Y rpc`` shows under the same preferences; each reply that tshark
    ties to a call is in an op or was sent again."""
    side, prefs = _side(path, decoder)
    text = _tshark(decoder, path, *prefs, "-Y", "rpc.msgtyp", "-T", "fields", "-e", "rpc.msgtyp", "-e", "rpc.time")
    kinds: Counter[str] = Counter()
    answered = 0
    for line in text.splitlines():
        types, _, times = line.partition("\t")
        kinds.update(types.split(","))
        answered += len(times.split(",")) if times else 0
    loose = side.decoded.loose
    assert len(side.ops) + int((loose.is_reply == 0).sum()) == kinds["0"]
    assert len(side.ops) + int((loose.is_reply == 1).sum()) == kinds["1"]
    again = int(((loose.is_reply == 1) & np.isin(loose.state, (State.RETRANSMITTED, State.DUPLICATE_FRAME))).sum())
    assert len(side.ops) <= answered <= len(side.ops) + again


@pytest.mark.parametrize(
    "path",
    [
        each
        for each in asked([path for path in CAPTURES if "_v3" in path.parent.name or "g_clock" in path.parent.name])
        if each.values[0].parent.name != "session-slots"
    ],
)
def test_mean_srt_equals_tsharks_to_the_printed_digit(path: Path, decoder: Decoder) -> None:
    """``--srt=tshark`` gives the count and the mean of ``tshark -z rpc,srt,100003,3`` for every operation, except
    where messages were sent again."""
    side, prefs = _side(path, decoder)
    ops = side.ops
    durations = srt_ns(ops, "tshark", "client")
    mine = {}
    for op in np.unique(ops.op[(ops.program == NFS) & (ops.version == 3)]).tolist():
        of_op = durations[(ops.program == NFS) & (ops.version == 3) & (ops.op == op)]
        mean_s = Decimal(int(of_op.sum())) / len(of_op) / 10**9
        mine[op_name(NFS, 3, op)] = (len(of_op), str(mean_s.quantize(Decimal("0.000001"), ROUND_HALF_UP)))
    theirs = {
        name: (int(count), mean)
        for name, count, mean in re.findall(
            r"^\s*\d+\s+(\w+)\s+(\d+)\s+[\d.]+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$",
            _tshark(decoder, path, *prefs, "-q", "-z", "rpc,srt,100003,3"),
            re.MULTILINE,
        )
    }
    different = {name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)}
    if name_of(path) in _SENT_AGAIN:
        assert different <= {"READ", "WRITE", "GETATTR", "LOOKUP", "ACCESS"}
    else:
        assert different == set()


@needs_captures
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("path", WITHOUT_NFS, ids=id_of)
def test_captures_without_nfs_are_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A public capture without NFS ends with exit status 3 and a line that says what it holds."""
    from nfslat.cli import main as cli

    assert cli.main([str(path)]) == 3
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "no NFS in it" in err or "cut at 54 bytes" in err


@needs_captures
def test_a_call_sent_again_on_a_new_connection_is_one_long_op(decoder: Decoder) -> None:
    """XID 0x991e23db of the network partition: the client waited 146.4 s, whatever its last transmission took."""
    path = next(path for path in CAPTURES if "netpart-reconnect" in path.name)
    side, _ = _side(path, decoder)
    (row,) = np.flatnonzero(side.ops.xid == 0x991E23DB).tolist()
    assert side.ops.transmissions[row] == 2
    assert (side.ops.t3 - side.ops.t0)[row] / 1e9 == pytest.approx(146.4, abs=0.05)
    assert (side.ops.t3[row] - last_sent_ns(side.ops, side.decoded.loose, row)) / 1e6 == pytest.approx(9.8, abs=0.05)
