"""What is cut out of a capture for Wireshark: it shows the messages of some ops as the whole capture does."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_extract import _correlate

from nfslat.decode.tools import Tools
from nfslat.figures.op_view import place
from nfslat.packets import dissect, show
from nfslat.packets.cut import cut
from nfslat.results import Correlation

SAMPLES = Path(__file__).parents[1] / "samples"
LOSSY = "packet-loss"  # whole packets; the others are cut at 512 bytes


def _found(name: str, tools: Tools, tmp_path: Path) -> Correlation:
    folder = SAMPLES / name
    return _correlate(folder / "server.pcap.gz", folder / "client.pcap.gz", tools, tmp_path)


def _parts(found: Correlation, count: int, monkeypatch: pytest.MonkeyPatch, tools: Tools) -> list[dissect.Part]:
    """What is asked about the slowest ops."""
    asked: list[dissect.Part] = []
    monkeypatch.setattr(show, "dissect", lambda parts, _: asked.extend(parts) or {})
    rows = show.slowest_ops(found, count)
    show.Dissected(found, [place(found, row) for row in rows], tools).get(
        place(found, rows[0]), "client", is_reply=False
    )
    monkeypatch.undo()
    return asked


def _both(part: dissect.Part, tools: Tools, place: Path) -> list[tuple[dissect.Message | None, dissect.Message | None]]:
    """Each message as it is seen in the whole file, and in what is cut out of it."""
    read = dissect._Reading.of(part)
    seen = dissect._shown(part, read, tools), dissect._shown_by_cut(part, tools, place)
    return [
        tuple(next((some[key] for at in frames if (key := (part.file, at, which)) in some), None) for some in seen)
        for which, frames in part.messages
    ]  # type: ignore[misc]  # two of them


@pytest.mark.parametrize(
    "name",
    ["client-slots", *(pytest.param(name, marks=pytest.mark.long) for name in ("server-threads", "session-slots"))],
)
def test_messages_are_those_of_the_whole_capture(
    name: str, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line of the dissection is the same, with the frame numbers and relative sequence numbers of the capture."""
    found = _found(name, tools, tmp_path)
    for part in _parts(found, 12, monkeypatch, tools):
        pairs = _both(part, tools, tmp_path / "cut.pcapng")
        assert pairs
        assert all(of_cut == whole and whole is not None for whole, of_cut in pairs)


def test_what_the_cut_does_not_show_is_looked_for_in_the_whole(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the first segment of a message came last, the whole capture shows it: nothing is missing in the end."""
    found = _found(LOSSY, tools, tmp_path)
    missing = 0
    for part in _parts(found, 12, monkeypatch, tools):
        pairs = _both(part, tools, tmp_path / "cut.pcapng")
        missing += sum(of_cut is None and whole is not None for whole, of_cut in pairs)
        shown = dissect.dissect([part], tools)
        for (whole, of_cut), (which, frames) in zip(pairs, part.messages, strict=True):
            is_shown = any((part.file, frame, which) in shown for frame in frames)
            assert is_shown == (whole is not None or of_cut is not None)
    assert missing


def test_without_a_cut_the_capture_is_read(tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be cut (a format that Wireshark alone reads) is shown all the same."""
    found = _found("client-slots", tools, tmp_path)
    rows = show.slowest_ops(found, 1)
    expected = "".join(show.render(found, rows, tools))
    monkeypatch.setattr(dissect, "cut", lambda *_: None)
    assert "".join(show.render(found, rows, tools)) == expected


def test_a_cut_is_small(tools: Tools, tmp_path: Path) -> None:
    """Of thousands of packets those of the op, and those that its connection begins with."""
    found = _found("client-slots", tools, tmp_path)
    op = place(found, show.slowest_ops(found, 1)[0])
    side = found.client
    numbers = cut(side, side.source.files[0], {op.xid}, {op.sides["client"].call.first_frame}, tmp_path / "cut.pcapng")
    assert numbers is not None
    assert {op.sides["client"].call.first_frame, op.sides["client"].reply.last_frame} <= set(numbers.tolist())
    assert len(numbers) < 50 < side.source.files[0].packets
