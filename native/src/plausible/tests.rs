//! Records and what is none in, what they are taken for out.

use super::{Plausible, plausible};
use crate::protocol::NFS;
use crate::rpc::tests::build::*;
use crate::rpc::tests::calls;
use proptest::prelude::*;

fn record(message: &[u8]) -> Vec<u8> {
    words(&[1 << 31 | message.len() as u32]).raw(message).0
}

fn denied(rest: &[u32]) -> Vec<u8> {
    record(&words(&[XID, 1, 1]).words(rest).0)
}

/// Every call is taken for one, however much of it is there from 16 bytes on.
#[test]
fn calls_are() {
    for message in calls() {
        let bytes = record(&message);
        for length in 0..=bytes.len() {
            let expected = if length < 16 { Plausible::No } else { Plausible::Call };
            assert_eq!(plausible(&bytes[..length], 0), expected);
        }
    }
}

/// Replies are taken for such, accepted or denied, with any verifier, however much of them is there.
#[test]
fn replies_are() {
    let gss = record(&words(&[XID, 1, 0, 6]).opaque(&[5; 37]).words(&[0, 0]).0);
    let tls = record(&words(&[XID, 1, 0, 0]).opaque(b"STARTTLS").words(&[0]).0);
    let plain = record(&reply(&words(&[0])));
    for bytes in [gss, tls, plain, denied(&[0, 2, 2]), denied(&[1, 13])] {
        for length in 16..=bytes.len() {
            assert_eq!(plausible(&bytes[..length], 0), Plausible::Reply);
        }
    }
}

/// Fewer bytes than asked for are not enough, unless they are the whole record.
#[test]
fn minimum() {
    let bytes = record(&call([NFS, 3, 0], &Bytes::default()));
    assert_eq!(plausible(&bytes[..27], 28), Plausible::No);
    assert_eq!(plausible(&bytes[..28], 28), Plausible::Call);
    assert_eq!(plausible(&denied(&[1, 13]), 28), Plausible::Reply);
}

/// The first fragment of a record may stand for it, where its header is there.
#[test]
fn fragments() {
    let mut bytes = record(&call([NFS, 3, 0], &Bytes::default().opaque(HANDLE)));
    bytes[0] = 0;
    assert_eq!(plausible(&bytes, 0), Plausible::Call);
    assert_eq!(plausible(&bytes[..27], 0), Plausible::No);
    bytes[3] += 1;
    assert_eq!(plausible(&bytes, 0), Plausible::No);
    let mut bytes = denied(&[1, 13]);
    bytes[0] = 0;
    assert_eq!(plausible(&bytes, 0), Plausible::No);
}

/// One thing wrong in a header is enough to tell.
#[test]
fn one_thing_wrong() {
    let good = record(&call([NFS, 3, 1], &Bytes::default().opaque(HANDLE)));
    assert_eq!(plausible(&good, 0), Plausible::Call);
    for (at, word) in [
        (0, 1 << 31 | 39),       // too short for a call
        (0, 1 << 31 | 48),       // too short for its credential
        (0, 1 << 31 | 17 << 20), // too long
        (8, 2),                  // message type
        (12, 3),                 // RPC version
        (16, 99_999),            // program
        (16, 0x6000_0000),       // program
        (20, 101),               // version
        (24, 1001),              // procedure
        (28, 4),                 // flavor
        (28, 0),                 // AUTH_NONE with a body
        (32, 401),               // length of the credential
        (32, 16),                // no AUTH_SYS
    ] {
        let mut bad = good.clone();
        bad[at..at + 4].copy_from_slice(&u32::to_be_bytes(word));
        assert_eq!(plausible(&bad, 0), Plausible::No, "{at} {word}");
    }
    let good = record(&reply(&words(&[0])));
    for (at, word) in [(0, 1 << 31 | 23), (12, 2), (16, 5), (20, 4), (24, 6)] {
        let mut bad = good.clone();
        bad[at..at + 4].copy_from_slice(&u32::to_be_bytes(word));
        assert_eq!(plausible(&bad, 0), Plausible::No, "{at} {word}");
    }
    assert_eq!(plausible(&denied(&[2, 0]), 0), Plausible::No);
    assert_eq!(plausible(&denied(&[1, 13, 0]), 0), Plausible::No);
}

/// Zeros, small integers and text are no records, at whatever position.
#[test]
fn data_are_not() {
    let attributes = words(&[1, 0o644, 1, 0, 0, 0, 3, 0, 4096, 0, 0, 0, 0, 0, 0, 1, 0]).0;
    let text = b"GET / HTTP/1.1\r\nHost: nfs.example\r\nAccept: */*\r\n\r\n".to_vec();
    // a version and zeros, from real captures
    let zeros = words(&[100_000, 4, 1, 0, 0, 0, 0, 0, 0]).0;
    for data in [zeros, vec![0; 64], vec![0xff; 64], attributes.repeat(2), text, (0..=255).collect()] {
        assert!((0..data.len()).all(|at| plausible(&data[at..], 16) == Plausible::No));
    }
}

proptest! {
    /// Any bytes are looked at without harm.
    #[test]
    fn random_bytes(mark in any::<u32>(), kind in 0u32..2, status in 0u32..3, rest in prop::collection::vec(any::<u8>(), 0..80), min in 0usize..40) {
        let bytes = words(&[mark, XID, kind, status]).raw(&rest).0;
        plausible(&bytes, min);
        plausible(&rest, min);
    }
}
