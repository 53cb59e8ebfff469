"""`scripts/lab one-sided`: what one capture says, held against two."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
if str(_ROOT / "scripts") not in sys.path:
    sys.path.insert(0, str(_ROOT / "scripts"))
one_sided = importlib.import_module("laboratory.one_sided")
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
