//! COMPOUNDs built by hand in, their operations and main operation held against what was put in.

use super::*;
use crate::call::{ChannelAttrs, Channels, NONE, OpList, Sequence};
use crate::protocol::NFS;
use crate::rpc::parse_call;
use crate::rpc::tests::build::*;
use proptest::prelude::*;
use std::sync::OnceLock;

/// The ranks of nfslat/model/protocol.py.
pub(crate) fn ranks() -> &'static Ranks {
    static RANKS: OnceLock<Ranks> = OnceLock::new();
    RANKS.get_or_init(|| {
        let mut ranks = Ranks { nfs: vec![4; 76], callback: vec![4; 16], action: 4 };
        for (rank, ops) in [
            (5, &[25, 38, 68, 60, 71, 5, 70][..]),
            (3, &[3, 15, 16, 51, 50, 65]),
            (2, &[9, 17, 37]),
            (1, &[53]),
            (0, &[22, 23, 24, 31, 32, 10, 2]),
        ] {
            ops.iter().for_each(|op| ranks.nfs[*op] = rank);
        }
        ranks.callback[11] = 1;
        ranks
    })
}

fn b() -> Bytes {
    Bytes::default()
}

fn channel(requests: u32) -> Bytes {
    words(&[0, 1_049_620, 1_049_480, 7584, 8, requests, 1, 0])
}

