//! Formats without a byte order of their own: Solaris snoop, and ERF, which has not even a magic number.

use super::*;

fn snoop(version: u32, datalink: u32) -> Out {
    Out::new(true).data(b"snoop\0\0\0").u32s([version, datalink])
}

trait Records {
    fn snooped(self, data: &[u8], wire: u32, padding: usize, drops: u32, time: [u32; 2]) -> Self;
    fn erf(self, stamp: u64, kind: u8, behind: &[u8], wire: u16, lost: u16) -> Self;
}

impl Records for Out {
    fn snooped(self, data: &[u8], wire: u32, padding: usize, drops: u32, time: [u32; 2]) -> Out {
        let length = data.len() as u32;
        self.u32s([wire, length, 24 + length + padding as u32, drops]).u32s(time).data(data).data(&vec![0xee; padding])
    }

    /// A record of port 2, filled up to a multiple of 8 bytes.
    fn erf(self, stamp: u64, kind: u8, behind: &[u8], wire: u16, lost: u16) -> Out {
        let padding = behind.len().next_multiple_of(8) - behind.len();
        let length = (16 + behind.len() + padding) as u16;
        let out = self.data(&stamp.to_le_bytes()).data(&[kind, 0x06]).u16s([length, lost, wire]);
        out.data(behind).data(&[0xee; 8][..padding])
    }
}

pub(super) fn small_snoop() -> Vec<u8> {
    let out = snoop(2, 4).snooped(b"abc", 3, 1, 0, [10, 1]).snooped(b"de", 9, 2, 0, [11, 2]);
    out.snooped(b"", 0, 0, 0, [12, 3]).bytes
}

/// A stamp: seconds, and nanoseconds rounded down as cards do.
fn stamp(seconds: u64, ns: u64) -> u64 {
    (seconds << 32) + (ns << 32) / 1_000_000_000
}

pub(super) fn small_erf() -> Vec<u8> {
    let out = Out::new(true).erf(stamp(10, 1000), 2, b"\0\0abc", 3, 0);
    out.erf(stamp(11, 2000), 2, b"\0\0deXXXX", 9, 0).erf(stamp(12, 3000), 2, b"\0\0", 0, 0).bytes
}

/// Padding is no part of a packet, drops are counted from the beginning of the capture on.
#[test]
fn snoop_records() {
    let (packets, info) = read(&small_snoop());
    assert_eq!(packets, small_packets());
    assert_eq!(info, Info { format: "snoop", snaplen: Some(2), ..Info::default() });
    let out = snoop(2, 4).snooped(b"x", 1, 0, 3, [1, 0]).snooped(b"y", 1, 0, 3, [2, 0]).snooped(b"z", 1, 0, 5, [3, 0]);
    assert_eq!(read(&out.bytes).1.dropped, 5);
}

/// Datalink types become those of pcap; other types, versions and Surveyor's files are left to Wireshark.
#[test]
fn snoop_links() {
    let of = |out: Out| reader(&out.snooped(b"x", 1, 3, 0, [1, 0]).bytes);
    for (datalink, link) in [(0, 1), (4, 1), (2, 6), (8, 10), (9, 0), (14, 0), (26, 242), (0x8000_0005, 226)] {
        assert_eq!(drain(&mut of(snoop(2, datalink)).unwrap())[0].link, link, "{datalink}");
    }
    for out in [snoop(2, 5), snoop(3, 4), snoop(2, 4).snooped(b"x", 1, 16, 0, [1, 0])] {
        assert!(matches!(of(out), Err(Error::NotACapture(_))));
    }
    assert_eq!(read(&snoop(2, 4).bytes).0, []);
}

