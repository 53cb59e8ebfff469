//! Captures in, the rows of file news out.

use super::*;
use crate::decoder::Decoder;
use crate::rpc::tests::build::{Bytes, words};
use crate::testing::*;

const DIR: &[u8] = b"directory";

fn lookup(xid: u32, name: &[u8]) -> Vec<u8> {
    call(xid, [100_003, 3, 3], &Bytes::default().opaque(DIR).opaque(name))
}

/// NFS3_OK and a handle.
fn found(xid: u32, handle: &[u8]) -> Vec<u8> {
    reply(xid, &Bytes::default().opaque(handle).words(&[0, 0]).0)
}

fn readdirplus(xid: u32) -> Vec<u8> {
    call(xid, [100_003, 3, 17], &Bytes::default().opaque(DIR).hypers(&[0, 0]).words(&[4096, 65536]))
}

/// A listing of names "0", "1" and so on, each with its handle.
fn listing(xid: u32, count: usize) -> Vec<u8> {
    let head = words(&[0]).hypers(&[0]);
    let all = (0..count).fold(head, |all, number| {
        let name = number.to_string();
        all.words(&[1]).hypers(&[1]).opaque(name.as_bytes()).hypers(&[2]).words(&[0, 1]).opaque(&handle(number))
    });
    reply(xid, &all.words(&[0, 1]).0)
}

fn handle(number: usize) -> Vec<u8> {
    format!("the handle of {number}").into_bytes()
}

/// Op, name and handle.
fn lines(decoder: &Decoder) -> Vec<(i32, Vec<u8>, Vec<u8>)> {
    let files = &decoder.pairing.files;
    let names: Vec<&[u8]> = decoder.pairing.names.iter().collect();
    let handles: Vec<&[u8]> = files.handles.iter().collect();
    let line = |row: usize| {
        let (name, handle) = (names[files.name[row] as usize], handles[files.handle[row] as usize]);
        (files.op[row], name.to_vec(), handle.to_vec())
    };
    (0..files.op.len()).map(line).collect()
}

fn listed(count: usize) -> Vec<(i32, Vec<u8>, Vec<u8>)> {
    (0..count).map(|number| (0, number.to_string().into_bytes(), handle(number))).collect()
}

/// A listing is read to its end in segments of any size, and in record fragments.
#[test]
fn long_listings() {
    let message = listing(7, 40);
    for stream in [record(&message), fragments(&message, &[100, 1000]), fragments(&message, &[2, 50, 700, 3])] {
        for size in [1, 3, 100, 1024, 1460, 100_000] {
            let mut capture = Capture::new();
            capture.handshake(CLIENT, SERVER);
            capture.tcp(&tcp(CLIENT, SERVER).data(&record(&readdirplus(7))));
            for (number, part) in stream.chunks(size).enumerate() {
                capture.later_us(10).tcp(&tcp(SERVER, CLIENT).seq(1 + (number * size) as u32).data(part));
            }
            // What follows is not part of it.
            capture.tcp(&tcp(SERVER, CLIENT).seq(1 + stream.len() as u32).data(&record(&listing(8, 3))));
            let decoder = capture.end();
            assert_eq!(lines(&decoder), listed(40), "{size}");
            assert_eq!(decoder.tally.collected_bytes, 0);
        }
    }
}

/// Segments in any order, or sent twice, make no difference.
#[test]
fn out_of_order() {
    let stream = record(&listing(7, 40));
    let parts: Vec<(usize, &[u8])> = stream.chunks(500).enumerate().collect();
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&tcp(CLIENT, SERVER).data(&record(&readdirplus(7))));
    for (number, part) in [0, 2, 1, 1, 4, 3].into_iter().map(|at| parts[at]).chain(parts[5..].iter().copied()) {
        capture.later_us(10).tcp(&tcp(SERVER, CLIENT).seq(1 + (number * 500) as u32).data(part));
    }
    assert_eq!(lines(&capture.end()), listed(40));
}

/// Of a listing with a hole, or whose packets are cut, the entries in front of it are read.
#[test]
fn holes() {
    let stream = record(&listing(7, 40));
    for is_cut in [false, true] {
        let mut capture = Capture::new();
        capture.tcp(&tcp(CLIENT, SERVER).data(&record(&readdirplus(7))));
        for (number, part) in stream.chunks(500).enumerate() {
            let segment = tcp(SERVER, CLIENT).seq(1 + (number * 500) as u32).data(part);
            if is_cut {
                capture.cut_tcp(&segment, if number == 2 { 100 } else { usize::MAX });
            } else if number != 2 {
                capture.tcp(&segment);
            }
        }
        let decoder = capture.end();
        let rows = lines(&decoder);
        assert!((10..30).contains(&rows.len()), "{}", rows.len());
        assert_eq!(rows, listed(rows.len()));
        assert_eq!(decoder.tally.collected_bytes, 0);
    }
}

/// Over UDP, too; rows are in the order of the replies, and name the ops in that of the calls.
#[test]
fn order() {
    let mut capture = Capture::new();
    for xid in [1, 2] {
        capture.later_us(10).udp(CLIENT, SERVER, xid as u16, &lookup(xid, &[b'0' + xid as u8]));
    }
    for xid in [2, 1] {
        capture.later_us(10).udp(SERVER, CLIENT, 10 + xid as u16, &found(xid, &handle(xid as usize)));
    }
    let expected = vec![(1, b"2".to_vec(), handle(2)), (0, b"1".to_vec(), handle(1))];
    let decoder = capture.end();
    assert_eq!(lines(&decoder), expected);
    assert_eq!(decoder.pairing.files.t_ns, [30_000, 40_000]);
}

/// A call that was not answered says nothing, and ops behind it keep their own rows.
#[test]
fn unanswered() {
    let mut capture = Capture::new();
    let mut seq = 1;
    for xid in [1, 2] {
        let message = record(&lookup(xid, &[b'0' + xid as u8]));
        capture.later_us(10).tcp(&tcp(CLIENT, SERVER).seq(seq).data(&message));
        seq += message.len() as u32;
    }
    capture.later_us(10).tcp(&tcp(SERVER, CLIENT).data(&record(&found(2, &handle(2)))));
    assert_eq!(lines(&capture.end()), vec![(0, b"2".to_vec(), handle(2))]);
}

/// What RPC answered with an error says nothing; of a second answer nothing is taken.
#[test]
fn refused() {
    let mut capture = Capture::new();
    capture.udp(CLIENT, SERVER, 1, &lookup(1, b"a"));
    capture.udp(SERVER, CLIENT, 2, &words(&[1, 1, 0, 0, 0, 5]).0);
    capture.udp(SERVER, CLIENT, 3, &found(1, &handle(1)));
    assert_eq!(lines(&capture.end()), vec![]);
}

/// Rows beyond those that are kept are counted.
#[test]
fn bounded() {
    let mut capture = Capture::new();
    capture.udp(CLIENT, SERVER, 1, &readdirplus(1));
    capture.udp(SERVER, CLIENT, 2, &listing(1, MOST_ROWS + 5));
    let decoder = capture.end();
    assert_eq!(lines(&decoder), listed(MOST_ROWS));
    assert_eq!(decoder.pairing.files.dropped, 5);
}