/// Every operation with arguments as a client sends them; those with a union once for each arm.
pub(crate) fn operations() -> Vec<(u32, Bytes)> {
    let open = |rest: Bytes| b().words(&[1, 3, 0]).owner().raw(&rest.0);
    let claim = |rest: Bytes| open(words(&[0]).raw(&rest.0));
    let sec_parms =
        words(&[3, 0, 1, 5]).opaque(b"host").words(&[0, 0, 2, 4, 5, 6, 1]).opaque(b"server").opaque(b"client");
    let exchange = |rest: Bytes| b().hypers(&[5]).opaque(b"Linux NFSv4.2 client").words(&[0x101]).raw(&rest.0);
    let implementation = |rest: Bytes| rest.words(&[1]).opaque(b"kernel.org").opaque(b"Linux").hypers(&[0]).words(&[0]);
    vec![
        (3, words(&[0x1f])),
        (4, words(&[0]).id()),
        (5, b().hypers(&[4096]).words(&[512])),
        (6, words(&[2]).opaque(b"name").fattr()),
        (6, words(&[5]).opaque(b"target").opaque(b"name").fattr()),
        (6, words(&[3, 8, 1]).opaque(b"name").fattr()),
        (6, words(&[4, 8, 1]).opaque(b"name").fattr()),
        (6, words(&[6]).opaque(b"name").fattr()),
        (7, b().hypers(&[1])),
        (8, b().id()),
        (9, b().bitmap()),
        (10, b()),
        (11, b().opaque(b"name")),
        (12, words(&[2, 0]).hypers(&[0, 8]).words(&[1, 3]).id().words(&[0]).owner()),
        (12, words(&[2, 0]).hypers(&[0, 8]).words(&[0]).id().words(&[7])),
        (13, words(&[2]).hypers(&[0, 8]).owner()),
        (14, words(&[2, 5]).id().hypers(&[0, 8])),
        (15, b().opaque(b"name")),
        (16, b()),
        (17, b().fattr()),
        (18, open(words(&[1, 0]).fattr().words(&[0]).opaque(b"name"))),
        (18, open(words(&[1, 1]).fattr().words(&[0]).opaque(b"name"))),
        (18, open(words(&[1, 2]).hypers(&[9]).words(&[0]).opaque(b"name"))),
        (18, open(words(&[1, 3]).hypers(&[9]).fattr().words(&[0]).opaque(b"name"))),
        (18, claim(words(&[0]).opaque(b"name"))),
        (18, claim(words(&[1, 2]))),
        (18, claim(words(&[2]).id().opaque(b"name"))),
        (18, claim(words(&[3]).opaque(b"name"))),
        (18, claim(words(&[4]))),
        (18, claim(words(&[5]).id())),
        (18, claim(words(&[6]))),
        (19, words(&[1])),
        (20, b().id().words(&[1])),
        (21, b().id().words(&[1, 1, 0])),
        (22, b().opaque(HANDLE)),
        (23, b()),
        (24, b()),
        (25, b().id().hypers(&[8192]).words(&[4096])),
        (26, b().hypers(&[0, 0]).words(&[1024, 8192]).bitmap()),
        (27, b()),
        (28, b().opaque(b"name")),
        (29, b().opaque(b"name").opaque(b"other")),
        (30, b().hypers(&[1])),
        (31, b()),
        (32, b()),
        (33, b().opaque(b"name")),
        (34, b().id().fattr()),
        (35, b().hypers(&[1]).opaque(b"id").words(&[0x4000_0000]).opaque(b"tcp").opaque(b"10.0.0.1.3.2").words(&[1])),
        (36, b().hypers(&[1, 2])),
        (37, b().fattr()),
        (38, b().id().hypers(&[8192]).words(&[2]).opaque(b"seven..")),
        (39, b().owner()),
        (40, words(&[0x4000_0000]).words(&[1, 0])),
        (40, words(&[0x4000_0000, 2, 6, 1]).opaque(b"server").opaque(b"client").words(&[0])),
        (41, b().id().words(&[3, 0])),
        (42, implementation(exchange(words(&[0])))),
        (42, exchange(words(&[1]).bitmap().bitmap().words(&[0]))),
        (
            42,
            exchange(
                words(&[2])
                    .bitmap()
                    .bitmap()
                    .words(&[1])
                    .opaque(b"oid")
                    .words(&[2])
                    .opaque(b"oid")
                    .opaque(b"")
                    .words(&[8, 1, 0]),
            ),
        ),
        (43, b().hypers(&[1]).words(&[1, 3]).raw(&channel(64).0).raw(&channel(16).0).words(&[0x4000_0000, 1, 0])),
        (
            43,
            b().hypers(&[1])
                .words(&[1, 3])
                .raw(&channel(64).0)
                .raw(&channel(16).0)
                .words(&[0x4000_0000])
                .raw(&sec_parms.0),
        ),
        (44, b().id()),
        (45, b().id()),
        (46, words(&[1]).bitmap().hypers(&[0]).words(&[0]).hypers(&[0]).words(&[0]).bitmap().bitmap()),
        (47, b().id().words(&[1, 4096]).bitmap()),
        (48, words(&[1, 8]).hypers(&[0, 0])),
        (
            49,
            b().hypers(&[0, 8])
                .words(&[0])
                .id()
                .words(&[1])
                .hypers(&[7])
                .words(&[1])
                .hypers(&[1])
                .words(&[2, 1])
                .opaque(b"body"),
        ),
        (49, b().hypers(&[0, 8]).words(&[0]).id().words(&[0, 0, 1]).opaque(b"")),
        (50, words(&[0, 1, 2]).hypers(&[0, 8, 8]).id().words(&[4096])),
        (51, words(&[0, 1, 2, 1]).hypers(&[0, 8]).id().opaque(b"body")),
        (51, words(&[0, 1, 2, 2])),
        (51, words(&[0, 1, 2, 3])),
        (52, words(&[0])),
        (53, b().id().words(&[42, 3, 17, 1])),
        (54, b().opaque(b"ssv").opaque(b"digest")),
        (55, words(&[2]).id().id()),
        (56, words(&[1, 4])),
        (56, words(&[1, 1, 2])),
        (56, words(&[1, 6])),
        (57, b().hypers(&[1])),
        (58, words(&[0])),
        (59, b().id().hypers(&[0, 8])),
        (60, b().id().id().hypers(&[0, 0, 8]).words(&[1, 0, 0])),
        (
            60,
            b().id()
                .id()
                .hypers(&[0, 0, 8])
                .words(&[1, 0, 3, 1])
                .opaque(b"host")
                .words(&[2])
                .opaque(b"nfs://host/")
                .words(&[3])
                .opaque(b"tcp")
                .opaque(b"10.0.0.1.8.1"),
        ),
        (61, b().id().words(&[3]).opaque(b"tcp").opaque(b"10.0.0.1.8.1")),
        (62, b().id().hypers(&[0, 8])),
        (63, b().id().hypers(&[0, 8]).bitmap()),
        (64, b().hypers(&[0, 8]).id().words(&[2]).id().words(&[5, 25]).id().words(&[5, 38])),
        (65, b().hypers(&[0, 8]).id().hypers(&[1, 2, 3, 4]).id().words(&[4]).opaque(b"flex files")),
        (66, b().id()),
        (67, b().id()),
        (68, b().id().hypers(&[8192]).words(&[4096])),
        (69, b().id().hypers(&[8192]).words(&[1])),
        (70, b().id().words(&[2]).hypers(&[0, 4096, 2, 0]).words(&[1]).hypers(&[64]).opaque(b"pattern")),
        (71, b().id().id().hypers(&[0, 0, 8])),
        (72, b().opaque(b"user.key")),
        (73, words(&[0]).opaque(b"user.key").opaque(b"value")),
        (74, b().hypers(&[0]).words(&[4096])),
        (75, b().opaque(b"user.key")),
        (10044, b()),
    ]
}