/// ERF: the fraction is rounded to the ns that it was made of, what fills a record up is none of the packet.
#[test]
fn erf_records() {
    let (packets, info) = read(&small_erf());
    let of_port = |packet: Kept| Kept { interface: 2, ..packet };
    let mut expected: Vec<_> = small_packets().into_iter().map(of_port).collect();
    expected[1].captured = b"deXXXX".to_vec();
    assert_eq!(packets, expected);
    assert_eq!((info.format, info.snaplen, info.dropped), ("erf", Some(6), 0));

    let nanos = [0, 1, 999, 123_456_789, 999_999_999];
    let out = nanos.iter().fold(Out::new(true), |out, ns| out.erf(stamp(7, *ns), 2, b"\0\0abcd", 4, 0));
    let times: Vec<_> = read(&out.bytes).0.iter().map(|packet| packet.t_ns - 7_000_000_000).collect();
    assert_eq!(times, nanos.map(|ns| ns as i64));
}

/// Each kind of record has its link type and headers; losses are counted, padding records are skipped.
#[test]
fn erf_kinds() {
    let out = Out::new(true).erf(0, 2, b"\0\0e", 1, 3).erf(0, 48, b"pad", 0, 9).erf(0, 11, b"\0\0e", 1, 9);
    let out = out.erf(0, 0x82, b"\x80extens\x80\0xtensio\0\0e", 1, 4).erf(0, 1, b"h", 1, 0).erf(0, 5, b"mmmmh", 1, 0);
    let (packets, info) = read(&out.erf(0, 22, b"4", 1, 0).erf(0, 23, b"6", 1, 0).erf(0, 3, b"atm", 3, 0).bytes);
    let found: Vec<_> = packets.iter().map(|packet| (packet.link, &packet.captured[..])).collect();
    let known = [(1, b"e"), (1, b"e"), (1, b"e"), (50, b"h"), (50, b"h"), (228, b"4"), (229, b"6")];
    assert_eq!(found[..7], known.map(|(link, bytes)| (link, &bytes[..])));
    // What is not known keeps the record's header.
    assert_eq!((found[7].0, found[7].1.len(), info.dropped), (197, 24, 7));
}

/// No text, no zeros and no other format passes for ERF, nor records whose times leap.
#[test]
fn no_erf() {
    let leap =
        |seconds| Out::new(true).erf(stamp(10, 0), 2, b"\0\0", 0, 0).erf(stamp(seconds, 0), 2, b"\0\0", 0, 0).bytes;
    assert!(reader(&leap(12)).is_ok());
    let short = Out::new(true).data(&[0; 8]).data(&[2, 0, 0, 15, 0, 0, 0, 0]).bytes;
    let text = b"GET / HTTP/1.1 and so on, for longer than a header".to_vec();
    let cut = small_erf()[..40].to_vec();
    for bytes in [leap(4), leap(40_000_000), vec![0; 400], short, text, cut] {
        assert!(matches!(reader(&bytes), Err(Error::NotACapture(_))));
    }
}

/// Cut anywhere, a file yields the packets in front of the cut, and says so; ERF has to be long enough to be known.
#[test]
fn cut_foreign_anywhere() {
    let erf = (0..9).fold(Out::new(true), |out, n| out.erf(stamp(10 + n, 0), 2, b"\0\0abcdef", 6, 0)).bytes;
    for whole in [small_snoop(), erf] {
        let packets = read(&whole).0;
        for length in 0..whole.len() {
            let Ok(mut reader) = reader(&whole[..length]) else { continue };
            let found = drain(&mut reader);
            assert!(packets.starts_with(&found) && found.len() < packets.len());
        }
        let damage = read(&whole[..whole.len() - 1]).1.damage.expect("damage");
        assert_eq!(damage, format!("after packet {} the file ends in the middle of a record", packets.len() - 1));
    }
    let long = snoop(2, 4).snooped(b"x", 1, 3, 0, [1, 0]).u32s([3, 3, 90_000, 0, 1, 0]).data(b"abc");
    assert_eq!(read(&long.bytes).1.damage.unwrap(), "after packet 1 comes a record of 90000 bytes with a packet of 3");
}
