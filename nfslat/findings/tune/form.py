"""Words and numbers that several pieces of advice share."""

from __future__ import annotations

from nfslat.findings.tune.knobs import FACTS

PER_CONNECTION = 128  # fact connection-cap
MORE_LOAD = "the server and its storage get more requests at once"
REMOUNT = "for new connections only: unmount every mount of that server first, then mount again"


def sources(*ids: str) -> tuple[str, ...]:
    """The facts' ids with where they are written. Raises ``KeyError`` for a fact that there is not."""
    return tuple(f"{name}: {FACTS[name].source}" for name in ids)


def with_headroom(needed: int) -> int:
    """Half as much again as `needed`, rounded up to a power of two (fact ``little``)."""
    return 1 << max((needed * 3 + 1) // 2 - 1, 0).bit_length()


def linux_slots(knob: str, suggested: int) -> tuple[str, ...]:
    """The commands that set a sunrpc slot setting of a Linux client, now and after the next boot."""
    return (
        f"sysctl -w {knob}={suggested}",
        f"echo options {knob.replace('.', ' ')}={suggested} >>/etc/modprobe.d/sunrpc.conf",
        "# a sysctl.d entry alone is not enough: it is read before sunrpc is loaded",
    )


def told(value: int | None) -> str:
    """A number, or that it is not known."""
    return "not known" if value is None else str(value)


def count_of(number: int, noun: str) -> str:
    """``1 call``, ``16 calls``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
