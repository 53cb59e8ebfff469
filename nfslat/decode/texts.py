"""A file that is no capture -> why, where it is a text: what it seems to be, and where that belongs."""

from __future__ import annotations

import re
from pathlib import Path

from nfslat.errors import InputError

_HEAD_BYTES = 4096
_PRINTED = "what tcpdump or tshark printed, not the packets; write these with tcpdump -w FILE"
# What it begins with, and what that is.
_KNOWN = (
    (r'\s*\{\s*"schema": "nfslat\.', "an answer of nfslat (--json), not a capture; nfslat diff compares two reports"),
    ("xid,program,version,op,", "ops that nfslat wrote (--csv), not a capture; nfslat diff compares reports (--json)"),
    (
        "# nfslat snapshot ",
        "a snapshot, not a capture; give it with --server-snapshot or --client-snapshot, or to nfslat tune",
    ),
    (r"[\d:.\- ]* IP6? \S+ > \S+: ", _PRINTED),
    (r" *\d+ +\d+\.\d+ +\S+ +(->|→) +\S+ ", _PRINTED),
)


def refuse_text(name: str, path: Path) -> None:
    """Raise ``InputError`` where what should be a capture is a text."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    if b"\0" in head:
        return
    try:
        text = head.decode()
    except UnicodeDecodeError as problem:
        if len(head) < _HEAD_BYTES or problem.start < len(head) - 3:  # more than a character that is cut
            return
        text = head[: problem.start].decode()
    if any(ord(character) < 32 and not character.isspace() for character in text):
        return
    said = next((said for begin, said in _KNOWN if re.match(begin, text)), None)
    raise InputError(
        said or "a text, not a capture; give the file that tcpdump -w wrote (texts about hosts: --evidence)", about=name
    )
