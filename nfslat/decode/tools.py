"""Where Wireshark's command-line tools are, whether they are new enough, and the environment they run in."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from nfslat import confined
from nfslat.decode.room import RESERVE_BYTES
from nfslat.errors import ToolError
from nfslat.model.record import Record

MINIMUM = (3, 6)  # Ubuntu 22.04; older ones lack fields that the decoder reads
_INSTALL = (
    "install it with 'apt-get install tshark' (Debian, Ubuntu), 'dnf install wireshark-cli' (Fedora, RHEL), "
    "'zypper install wireshark' (SUSE) or 'brew install wireshark' (macOS)"
)

# Only the protocols on the way to an NFS operation are dissected: the others cost time, and some of them claim the
# client ports below 1024 that NFS uses (LDAPS 636, IPP 631, rsync 873 ...), whereupon whole connections disappear.
_NEEDED = re.compile(
    r"frame|eth|ethertype|vlan|vntag|etag|ieee8021a[dh]|macsec|etherip|sll|null|raw|raw_ip|data|ppp|pppoe|pppoes|mpls|fddi|"
    r"tr|trmac|llc|ipoib|infiniband|radiotap|wlan.*|prism|ppi|pktap|nflog|juniper|hsr|prp|trill|fabricpath|cfp|cmd|nsh|pw.*|"
    r"chdlc|fr|atm|lane|arcnet|enc|ipnet|nettl|pflog|docsis|ax25|peekremote|aruba_erm.*|capwap.*|"
    r"ip|ipv6(\..*)?|gre|erspan|vxlan.*|geneve|gtp|l2tp|lisp.*|wg|tcp|mptcp|udp|rpc|portmap|mount|nlm|stat|nfs(\..*)?|nfsacl|nfsauth|rquota|"
    r"file-.*|pcap.*|erf|gssapi|gss-api|spnego|_ws\..*"
)


class Tools(Record):
    """Paths of tshark and its companions, the version that answered, and the environment to start them with."""

    tshark: str
    capinfos: str
    editcap: str
    mergecap: str
    version: str
    environment: dict[str, str]
    are_confined: bool = True  # False: they do not run so, as a snap or flatpak does not, which confines them itself

    def may(self, reads: Sequence[Path], writes: Path | None = None) -> confined.Limits:
        """What one of them may take and do that reads those files, and writes to that folder."""
        may = confined.limits(reads, writes, reserve=RESERVE_BYTES)
        return may if self.are_confined else dataclasses.replace(may, is_confined=False)

    def start(self, command: Sequence[str], may: confined.Limits, **streams: Any) -> subprocess.Popen[Any]:
        """One of them; see `confined.start`."""
        return confined.start(command, may, env=self.environment, **streams)

    def run(
        self, command: Sequence[str], reads: Path, writes: Path | None = None, *, about: str = ""
    ) -> subprocess.CompletedProcess[bytes]:
        """One of them to its end, with what it printed. ``ToolError`` where it took too much, or does not start."""
        return confined.run(command, self.may([reads], writes), about, env=self.environment)


def located_tools(scratch: Path) -> Tools:
    """Wireshark's tools with an empty personal configuration below `scratch`, as yet asked nothing (`checked`).

    Raises ``ToolError`` where one of them is missing.
    """
    paths: dict[str, Any] = {}
    for name in ("tshark", "capinfos", "editcap", "mergecap"):
        found = shutil.which(name)
        if found is None:
            raise ToolError(f"{name} (of Wireshark) was not found; {_INSTALL}")
        paths[name] = found
    configuration = scratch / "wireshark"
    configuration.mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WIRESHARK_")}
    # An empty personal configuration: no coloured, renamed or decoded-as surprises from the user's own profile.
    environment |= {"WIRESHARK_CONFIG_DIR": os.fspath(configuration), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    return Tools(**paths, version="", environment=environment)


def checked(tools: Tools) -> Tools:
    """The same, which are new enough, dissect only what is needed, and run within limits where they can.

    Raises ``ToolError`` where one of them does not start, or is older than ``MINIMUM``.
    """
    if tools.version:
        return tools
    environment = tools.environment
    version = _version(tools.tshark, environment)
    protocols = _run([tools.tshark, "-G", "protocols"], environment)
    names = [line.rsplit("\t")[2] for line in protocols.splitlines() if line.count("\t") >= 2]
    unneeded = [name for name in names if not _NEEDED.fullmatch(name)]
    (Path(environment["WIRESHARK_CONFIG_DIR"]) / "disabled_protos").write_text("\n".join(unneeded) + "\n")
    try:
        does = confined.run([tools.capinfos, "--version"], tools.may([]), env=environment).returncode == 0
    except ToolError:
        does = False
    return structs.replace(tools, version=version, are_confined=does)


def find_tools(scratch: Path) -> Tools:
    """Wireshark's tools, `checked`. Raises ``ToolError`` where one is missing, too."""
    return checked(located_tools(scratch))


def _version(tshark: str, environment: dict[str, str]) -> str:
    found = re.search(r"(\d+)\.(\d+)(\.\d+)?", _run([tshark, "--version"], environment).split("\n", 1)[0])
    if found is None:
        raise ToolError(f"{tshark} does not say its version; {_INSTALL}")
    if (int(found[1]), int(found[2])) < MINIMUM:
        raise ToolError(f"tshark {found[0]} is too old, {MINIMUM[0]}.{MINIMUM[1]} or newer is needed; {_INSTALL}")
    return found[0]


def _run(command: list[str], environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
    except OSError as problem:
        raise ToolError(f"{command[0]} does not start ({problem.strerror}); {_INSTALL}") from problem
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise ToolError(f"{' '.join(command[:2])} failed: {last[0]}")
    return done.stdout.decode(errors="replace")
