//! Packets in, those of some spans out.

use std::fs;

use super::*;
use crate::container::Reader;
use crate::testing::*;

/// Frames as a file of pcap, and what is cut of it: numbers, and the frames that stand in it.
fn cut_of(name: &str, frames: &[Vec<u8>], spans: &[Span]) -> (Vec<u32>, Vec<Vec<u8>>) {
    let out = std::env::temp_dir().join(format!("nfslat-{}-cut-{name}", std::process::id()));
    let mut file: Vec<u8> =
        [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 1 << 18, 1].iter().flat_map(|word| word.to_be_bytes()).collect();
    file[4..8].copy_from_slice(&[0, 2, 0, 4]);
    for (at, frame) in frames.iter().enumerate() {
        let length = frame.len() as u32;
        file.extend([1_700_000_000, at as u32, length, length].iter().flat_map(|word| word.to_be_bytes()));
        file.extend(frame);
    }
    let numbers = cut(Ok(Box::new(io::Cursor::new(file))), &out, spans).unwrap();
    let mut reader = Reader::open(Box::new(fs::File::open(&out).unwrap())).unwrap();
    let mut written = Vec::new();
    while let Some(packet) = reader.next().unwrap() {
        written.push(packet.captured.to_vec());
    }
    fs::remove_file(out).unwrap();
    (numbers, written)
}

fn of(first: u32, last: u32, from: End, to: End) -> Span {
    Span { first, last, ends: Some(ends4(from, to)) }
}

/// The packets of one direction, and those with which the connection begins.
#[test]
fn one_direction_and_the_handshake() {
    let other: End = (3, 701);
    let frames = [
        syn(CLIENT, SERVER, 99).frame(),
        syn_ack(SERVER, CLIENT, 199, 100).frame(),
        tcp(CLIENT, SERVER).seq(100).ack(200).frame(),
        tcp(other, SERVER).seq(5).data(b"other").frame(),
        tcp(CLIENT, SERVER).seq(100).ack(200).data(b"before").frame(),
        tcp(CLIENT, SERVER).seq(106).ack(200).data(b"one").frame(),
        tcp(SERVER, CLIENT).seq(200).ack(106).frame(),
        tcp(other, SERVER).seq(10).data(b"other").frame(),
        tcp(CLIENT, SERVER).seq(109).ack(200).data(b"two").frame(),
        tcp(CLIENT, SERVER).seq(112).ack(200).data(b"behind").frame(),
    ];
    let (numbers, written) = cut_of("direction", &frames, &[of(6, 9, CLIENT, SERVER)]);
    assert_eq!(numbers, [1, 2, 6, 9]);
    let expected: Vec<_> = numbers.iter().map(|number| frames[*number as usize - 1].clone()).collect();
    assert_eq!(written, expected);
}

/// A connection that was there before the capture begins with the first packets that tell both numbers, and one that
/// comes again on its ports with its SYN.
#[test]
fn begins() {
    let frames = [
        tcp(CLIENT, SERVER).seq(100).flags(0).frame(),
        tcp(CLIENT, SERVER).seq(100).ack(200).frame(),
        tcp(SERVER, CLIENT).seq(200).ack(100).frame(),
        syn(CLIENT, SERVER, 7).frame(),
        syn_ack(SERVER, CLIENT, 9, 8).frame(),
        tcp(CLIENT, SERVER).seq(8).ack(10).data(b"one").frame(),
    ];
    assert_eq!(cut_of("begins", &frames, &[of(6, 6, CLIENT, SERVER)]).0, [1, 2, 4, 5, 6]);
}

/// All packets of a span without ends; of UDP its fragments, and packets of neither of them nowhere.
#[test]
fn others() {
    let arp = ethernet(0x0806, b"who has");
    let fragment = ethernet(0x0800, &ipv4(CLIENT.0, SERVER.0, 17, 5, 0x00b9, b"more"));
    let frames = [udp_frame(CLIENT, SERVER, 4, b"call"), arp, fragment, udp_frame(SERVER, CLIENT, 5, b"reply")];
    assert_eq!(cut_of("udp", &frames, &[of(1, 4, CLIENT, SERVER)]).0, [1, 3]);
    assert_eq!(cut_of("all", &frames, &[Span { first: 2, last: 3, ends: None }]).0, [2, 3]);
}