/// The same for callbacks.
pub(crate) fn callbacks() -> Vec<(u32, Bytes)> {
    let fh = || b().opaque(HANDLE);
    let ace = |rest: Bytes| rest.words(&[0, 0, 1]).opaque(b"EVERYONE@");
    vec![
        (3, fh().bitmap()),
        (4, b().id().words(&[0]).opaque(HANDLE)),
        (5, words(&[1, 2, 0, 1]).opaque(HANDLE).hypers(&[0, 8]).id()),
        (5, words(&[1, 2, 0, 2]).hypers(&[1, 2])),
        (5, words(&[1, 2, 0, 3])),
        (6, b().id().opaque(HANDLE).words(&[2]).bitmap().opaque(b"list").bitmap().opaque(b"")),
        (7, fh().words(&[0])),
        (7, ace(fh().words(&[1]).id().words(&[0]))),
        (7, ace(fh().words(&[2]).id().words(&[0, 1]).hypers(&[8]))),
        (7, fh().words(&[3, 1, 1])),
        (7, fh().words(&[3, 0])),
        (8, words(&[3]).bitmap()),
        (9, words(&[3]).bitmap()),
        (10, words(&[3])),
        (11, b().id().words(&[42, 3, 17, 1, 2]).id().words(&[1, 7, 8]).id().words(&[0])),
        (12, words(&[1, 0])),
        (13, fh().owner()),
        (14, words(&[1]).bitmap().opaque(b"list")),
        (15, fh().id().words(&[0, 1]).id().hypers(&[8]).words(&[2]).hypers(&[1])),
        (15, fh().id().words(&[0, 0]).hypers(&[8]).words(&[2]).hypers(&[1])),
        (15, fh().id().words(&[28]).hypers(&[8])),
        (10044, b()),
    ]
}

fn putfh() -> (u32, Bytes) {
    (22, b().opaque(HANDLE))
}

fn getattr() -> (u32, Bytes) {
    (9, b().bitmap())
}

fn find(op: u32) -> (u32, Bytes) {
    operations().into_iter().find(|(number, _)| *number == op).unwrap()
}

