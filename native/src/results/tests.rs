//! Results built by hand in, what is read of them held against what was put in.

use super::{Channels, Key, Results, SequenceResult, SessionResult, parse_results};
use crate::call::{ChannelAttrs, Gss, NONE};
use crate::compound::tests::ranks;
use crate::protocol::{MOUNT, NFS, NFSACL, NLM};
use crate::rpc::tests::build::*;
use crate::rpc::{Accept, parse_call, parse_reply};
use proptest::prelude::*;

fn key(program: u32, version: u32, procedure: u32) -> Key {
    Key { program, version, procedure, minor: NONE, service: NONE }
}

const V4: (u32, u32, u32) = (NFS, 4, 1);

fn read_v4(results: &Bytes) -> Results {
    parse_results(&results.0, &key(V4.0, V4.1, V4.2))
}

/// A COMPOUND's status, tag and these results.
fn compound(status: u32, results: &[Bytes]) -> Bytes {
    let head = words(&[status]).opaque(b"tag").words(&[results.len() as u32]);
    results.iter().fold(head, |all, result| all.raw(&result.0))
}

fn sequence() -> Bytes {
    words(&[53, 0]).id().words(&[42, 3, 17, 29, 1])
}

/// Every procedure of NFSv2, v3, v4 and NFSACL but NULL says its status, and so does MNT, and NLM behind a cookie; what
/// answers nothing else has none.
#[test]
fn statuses() {
    let status = |program, version, procedure| parse_results(&words(&[70]).0, &key(program, version, procedure)).status;
    for (program, version, procedure) in
        [(NFS, 2, 1), (NFS, 2, 17), (NFS, 3, 1), (NFS, 3, 21), (NFS, 4, 1), (NFSACL, 3, 1), (MOUNT, 3, 1)]
    {
        assert_eq!(status(program, version, procedure), 70, "{program} {version} {procedure}");
    }
    for (program, version, procedure) in
        [(NFS, 2, 0), (NFS, 2, 3), (NFS, 3, 0), (NFS, 4, 0), (NFS, 3, 22), (MOUNT, 3, 5), (NLM, 4, 0), (NLM, 4, 23)]
    {
        assert_eq!(status(program, version, procedure), NONE, "{program} {version} {procedure}");
    }
    let denied = Bytes::default().opaque(b"cookie").words(&[1]);
    assert_eq!(parse_results(&denied.0, &key(NLM, 4, 2)).status, 1);
    assert_eq!(parse_results(&denied.0[..8], &key(NLM, 4, 2)).status, NONE);
}

/// READ says the bytes returned and NFSv3's WRITE those written, with attributes or without.
#[test]
fn sizes() {
    let attributes = |size: usize| words(&[1]).raw(&vec![0; size]);
    let none = || words(&[0]);
    for (version, procedure, before) in [
        (2, 6, Bytes::default().raw(&[0; 68])),
        (3, 6, none()),
        (3, 6, attributes(84)),
        (3, 7, none().words(&[0])),
        (3, 7, attributes(24).raw(&attributes(84).0)),
    ] {
        let ok = words(&[0]).raw(&before.0).words(&[512, 1]);
        assert_eq!(parse_results(&ok.0, &key(NFS, version, procedure)).size, 512);
        let failed = words(&[5]).raw(&before.0).words(&[512, 1]);
        assert_eq!(parse_results(&failed.0, &key(NFS, version, procedure)).size, NONE);
    }
}

/// The size of a READ or WRITE is found behind what a client puts before it.
#[test]
fn compound_sizes() {
    let ace = words(&[0, 0, 1]).opaque(b"OWNER@");
    let delegation = |kind: Bytes| words(&[18, 0]).id().words(&[1]).hypers(&[1, 2]).words(&[4]).bitmap().raw(&kind.0);
    let before = [
        sequence(),
        words(&[22, 0]),
        delegation(words(&[0])),
        delegation(words(&[1]).id().words(&[0]).raw(&ace.0)),
        delegation(words(&[2]).id().words(&[0, 1]).hypers(&[9]).raw(&ace.0)),
        delegation(words(&[3, 1, 0])),
        words(&[10, 0]).opaque(HANDLE),
        words(&[3, 0, 31, 31]),
        words(&[9, 0]).fattr(),
        words(&[4, 0]).id(),
    ];
    for last in [words(&[25, 0, 1]).opaque(&[7; 100]), words(&[38, 0, 100, 2]).hypers(&[1])] {
        let mut all = before.to_vec();
        all.push(last);
        let found = read_v4(&compound(0, &all));
        assert_eq!((found.status, found.results, found.size), (0, 11, 100));
        assert_eq!(found.sequence.unwrap().slot, 3);
    }
}

