"""One frame's joined fields -> its messages: a value goes to the message that it belongs to, or to none."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from nfslat.decode.tshark.rpc import Cells, Rpc, messages
from nfslat.model.protocol import NULL, main_op

NFS, MOUNT, CALLBACK = 100003, 100005, 0x40000001
COLUMNS = [f.name for f in dataclasses.fields(Rpc)]


@dataclass
class Model:
    """A message, and the values that tshark prints for it."""

    rpc: Rpc
    printed: dict[str, list[int]] = field(default_factory=dict)


def model(rpc: Rpc, *, dissected: bool = True, **printed: list[int]) -> Model:
    """The header is printed for each call; its version once more where the program has a dissector."""
    header = {"xid": [rpc.xid], "msgtyp": [rpc.is_reply]}
    if not rpc.is_reply:
        procedure = 1 if rpc.version == 4 or rpc.program == CALLBACK else rpc.op
        header |= {
            "program": [rpc.program],
            "procedure": [procedure],
            "version": [rpc.version] * (2 if dissected else 1),
        }
    return Model(rpc, header | printed)


def join(frame: list[Model]) -> Cells:
    """What tshark prints for a frame: per field, the values of all messages in one list."""
    return cells({f.name: [v for m in frame for v in m.printed.get(f.name, [])] for f in dataclasses.fields(Cells)})


def cells(lists: dict[str, list[int]]) -> Cells:
    return Cells(**{name: ",".join(map(str, values)) for name, values in lists.items()})


def lists(made: Cells) -> dict[str, list[int]]:
    return {name: [int(v) for v in text.split(",") if v] for name, text in dataclasses.asdict(made).items()}


# --- Every kind of message, with what it prints -------------------------------------------------------------------

XID = st.integers(0, 0xFFFFFFFF)
HASH = st.integers(0, 0xFFFFFFFF)
OFFSET = st.integers(0, 1 << 40)
SIZE = st.integers(0, 1 << 20)


@st.composite
def v3_calls(draw: st.DrawFn) -> Model:
    xid, fh, other, offset, size = draw(XID), draw(HASH), draw(HASH), draw(OFFSET), draw(SIZE)
    op = draw(st.sampled_from((0, 1, 6, 7, 14, 15, 16, 21)))
    if op == 0:
        return model(Rpc(xid, 0, NFS, 3, op=0))
    rpc = Rpc(xid, 0, NFS, 3, op=op, fh=fh)
    if op in (14, 15):  # RENAME, LINK
        return model(rpc, fh=[fh, other])
    if op == 16:  # READDIR shows its count, which is not a size of data
        return model(rpc, fh=[fh], count=[size])
    if op in (6, 7, 21):
        rpc.offset, rpc.size = offset, size
        return model(rpc, fh=[fh], offset=[offset], count=[size])
    return model(rpc, fh=[fh])


@st.composite
def compounds(draw: st.DrawFn) -> Model:
    """SEQUENCE, then one or two groups of PUTFH and some operation."""
    offset, size, fhs = draw(OFFSET), draw(SIZE), draw(st.lists(HASH, min_size=1, max_size=2))
    op = draw(st.sampled_from((25, 38, 5, 9, 53)))
    rpc = Rpc(draw(XID), 0, NFS, 4, minor=draw(st.sampled_from((0, 1, 2))), op=op)
    ops, out = [53], {"minor": [rpc.minor]}
    if op != 53:
        ops += [22] * len(fhs) + [op]
        rpc.fh, out["fh"] = fhs[-1], fhs
    if op in (25, 38, 5):
        rpc.offset, rpc.size, out["offset"] = offset, size, [offset]
        out["written" if op == 38 else "count"] = [size]
        ops += [9]
    return model(rpc, opcode=ops, ops_count=[len(ops)], **out)


@st.composite
def others(draw: st.DrawFn) -> Model:
    dissected = draw(st.booleans())
    program = MOUNT if dissected else 999_999
    return model(Rpc(draw(XID), 0, program, draw(st.integers(1, 4)), op=0), dissected=dissected)


REPLIES = st.builds(lambda xid: model(Rpc(xid, 1)), XID)
CALLS = st.one_of(v3_calls(), compounds(), others())


def assert_right_or_null(found: list[Rpc], frame: list[Model]) -> None:
    for got, want in zip(found, frame, strict=False):
        for name in COLUMNS:
            value, true = getattr(got, name), getattr(want.rpc, name)
            unseen = name == "op" and value == 1 and want.rpc.version == 4  # COMPOUND: its operations are not known
            assert value in (NULL, true) or unseen, f"{name} of {want.rpc}"


# --- Whole frames -----------------------------------------------------------------------------------------------------


@given(st.lists(CALLS, min_size=1, max_size=8))
def test_every_value_of_a_frame_of_calls_is_right_or_null(frame: list[Model]) -> None:
    """Any mix of calls: as many messages as headers, and each value that comes back is the one that went in."""
    found = messages(join(frame), cut=False)
    assert [rpc.xid for rpc in found] == [m.rpc.xid for m in frame]
    assert_right_or_null(found, frame)


@given(st.lists(v3_calls() | compounds(), min_size=1, max_size=8))
def test_a_frame_of_nfs_calls_comes_back_complete(frame: list[Model]) -> None:
    """NFS calls only: nothing is null that was printed."""
    assert messages(join(frame), cut=False) == [m.rpc for m in frame]


@given(st.lists(CALLS | REPLIES, min_size=1, max_size=8), st.booleans())
def test_replies_among_calls_take_no_value_away(frame: list[Model], calls_known: bool) -> None:
    """Replies print a program and a procedure too where tshark has seen their call; none of it goes to a call."""
    if calls_known:
        for m in frame:
            if m.rpc.is_reply:
                m.printed |= {"program": [MOUNT], "procedure": [5], "version": [3, 3]}
    found = messages(join(frame), cut=False)
    assert [(rpc.xid, rpc.is_reply) for rpc in found] == [(m.rpc.xid, m.rpc.is_reply) for m in frame]
    assert_right_or_null(found, frame)


# --- Frames with something missing ------------------------------------------------------------------------------------


@given(st.lists(CALLS, min_size=2, max_size=6), st.data())
def test_one_value_missing_anywhere_makes_nothing_wrong(frame: list[Model], data: st.DataObject) -> None:
    """A list that is one value short says less, it never shifts the values of other messages."""
    made = lists(join(frame))
    name = data.draw(st.sampled_from([name for name in made if made[name] and name not in ("xid", "msgtyp")]))
    del made[name][data.draw(st.integers(0, len(made[name]) - 1))]
    assert_right_or_null(messages(cells(made), cut=False), frame)


def test_as_many_versions_as_messages_are_not_one_each_where_some_show_two() -> None:
    """An unknown program shows its version once, NFS twice: of two values nobody knows which of three is missing."""
    unknown, nfs = Rpc(1, 0, 999_999, 1, op=0), Rpc(2, 0, NFS, 3, op=0)
    frame = [model(unknown, dissected=False), model(nfs)]
    whole = lists(join(frame))
    assert [rpc.version for rpc in messages(cells(whole), cut=False)] == [1, 3]
    for gone in range(3):
        version = [one for at, one in enumerate(whole["version"]) if at != gone]
        found = messages(cells(whole | {"version": version}), cut=False)
        assert [rpc.version for rpc in found] == [NULL, NULL]


@given(st.lists(CALLS, min_size=1, max_size=6), st.data())
def test_a_frame_cut_by_the_snaplen_makes_nothing_wrong(frame: list[Model], data: st.DataObject) -> None:
    """What is printed last is cut off: the last message loses values from the end, the others keep theirs."""
    made = lists(join(frame))
    last = frame[-1].printed
    order = (
        "xid",
        "msgtyp",
        "program",
        "version",
        "procedure",
        "minor",
        "ops_count",
        "opcode",
        "fh",
        "offset",
        "count",
        "written",
    )
    gone = order[data.draw(st.integers(1, len(order) - 1)) :]
    for name in gone:
        printed = len(last.get(name, []))
        kept = data.draw(st.integers(0, printed)) if name == gone[0] else 0
        made[name] = made[name][: len(made[name]) - printed + kept]
    found = messages(cells(made), cut=True)
    assert_right_or_null(found, frame)


def test_a_compound_that_is_cut_off_is_not_named_by_what_is_left_of_it() -> None:
    """Three operations stated, SEQUENCE and PUTFH seen, READ behind the snaplen: COMPOUND (1), not SEQUENCE (53)."""
    frame = model(Rpc(1, 0, NFS, 4, minor=1, op=25), minor=[1], ops_count=[3], opcode=[53, 22], fh=[7])
    assert messages(join([frame]), cut=True)[0].op == 1


def test_a_compound_that_is_cut_off_behind_its_main_operation_keeps_its_name() -> None:
    """SEQUENCE, PUTFH, READ seen and GETATTR cut off: it is a READ, whatever else is in it."""
    frame = model(Rpc(1, 0, NFS, 4, op=25), ops_count=[4], opcode=[53, 22, 25], fh=[7], offset=[4096], count=[512])
    (found,) = messages(join([frame]), cut=True)
    assert (found.op, found.offset, found.size, found.fh) == (25, 4096, 512, 7)


# --- Small things -----------------------------------------------------------------------------------------------------


def test_a_frame_without_message_types_has_no_messages() -> None:
    """An XID at the very end of a cut frame is no message: whether it is a call cannot be seen."""
    assert messages(cells({f.name: [] for f in dataclasses.fields(Cells)} | {"xid": [7]}), cut=True) == []


def test_hexadecimal_and_decimal_values_read_alike() -> None:
    """tshark prints XIDs in hexadecimal, counts in decimal."""
    made = join([model(Rpc(0x11, 0, NFS, 3, op=6, offset=1, size=2, fh=255), fh=[255], offset=[1], count=[2])])
    made.xid, made.fh = "0x00000011", "0x000000ff"
    assert messages(made, cut=False) == [Rpc(0x11, 0, NFS, 3, NULL, 6, 1, 2, 255)]


def test_a_callback_is_named_in_its_own_table() -> None:
    """CB_RECALL is operation 4 of callbacks, which is CLOSE for NFS."""
    frame = model(Rpc(1, 0, CALLBACK, 1, op=4), opcode=[11, 4], fh=[9], minor=[1])
    (found,) = messages(join([frame]), cut=False)
    assert (found.op, found.fh, found.minor) == (4, 9, 1)


@given(st.lists(st.integers(3, 75), min_size=1, max_size=8))
def test_the_main_operation_is_one_of_the_compound(ops: list[int]) -> None:
    """Whatever the operations: one of them names the COMPOUND, and READ or WRITE wins where there is one."""
    assert main_op(ops) in ops
    if {25, 38} & set(ops):
        assert main_op(ops) in (25, 38, 5, 60, 68, 70, 71)
