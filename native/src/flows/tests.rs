//! More connections than are kept in, a bounded number of them out.

use super::*;
use crate::decoder::Kind;
use crate::testing::*;

fn kind(capture: &Capture, kind: Kind) -> u64 {
    capture.so_far().kinds[kind as usize]
}

/// Connections without RPC make room for others, those silent longest first; one with RPC stays.
#[test]
fn idle_connections_are_forgotten() {
    let mut capture = Capture::new();
    capture.tcp(&tcp(CLIENT, SERVER).data(&record(&read(1, 0, 512)))); // 1
    for port in 0..40 * MOST as u16 {
        capture.tcp(&tcp((3, 1000 + port), (4, 80)).data(b"GET / HTTP/1.1\r\n\r\n"));
    }
    assert_eq!(kind(&capture, Kind::Untracked), 0);
    assert_eq!((capture.so_far().flows.list.len(), capture.so_far().flows.by_key.len() <= MOST), (MOST, true));
    let last = capture.tcp(&tcp(SERVER, CLIENT).data(&record(&reply(1, &[])))) as i32;
    assert_eq!(ops(&capture.end()), [(1, (1, 1), (last, last), 1, true)]);
}

/// Where all connections have shown RPC a further one is not followed, and its packets are counted.
#[test]
fn too_many_with_rpc() {
    let mut capture = Capture::new();
    for port in 0..MOST as u16 {
        capture.tcp(&tcp((3, 1000 + port), SERVER).data(&record(&read(1, 0, 512))));
    }
    for port in 0..100 {
        capture.tcp(&tcp((5, 1000 + port), SERVER).data(&record(&read(1, 0, 512))));
        capture.udp((5, 1000 + port), SERVER, 1, &read(1, 0, 512));
    }
    assert_eq!((kind(&capture, Kind::Rpc), kind(&capture, Kind::Untracked)), (MOST as u64, 200));
    let decoder = capture.end();
    assert_eq!((decoder.tally.connections.len(), loose(&decoder).len()), (MOST, MOST));
}

/// What forgotten connections held ahead of holes is not held any more.
#[test]
fn held_data_is_forgotten_with_its_connection() {
    let mut capture = Capture::new();
    for port in 0..3 * MOST as u16 {
        capture.tcp(&tcp((3, 1000 + port), (4, 80)).seq(1).data(&[7; 100]));
        capture.tcp(&tcp((3, 1000 + port), (4, 80)).seq(201).data(&[7; 100])); // 101 to 200 are missing
    }
    assert!(capture.so_far().tally.held_bytes <= 100 * MOST);
    assert_eq!(capture.end().tally.held_bytes, 0);
}

/// TCP and UDP between the same endpoints are two connections, and either direction belongs to the same one.
#[test]
fn connections_are_told_apart() {
    let mut flows = Flows::default();
    let (there, back) = (ends4(CLIENT, SERVER), ends4(SERVER, CLIENT));
    let mut find = |ends, is_udp| flows.find(&ends, is_udp, 0, &mut 0);
    assert_eq!(find(there, false), Some((0, 0)));
    assert_eq!(find(there, true), Some((1, 0)));
    assert_eq!(find(back, false), Some((0, 1)));
    assert_eq!(find(back, true), Some((1, 1)));
    assert_eq!(find(ends4((1, 2049), (2, 700)), false), Some((2, 0))); // the same ports the other way round
    assert_eq!(find(there, false), Some((0, 0)));
}
