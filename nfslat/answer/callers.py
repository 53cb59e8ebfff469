"""Who calls whom with which procedure, and what comes of it: for captures of a mount that hangs."""

from __future__ import annotations

from nfslat.answer.contract import Count
from nfslat.model.record import Record


class Called(Record):
    """Calls of one procedure from one host to a port of another."""

    caller: str  # address
    called: str  # address and port
    transport: str  # tcp or udp
    program: str  # RPC program: NFS, MOUNT, NLM ...
    op: str  # procedure, upper case
    answered: Count  # calls with their reply
    unanswered: Count  # calls without a reply in the capture
    again: Count  # calls sent again by RPC, of both
    mean_ms: float | None  # mean response time of those that were answered; None where none was
    waits_ms: float | None  # the longest wait of those that were not, until the capture ended; None where none waits
