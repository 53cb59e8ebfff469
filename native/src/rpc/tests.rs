//! Messages built by hand in, what the parser says of them held against what was put in.

use super::*;
use crate::call::Key;
use crate::compound::tests::{callbacks, operations, ranks};
use crate::protocol::NFSACL;
use build::*;
use proptest::prelude::*;

/// Builders of XDR and of messages, for all tests.
pub(crate) mod build {
    use super::super::{Gss, NFS, RPCSEC_GSS};

    #[derive(Clone, Debug, Default)]
    pub(crate) struct Bytes(pub Vec<u8>);

    impl Bytes {
        pub fn words(mut self, words: &[u32]) -> Self {
            self.0.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            self
        }

        pub fn hypers(mut self, hypers: &[u64]) -> Self {
            self.0.extend(hypers.iter().flat_map(|hyper| hyper.to_be_bytes()));
            self
        }

        pub fn opaque(mut self, data: &[u8]) -> Self {
            self = self.words(&[data.len() as u32]).raw(data);
            self.0.resize(self.0.len().next_multiple_of(4), 0);
            self
        }

        pub fn raw(mut self, data: &[u8]) -> Self {
            self.0.extend(data);
            self
        }

        /// Sixteen bytes: a stateid, session or device.
        pub fn id(self) -> Self {
            self.raw(&ID)
        }

        pub fn bitmap(self) -> Self {
            self.words(&[2, 0x18, 0x30])
        }

        pub fn fattr(self) -> Self {
            self.bitmap().opaque(&[7; 20])
        }

        pub fn owner(self) -> Self {
            self.hypers(&[0x1122]).opaque(b"owner")
        }
    }

    pub(crate) const ID: [u8; 16] = *b"0123456789abcdef";
    pub(crate) const XID: u32 = 0xfeed_0001;
    pub(crate) const HANDLE: &[u8] = b"a handle that is odd";

    pub(crate) fn words(words: &[u32]) -> Bytes {
        Bytes::default().words(words)
    }

    pub(crate) fn sys() -> Bytes {
        let body = words(&[77]).opaque(b"client").words(&[0, 0, 2, 4, 20]);
        words(&[1]).opaque(&body.0).words(&[0, 0])
    }

    pub(crate) fn gss_auth(procedure: u32, seq: u32, service: u32) -> Bytes {
        let body = words(&[1, procedure, seq, service]).opaque(b"ctx.");
        words(&[RPCSEC_GSS]).opaque(&body.0).words(&[RPCSEC_GSS]).opaque(&[9; 28])
    }

    pub(crate) fn call_with(authentication: &Bytes, program: [u32; 3], arguments: &Bytes) -> Vec<u8> {
        words(&[XID, 0, 2]).words(&program).raw(&authentication.0).raw(&arguments.0).0
    }

    pub(crate) fn call(program: [u32; 3], arguments: &Bytes) -> Vec<u8> {
        call_with(&sys(), program, arguments)
    }

    /// The arguments of a COMPOUND of these operations.
    pub(crate) fn compound(minor: u32, operations: &[(u32, Bytes)]) -> Bytes {
        let head = Bytes::default().opaque(b"tag").words(&[minor, operations.len() as u32]);
        operations.iter().fold(head, |all, (op, bytes)| all.words(&[*op]).raw(&bytes.0))
    }

    pub(crate) fn cb_compound(operations: &[(u32, Bytes)]) -> Bytes {
        let head = Bytes::default().opaque(b"").words(&[1, 99, operations.len() as u32]);
        operations.iter().fold(head, |all, (op, bytes)| all.words(&[*op]).raw(&bytes.0))
    }

    pub(crate) fn nfs4(operations: &[(u32, Bytes)]) -> Vec<u8> {
        call([NFS, 4, 1], &compound(1, operations))
    }

    pub(crate) fn reply(results: &Bytes) -> Vec<u8> {
        words(&[XID, 1, 0, 0, 0, 0]).raw(&results.0).0
    }

