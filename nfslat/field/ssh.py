"""A host -> the command that gives a shell there, and what its complaints mean."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from nfslat.errors import UsageError

_KEEPALIVE_S, _KEEPALIVES = 5, 4  # a host that says nothing for so long is gone
# Asks for no terminal and starts no forwarding of the user's; what he gives with --ssh stands in front, and wins.
_OPTIONS = {
    "ServerAliveInterval": str(_KEEPALIVE_S),
    "ServerAliveCountMax": str(_KEEPALIVES),
    "ConnectTimeout": "10",
    "RequestTTY": "no",
    "RemoteCommand": "none",
    "ClearAllForwardings": "yes",
}
LOCAL = "iface:"  # in front of an interface of this machine, in place of a host
# Understood by the shells of Bourne, csh and fish alike. The first is Solaris's that knows POSIX.
_REMOTE = "test -x /usr/xpg4/bin/sh && /usr/xpg4/bin/sh -s || sh -s"
# What ssh and login shells say, and what to do about it; the first that fits.
_REASONS = (
    ("Could not resolve hostname", "is not known by that name; check the name, or give user@address"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "shows another host key than before; find out why, then ssh-keygen -R"),
    ("Host key verification failed", "has a host key that is not known here; log in with ssh once and accept it"),
    ("Permission denied", "takes none of the keys; try: ssh {host} true, or ssh-add, or --ssh 'ssh -i KEY'"),
    ("Too many authentication failures", "takes none of the keys; try --ssh 'ssh -o IdentitiesOnly=yes -i KEY'"),
    ("Connection refused", "refuses the connection; does sshd run there, on another port (--ssh 'ssh -p PORT')?"),
    ("timed out", "does not answer; check the address, and that a firewall lets ssh through"),
    ("No route to host", "cannot be reached; check the address and the network"),
    ("Network is unreachable", "cannot be reached; check the address and the network"),
    ("not currently available", "gives no shell to this user; log in as another one (user@host)"),
    ("not available", "gives no shell to this user; log in as another one (user@host)"),
)


def reason_in(text: str, host: str) -> str:
    """What is wrong, and what to do, where it is known; else nothing."""
    return next((reason.format(host=host) for key, reason in _REASONS if key in text), "")


def command_of(ssh: str, host: str, *, batch: bool) -> Sequence[str]:
    """`batch`: it asks for no password. Raises ``UsageError``."""
    if host.startswith(LOCAL):
        return ["sh", "-c", _REMOTE]
    try:
        words = shlex.split(ssh)
    except ValueError as problem:
        raise UsageError(f"--ssh {ssh!r}: {problem}") from problem
    if not words:
        raise UsageError("--ssh: give a command, for example 'ssh -p 2222'")
    if (
        not host
        or host.startswith("-")
        or any(character.isspace() or not character.isprintable() for character in host)
    ):
        raise UsageError(f"{host!r} is no host; give a name, an address, or user@host")
    options = {**_OPTIONS, **({"BatchMode": "yes"} if batch else {})}
    return [*words, *(word for pair in options.items() for word in ("-o", "=".join(pair))), "--", host, _REMOTE]
