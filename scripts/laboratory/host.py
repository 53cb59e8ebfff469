"""This machine -> a place for guests: namespaces of its own, a bridge and taps, a disk image, a kernel that runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from laboratory.guest import HERE, Kernel, LabError

# What the guests run from this machine's root, and Debian's package of it.
PROGRAMS = {
    "linux.uml": "user-mode-linux",
    "unshare": "util-linux",
    "ip": "iproute2",
    "tc": "iproute2",
    "modprobe": "kmod",
    "mkfs.ext4": "e2fsprogs",
    "dmsetup": "dmsetup",
    "rpcbind": "rpcbind",
    "rpc.nfsd": "nfs-kernel-server",
    "rpc.statd": "nfs-common",
    "fio": "fio",
    "tcpdump": "tcpdump",
}
DATA_MB = (
    320  # of the file that the load reads; more than what a run reads, so that the server's cache does not serve it
)
_IMAGE_MB = 448
_ISOLATED = "NFSLAT_LAB_ISOLATED"


def packages(programs: Mapping[str, str] = PROGRAMS) -> list[str]:
    """Debian's packages of the programs that are not here."""
    return sorted({package for name, package in programs.items() if not shutil.which(name)})


def missing() -> list[str]:
    """What this machine lacks for the lab, in words; empty if guests can be started."""
    lacks = []
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        lacks.append("Linux on x86-64")
    if os.geteuid() != 0:
        lacks.append("root")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        lacks.append("/dev/net/tun")
    return lacks + [f"the package {package}" for package in packages()]


def isolate() -> None:
    """Starts this program again in namespaces of its own: no network, mount or process is left of it when it ends."""
    if os.environ.pop(_ISOLATED, None):
        # The first process of a namespace gets no signal that it does not ask for, and unshare passes none on.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        return
    namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    os.environ[_ISOLATED] = "1"
    os.execvp("unshare", ["unshare", *namespaces, "--", sys.executable, *sys.orig_argv[1:]])  # noqa: S606


def network(guests: int) -> None:
    """The bridge between the guests, and a tap of its own for the control of each; for guests 1 to ``guests``."""
    lines = ["link set lo up", "link add lab0 type bridge forward_delay 0 mcast_snooping 0", "link set lab0 up"]
    for number in range(1, guests + 1):
        for kind in ("net", "ctl"):
            lines.append(f"tuntap add dev {kind}{number} mode tap vnet_hdr")
            lines.append(f"link set {kind}{number} up")
        lines.append(f"link set net{number} master lab0")
        lines.append(f"address add 10.78.{number}.1/24 dev ctl{number}")
    for line in lines:
        _run("ip", *line.split())


def cache() -> Path:
    """Where what takes time to make is kept for the next run."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME") or "/root", ".cache")
    folder = Path(home) / "nfslat" / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def image() -> Path:
    """A disk image with a file system and a file of random bytes, really written: holes would never touch a disk."""
    path = cache() / f"data-{DATA_MB}.img"
    if not path.exists():
        content = cache() / "content"
        shutil.rmtree(content, ignore_errors=True)
        (content / "export").mkdir(parents=True)
        with (content / "export" / "data.bin").open("wb") as data:
            for _ in range(DATA_MB):
                data.write(os.urandom(1 << 20))
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)
        _run("mkfs.ext4", "-q", "-d", str(content), "-E", "lazy_itable_init=0", str(new), f"{_IMAGE_MB}M")
        new.rename(path)
        shutil.rmtree(content)
    return path


def kernel(name: str) -> Kernel:
    """The kernel of the guests: ``debian``'s package, ``traced`` (kernel.sh compiles it the first time), or a file."""
    if name == "debian":
        path = shutil.which("linux.uml") or name
    elif name == "traced":
        path = _run("sh", str(HERE / "kernel.sh")).splitlines()[-1]
    else:
        path = name
    if not os.access(path, os.X_OK):
        raise LabError(f"{path}: no kernel that can be run")
    return Kernel(Path(path).resolve(), _preload())


def _preload() -> Path | None:
    """xstate.c, compiled, on a processor that UML of these days cannot run on without it."""
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    if "amx_tile" not in flags.split():
        return None
    library = cache() / "xstate.so"
    source = HERE / "xstate.c"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        if not shutil.which("cc"):
            raise LabError("this processor has AMX, which User-Mode-Linux needs a shim for: install the package gcc")
        _run("cc", "-O2", "-shared", "-fPIC", "-o", f"{library}.new", str(source), "-ldl")
        Path(f"{library}.new").rename(library)
    return library


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
