"""Numbers of the RPC programs and their names, as nfsstat and Wireshark print them; nothing goes in.

Sources: RFC 5531 (RPC), RFC 1094 (NFSv2), RFC 1813 (NFSv3, MOUNT, NLM), RFC 7530, 8881 and 7862
(NFSv4.0, 4.1, 4.2), RFC 1833 (rpcbind), X/Open XNFS (NSM), Linux include/uapi/linux/nfsacl.h.
"""

from __future__ import annotations

NULL = -1  # the null of every signed column
NULL32 = (1 << 32) - 1  # the null of every unsigned one

NFS = 100003
MOUNT = 100005
NLM = 100021
PORTMAP = 100000
NSM = 100024
NFSACL = 100227
# RFC 5531 section 8.4.2: 0x40000000 to 0x5fffffff are transient; NFSv4 clients take their callback program from it.
TRANSIENT_FIRST, TRANSIENT_LAST = 0x40000000, 0x5FFFFFFF

_V2 = (
    "NULL GETATTR SETATTR ROOT LOOKUP READLINK READ WRCACHE WRITE CREATE REMOVE RENAME LINK SYMLINK "
    "MKDIR RMDIR READDIR STATFS"
)
_V3 = (
    "NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME LINK "
    "READDIR READDIRPLUS FSSTAT FSINFO PATHCONF COMMIT"
)
# Operation numbers of a COMPOUND start at 3 (RFC 8881 section 16.2.1): 0 and 1 are free for the procedures.
_V4 = (
    "NULL COMPOUND ILLEGAL ACCESS CLOSE COMMIT CREATE DELEGPURGE DELEGRETURN GETATTR GETFH LINK LOCK LOCKT LOCKU "
    "LOOKUP LOOKUPP NVERIFY OPEN OPENATTR OPEN_CONFIRM OPEN_DOWNGRADE PUTFH PUTPUBFH PUTROOTFH READ READDIR "
    "READLINK REMOVE RENAME RENEW RESTOREFH SAVEFH SECINFO SETATTR SETCLIENTID SETCLIENTID_CONFIRM VERIFY WRITE "
    "RELEASE_LOCKOWNER BACKCHANNEL_CTL BIND_CONN_TO_SESSION EXCHANGE_ID CREATE_SESSION DESTROY_SESSION FREE_STATEID "
    "GET_DIR_DELEGATION GETDEVICEINFO GETDEVICELIST LAYOUTCOMMIT LAYOUTGET LAYOUTRETURN SECINFO_NO_NAME SEQUENCE "
    "SET_SSV TEST_STATEID WANT_DELEGATION DESTROY_CLIENTID RECLAIM_COMPLETE ALLOCATE COPY COPY_NOTIFY DEALLOCATE "
    "IO_ADVISE LAYOUTERROR LAYOUTSTATS OFFLOAD_CANCEL OFFLOAD_STATUS READ_PLUS SEEK WRITE_SAME CLONE GETXATTR "
    "SETXATTR LISTXATTRS REMOVEXATTR"
)
_CB = (
    "CB_NULL CB_COMPOUND CB_ILLEGAL CB_GETATTR CB_RECALL CB_LAYOUTRECALL CB_NOTIFY CB_PUSH_DELEG CB_RECALL_ANY "
    "CB_RECALLABLE_OBJ_AVAIL CB_RECALL_SLOT CB_SEQUENCE CB_WANTS_CANCELLED CB_NOTIFY_LOCK CB_NOTIFY_DEVICEID CB_OFFLOAD"
)
_NLM = (
    "NULL TEST LOCK CANCEL UNLOCK GRANTED TEST_MSG LOCK_MSG CANCEL_MSG UNLOCK_MSG GRANTED_MSG TEST_RES LOCK_RES "
    "CANCEL_RES UNLOCK_RES GRANTED_RES PROC16 PROC17 PROC18 PROC19 SHARE UNSHARE NM_LOCK FREE_ALL"
)
_RPCBIND = "NULL SET UNSET GETADDR DUMP BCAST GETTIME UADDR2TADDR TADDR2UADDR GETVERSADDR INDIRECT GETADDRLIST GETSTAT"

