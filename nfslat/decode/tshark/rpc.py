"""One frame's dissected cells -> its RPC messages, each with its own fields.

tshark joins the values of a field that occurs several times in a frame, and lists of different fields have different
lengths: a field stands only where its message has it. Here every list is cut up by something that says how many of its
values belong to each message (one a header, the operation count of a COMPOUND, the arguments of a procedure). Where
nothing says so, the field is null; a value is never given to a message it might not belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nfslat.model.protocol import NFS, NULL, is_callback_program, main_op, program_name

_DISSECTED = ("NFS", "MOUNT", "NLM", "PORTMAP", "NSM", "NFSACL", "NFS_CB")  # programs that Wireshark knows
_LARGEST = (1 << 63) - 1
_PUTFH, _READ, _WRITE, _COMMIT = 22, 25, 38, 5
# NFSv4 operations whose arguments show an offset4, and those that show a count4 or a write length (RFC 8881, 7862).
_V4_OFFSET = frozenset((_COMMIT, 12, 13, 14, _READ, _WRITE, 49, 50, 51, 59, 60, 62, 63, 65, 68, 69, 70))
_V4_COUNT = frozenset((_COMMIT, _READ))
# NFSv2 and v3 procedures by the file handles in their call; RENAME and LINK have two, NULL none.
_V3_TWO_HANDLES, _V2_TWO_HANDLES = frozenset((14, 15)), frozenset((11, 12))
_V3_OFFSET, _V2_OFFSET = frozenset((6, 7, 21)), frozenset((6, 8))
_V3_COUNT = frozenset((6, 7, 16, 21))


@dataclass(slots=True)
class Rpc:
    """One RPC header as dissected; nulls are -1."""

    xid: int
    is_reply: int
    program: int = NULL
    version: int = NULL
    minor: int = NULL
    op: int = NULL
    offset: int = NULL
    size: int = NULL
    fh: int = NULL


@dataclass(slots=True)
class Cells:
    """The dissected fields of one frame that concern RPC, each the joined text as tshark prints it."""

    xid: str
    msgtyp: str
    program: str
    version: str
    procedure: str
    fh: str
    offset: str
    count: str
    written: str
    opcode: str
    ops_count: str
    minor: str


def numbers(text: str) -> list[int]:
    """``"3,0x10,7"`` -> [3, 16, 7]; tshark may add the decimal in brackets, which is dropped."""
    if not text:
        return []
    return [int(part.split(" ", 1)[0], 0) for part in text.split(",")]


def messages(cells: Cells, *, cut: bool) -> list[Rpc]:
    """The RPC messages of one frame in their order; those without a message type (header cut off) are left out.

    `cut` says that the frame was truncated by the snaplen, so that its last COMPOUND may lack operations.
    """
    xids, types = numbers(cells.xid), numbers(cells.msgtyp)
    found = [Rpc(xid, kind) for xid, kind in zip(xids, types, strict=False)]
    calls = [rpc for rpc in found if not rpc.is_reply]
    if not calls:
        return found
    # Replies show program and procedure too where tshark has found their call: then the lists have one value a
    # message; or only calls have them. Anything in between cannot be told apart.
    programs, procedures = numbers(cells.program), numbers(cells.procedure)
    owners = next((rows for rows in (found, calls) if len(rows) == len(programs) == len(procedures)), None)
    if owners is None:
        if (
            len(calls) == len(found) == len(programs) + 1 == len(procedures) + 1
        ):  # the last header is cut off behind its XID
            owners = calls[:-1]
        else:
            return found
    for rpc, program, procedure in zip(owners, programs, procedures, strict=False):
        rpc.program, rpc.op = program, procedure
    for rpc, version in zip(owners, _versions(numbers(cells.version), owners), strict=True):
        rpc.version = version
    if len(calls) == len(found):
        _arguments([rpc for rpc in calls if rpc.program != NULL], cells, cut=cut)
    for rpc in found:
        if rpc.is_reply:
            rpc.program = rpc.version = rpc.op = NULL
    return found


def _versions(values: list[int], owners: Sequence[Rpc]) -> list[int]:
    """The header shows the version once, and the program's own dissector once more where it ran.

    A list is dealt out where its length goes with what each of `owners` shows, and the two values of one message are
    the same; as many values as messages are one each only where all messages show as many.
    """
    rows = len(owners)
    shown = [2 if program_name(rpc.program) in _DISSECTED else 1 for rpc in owners]
    alike = len(set(shown)) == 1
    if sum(shown) == len(values):
        starts = [sum(shown[:row]) for row in range(rows)]
    elif len(values) == 2 * rows:  # dissectors of programs that are not known here
        shown, starts = [2] * rows, list(range(0, 2 * rows, 2))
    elif alike and len(values) == rows:  # no dissector ran
        return values
    elif alike and shown[0] == 2 and len(values) == 2 * rows - 1:  # the last message is cut off before its dissector
        return values[::2]  # of pairs of which one lacks a value, whichever, these are one of each
    else:
        return [NULL] * rows
    if any(values[at] != values[at + number - 1] for at, number in zip(starts, shown, strict=True)):
        return [NULL] * rows
    return [values[at] for at in starts]


def _arguments(calls: list[Rpc], cells: Cells, *, cut: bool) -> None:
    """Fill op, minor version, offset, size and handle of a frame that holds only calls."""
    compounds = [rpc for rpc in calls if rpc.op == 1 and _is_compound(rpc)]
    stated = numbers(cells.ops_count)
    opcodes = _by_compound(numbers(cells.opcode), stated, len(compounds), cut=cut)
    ops_of = {id(rpc): ops for rpc, ops in zip(compounds, opcodes, strict=True)}
    # A callback does not show its count; then what is seen has to do.
    count_of = {id(rpc): count for rpc, count in zip(compounds, stated, strict=False)}
    minors = numbers(cells.minor)
    if len(minors) == len(compounds):
        for rpc, minor in zip(compounds, minors, strict=True):
            rpc.minor = minor
    wanted = [_expected(rpc, ops_of.get(id(rpc))) for rpc in calls]
    only = len(calls) == 1
    if not only and any(rpc.version == NULL for rpc in calls):
        return  # whose arguments they are cannot be told
    handles = _share(numbers(cells.fh), [want[0] for want in wanted], only=only)
    offsets = _share(numbers(cells.offset), [want[1] for want in wanted], only=only)
    counts = _share(numbers(cells.count), [want[2] for want in wanted], only=only)
    lengths = _share(numbers(cells.written), [want[3] for want in wanted], only=only)
    for row, rpc in enumerate(calls):
        ops = ops_of.get(id(rpc))
        if ops is not None:
            complete = len(ops) >= count_of.get(id(rpc), 0)
            rpc.op = main_op(ops, callback=is_callback_program(rpc.program), complete=complete)
            if rpc.op not in ops:
                continue
            before = ops[: ops.index(rpc.op)]
            rpc.fh = _pick(handles[row], max(before.count(_PUTFH) - 1, 0))
            if rpc.op in (_READ, _WRITE, _COMMIT) and rpc.program == NFS:
                rpc.offset = _pick(offsets[row], sum(op in _V4_OFFSET for op in before))
                if rpc.op == _WRITE:
                    rpc.size = _pick(lengths[row], before.count(_WRITE))
                else:
                    rpc.size = _pick(counts[row], sum(op in _V4_COUNT for op in before))
        elif rpc.program == NFS:
            rpc.fh = _pick(handles[row], 0)
            if rpc.op in (_V3_OFFSET if rpc.version == 3 else _V2_OFFSET):
                rpc.offset = _pick(offsets[row], 0)
                rpc.size = _pick(counts[row], 0) if counts[row] else _pick(lengths[row], 0)


def _is_compound(rpc: Rpc) -> bool:
    return (rpc.program == NFS and rpc.version == 4) or is_callback_program(rpc.program)


def _by_compound(opcodes: list[int], ops_counts: list[int], compounds: int, *, cut: bool) -> list[list[int]]:
    """Cut the frame's operation list at the counts that each COMPOUND states."""
    if compounds == 1:
        return [opcodes]
    sound = len(ops_counts) == compounds and (
        sum(ops_counts) == len(opcodes) or (cut and sum(ops_counts) > len(opcodes))
    )
    if not sound:
        return [[] for _ in range(compounds)]
    out, at = [], 0
    for count in ops_counts:
        out.append(opcodes[at : at + count])
        at += count
    return out