    pub(crate) fn wrapped(seq: u32, arguments: &Bytes) -> Bytes {
        Bytes::default().opaque(&words(&[seq]).raw(&arguments.0).0).opaque(&[3; 28])
    }

    pub(crate) fn data(seq: u32, service: u32) -> Bytes {
        gss_auth(Gss::DATA, seq, service)
    }
}

fn parse(bytes: &[u8]) -> Call<'_> {
    parse_call(bytes, ranks()).unwrap()
}

fn hash() -> u32 {
    crc32fast::hash(HANDLE)
}

/// A call of NFSv3 says its header, and READ, WRITE and COMMIT their handle, offset and count.
#[test]
fn version_3_data() {
    for (procedure, rest) in [(6, words(&[])), (7, words(&[2]).opaque(b"data.")), (21, words(&[]))] {
        let arguments = Bytes::default().opaque(HANDLE).hypers(&[1 << 33]).words(&[5]).raw(&rest.0);
        let bytes = call([NFS, 3, procedure], &arguments);
        let call = parse(&bytes);
        assert_eq!((call.xid, call.program, call.version, call.procedure), (XID, NFS, 3, procedure));
        assert_eq!((call.flavor, call.gss, call.op, call.minor), (1, None, procedure, NONE));
        assert_eq!((call.fh, call.target.offset, call.target.size, call.target.name), (hash(), 1 << 33, 5, None));
    }
}

/// An offset that does not fit into a signed column is unknown, and what stands beside it is not.
#[test]
fn large_offset() {
    let arguments = Bytes::default().opaque(HANDLE).hypers(&[1 << 63]).words(&[5]);
    let bytes = call([NFS, 3, 6], &arguments);
    assert_eq!((parse(&bytes).target.offset, parse(&bytes).target.size), (-1, 5));
}

/// Calls of NFSv3 and v2 that name a file say its name: of RENAME the old one, of LINK the new one.
#[test]
fn names() {
    let directory = |version| match version {
        3 => Bytes::default().opaque(HANDLE),
        _ => Bytes::default().raw(&[HANDLE, &[0; 12]].concat()),
    };
    for (version, procedures) in [(3, &[3, 8, 9, 10, 11, 12, 13, 14][..]), (2, &[4, 9, 10, 11, 13, 14, 15])] {
        for procedure in procedures {
            let bytes = call([NFS, version, *procedure], &directory(version).opaque(b"name").opaque(b"other"));
            assert_eq!(parse(&bytes).target.name, Some(&b"name"[..]), "{version} {procedure}");
            assert_ne!(parse(&bytes).fh, NONE);
        }
    }
    for (version, link) in [(3, 15), (2, 12)] {
        let two = directory(version).raw(&directory(version).0);
        let bytes = call([NFS, version, link], &two.opaque(b"name"));
        assert_eq!(parse(&bytes).target.name, Some(&b"name"[..]));
    }
}

/// NFSv2 says the offset and count of a READ, and of a WRITE the offset that counts and the length of its data.
#[test]
fn version_2_data() {
    let handle = [8; 32];
    let read = call([NFS, 2, 6], &Bytes::default().raw(&handle).words(&[4096, 512, 0]));
    let write = call([NFS, 2, 8], &Bytes::default().raw(&handle).words(&[1, 8192, 2]).opaque(b"data."));
    for (bytes, offset, size) in [(read, 4096, 512), (write, 8192, 5)] {
        let call = parse(&bytes);
        assert_eq!((call.fh, call.target.offset, call.target.size), (crc32fast::hash(&handle), offset, size));
    }
}

/// Where a procedure has no handle, or an empty or impossible one, there is none.
#[test]
fn no_handle() {
    for (version, procedure) in [(3, 0), (3, 22), (2, 0), (2, 3), (2, 7), (2, 18), (4, 0), (5, 1)] {
        let bytes = call([NFS, version, procedure], &Bytes::default().opaque(&[1; 40]));
        assert_eq!(parse(&bytes).fh, NONE, "{version} {procedure}");
        assert_eq!(parse(&bytes).op, procedure);
    }
    for handle in [&[][..], &[1; 65]] {
        let bytes = call([NFS, 3, 1], &Bytes::default().opaque(handle));
        assert_eq!(parse(&bytes).fh, NONE);
    }
}