_NAMES: dict[tuple[int, int], tuple[str, ...]] = {
    (program, version): tuple(names.split())
    for program, versions, names in (
        (NFS, (2,), _V2),
        (NFS, (3,), _V3),
        (NFS, (4,), _V4),
        (MOUNT, (1, 2), "NULL MNT DUMP UMNT UMNTALL EXPORT EXPORTALL PATHCONF"),
        (MOUNT, (3,), "NULL MNT DUMP UMNT UMNTALL EXPORT"),
        (NLM, (1, 2, 3, 4), _NLM),
        (PORTMAP, (2,), "NULL SET UNSET GETPORT DUMP CALLIT"),
        (PORTMAP, (3, 4), _RPCBIND),
        (NSM, (1,), "NULL STAT MON UNMON UNMON_ALL SIMU_CRASH NOTIFY"),
        (NFSACL, (2,), "NULL GETACL SETACL GETATTR ACCESS GETXATTRDIR"),
        (NFSACL, (3,), "NULL GETACL SETACL GETXATTRDIR"),
    )
    for version in versions
}
_CB_NAMES = tuple(_CB.split())
_PROGRAMS = {NFS: "NFS", MOUNT: "MOUNT", NLM: "NLM", PORTMAP: "PORTMAP", NSM: "NSM", NFSACL: "NFSACL"}

# What applications and disks know: they have no GETATTRs.
DATA_OPS = ("READ", "WRITE", "READ_PLUS")
# What a server answers out of its memory as a rule. A quick WRITE is none: it may wait for a disk like a READ.
IN_MEMORY_OPS = frozenset("NULL GETATTR ACCESS LOOKUP FSINFO FSSTAT PATHCONF SEQUENCE RENEW OPEN CLOSE".split())

# How much an operation says about what a COMPOUND is for; the first one of the highest rank names it. Data operations
# beat everything, so that a compound that opens and reads is a READ; bookkeeping never names a compound that has more.
_RANK_BOOKKEEPING = frozenset("PUTFH PUTPUBFH PUTROOTFH SAVEFH RESTOREFH GETFH ILLEGAL".split())
_RANKS = {
    **dict.fromkeys("READ WRITE READ_PLUS COPY CLONE COMMIT WRITE_SAME".split(), 5),
    **dict.fromkeys("GETATTR VERIFY NVERIFY".split(), 2),
    **dict.fromkeys("ACCESS LOOKUP LOOKUPP LAYOUTRETURN LAYOUTGET LAYOUTSTATS".split(), 3),
    **dict.fromkeys(("SEQUENCE", "CB_SEQUENCE"), 1),
    **dict.fromkeys(_RANK_BOOKKEEPING, 0),
}
RANK_ACTION = 4


def is_callback_program(program: int) -> bool:
    """Is `program` in the transient range that NFSv4 callback programs come from (RFC 5531 section 8.4.2)?"""
    return TRANSIENT_FIRST <= program <= TRANSIENT_LAST


def program_name(program: int) -> str:
    """Name of an RPC program: ``NFS``, ``MOUNT``, ``NFS_CB`` ...; unknown ones as ``program N``, -1 as ``unknown``."""
    if program == NULL:
        return "unknown"
    if is_callback_program(program):
        return "NFS_CB"
    return _PROGRAMS.get(program, f"program {program}")


def op_name(program: int, version: int, op: int) -> str:
    """Name of an operation, upper case as nfsstat prints it; ``PROC7`` or ``OP99`` where the number has no name.

    `op` is the procedure, or for NFSv4 (and its callbacks) the number of the COMPOUND's main operation.
    """
    if op == NULL:
        return "unknown"
    names = _CB_NAMES if is_callback_program(program) else _NAMES.get((program, version), ())
    if 0 <= op < len(names):
        return names[op]
    return f"OP{op}" if program == NFS and version == 4 else f"PROC{op}"


def op_names() -> frozenset[str]:
    """Every name that `op_name` gives to an operation with a name."""
    return frozenset(name for names in (*_NAMES.values(), _CB_NAMES) for name in names) | {"unknown".upper()}


def version_name(program: int, version: int, minor: int) -> str:
    """``"3"``, ``"4.1"``; NFSv4 without a visible minor version is ``"4"``, an unknown version ``"?"``."""
    if version == NULL:
        return "?"
    return f"{version}.{minor}" if program == NFS and version == 4 and minor != NULL else str(version)


def main_op(ops: list[int], *, callback: bool = False, complete: bool = True) -> int:
    """The operation that names a COMPOUND: the first of the highest rank, so READ and not PUTFH.

    1 (COMPOUND) where there is none, or where `ops` is not `complete` and shows nothing yet that could be its purpose.
    """
    names = _CB_NAMES if callback else _NAMES[NFS, 4]
    best, best_rank = 1, NULL
    for op in ops:
        rank = _RANKS.get(names[op], RANK_ACTION) if op < len(names) else RANK_ACTION
        if rank > best_rank:
            best, best_rank = op, rank
    return best if complete or best_rank >= RANK_ACTION else 1


def op_ranks(*, callback: bool) -> bytes:
    """Ranks by operation number, as `main_op` goes by them; operations behind the end have `RANK_ACTION`."""
    names = _CB_NAMES if callback else _NAMES[NFS, 4]
    return bytes(_RANKS.get(name, RANK_ACTION) for name in names)