/// A COMPOUND that failed says its status and how far it came, and nothing of the operation that failed.
#[test]
fn failure() {
    let found = read_v4(&compound(10_008, &[sequence(), words(&[22, 0]), words(&[25, 10_008])]));
    assert_eq!((found.status, found.results, found.size), (10_008, 3, NONE));
    let found = read_v4(&compound(10_063, &[words(&[53, 10_063])]));
    assert_eq!((found.status, found.results, found.sequence), (10_063, 1, None));
}

/// SEQUENCE says the slot and the limits that the server grants; CB_SEQUENCE has no flags.
#[test]
fn sequences() {
    let expected =
        SequenceResult { session: ID, seqid: 42, slot: 3, highest_slot: 17, target_highest_slot: 29, flags: 1 };
    assert_eq!(read_v4(&compound(0, &[sequence(), words(&[22, 0])])).sequence, Some(expected));
    let callback = words(&[11, 0]).id().words(&[42, 3, 17, 29]);
    let bytes = compound(0, &[callback, words(&[4, 0])]);
    let found = parse_results(&bytes.0, &key(0x4000_0000, 1, 1));
    assert_eq!(found.sequence, Some(SequenceResult { flags: NONE, ..expected }));
    assert_eq!((found.status, found.results), (0, 2));
}

/// CREATE_SESSION says the session and what the server grants in both directions.
#[test]
fn create_session() {
    let channel = |requests| words(&[0, 1, 2, 3, 4, requests, 0]);
    let result = words(&[43, 0]).id().words(&[1, 2]).raw(&channel(18).0).raw(&channel(16).0);
    let fore = ChannelAttrs {
        maxrequestsize: 1,
        maxresponsesize: 2,
        maxresponsesize_cached: 3,
        maxoperations: 4,
        maxrequests: 18,
    };
    let back = ChannelAttrs { maxrequests: 16, ..fore };
    let expected = SessionResult { session: ID, seqid: 1, flags: 2, channels: Channels { fore, back } };
    assert_eq!(read_v4(&compound(0, &[result])).create_session, Some(expected));
}

/// Results under RPCSEC_GSS are read except where they are encrypted or tokens.
#[test]
fn gss() {
    let plain = compound(0, &[sequence()]);
    for (procedure, service, shown) in
        [(0, 1, true), (0, 2, true), (0, 3, false), (0, 4, true), (0, 9, false), (1, 1, false)]
    {
        let bytes = call_with(&gss_auth(procedure, 6, service), [NFS, 4, 1], &Bytes::default());
        let key = Key::from(&parse_call(&bytes, ranks()).unwrap());
        let results = if service == Gss::INTEGRITY { wrapped(6, &plain) } else { plain.clone() };
        let found = parse_results(&results.0, &key);
        assert_eq!((found.status, found.sequence.is_some()), if shown { (0, true) } else { (NONE, false) });
    }
}

/// However results are cut, what they say is what the whole ones say, or less.
#[test]
fn cut_results_invent_nothing() {
    let attributes = words(&[0, 1]).raw(&[0; 84]).words(&[8, 1]).opaque(b"the data");
    let v4 =
        compound(0, &[sequence(), words(&[22, 0]), words(&[9, 0]).fattr(), words(&[25, 0, 1]).opaque(b"the data")]);
    let session =
        compound(0, &[words(&[43, 0]).id().words(&[1, 2]).words(&[0, 1, 2, 3, 4, 5, 0]).words(&[0, 1, 2, 3, 4, 5, 0])]);
    for (results, key) in [(attributes, key(NFS, 3, 6)), (v4, key(NFS, 4, 1)), (session, key(NFS, 4, 1))] {
        let bytes = reply(&results);
        let read = |bytes: &[u8]| {
            let head = parse_reply(bytes).unwrap();
            (head, parse_results(&bytes[head.results_at..], &key))
        };
        let whole = read(&bytes);
        for length in 8..bytes.len() {
            let (head, found) = read(&bytes[..length]);
            let agree = |cut: u32, whole: u32| cut == NONE || cut == whole;
            assert!(head.accept == Accept::Unseen || head.accept == whole.0.accept);
            assert!(agree(found.status, whole.1.status) && agree(found.results, whole.1.results));
            assert!(agree(found.size, whole.1.size));
            assert!(found.sequence.is_none() || found.sequence == whole.1.sequence);
            assert!(found.create_session.is_none() || found.create_session == whole.1.create_session);
        }
    }
}

proptest! {
    /// Bytes that are no results are read without harm.
    #[test]
    fn random_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        program in prop::sample::select(vec![NFS, NFSACL, 0x4000_0000]),
        version in 1u32..5,
        procedure in 0u32..23,
        service in prop::sample::select(vec![NONE, 1, 2, 3]),
    ) {
        let mut key = key(program, version, procedure);
        key.service = service;
        parse_results(&bytes, &key);
        let mut results = compound(0, &[sequence(), words(&[22, 0])]);
        results.0.extend(bytes);
        parse_results(&results.0, &key);
    }
}
