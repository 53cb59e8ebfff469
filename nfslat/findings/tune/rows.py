"""A host -> a row for each of its settings that matters, and the names in its files that are no setting at all."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from nfslat.answer.advice import Advice
from nfslat.answer.tune import Row
from nfslat.evidence.records import Setting, Snapshot
from nfslat.findings.tune.hosts import Host, Use
from nfslat.findings.tune.knobs import BY_NAME, CONFIGURED_AS, KNOBS, OTHER_NAMES, REMEDIES, default_of, limit_of

_CLOSE = 0.85  # of difflib: one or two letters, or words in another order
_CHECKED = ("sunrpc.", "nfs.max_", "nfsd.", "nfs.conf:nfsd.")
_TCP = "net.ipv4.tcp_"


def rows_of(host: Host, uses: Iterable[Use]) -> list[Row]:
    """What is in effect on `host`, first its settings, then its mounts."""
    snapshot = host.snapshot
    rows = []
    for knob in KNOBS:
        own = snapshot.settings.get(knob.name)
        wanted = configured(snapshot).get(knob.name)
        if (own is None and wanted is None) or (knob.side != "both" and host.roles and knob.side not in host.roles):
            continue
        different = wanted is not None and (own is None or not same_value(own.value, wanted.value))
        rows.append(
            Row(
                host=host.name,
                setting=knob.name,
                value=own.value if own is not None else "",
                default=default_of(knob, snapshot),
                limit=limit_of(knob, snapshot),
                source=own.source if own is not None else "",
                configured=f"{wanted.value} in {wanted.source}" if wanted is not None and different else "",
                note=knob.note,
            )
        )
    threads = [row for row in rows if row.setting in ("nfsd.threads", "nfs.servers", "vfs.nfsd.maxthreads")]
    if host.threads is not None and not any(row.value for row in threads):
        knob = BY_NAME["nfsd.threads"]
        rows.append(
            Row(host.name, knob.name, str(host.threads), knob.default, "", "/proc/net/rpc/nfsd", note=knob.note)
        )
    for use in uses:
        rows += _mount_rows(use)
    return rows


def _mount_rows(use: Use) -> list[Row]:
    host = use.client.name
    where = "mountstats" if any(mount.xprts for mount in use.mounts) else "mount table"
    label = f"{use.server} v{use.version or '?'}"

    def option(name: str) -> str:
        return " ".join(sorted({value for mount in use.mounts if (value := mount.options.get(name))}))

    rows = [Row(host, f"{label} connections", str(use.connections), "1", "16", where)]
    for name, default, limit in (
        ("rsize", "", "1048576"),
        ("wsize", "", "1048576"),
        ("timeo", "600", ""),
    ):  # fact timeo
        if value := option(name):
            rows.append(Row(host, f"{label} {name}", value, default, limit, where))
    if granted := next((mount.slots for mount in use.mounts if mount.slots), None):
        rows.append(Row(host, f"{label} session slots", str(granted), "", "1024", where))
    return rows


def configured(snapshot: Snapshot) -> dict[str, Setting]:
    """What the next start will have, by the names that the running system uses."""
    return {CONFIGURED_AS.get(name, name): setting for name, setting in snapshot.configured.items()}


def same_value(one: str, other: str) -> bool:
    """Whether two texts are one value: blanks between numbers, and zeros before them, do not matter."""
    return [word.lstrip("0") for word in one.split()] == [word.lstrip("0") for word in other.split()]


def misspelt(snapshot: Snapshot) -> list[Advice]:
    """Names that are no setting, but close to one: the line in the file has no effect."""
    if snapshot.system not in ("", "Linux"):
        return []
    running = {name for name in snapshot.settings if name.startswith(_TCP)}
    real = {*BY_NAME, *OTHER_NAMES, *CONFIGURED_AS}
    found = []
    for name, setting in {**snapshot.settings, **snapshot.configured}.items():
        if name in real or setting.source.startswith(("/proc/", "/sys/")):
            continue  # what the kernel itself shows has the right name
        candidates: Iterable[str] = ()
        if name.startswith(_TCP):
            # Only against what this kernel has: there are hundreds, and each version adds some.
            candidates = running if name not in snapshot.settings and len(running) > 10 else ()
        elif name.startswith(_CHECKED) or "slot" in name:
            candidates = real
        nearest = _nearest(name, candidates)
        if nearest is not None:
            found.append(
                REMEDIES["misspelt"].advice(
                    setting.value,
                    f"{nearest}={setting.value}",
                    name=name,
                    source=setting.source,
                    right=nearest,
                    look=f"sysctl {nearest}" if "conf:" not in nearest else "nfsconf --dump",
                )
            )
    return found


def _nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was meant to be; a name without its module is compared without."""
    # Words in another order are the same words: max_tcp_slot_table_entries.
    whole = {candidate if "." in name else candidate.rpartition(".")[2]: candidate for candidate in sorted(candidates)}
    keys = {_ordered(key): candidate for key, candidate in whole.items()}
    close = difflib.get_close_matches(_ordered(name), keys, n=1, cutoff=_CLOSE)
    return keys[close[0]] if close else None


def _ordered(name: str) -> str:
    module, dot, rest = name.rpartition(".")
    return module + dot + "_".join(sorted(rest.split("_")))
