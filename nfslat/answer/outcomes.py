"""The part of the report on what the server answered: statuses, requests that were tried again, lost state.

Same conventions as `nfslat.answer.model`.
"""

from __future__ import annotations

from typing import Annotated

from nfslat.answer.contract import Count, Must, NotNegative, Positive, Sides, Time
from nfslat.model.record import Record

SAYS = "done everyday grace delay locked state lost other unknown".split()  # as `nfslat.model.statuses.Says`
REASONS = "grace delay locked state".split()
Meaning = Annotated[str, Must(enum=SAYS)]
Reason = Annotated[str, Must(enum=REASONS)]


class StatusRow(Record):
    """Ops of one capture with one status. Those of an operation sum to its ops in the raw data."""

    program: str  # RPC program: NFS, MOUNT, NLM ...
    op: str  # operation, upper case as nfsstat prints it; a COMPOUND has the name of its main operation
    version: str  # program version, with the NFSv4 minor version: 3, 4.1
    status: Count | None  # NFS status of the reply; None: not captured, or the program has none
    name: str | None  # its name: OK, NFS3ERR_NOENT
    # what it says: everyday is no problem of NFS; grace, delay, locked and state have the client come again; lost:
    # what the request goes by is gone for good
    means: Meaning
    failed_op: str | None  # operation of the COMPOUND that failed; None: none did, it is no COMPOUND, or not known
    count: Positive  # ops


class TriedAgain(Record):
    """Requests of one operation that the server put off for one reason most of the time, and that the client sent again
    as new calls. What passes between two tries is in no response time."""

    op: str  # operation
    version: str  # program version, with the NFSv4 minor version
    reason: Reason  # what the statuses say that they were put off with
    statuses: dict[str, Positive]  # name of a status -> tries that were answered with it
    requests: Positive  # at least: what came in the time in which a client tries again is taken for another try
    tries: Positive  # calls
    succeeded: Count  # requests whose last try did
    failed: Count  # requests whose last try was answered with a status that is no reason to come again
    open: Count  # requests that were put off to the end of the capture: their times are at least those
    left: Count  # requests of which no further try is seen, though the capture goes on
    mean_ms: NotNegative  # from a request's first try to its last answer, ms
    max_ms: NotNegative  # the longest, ms
    between_ms: NotNegative  # of all of them together what passed between tries, ms
    first: Time  # the first try of the first of them, that capture's clock
    last: Time  # the last answer that put one of them off
    back_off_fits: Count | None  # waits for the next try that a client's known back-off makes; None where none is known
    back_off_of: Count | None  # of so many


class Recovery(Record):
    """A time in which a client made its client ID, session or leases anew, because the server knew them no more."""

    at: Time  # when the client learnt it, that capture's clock
    ms: NotNegative  # until the last reply of a call that makes state
    calls: dict[str, Positive]  # the calls that make state, and those that were told that it is gone, with their status
    all_calls: Count  # calls of the client in that time
    waited: Count  # requests that were put off before its end and tried again after it


class Outcomes(Record):
    """What the server answered. Retries and recoveries are those of the client's capture, or of the only one."""

    statuses: Sides[list[StatusRow]]  # the ops of each capture, what went well first
    tried_again: list[TriedAgain]  # most time between tries first; requests of a single try are in `statuses` alone
    recoveries: list[Recovery]  # in time order