/// What Python's `main_op` says.
fn main_op(ops: &[u16], callback: bool, complete: bool) -> u16 {
    let table = if callback { &ranks().callback } else { &ranks().nfs };
    let rank = |op: u16| table.get(usize::from(op)).copied().unwrap_or(4);
    let best = ops.iter().map(|op| rank(*op)).max();
    let first = ops.iter().find(|op| Some(rank(**op)) == best);
    first.copied().filter(|op| complete || rank(*op) >= 4).unwrap_or(1)
}

/// The arguments of every operation are stepped over, whichever arm of a union they take.
#[test]
fn every_operation() {
    let mut seen = vec![];
    for (number, op) in operations().into_iter().enumerate() {
        let bytes = nfs4(&[putfh(), op.clone(), getattr()]);
        let call = parse_call(&bytes, ranks()).unwrap();
        assert_eq!(call.ops.as_slice(), [22, op.0 as u16, 9], "row {number}");
        assert!(call.ops.complete);
        assert_eq!(call.op, u32::from(main_op(call.ops.as_slice(), false, true)));
        assert_eq!(call.fh, crc32fast::hash(HANDLE));
        seen.push(op.0);
    }
    assert!((3..=75).all(|op| seen.contains(&op)));
}

/// The same for callbacks, which say the handle that they are about.
#[test]
fn every_callback() {
    let mut seen = vec![];
    for (number, op) in callbacks().into_iter().enumerate() {
        let bytes = call([0x4000_0001, 1, 1], &cb_compound(&[op.clone(), (10, words(&[1]))]));
        let call = parse_call(&bytes, ranks()).unwrap();
        assert_eq!((call.ops.as_slice(), call.minor), (&[op.0 as u16, 10][..], 1), "row {number}");
        assert!(call.ops.complete);
        assert_eq!(call.op, u32::from(main_op(call.ops.as_slice(), true, true)));
        let about_a_file = op.1.0.windows(HANDLE.len()).any(|part| part == HANDLE);
        assert_eq!(call.fh != NONE, about_a_file, "row {number}");
        seen.push(op.0);
    }
    assert!((3..=15).all(|op| seen.contains(&op)));
}

/// READ, WRITE and COMMIT say offset and size, and no other operation does.
#[test]
fn data() {
    for op in operations() {
        let bytes = nfs4(&[putfh(), op.clone()]);
        let call = parse_call(&bytes, ranks()).unwrap();
        let expected = match op.0 {
            25 => (8192, 4096),
            38 => (8192, 7),
            5 => (4096, 512),
            _ => (-1, NONE),
        };
        assert_eq!((call.target.offset, call.target.size), expected, "{}", op.0);
    }
}

/// An operation on a named file says the name: RENAME the old one, OPEN that of its claim.
#[test]
fn names() {
    for op in operations() {
        let bytes = nfs4(&[putfh(), op.clone()]);
        let named = op.1.0.windows(8).any(|part| part == b"\0\0\0\x04name");
        assert_eq!(parse_call(&bytes, ranks()).unwrap().target.name, named.then_some(&b"name"[..]), "{}", op.0);
    }
}

/// The handle is that of the last PUTFH before the main operation, and what follows changes nothing.
#[test]
fn handles() {
    let other = (22, b().opaque(b"another handle"));
    let ops = [putfh(), find(32), other.clone(), find(29), putfh(), getattr()];
    let bytes = nfs4(&ops);
    let call = parse_call(&bytes, ranks()).unwrap();
    assert_eq!((call.op, call.fh), (29, crc32fast::hash(b"another handle")));
    let bytes = nfs4(&[find(24), find(15), other]);
    assert_eq!(parse_call(&bytes, ranks()).unwrap().fh, NONE);
}

/// SEQUENCE and CB_SEQUENCE say session, slot and sequence number.
#[test]
fn sequences() {
    let expected = Sequence { session: ID, seqid: 42, slot: 3, highest_slot: 17, cachethis: true };
    let bytes = nfs4(&[find(53), putfh()]);
    assert_eq!(parse_call(&bytes, ranks()).unwrap().sequence, Some(expected));
    let sequence = callbacks().into_iter().find(|(op, _)| *op == 11).unwrap();
    let bytes = call([0x5fff_ffff, 1, 1], &cb_compound(&[sequence]));
    let call = parse_call(&bytes, ranks()).unwrap();
    assert_eq!((call.sequence, call.op), (Some(expected), 11));
}