/// Other programs are known by their procedure, MOUNT also by the path.
#[test]
fn other_programs() {
    for (program, procedure) in [(NFSACL, 1), (100_021, 2), (100_024, 6), (100_000, 3), (100_011, 1)] {
        let bytes = call([program, 3, procedure], &Bytes::default().opaque(HANDLE));
        let call = parse(&bytes);
        assert_eq!((call.program, call.op, call.fh, call.target.name), (program, procedure, NONE, None));
    }
    for (procedure, name) in [(1, Some(&b"/export"[..])), (3, Some(b"/export")), (5, None)] {
        let bytes = call([MOUNT, 3, procedure], &Bytes::default().opaque(b"/export"));
        assert_eq!(parse(&bytes).target.name, name);
    }
}

/// NLM names the file, and where its lock begins, behind what each procedure says first.
#[test]
fn locks() {
    let tail = || Bytes::default().opaque(b"host").opaque(HANDLE).opaque(b"owner").words(&[7]);
    for (procedure, between) in [(1, 4), (2, 8), (3, 8), (4, 0)] {
        let head = Bytes::default().opaque(b"cookie").raw(&vec![0; between]);
        let old = call([NLM, 3, procedure], &head.clone().raw(&tail().words(&[4096, 1]).0));
        let new = call([NLM, 4, procedure], &head.raw(&tail().hypers(&[1 << 40, 1]).0));
        assert_eq!([&old, &new].map(|bytes| parse(bytes).fh), [hash(); 2]);
        assert_eq!([&old, &new].map(|bytes| parse(bytes).target.offset), [4096, 1 << 40]);
    }
}

/// Every flavor of credential says its number, and the arguments behind it are found.
#[test]
fn flavors() {
    let arguments = Bytes::default().opaque(HANDLE);
    for flavor in [0, 1, 2, 3, 7, 390_003] {
        let bytes = call_with(&words(&[flavor]).opaque(&[0; 20]).words(&[0, 0]), [NFS, 3, 1], &arguments);
        assert_eq!((parse(&bytes).flavor, parse(&bytes).fh), (flavor, hash()));
    }
}

/// RPCSEC_GSS shows its credential, and the arguments except under privacy.
#[test]
fn gss_services() {
    let v3 = Bytes::default().opaque(HANDLE).hypers(&[512]).words(&[8]);
    let v4 = compound(1, &[(22, Bytes::default().opaque(HANDLE)), (9, Bytes::default().bitmap())]);
    for service in 1..=5 {
        let shown = matches!(service, 1 | 2 | 4);
        let cover = |arguments: &Bytes| {
            if service == Gss::INTEGRITY { wrapped(40, arguments) } else { arguments.clone() }
        };
        let bytes = call_with(&data(40, service), [NFS, 3, 6], &cover(&v3));
        let call = parse(&bytes);
        assert_eq!(call.gss, Some(Gss { version: 1, procedure: Gss::DATA, seq: 40, service }));
        assert_eq!((call.op, call.flavor), (6, RPCSEC_GSS));
        assert_eq!(
            (call.fh, call.target.offset, call.target.size),
            if shown { (hash(), 512, 8) } else { (NONE, -1, NONE) }
        );
        let bytes = call_with(&data(40, service), [NFS, 4, 1], &cover(&v4));
        let call = parse(&bytes);
        assert_eq!((call.op, call.fh, call.minor), if shown { (9, hash(), 1) } else { (1, NONE, NONE) });
    }
}

/// Integrity-protected arguments with another sequence number than the credential's are not believed.
#[test]
fn gss_sequence() {
    let arguments = wrapped(41, &Bytes::default().opaque(HANDLE));
    let bytes = call_with(&data(40, Gss::INTEGRITY), [NFS, 3, 1], &arguments);
    assert_eq!(parse(&bytes).fh, NONE);
}