def _expected(rpc: Rpc, ops: list[int] | None) -> tuple[int, int, int, int]:
    """How many handles, offsets, counts and write lengths this call's arguments show."""
    if ops is not None:
        if is_callback_program(rpc.program):
            return 1, 0, 0, 0
        return (
            ops.count(_PUTFH),
            sum(op in _V4_OFFSET for op in ops),
            sum(op in _V4_COUNT for op in ops),
            ops.count(_WRITE),
        )
    if rpc.program != NFS or rpc.op == 0:
        return 0, 0, 0, 0
    if rpc.version == 3:
        return 2 if rpc.op in _V3_TWO_HANDLES else 1, int(rpc.op in _V3_OFFSET), int(rpc.op in _V3_COUNT), 0
    return 2 if rpc.op in _V2_TWO_HANDLES else 1, int(rpc.op in _V2_OFFSET), int(rpc.op == 6), int(rpc.op == 8)


def _share(values: list[int], wanted: Iterable[int], *, only: bool) -> list[list[int]]:
    """Deal `values` out by the numbers `wanted`; all nulls when they do not come out even."""
    wanted = list(wanted)
    if only:
        return [values]
    if sum(wanted) != len(values):
        return [[] for _ in wanted]
    out, at = [], 0
    for want in wanted:
        out.append(values[at : at + want])
        at += want
    return out


def _pick(values: Sequence[int], at: int) -> int:
    """The value, or null where there is none or where it does not fit into a signed column (offsets from 2^63 on)."""
    return values[at] if at < len(values) and values[at] <= _LARGEST else NULL