/// CREATE_SESSION says what it asks for in both directions.
#[test]
fn create_session() {
    let bytes = nfs4(&[find(43)]);
    let channels = parse_call(&bytes, ranks()).unwrap().create_session.unwrap();
    let fore = ChannelAttrs {
        maxrequestsize: 1_049_620,
        maxresponsesize: 1_049_480,
        maxresponsesize_cached: 7584,
        maxoperations: 8,
        maxrequests: 64,
    };
    assert_eq!(channels, Channels { fore, back: ChannelAttrs { maxrequests: 16, ..fore } });
}

/// A WRITE whose data are cut off still names its COMPOUND; one that shows no purpose yet has none.
#[test]
fn cut_off() {
    let write = (38, b().id().hypers(&[512]).words(&[2]).opaque(&[0; 4000]));
    let bytes = nfs4(&[find(53), putfh(), write, getattr()]);
    let call = parse_call(&bytes[..400], ranks()).unwrap();
    assert_eq!((call.op, call.target.offset, call.target.size, call.ops.complete), (38, 512, 4000, false));
    let bytes = nfs4(&[find(53), putfh(), find(3), getattr()]);
    let call = parse_call(&bytes[..bytes.len() - 20], ranks()).unwrap();
    assert_eq!(call.ops.as_slice(), [53, 22, 3]);
    assert_eq!((call.op, call.fh, call.ops.complete), (1, NONE, false));
}

/// An operation that is not known ends the list, not the message.
#[test]
fn unknown_operation() {
    let bytes = nfs4(&[putfh(), find(25), (80, words(&[1])), getattr()]);
    let call = parse_call(&bytes, ranks()).unwrap();
    assert_eq!(call.ops.as_slice(), [22, 25, 80]);
    assert_eq!((call.op, call.target.size, call.ops.complete), (25, 4096, false));
    let bytes = nfs4(&[putfh(), (1 << 20, b())]);
    assert_eq!(parse_call(&bytes, ranks()).unwrap().ops.as_slice(), [22]);
}

/// COMPOUNDs longer than the list are named all the same, and ones without operations are 1.
#[test]
fn long_and_empty() {
    let mut ops = vec![getattr(); 40];
    ops.push(find(25));
    let bytes = nfs4(&ops);
    let call = parse_call(&bytes, ranks()).unwrap();
    assert_eq!((call.op, call.ops.as_slice().len(), call.ops.complete), (25, OpList::MOST, false));
    let bytes = nfs4(&[]);
    let call = parse_call(&bytes, ranks()).unwrap();
    assert_eq!((call.op, call.minor, call.ops.complete), (1, 1, true));
}

proptest! {
    /// The main operation is the one that Python names, whole and cut.
    #[test]
    fn as_python_names_it(
        rows in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        length in any::<prop::sample::Index>(),
    ) {
        let all = operations();
        let ops: Vec<_> = rows.iter().map(|row| row.get(&all).clone()).collect();
        let numbers: Vec<u16> = ops.iter().map(|(op, _)| *op as u16).collect();
        let bytes = call([NFS, 4, 1], &compound(2, &ops));
        let whole = parse_call(&bytes, ranks()).unwrap();
        prop_assert_eq!(whole.ops.as_slice(), &numbers[..]);
        prop_assert_eq!(whole.op, u32::from(main_op(&numbers, false, true)));
        let cut = parse_call(&bytes[..24 + length.index(bytes.len() - 23)], ranks()).unwrap();
        let seen = cut.ops.as_slice();
        prop_assert_eq!(cut.op, u32::from(main_op(seen, false, seen.len() == numbers.len())));
    }
}