/// Calls that set up or destroy a GSS context carry tokens, which are not taken for arguments.
#[test]
fn gss_control() {
    for procedure in 1..=4 {
        let bytes = call_with(&gss_auth(procedure, 0, 1), [NFS, 3, 1], &Bytes::default().opaque(HANDLE));
        let call = parse(&bytes);
        assert_eq!((call.op, call.fh, call.gss.unwrap().procedure), (1, NONE, procedure));
        assert_eq!(Key::from(&call).service, Gss::PRIVACY);
    }
}

/// What is no call, or is cut off before its procedure, is said to be so.
#[test]
fn bad_calls() {
    let good = call([NFS, 3, 0], &Bytes::default());
    for length in 0..24 {
        assert_eq!(parse_call(&good[..length], ranks()), Err(Bad::Short));
    }
    for at in [7, 11, 26] {
        let mut bad = good.clone();
        bad[at] = 3;
        if at != 26 {
            assert_eq!(parse_call(&bad, ranks()), Err(Bad::NotRpc), "{at}");
        }
    }
    let long = call_with(&words(&[1, 401]), [NFS, 3, 0], &Bytes::default());
    assert_eq!(parse_call(&long, ranks()), Err(Bad::NotRpc));
    assert_eq!(parse_call(&reply(&Bytes::default()), ranks()), Err(Bad::NotRpc));
}

/// A reply says how it was accepted or why it was denied, and where its results are.
#[test]
fn replies() {
    use Accept::*;
    let success = parse_reply(&reply(&words(&[0, 1]))).unwrap();
    assert_eq!((success.xid, success.accept, success.results_at, success.verifier), (XID, Success, 24, 0));
    let statuses = [Success, ProgUnavail, ProgMismatch, ProcUnavail, GarbageArgs, SystemErr];
    for (status, accept) in statuses.into_iter().enumerate() {
        let bytes = words(&[XID, 1, 0, 6]).opaque(&[5; 37]).words(&[status as u32, 2, 4]).0;
        let head = parse_reply(&bytes).unwrap();
        assert_eq!((head.accept, head.accept as usize, head.verifier), (accept, status, RPCSEC_GSS));
        // What follows a failure is no result.
        assert_eq!(head.results_at, if status == 0 { bytes.len() - 8 } else { bytes.len() });
    }
    for (rest, accept, auth_stat) in [
        (&[1, 0, 2, 2][..], RpcMismatch, NONE),
        (&[1, 1, 13], AuthError, 13),
        (&[1, 1], AuthError, NONE),
        (&[1], Unseen, NONE),
        (&[0, 0, 0], Unseen, NONE),
    ] {
        let head = parse_reply(&words(&[XID, 1]).words(rest).0).unwrap();
        assert_eq!((head.accept, head.auth_stat), (accept, auth_stat));
    }
}

/// The answer to AUTH_TLS that starts TLS is known by its verifier.
#[test]
fn starttls() {
    let bytes = words(&[XID, 1, 0, 0]).opaque(b"STARTTLS").words(&[0]).0;
    assert!(parse_reply(&bytes).unwrap().starttls);
    assert!(!parse_reply(&reply(&Bytes::default())).unwrap().starttls);
}

/// What is no reply, or shows no message type, is said to be so.
#[test]
fn bad_replies() {
    assert_eq!(parse_reply(&[0; 7]), Err(Bad::Short));
    for words in [&[XID, 0][..], &[XID, 1, 2], &[XID, 1, 0, 0, 401], &[XID, 1, 0, 0, 0, 6], &[XID, 1, 1, 2]] {
        assert_eq!(parse_reply(&build::words(words).0), Err(Bad::NotRpc));
    }
}

