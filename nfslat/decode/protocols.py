"""A capture without NFS -> an error that says what is in it instead."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter

from nfslat.constants import NFS, program_name
from nfslat.decode.capture import Source
from nfslat.decode.reader import Decoded
from nfslat.decode.tools import Tools
from nfslat.errors import InputError
from nfslat.tables import Ops

_NAMED = 3


def refuse_without_nfs(source: Source, decoded: Decoded, ops: Ops, tools: Tools) -> None:
    """Raise ``InputError`` where `ops` holds no NFS op: encrypted, no RPC at all, calls only, or other programs."""
    if (ops.program == NFS).any():
        named = decoded.messages.op[(decoded.messages.program == NFS) & (decoded.messages.is_reply == 0)]
        if not decoded.tls_connections or (named != 0).any():
            return
    name = source.name
    if decoded.tls_connections:
        raise InputError(
            f"{name}: the NFS traffic is encrypted (RPC-with-TLS, RFC 9289); XIDs cannot be seen: "
            "capture on a mount without xprtsec, or compare TCP round trips only"
        )
    calls = int(((decoded.messages.is_reply == 0) & (decoded.messages.program == NFS)).sum())
    replies = int((decoded.messages.is_reply == 1).sum())
    if calls:
        raise InputError(
            f"{name}: {calls} NFS calls and {replies} RPC replies, but no call with its reply; "
            "capture both directions (no one-way filter or span port)"
        )
    if len(decoded.messages):
        programs = Counter(program_name(int(program)) for program in decoded.messages.program if program >= 0)
        said = ", ".join(f"{count} {program} calls" for program, count in programs.most_common(_NAMED)) or "RPC replies"
        raise InputError(f"{name}: no NFS in it, only {said}; capture 'port 2049' on the NFS interface")
    raise InputError(
        f"{name}: no NFS in it; it holds {_contents(source, tools)}; capture 'port 2049' on the NFS interface"
    )


def _contents(source: Source, tools: Tools) -> str:
    """The protocols with most packets, as Wireshark names them with all its dissectors."""
    environment = {key: value for key, value in tools.environment.items() if key != "WIRESHARK_CONFIG_DIR"}
    empty = os.path.join(tools.environment["WIRESHARK_CONFIG_DIR"], "all-protocols")
    os.makedirs(empty, exist_ok=True)
    done = subprocess.run(
        [tools.tshark, "-n", "-r", os.fspath(source.files[0].path.absolute()), "-q", "-z", "io,phs"],
        capture_output=True,
        check=False,
        env=environment | {"WIRESHARK_CONFIG_DIR": empty},
    )
    leaves: Counter[str] = Counter()
    lines = re.findall(r"^( *)(\S+) +frames:(\d+)", done.stdout.decode(errors="replace"), re.MULTILINE)
    for at, (_, protocol, frames) in enumerate(lines):
        inner = sum(int(n) for _, _, n in _children(lines, at))
        leaves[protocol] += int(frames) - inner
    top = [f"{protocol} ({count} packets)" for protocol, count in leaves.most_common(_NAMED) if count > 0]
    return ", ".join(top) or f"{source.packets} packets of no known protocol"


def _children(lines: list[tuple[str, str, str]], at: int) -> list[tuple[str, str, str]]:
    """Lines one level below line `at` of tshark's protocol hierarchy."""
    depth, out = len(lines[at][0]), []
    for line in lines[at + 1 :]:
        if len(line[0]) <= depth:
            break
        if len(line[0]) == depth + 2:
            out.append(line)
    return out
