"""A capture of links that only Wireshark knows -> its IP packets in a file that the native decoder reads."""

from __future__ import annotations

import os
from pathlib import Path

from nfslat.decode.tools import Tools
from nfslat.decode.tshark.capinfos import new_file


def ip_packets(path: Path, tools: Tools, scratch: Path) -> tuple[Path | None, bool]:
    """`path` as pcapng of raw IP in `scratch`, with the times and lengths that it has, and whether that is all of it.

    None where tshark writes nothing. A packet is what tshark finds as IP, behind whatever is in front of it; others are
    left out. Of IP within IP both are packets, of which the decoder takes one for a copy.
    """
    target = new_file(scratch, path)
    command = [tools.tshark, "-n", "-r", os.fspath(path.absolute()), "-U", "IP", "-w", os.fspath(target)]
    whole = ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]
    done = tools.run([*command, *whole], path, scratch)
    return (target if target.exists() else None), done.returncode == 0


def first_packets(path: Path, tools: Tools, scratch: Path, packets: int) -> Path | None:
    """The first `packets` of `path` as pcapng, which knows their links; None where editcap cannot write them."""
    target = new_file(scratch, path)
    command = [tools.editcap, "-F", "pcapng", "-r", os.fspath(path.absolute()), os.fspath(target), f"1-{packets}"]
    done = tools.run(command, path, scratch)
    return target if not done.returncode and target.exists() else None
