//! Options as RFC 8684 draws them in; keys, tokens, DATA_ACKs and mappings out.

use proptest::prelude::*;

use super::*;
use crate::testing::cases;

const KEYS: [u64; 2] = [0x0102_0304_0506_0708, 0x1112_1314_1516_1718];

/// The value of an option: subtype with four bits more, then bytes.
fn value(subtype: u8, low: u8, rest: &[&[u8]]) -> Vec<u8> {
    [&[subtype << 4 | low], rest.concat().as_slice()].concat()
}

fn capable(version: u8, keys: &[u64], rest: &[u8]) -> Vec<u8> {
    let keys: Vec<u8> = keys.iter().flat_map(|key| key.to_be_bytes()).collect();
    value(CAPABLE, version, &[&[0x81], &keys, rest])
}

fn row(found: Option<SignalRow>) -> Option<(u8, u32, u32, u32, i32)> {
    found.map(|row| (row.has, row.ack, row.seq, row.start, row.size))
}

/// Both keys are known from the handshake of either version, whoever sent first; until then it is not agreed.
#[test]
fn handshakes() {
    for first in [0, 1] {
        for (version, of_syn) in [(0, &KEYS[..1]), (1, &[][..])] {
            let mut subflow = Subflow::default();
            assert!(subflow.take(&capable(version, of_syn, &[]), SYN, first).is_none());
            assert!(!subflow.is_agreed && subflow.is_opening());
            assert!(subflow.take(&capable(version, &KEYS[1..], &[]), SYN | ACK, 1 - first).is_none());
            assert!(subflow.is_agreed);
            assert!(subflow.take(&capable(version, &KEYS, &[]), ACK, first).is_none());
            let mut keys = KEYS.map(Some);
            keys.rotate_left(first);
            assert_eq!((subflow.version, subflow.keys, subflow.is_opening()), (Some(version), keys, false));
        }
    }
}

/// The first data of version 1 repeat the keys, and begin at the connection's first byte, with a checksum or without.
#[test]
fn first_data() {
    for rest in [&[1, 4][..], &[1, 4, 0xab, 0xcd]] {
        let mut subflow = Subflow::default();
        assert_eq!(row(subflow.take(&capable(1, &KEYS, rest), ACK, 0)), Some((MAPPING | FIRST, 0, 0, 1, 260)));
        assert_eq!(subflow.keys, KEYS.map(Some));
    }
}

/// A client that tries again with another key has no other: nothing is left of the first.
#[test]
fn another_try() {
    let mut subflow = Subflow::default();
    for key in KEYS {
        subflow.take(&capable(0, &[key], &[]), SYN, 0);
        assert_eq!(subflow.keys, [Some(key), None]);
    }
}

/// The SYN of a MP_JOIN has the token of its receiver; what answers it has none.
#[test]
fn joins() {
    let mut subflow = Subflow::default();
    subflow.take(&value(JOIN, 1, &[&[3], &0xdead_beef_u32.to_be_bytes(), &[0; 4]]), SYN, 1);
    assert_eq!((subflow.joins, subflow.is_agreed), (Some((1, 0xdead_beef)), false));
    subflow.take(&value(JOIN, 0, &[&[3], &[9; 12]]), SYN | ACK, 0);
    subflow.take(&value(JOIN, 0, &[&[0], &[9; 20]]), ACK, 1);
    assert_eq!((subflow.joins, subflow.is_agreed, subflow.version), (Some((1, 0xdead_beef)), true, None));
}

/// DATA_ACKs and numbers of 4 and of 8 bytes, each with and without the other, with and without a checksum.
#[test]
fn numbers() {
    let (ack, seq) = (0x0102_0304_ffff_fff0_u64, 0x0506_0708_8000_0001_u64);
    let (ack4, seq4) = (ack.to_be_bytes()[4..].to_vec(), seq.to_be_bytes()[4..].to_vec());
    let (ack8, seq8) = (ack.to_be_bytes().to_vec(), seq.to_be_bytes().to_vec());
    let mapping = [7_u32.to_be_bytes().as_slice(), &[0x05, 0xa8]].concat();
    let (ack, seq) = (ack as u32, seq as u32);
    for (flags, bytes) in [(1, &ack4), (3, &ack8), (0x11, &ack4)] {
        assert_eq!(row(dss(&value(DSS, 0, &[&[flags], bytes]))), Some((DATA_ACK, ack, 0, 0, 0)));
        for (more, number) in [(4, &seq4), (12, &seq8)] {
            for checksum in [&[][..], &[1, 2]] {
                let whole = value(DSS, 0, &[&[flags | more], bytes, number, &mapping, checksum]);
                assert_eq!(row(dss(&whole)), Some((DATA_ACK | MAPPING, ack, seq, 7, 1448)));
                // What is cut off is not known; what stands in front of it is.
                let cut = dss(&whole[..2 + bytes.len() + 3]);
                assert_eq!(row(cut), Some((DATA_ACK, ack, 0, 0, 0)));
            }
        }
    }
    assert_eq!(row(dss(&value(DSS, 0, &[&[4], &seq4, &mapping]))), Some((MAPPING, 0, seq, 7, 1448)));
    assert_eq!(row(dss(&value(DSS, 0, &[&[1], &ack4[..3]]))), None);
}

proptest! {
    #![proptest_config(cases(4000))]

    /// Any bytes in packets with any flags: it ends, and a row has what it says.
    #[test]
    fn anything(options in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..38), any::<u8>(), 0usize..2), 1..5)) {
        let mut subflow = Subflow::default();
        for (value, flags, direction) in &options {
            if let Some(found) = subflow.take(value, *flags, *direction) {
                prop_assert!(found.has & (DATA_ACK | MAPPING) != 0 && (0..=0xffff).contains(&found.size));
            }
        }
    }
}
