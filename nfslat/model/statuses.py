"""Statuses of replies: a number and whose it is in, its name and what it says of the request out.

Whose: an `int`, the version of NFS, or the program, MOUNT or NLM.

Sources: RFC 1813 sections 2.6, 5.1.5 and 6.1.5, RFC 7530 section 13, RFC 8881 section 15, RFC 7862 section 11,
RFC 8276 section 8.5.
"""

from __future__ import annotations

from enum import StrEnum

from nfslat.model.protocol import MOUNT, NLM


class Says(StrEnum):
    """What a status says of the request that it answers."""

    DONE = "done"
    EVERYDAY = "everyday"  # applications ask whether something is there, and it is not: no problem of NFS
    GRACE = "grace"  # the server just started, and takes claims to old state only (RFC 8881 section 8.4.2.1)
    DELAY = "delay"  # come again: it waits for a delegation, or for slow storage (RFC 8881 section 15.1.1.3)
    LOCKED = "locked"  # somebody else has the lock; a client that wants to wait polls (RFC 8881 section 9.6)
    STATE = "state"  # the server does not know the session, lease or state that the request goes by (section 8.4)
    LOST = "lost"  # the file, or the claim to old state, is gone: no further try helps
    OTHER = "other"
    UNKNOWN = "unknown"  # not captured


# What is in all versions, less the prefix (RFC 1813; NFSv2 has a part of it).
_ALL = {
    1: "PERM", 2: "NOENT", 5: "IO", 6: "NXIO", 13: "ACCES", 17: "EXIST", 18: "XDEV", 19: "NODEV", 20: "NOTDIR",
    21: "ISDIR", 22: "INVAL", 27: "FBIG", 28: "NOSPC", 30: "ROFS", 31: "MLINK", 63: "NAMETOOLONG", 66: "NOTEMPTY",
    69: "DQUOT", 70: "STALE", 71: "REMOTE",
}  # fmt: skip
_V3 = {
    10001: "BADHANDLE", 10002: "NOT_SYNC", 10003: "BAD_COOKIE", 10004: "NOTSUPP", 10005: "TOOSMALL",
    10006: "SERVERFAULT", 10007: "BADTYPE", 10008: "JUKEBOX",
}  # fmt: skip
# From 10008 on without a gap (RFC 8881 section 15.1, RFC 7862 section 11.1, RFC 8276 section 8.5).
_V4_FIRST = 10008
_V4 = (
    "DELAY SAME DENIED EXPIRED LOCKED GRACE FHEXPIRED SHARE_DENIED WRONGSEC CLID_INUSE RESOURCE MOVED NOFILEHANDLE "
    "MINOR_VERS_MISMATCH STALE_CLIENTID STALE_STATEID OLD_STATEID BAD_STATEID BAD_SEQID NOT_SAME LOCK_RANGE SYMLINK "
    "RESTOREFH LEASE_MOVED ATTRNOTSUPP NO_GRACE RECLAIM_BAD RECLAIM_CONFLICT BADXDR LOCKS_HELD OPENMODE BADOWNER "
    "BADCHAR BADNAME BAD_RANGE LOCK_NOTSUPP OP_ILLEGAL DEADLOCK FILE_OPEN ADMIN_REVOKED CB_PATH_DOWN BADIOMODE "
    "BADLAYOUT BAD_SESSION_DIGEST BADSESSION BADSLOT COMPLETE_ALREADY CONN_NOT_BOUND_TO_SESSION DELEG_ALREADY_WANTED "
    "BACK_CHAN_BUSY LAYOUTTRYLATER LAYOUTUNAVAILABLE NOMATCHING_LAYOUT RECALLCONFLICT UNKNOWN_LAYOUTTYPE "
    "SEQ_MISORDERED SEQUENCE_POS REQ_TOO_BIG REP_TOO_BIG REP_TOO_BIG_TO_CACHE RETRY_UNCACHED_REP UNSAFE_COMPOUND "
    "TOO_MANY_OPS OP_NOT_IN_SESSION HASH_ALG_UNSUPP 10073 CLIENTID_BUSY PNFS_IO_HOLE SEQ_FALSE_RETRY BAD_HIGH_SLOT "
    "DEADSESSION ENCR_ALG_UNSUPP PNFS_NO_LAYOUT NOT_ONLY_OP WRONG_CRED WRONG_TYPE DIRDELEG_UNAVAIL REJECT_DELEG "
    "RETURNCONFLICT DELEG_REVOKED PARTNER_NOTSUPP PARTNER_NO_AUTH UNION_NOTSUPP OFFLOAD_DENIED WRONG_LFS BADLABEL "
    "OFFLOAD_NO_REQS NOXATTR XATTR2BIG"
).split()
_V4_NAMES = {**_ALL, **_V3, **dict(enumerate(_V4, _V4_FIRST))}
_NLM = "DENIED DENIED_NOLOCKS BLOCKED DENIED_GRACE_PERIOD DEADLCK ROFS STALE_FH FBIG FAILED".split()
_NAMES = {2: _ALL, 3: {**_ALL, **_V3}, 4: _V4_NAMES, MOUNT: {**_ALL, **_V3}, NLM: dict(enumerate(_NLM, 1))}
# By `Ops.accept` (RFC 5531 section 9).
RPC_STATUSES = {
    1: "PROG_UNAVAIL", 2: "PROG_MISMATCH", 3: "PROC_UNAVAIL", 4: "GARBAGE_ARGS", 5: "SYSTEM_ERR", 8: "RPC_MISMATCH",
    9: "AUTH_ERROR",
}  # fmt: skip
_PREFIXES = {2: "NFSERR", 3: "NFS3ERR", 4: "NFS4ERR", MOUNT: "MNT3ERR", NLM: "NLM4"}

