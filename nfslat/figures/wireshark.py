"""One matched op -> display filters that find its packets in Wireshark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from nfslat.figures.op_view import SideView


def in_filter(frames: Collection[int]) -> str:
    """Frame numbers as a Wireshark set, without its braces: ``3, 7..9``."""
    runs: list[list[int]] = []
    for frame in sorted(set(frames)):
        if runs and frame == runs[-1][-1] + 1:
            runs[-1].append(frame)
        else:
            runs.append([frame])
    return ", ".join(f"{run[0]}..{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def named_frames(side: SideView, more: Collection[int] = ()) -> dict[str, set[int]]:
    """For each file that holds a packet of the op: where its messages begin, end and are shown, as numbered there, and
    the same for the frames `more` (counted through the set)."""
    by_file: dict[str, set[int]] = defaultdict(set)
    messages = (side.call, side.reply, *side.again)
    named = {frame for sent in messages for frame in (sent.first_frame, sent.last_frame, sent.shown_frame)}
    for frame in sorted(named.union(more)):
        file, number = side.source.locate(frame)
        by_file[file.name].add(number)
    return by_file


def between(side: SideView, file_name: str) -> list[str]:
    """Filters for the packets between the first and the last one of a message, where a file holds both."""
    out = []
    for is_reply in (False, True):
        sent = side.sent(is_reply=is_reply)
        (first_file, first), (last_file, last) = map(side.source.locate, (sent.first_frame, sent.last_frame))
        if first_file == last_file and first_file.name == file_name and last > first + 1:
            out.append(f"frame.number in {{{first}..{last}}} && {_sender(side, is_reply)}")
    return out


def of_side(side: SideView, name: str, more: Collection[int] = ()) -> dict[str, str]:
    """One filter for all packets of the op at a side, which is called `name`, those in frames `more` included.

    Its key is the name of the side; with that of the file, where several hold packets of the op: each has its own.
    """
    files = named_frames(side, more)
    out = {}
    for file_name, frames in files.items():
        ranges = [f"({one})" for one in between(side, file_name)]
        key = name if len(files) == 1 else f"{name}, {file_name}"
        out[key] = " || ".join([f"frame.number in {{{in_filter(frames)}}}", *ranges])
    return out


def _sender(side: SideView, is_reply: bool) -> str:
    """What picks the packets of one direction out of a range of frames."""
    if side.transport == "tcp":
        # Unlike the server's, the client's port tells this connection from the others.
        return f"tcp.{'dstport' if is_reply else 'srcport'} == {side.client_end[1]}"
    address = (side.server_end if is_reply else side.client_end)[0]  # IP fragments have no port
    return f"{'ipv6' if ':' in address else 'ip'}.src == {address}"
