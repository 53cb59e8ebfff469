"""`scripts/lab one-sided`: what one capture says, held against two."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import nfslat

_ROOT = Path(__file__).parents[2]
if str(_ROOT / "scripts") not in sys.path:
    sys.path.insert(0, str(_ROOT / "scripts"))
one_sided = importlib.import_module("laboratory.one_sided")
unstamped = importlib.import_module("laboratory.unstamped")
_PAIR = _ROOT / "samples" / "server-threads"


def test_both_halves_of_a_pair_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each half: the truth is that of two captures, and what is said of the figures is counted."""
    assert one_sided.main([str(_PAIR)]) == 0
    said = capsys.readouterr().out
    client, server = list(one_sided.halves(_PAIR))
    assert (client.side, server.side) == ("client", "server")
    assert client.client_ms == server.client_ms == server.true_ms
    assert client.true_ms < client.client_ms
    assert client.is_within
    assert server.is_within
    assert client.held > 0.95
    assert client.agrees == "yes"
    assert "client's capture, 1 pairs: the mean is within what is said in 1" in said


def test_both_halves_are_judged_without_time_stamps() -> None:
    """Each by acknowledgements and replies alone; means are as good as they say, and bounds of most ops hold."""
    halves = list(one_sided.halves(_PAIR, without_stamps=True))
    assert [half.side for half in halves] == ["client", "server"]
    for half in halves:
        assert half.is_within
        assert half.held > 0.9
        assert half.inferred > 0.97
        assert half.agrees in {"yes", "open"}
        assert "high" not in half.verdict.confidence
    stamped, *_ = one_sided.halves(_PAIR)
    assert halves[0].said_ms != stamped.said_ms


def test_stripping_takes_the_stamps_and_nothing_else(tmp_path: Path) -> None:
    """Packets keep their times, lengths and sums (RFC 1624), so that checksums are as right as they were."""
    source = _PAIR / "client.pcap.gz"
    plain = tmp_path / "plain.pcap"
    subprocess.run(["editcap", "-F", "nsecpcap", source, plain], check=True, stdout=subprocess.DEVNULL)
    before, after = plain.read_bytes(), unstamped.unstamped(source, tmp_path / "without.pcap").read_bytes()
    assert len(before) == len(after)
    at, changed = 24, 0
    while at < len(before):
        size = int.from_bytes(before[at + 8 : at + 12], "little")
        head, body = slice(at, at + 16), slice(at + 16, at + 16 + size)
        assert before[head] == after[head]
        assert _sum(before[body]) == _sum(after[body])
        changed += before[body] != after[body]
        at += 16 + size
    assert changed > 1_000
    inferred = nfslat.inspect(tmp_path / "without.pcap").summary.inferred
    assert inferred is not None
    assert inferred.unstamped == inferred.ops


def _sum(frame: bytes) -> int:
    """Modulo 2^16 - 1, as checksums have it."""
    return sum(int.from_bytes(frame[at : at + 2], "big") for at in range(0, len(frame), 2)) % 0xFFFF


def test_another_answer_is_not_the_same() -> None:
    """The same cause is right; what one capture leaves open is no mistake; another layer is one."""
    client, _ = one_sided.halves(_PAIR)

    def agrees(**others: object) -> str:
        return str(dataclasses.replace(client, verdict=dataclasses.replace(client.truth, **others)).agrees)

    assert agrees() == "yes"
    assert agrees(outcome="undecided", layer=None, cause=None) == "open"
    assert agrees(cause="server-storage") == "layer"
    assert agrees(layer="network", cause="net-delay") == "no"
    assert not dataclasses.replace(client, found_ms=client.true_ms + 2 * client.said_ms).is_within


def test_a_folder_without_a_pair_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends with 3 where nothing could be compared."""
    assert one_sided.main([str(tmp_path)]) == 3
    assert "no server.pcap* and client.pcap*" in capsys.readouterr().err