_SAYS = {
    # Answers to questions (is it there, may I, which minor version or attribute have you), and to what a user does.
    **dict.fromkeys(
        "PERM NOENT ACCES EXIST XDEV NOTDIR ISDIR INVAL FBIG MLINK NAMETOOLONG NOTEMPTY NOTSUPP TOOSMALL SAME NOT_SAME "
        "WRONGSEC MINOR_VERS_MISMATCH SYMLINK ATTRNOTSUPP COMPLETE_ALREADY LAYOUTUNAVAILABLE "
        "UNKNOWN_LAYOUTTYPE LOCK_NOTSUPP BADNAME BADCHAR UNION_NOTSUPP NOXATTR XATTR2BIG NOMATCHING_LAYOUT "
        # Calls of one client that overtake each other, as OPEN and CLOSE do: it takes the newer stateid, and goes on.
        "OLD_STATEID".split(),
        Says.EVERYDAY,
    ),
    **dict.fromkeys(("GRACE", "DENIED_GRACE_PERIOD"), Says.GRACE),
    **dict.fromkeys(("DELAY", "JUKEBOX", "LAYOUTTRYLATER"), Says.DELAY),
    **dict.fromkeys(("DENIED", "LOCKED", "BLOCKED"), Says.LOCKED),
    **dict.fromkeys(
        "EXPIRED STALE_CLIENTID STALE_STATEID BAD_STATEID BAD_SEQID LEASE_MOVED ADMIN_REVOKED "
        "DELEG_REVOKED BADSESSION BADSLOT CONN_NOT_BOUND_TO_SESSION SEQ_MISORDERED SEQ_FALSE_RETRY DEADSESSION".split(),
        Says.STATE,
    ),
    **dict.fromkeys("STALE STALE_FH BADHANDLE FHEXPIRED NO_GRACE RECLAIM_BAD RECLAIM_CONFLICT".split(), Says.LOST),
}


def status_name(whose: int, status: int) -> str:
    """``NFS3ERR_JUKEBOX``, ``NFS4ERR_GRACE``, ``NLM4_DENIED``; ``OK`` of 0, ``NFS4ERR 10999`` of what has no name."""
    if status == 0:
        return "OK"
    prefix = _PREFIXES.get(whose, "NFSERR")
    name = _NAMES.get(whose, _ALL).get(status, "")
    return f"{prefix} {status}" if not name or name.isdigit() else f"{prefix}_{name}"


def rpc_status_name(accept: int) -> str:
    """``RPC AUTH_ERROR`` of a reply that has no result (`Ops.accept`)."""
    return f"RPC {RPC_STATUSES.get(accept, accept)}"


def says(whose: int, status: int) -> Says:
    """What a status says; a negative one is not known."""
    if status <= 0:
        return Says.DONE if status == 0 else Says.UNKNOWN
    return _SAYS.get(_NAMES.get(whose, _ALL).get(status, ""), Says.OTHER)