/// Calls of every kind, whole.
pub(crate) fn calls() -> Vec<Vec<u8>> {
    let putfh = (22, Bytes::default().opaque(HANDLE));
    let getattr = (9, Bytes::default().bitmap());
    let v3 = Bytes::default().opaque(HANDLE).hypers(&[512]).words(&[8, 2]).opaque(b"eight by");
    let v4 = |op: &(u32, Bytes)| compound(2, &[putfh.clone(), op.clone(), getattr.clone()]);
    let mut all: Vec<_> = (0..=21).map(|procedure| call([NFS, 3, procedure], &v3)).collect();
    all.push(call([NFS, 3, 3], &Bytes::default().opaque(HANDLE).opaque(b"file")));
    all.extend((0..=17).map(|procedure| call([NFS, 2, procedure], &Bytes::default().raw(&[8; 32]).opaque(b"file"))));
    all.push(call([MOUNT, 3, 1], &Bytes::default().opaque(b"/export")));
    for op in operations() {
        all.push(call([NFS, 4, 1], &v4(&op)));
        all.push(call_with(&data(6, 2), [NFS, 4, 1], &wrapped(6, &v4(&op))));
    }
    all.push(call_with(&data(6, 3), [NFS, 4, 1], &Bytes::default().opaque(&[1; 99])));
    let sequence = callbacks().into_iter().find(|(op, _)| *op == 11).unwrap();
    all.extend(callbacks().into_iter().map(|op| call([0x4000_0000, 1, 1], &cb_compound(&[sequence.clone(), op]))));
    all
}

/// However a call is cut, what it says is what the whole call says, or less; only its main operation may sharpen.
#[test]
fn cut_calls_invent_nothing() {
    for bytes in calls() {
        let whole = parse(&bytes);
        for length in 24..bytes.len() {
            let cut = parse(&bytes[..length]);
            assert_eq!(
                (cut.xid, cut.program, cut.version, cut.procedure),
                (whole.xid, whole.program, whole.version, whole.procedure)
            );
            let agree = |cut: u32, whole: u32| cut == NONE || cut == whole;
            assert!(agree(cut.flavor, whole.flavor) && agree(cut.minor, whole.minor));
            assert!(cut.gss.is_none() || cut.gss == whole.gss);
            assert!(cut.sequence.is_none() || cut.sequence == whole.sequence);
            assert!(cut.create_session.is_none() || cut.create_session == whole.create_session);
            assert!(whole.ops.as_slice().starts_with(cut.ops.as_slice()));
            if cut.op == whole.op {
                assert!(agree(cut.fh, whole.fh) && agree(cut.target.size, whole.target.size));
                assert!(cut.target.offset == -1 || cut.target.offset == whole.target.offset);
                assert!(cut.target.name.is_none() || cut.target.name == whole.target.name);
            } else if cut.op == 1 {
                assert_eq!((cut.fh, cut.target.size, cut.target.offset, cut.target.name), (NONE, NONE, -1, None));
            } else {
                assert!(whole.ops.as_slice().contains(&(cut.op as u16)) && !cut.ops.complete);
            }
        }
    }
}

proptest! {
    /// Bytes that are no message are read without harm.
    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600), version in 2u32..5, program in 0u32..3) {
        let _ = parse_call(&bytes, ranks());
        let _ = parse_reply(&bytes);
        let program = [NFS, 0x4000_0000, MOUNT][program as usize];
        let _ = parse_call(&call([program, version, 1], &Bytes(bytes)), ranks());
    }

    /// Messages with words changed and ends cut are read without harm, and list no more operations than they hold.
    #[test]
    fn damaged_calls(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            any::<u32>(), 0u32..64, Just(u32::MAX), Just(u32::MAX - 3), Just(1 << 31)]), 0..6),
        length in any::<prop::sample::Index>(),
    ) {
        let all = calls();
        let mut bytes = which.get(&all).clone();
        for (at, word) in changes {
            let at = at.index(bytes.len() / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        bytes.truncate(length.index(bytes.len() + 1));
        if let Ok(call) = parse_call(&bytes, ranks()) {
            prop_assert!(call.ops.as_slice().len() * 4 <= bytes.len());
            prop_assert!(call.target.name.is_none_or(|name| name.len() <= bytes.len()));
        }
        let _ = parse_reply(&bytes);
    }
}
