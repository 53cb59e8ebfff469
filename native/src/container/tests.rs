//! Files built by hand in, packets out.

use std::io::Write;

use proptest::prelude::*;

use super::*;

mod snoop_and_erf;

/// A packet that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    t_ns: i64,
    link: u16,
    captured: Vec<u8>,
    wire_len: u32,
    interface: u32,
}

fn reader(bytes: &[u8]) -> Result<Reader, Error> {
    Reader::open(Box::new(io::Cursor::new(bytes.to_vec())))
}

fn drain(reader: &mut Reader) -> Vec<Kept> {
    let mut packets = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(Packet { t_ns, link, captured, wire_len, interface, .. })) => {
                packets.push(Kept { t_ns, link, captured: captured.to_vec(), wire_len, interface });
            }
            Ok(None) => return packets,
            Err(_) => {}
        }
    }
}

fn read(bytes: &[u8]) -> (Vec<Kept>, Info) {
    let mut reader = reader(bytes).expect("a capture");
    (drain(&mut reader), reader.info().clone())
}

/// Writes numbers in one byte order.
struct Out {
    big: bool,
    bytes: Vec<u8>,
}

impl Out {
    fn new(big: bool) -> Out {
        Out { big, bytes: Vec::new() }
    }

    fn number(mut self, value: u64, length: usize) -> Out {
        match self.big {
            true => self.bytes.extend(&value.to_be_bytes()[8 - length..]),
            false => self.bytes.extend(&value.to_le_bytes()[..length]),
        }
        self
    }

    fn u16s<const N: usize>(self, values: [u16; N]) -> Out {
        values.into_iter().fold(self, |out, value| out.number(value.into(), 2))
    }

    fn u32s<const N: usize>(self, values: [u32; N]) -> Out {
        values.into_iter().fold(self, |out, value| out.number(value.into(), 4))
    }

    fn data(mut self, data: &[u8]) -> Out {
        self.bytes.extend(data);
        self
    }

    fn padded(self, data: &[u8]) -> Out {
        let padding = data.len().next_multiple_of(4) - data.len();
        self.data(data).data(&[0; 3][..padding])
    }

    fn option(self, code: u16, value: &[u8]) -> Out {
        self.u16s([code, value.len() as u16]).padded(value)
    }

    fn block(self, kind: u32, body: impl FnOnce(Out) -> Out) -> Out {
        let body = body(Out::new(self.big)).bytes;
        let length = body.len() as u32 + 12;
        self.u32s([kind, length]).data(&body).u32s([length])
    }

    fn section(self) -> Out {
        self.block(0x0a0d_0d0a, |out| out.u32s([0x1a2b_3c4d]).u16s([1, 0]).number(u64::MAX, 8))
    }

    fn interface(self, link: u16, snaplen: u32, options: impl FnOnce(Out) -> Out) -> Out {
        self.block(1, |out| options(out.u16s([link, 0]).u32s([snaplen])))
    }

    fn enhanced(self, interface: u32, stamp: u64, data: &[u8], wire: u32, options: impl FnOnce(Out) -> Out) -> Out {
        let (high, low, length) = ((stamp >> 32) as u32, stamp as u32, data.len() as u32);
        self.block(6, |out| options(out.u32s([interface, high, low, length, wire]).padded(data)))
    }

    fn counts(self, interface: u32, options: impl FnOnce(Out) -> Out) -> Out {
        self.block(5, |out| options(out.u32s([interface, 0, 0])))
    }

    fn pcap(self, magic: u32, link: u32) -> Out {
        self.u32s([magic]).u16s([2, 4]).u32s([0, 0, 65535, link])
    }
}

fn none(out: Out) -> Out {
    out
}

const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

fn small_pcap(big: bool) -> Vec<u8> {
    let out = Out::new(big).pcap(MICRO, 1);
    out.u32s([10, 1, 3, 3]).data(b"abc").u32s([11, 2, 2, 9]).data(b"de").u32s([12, 3, 0, 0]).bytes
}

fn small_pcapng(big: bool) -> Vec<u8> {
    let out = Out::new(big).section().interface(1, 0, none);
    let out = out.enhanced(0, 10_000_001, b"abc", 3, none).enhanced(0, 11_000_002, b"de", 9, none);
    out.block(0x8000_0bad, |out| out.data(b"skip")).enhanced(0, 12_000_003, b"", 0, none).bytes
}

fn small_packets() -> Vec<Kept> {
    let packet = |t_ns, captured: &[u8], wire_len| {
        let captured = captured.to_vec();
        Kept { t_ns, link: 1, captured, wire_len, interface: 0 }
    };
    vec![packet(10_000_001_000, b"abc", 3), packet(11_000_002_000, b"de", 9), packet(12_000_003_000, b"", 0)]
}

fn squeezed(kind: &str, bytes: &[u8]) -> Vec<u8> {
    match kind {
        "gzip" => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(bytes).and_then(|()| out.finish()).unwrap()
        }
        "bzip2" => {
            let mut out = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            out.write_all(bytes).and_then(|()| out.finish()).unwrap()
        }
        "lz4" => {
            let settings = lz4_flex::frame::FrameInfo::new().content_checksum(true);
            let mut out = lz4_flex::frame::FrameEncoder::with_frame_info(settings, Vec::new());
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        "zstd" => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            ruzstd::encoding::compress_to_vec(bytes, level)
        }
        // By xz 5.4: the crate's encoder is a feature that nothing else needs.
        _ => xz_stored(bytes),
    }
}

/// An xz stream without a checksum, of one LZMA2 chunk that is stored.
fn xz_stored(bytes: &[u8]) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum().to_le_bytes()
    };
    let mut chunk = vec![1];
    chunk.extend((bytes.len() as u16 - 1).to_be_bytes());
    chunk.extend(bytes);
    chunk.push(0);

    let mut out = b"\xfd7zXZ\0\0\0".to_vec();
    out.extend(crc(&[0, 0]));
    // Block header of 12 bytes: one filter, LZMA2 (0x21) with a dictionary of 4 KiB.
    let header = [2, 0, 0x21, 1, 0, 0, 0, 0];
    out.extend(header);
    out.extend(crc(&header));
    let unpadded = 12 + chunk.len() as u64;
    out.extend(&chunk);
    out.resize(out.len().next_multiple_of(4), 0);

    let mut index = vec![0, 1];
    for mut number in [unpadded, bytes.len() as u64] {
        while number > 0x7f {
            index.push(number as u8 | 0x80);
            number >>= 7;
        }
        index.push(number as u8);
    }
    index.resize(index.len().next_multiple_of(4), 0);
    let sum = crc(&index);
    index.extend(sum);
    out.extend(&index);

    let mut footer = (index.len() as u32 / 4 - 1).to_le_bytes().to_vec();
    footer.extend([0, 0]);
    out.extend(crc(&footer));
    out.extend(footer);
    out.extend(b"YZ");
    out
}

const KINDS: [&str; 5] = ["gzip", "bzip2", "lz4", "zstd", "xz"];

/// pcap of microseconds, either byte order: times, lengths and link type; `snaplen` from packets that were cut only.
#[test]
fn pcap_micro() {
    for big in [false, true] {
        let (packets, info) = read(&small_pcap(big));
        assert_eq!(packets, small_packets());
        assert_eq!(info, Info { format: "pcap", snaplen: Some(2), ..Info::default() });
    }
}

/// pcap of nanoseconds: the fraction is not scaled.
#[test]
fn pcap_nano() {
    for big in [false, true] {
        let (packets, info) = read(&Out::new(big).pcap(NANO, 1).u32s([1, 999_999_999, 1, 1]).data(b"x").bytes);
        assert_eq!((packets[0].t_ns, info.format, info.snaplen), (1_999_999_999, "nsecpcap", None));
    }
}

/// Modified pcap: its eight bytes more in front of each packet are no part of the packet.
#[test]
fn pcap_modified() {
    for big in [false, true] {
        let out = Out::new(big).pcap(MODIFIED, 113);
        let out = out.u32s([1, 2, 1, 1, 7, 7]).data(b"x").u32s([1, 3, 1, 1, 7, 7]).data(b"y");
        let (packets, info) = read(&out.bytes);
        assert_eq!(info.format, "modpcap");
        assert_eq!((packets[1].t_ns, packets[1].link, &packets[1].captured[..]), (1_000_003_000, 113, &b"y"[..]));
    }
}

/// In old pcap versions the length on the wire comes first, in 2.3 it may.
#[test]
fn pcap_old_versions() {
    for (minor, lengths) in [(1, [9, 2]), (2, [9, 2]), (3, [9, 2]), (3, [2, 9]), (4, [2, 9])] {
        let out = Out::new(true).u32s([MICRO]).u16s([2, minor]).u32s([0, 0, 65535, 1]);
        let (packets, info) = read(&out.u32s([1, 1]).u32s(lengths).data(b"ab").bytes);
        let packet = &packets[0];
        assert_eq!((&packet.captured[..], packet.wire_len, info.over_long), (&b"ab"[..], 9, 0));
    }
}

/// The upper half of pcap's link type field, a frame check sequence of 4 bytes here, is not part of the link type.
#[test]
fn pcap_link_with_fcs() {
    let (packets, _) = read(&Out::new(false).pcap(MICRO, 0x4400_0001).u32s([1, 1, 0, 0]).bytes);
    assert_eq!(packets[0].link, 1);
}

/// The last second that 32 bits hold is in range.
#[test]
fn pcap_last_second() {
    let (packets, _) = read(&Out::new(false).pcap(MICRO, 1).u32s([u32::MAX, u32::MAX, 0, 0]).bytes);
    assert_eq!(packets[0].t_ns, 4_294_967_295 * 1_000_000_000 + 4_294_967_295 * 1000);
}

/// More bytes captured than on the wire: counted, and the wire has as many.
#[test]
fn over_long() {
    let (packets, info) = read(&Out::new(false).pcap(MICRO, 1).u32s([1, 1, 3, 2]).data(b"abc").bytes);
    assert_eq!((packets[0].wire_len, info.over_long, info.snaplen), (3, 1, None));
}

/// A packet as long as the limit is read, through a buffer that grows; one byte more is damage, except in D-Bus captures.
#[test]
fn longest_packets() {
    let file = |link, length: u32| {
        Out::new(false).pcap(MICRO, link).u32s([1, 1, length, length]).data(&vec![7; length as usize]).bytes
    };
    let (packets, info) = read(&file(1, 262_144));
    assert_eq!((packets[0].captured.len(), info.damage), (262_144, None));
    let (packets, info) = read(&file(1, 262_145));
    let damage = "before the first packet comes one of 262145 bytes, and 262144 are the most that one can have";
    assert_eq!((packets.len(), info.damage.as_deref()), (0, Some(damage)));
    let (packets, _) = read(&file(231, 3_000_000));
    assert_eq!(packets[0].captured.len(), 3_000_000);
}

/// A file without bytes is empty, also when it is compressed.
#[test]
fn empty() {
    assert!(matches!(reader(b""), Err(Error::Empty)));
    for kind in ["gzip", "bzip2", "lz4", "zstd"] {
        assert!(matches!(reader(&squeezed(kind, b"")), Err(Error::Empty)), "{kind}");
    }
}

/// A file of another format is refused with its first bytes, those behind the decompressor.
#[test]
fn not_a_capture() {
    let refused = |bytes: &[u8]| match reader(bytes) {
        Err(Error::NotACapture(first)) => first,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("taken for a capture"),
    };
    assert_eq!(refused(b"snoop\0\0\0\0\0\0\x02"), *b"snoop\0\0\0");
    assert_eq!(refused(b"ab"), *b"ab\0\0\0\0\0\0");
    for kind in KINDS {
        assert_eq!(refused(&squeezed(kind, b"hello world")), *b"hello wo", "{kind}");
    }
}

/// A version of the formats that is not known, and a header that is cut, are errors: nothing could be read.
#[test]
fn headers_that_cannot_be_read() {
    let old = Out::new(false).u32s([MICRO]).u16s([3, 0]).u32s([0, 0, 65535, 1]).bytes;
    let new = Out::new(false).block(0x0a0d_0d0a, |out| out.u32s([0x1a2b_3c4d]).u16s([2, 0]).number(0, 8)).bytes;
    let cut = &small_pcap(false)[..20];
    for bytes in [&old[..], &new[..], cut, &small_pcapng(false)[..20]] {
        let error = reader(bytes).err().expect("an error");
        assert!(matches!(error, Error::Header(_)), "{error}");
    }
}

/// pcapng of either byte order: as pcap, and unknown blocks are skipped.
#[test]
fn pcapng() {
    for big in [false, true] {
        let (packets, info) = read(&small_pcapng(big));
        assert_eq!(packets, small_packets());
        assert_eq!(info, Info { format: "pcapng", snaplen: Some(2), ..Info::default() });
    }
}

/// An unknown block that is longer than the buffer is skipped, too.
#[test]
fn pcapng_long_unknown_block() {
    let out = Out::new(false).section().interface(1, 0, none);
    let out = out.block(0x8000_0bad, |out| out.data(&vec![0; 3 << 20])).enhanced(0, 1, b"x", 1, none);
    assert_eq!(read(&out.bytes).0.len(), 1);
}

/// Each section has a byte order, interfaces, link types and clocks of its own.
#[test]
fn pcapng_sections() {
    let one = Out::new(false).section().interface(1, 0, none).interface(113, 0, |out| out.option(9, &[9]));
    let one = one.enhanced(1, 5, b"x", 1, none).enhanced(0, 6, b"y", 1, none);
    let two = Out::new(true).section().interface(276, 0, none).enhanced(0, 7, b"z", 1, none);
    let lost = two.enhanced(1, 8, b"!", 1, none);
    let (packets, info) = read(&[one.bytes, lost.bytes].concat());
    let seen: Vec<_> = packets.iter().map(|packet| (packet.t_ns, packet.link, packet.interface)).collect();
    assert_eq!(seen, [(5, 113, 1), (6000, 1, 0), (7000, 276, 0)]);
    let damage = "after packet 3 comes a block of interface 1, which was not described";
    assert_eq!(info.damage.as_deref(), Some(damage));
}

/// `if_tsresol` in powers of 10 and 2 and `if_tsoffset`: exact, rounded down, before 1970 as well.
#[test]
fn pcapng_clocks() {
    let t_ns = |resolution: u8, offset: i64, stamp| {
        let out = Out::new(false).section();
        let out = out.interface(1, 0, |out| out.option(9, &[resolution]).option(14, &offset.to_le_bytes()));
        read(&out.enhanced(0, stamp, b"", 0, none).bytes).0[0].t_ns
    };
    let stamp = 1_700_000_000_123_456_789;
    assert_eq!(t_ns(9, 0, stamp), 1_700_000_000_123_456_789);
    assert_eq!(t_ns(0, 0, 1_700_000_000), 1_700_000_000_000_000_000);
    assert_eq!(t_ns(12, 0, u64::MAX), 18_446_744_073_709_551);
    assert_eq!(t_ns(40, 0, u64::MAX), 0);
    assert_eq!(t_ns(127, 0, u64::MAX), 0);
    assert_eq!(t_ns(0x80, 0, 1_700_000_000), 1_700_000_000_000_000_000);
    // 2^-32 s: 1_700_000_000 s and the largest fraction.
    assert_eq!(t_ns(0xa0, 0, 1_700_000_000 << 32 | 0xffff_ffff), 1_700_000_000_999_999_999);
    assert_eq!(t_ns(0xff, 0, u64::MAX), 0);
    assert_eq!(t_ns(6, 1_700_000_000, 1), 1_700_000_000_000_001_000);
    assert_eq!(t_ns(6, -1, 1), -999_999_000);
}

/// A time that 64 bits of nanoseconds do not hold is an error that names the packet; reading goes on behind it.
#[test]
fn pcapng_time_out_of_range() {
    let out = Out::new(false).section().interface(1, 0, |out| out.option(9, &[0]));
    let out = out.enhanced(0, 1, b"a", 1, none).enhanced(0, u64::MAX, b"b", 1, none).enhanced(0, 3, b"c", 1, none);
    let mut reader = reader(&out.bytes).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().t_ns, 1_000_000_000);
    assert!(matches!(reader.next(), Err(Error::TimeOutOfRange { packet: 2, interface: 0 })));
    assert_eq!(reader.next().unwrap().unwrap().t_ns, 3_000_000_000);
}

/// Simple packets: the first interface's, cut at its snaplen, and with the time of the packet before, 0 if none is.
#[test]
fn pcapng_simple_packet() {
    let out = Out::new(true).section().interface(1, 4, none);
    let out = out.block(3, |out| out.u32s([3]).padded(b"abc")).enhanced(0, 5, b"d", 1, none);
    let out = out.block(3, |out| out.u32s([9]).padded(b"efgh"));
    let (packets, info) = read(&out.bytes);
    let seen: Vec<_> = packets.iter().map(|kept| (kept.t_ns, &kept.captured[..], kept.wire_len)).collect();
    assert_eq!(seen, [(0, &b"abc"[..], 3), (5000, b"d", 1), (5000, b"efgh", 9)]);
    assert_eq!((info.untimed, info.snaplen), (2, Some(4)));
}

/// The obsolete Packet Block: interface and drop count have 16 bits each; 0xffff drops are none that were counted.
#[test]
fn pcapng_packet_block() {
    for big in [false, true] {
        let packet = |out: Out, drops| {
            out.block(2, |out| out.u16s([1, drops]).u32s([1, 2, 3, 8]).padded(b"abc").option(2, &[0; 4]))
        };
        let out = Out::new(big).section().interface(1, 0, none).interface(113, 0, none);
        let (packets, info) = read(&packet(packet(out, 4), 0xffff).bytes);
        let t_ns = ((1 << 32) + 2) * 1000;
        assert_eq!(packets[0], Kept { t_ns, link: 113, captured: b"abc".to_vec(), wire_len: 8, interface: 1 });
        assert_eq!((packets.len(), info.dropped), (2, 4));
    }
}

/// Lost packets: an interface's last statistics, of interface and system; without statistics its packets' own counts.
#[test]
fn pcapng_dropped() {
    for big in [false, true] {
        let wide = |value: u64| {
            if big { value.to_be_bytes() } else { value.to_le_bytes() }
        };
        let out = Out::new(big).section().interface(1, 0, none).interface(1, 0, none);
        let out = out.enhanced(0, 1, b"abc", 3, |out| out.option(2, &[0; 4]).option(4, &wide(1000)).option(0, b""));
        let out = out.enhanced(1, 1, b"abc", 3, |out| out.option(4, &wide(7)));
        let out = out.counts(0, |out| out.option(4, &wide(99)).option(5, &wide(3)).option(0, b""));
        let out = out.counts(0, |out| out.option(5, &wide(10)).option(7, &wide(20)));
        let out = out.counts(1, |out| out.option(4, &wide(99)));
        assert_eq!(read(&out.bytes).1.dropped, 37);
    }
}

/// Blocks that contradict themselves are damage, and what came before them is read.
#[test]
fn pcapng_damage() {
    let good = Out::new(false).section().interface(1, 0, none).enhanced(0, 1, b"x", 1, none).bytes;
    let bad = [
        Out::new(false).u32s([0, 0, 0]).bytes,
        Out::new(false).u32s([6, 32, 0, 0, 0, 0, 0, 36]).bytes,
        Out::new(false).block(6, |out| out.u32s([0, 0, 0])).bytes,
        Out::new(false).block(6, |out| out.u32s([0, 0, 0, 5, 5, 0])).bytes,
        Out::new(false).block(6, |out| out.u32s([0, 0, 0, u32::MAX, 5, 0])).bytes,
        Out::new(false).block(3, |out| out.u32s([5, 0])).bytes,
        Out::new(false).block(5, |out| out.u32s([9, 0, 0]).option(5, &[0; 8])).bytes,
        Out::new(false).block(0x0a0d_0d0a, |out| out.data(&[0; 16])).bytes,
        Out::new(false).u32s([6, u32::MAX, 0]).bytes,
    ];
    for bad in bad {
        let (packets, info) = read(&[good.clone(), bad].concat());
        assert_eq!(packets.len(), 1);
        assert!(info.damage.expect("damage").starts_with("after packet 1 comes "));
    }
}

/// A block whose length does not count its padding is read, as Wireshark does.
#[test]
fn pcapng_length_without_padding() {
    let out = Out::new(false).section().interface(1, 0, none);
    let out = out.u32s([6, 33, 0, 0, 1, 1, 1]).padded(b"x").u32s([33]).enhanced(0, 2, b"y", 1, none);
    let (packets, info) = read(&out.bytes);
    assert_eq!((packets.len(), info.damage), (2, None));
}

/// A capture that is cut anywhere yields the packets in front of the cut, and says that it is cut unless none is missing.
#[test]
fn cut_anywhere() {
    for whole in [small_pcap(false), small_pcap(true), small_pcapng(false), small_pcapng(true)] {
        for length in 0..whole.len() {
            let Ok(mut reader) = reader(&whole[..length]) else {
                continue;
            };
            let packets = drain(&mut reader);
            assert!(small_packets().starts_with(&packets));
            assert!(packets.len() < 3 || length >= whole.len());
            assert_eq!(reader.bytes_read(), length as u64);
        }
        let damage = read(&whole[..whole.len() - 1]).1.damage;
        assert_eq!(damage.as_deref(), Some("after packet 2 the file ends in the middle of a record"));
    }
}

/// Each compression is undone, in several members, streams or frames as well, behind and between skippable frames.
#[test]
fn compressed() {
    let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"???"].concat();
    let whole = small_pcap(false);
    let (front, back) = whole.split_at(30);
    for kind in KINDS {
        let parts = [squeezed(kind, front), squeezed(kind, back)];
        let mut files = vec![squeezed(kind, &whole), parts.concat()];
        if matches!(kind, "lz4" | "zstd") {
            files.push([&skippable[..], &skippable, &files[0]].concat());
        }
        if kind == "zstd" {
            files.push(parts.join(&skippable[..]));
        }
        for file in files {
            let mut reader = reader(&file).unwrap();
            assert_eq!(drain(&mut reader), small_packets(), "{kind}");
            assert_eq!((&reader.info().damage, reader.bytes_read()), (&None, file.len() as u64), "{kind}");
        }
    }
}

/// A compressed capture that is cut anywhere yields packets from the front, and never passes for a whole one.
#[test]
fn compressed_and_cut_anywhere() {
    for kind in KINDS {
        let whole = squeezed(kind, &small_pcap(false));
        for length in 1..whole.len() {
            let Ok(mut reader) = reader(&whole[..length]) else {
                continue;
            };
            assert!(small_packets().starts_with(&drain(&mut reader)), "{kind} {length}");
            let damage = reader.info().damage.as_ref().expect("damage");
            assert!(damage.contains(&format!("{kind}: the compressed data end too early")), "{length} {damage}");
        }
    }
}

/// What a decompressor holds back as its window is delivered where the file is cut behind it.
#[test]
fn zstd_window_is_delivered() {
    let mut pcap = Out::new(false).pcap(MICRO, 1);
    for second in 0..30_000 {
        pcap = pcap.u32s([second, second.wrapping_mul(0x9e37_79b9), 4, 4]).data(b"abcd");
    }
    let whole = squeezed("zstd", &pcap.bytes);
    let (packets, info) = read(&whole[..whole.len() - whole.len() / 4]);
    assert!(packets.len() > 15_000 && packets.len() < 30_000, "{}", packets.len());
    assert!(info.damage.is_some());
}

/// Windows of gigabytes are refused: xz's before it is allocated, zstd's when it has grown beyond 64 MiB.
#[test]
fn windows_too_large() {
    // Block by block 128 KiB of the same byte, in a frame with a window of 4 GiB.
    let zstd = [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0xb0][..], &[2, 0, 0x10, b'x'].repeat(1000)].concat();
    let mut source = Source::open(Box::new(io::Cursor::new(zstd))).unwrap();
    assert!(!source.skip(u64::MAX));
    let failure = source.failure().expect("a failure").to_string();
    assert_eq!(failure, "zstd: its window is larger than 64 MiB");
    let mut xz = squeezed("xz", &small_pcap(false));
    // The dictionary's size is the fifth byte of the block header, behind the stream's 12 bytes: 40 stands for 4 GiB.
    xz[16] = 40;
    let mut crc = flate2::Crc::new();
    crc.update(&xz[12..20]);
    xz[20..24].copy_from_slice(&crc.sum().to_le_bytes());
    let error = reader(&xz).err().expect("an error");
    assert!(error.to_string().contains("mem"), "{error}");
}

/// An input that gives one byte at a time, as a pipe may, and is interrupted now and then, is read as well.
#[test]
fn byte_by_byte() {
    struct Drip(io::Cursor<Vec<u8>>, bool);
    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            match self.1 {
                true => Err(io::ErrorKind::Interrupted.into()),
                false => self.0.read(&mut buffer[..1]),
            }
        }
    }
    for kind in KINDS {
        for file in [small_pcapng(true), squeezed(kind, &small_pcapng(true))] {
            let mut reader = Reader::open(Box::new(Drip(io::Cursor::new(file), false))).unwrap();
            assert_eq!(drain(&mut reader), small_packets());
        }
    }
}

/// An input that fails in the middle is damage with the system's words; one that fails at once is an error.
#[test]
fn input_fails() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("device gone"))
        }
    }
    assert!(matches!(Reader::open(Box::new(Failing)), Err(Error::Io(_))));
    let head = io::Cursor::new(small_pcap(false)[..43].to_vec());
    let mut reader = Reader::open(Box::new(head.chain(Failing))).unwrap();
    assert_eq!(drain(&mut reader).len(), 1);
    let damage = "after packet 1 the file cannot be read: device gone";
    assert_eq!(reader.info().damage.as_deref(), Some(damage));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// No change of bytes in a valid file, compressed or not, makes the reader panic or give more than the file can hold.
    #[test]
    fn any_mutation(
        kind in 0..KINDS.len() + 2,
        which in 0..6_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = match which {
            0 | 1 => small_pcap(which == 0),
            2 | 3 => small_pcapng(which == 2),
            4 => snoop_and_erf::small_snoop(),
            _ => snoop_and_erf::small_erf(),
        };
        if let Some(kind) = KINDS.get(kind) {
            file = squeezed(kind, &file);
        }
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(file.len() - cut.index(file.len()) / 4);
        if let Ok(mut reader) = reader(&file) {
            for packet in drain(&mut reader) {
                prop_assert!(packet.wire_len as usize >= packet.captured.len());
            }
        }
    }
}

/// Nothing is packed like this but to fill memory, a disk, or the time of who looks at it; what is read until then counts.
#[test]
fn what_comes_to_far_more_than_it_was_is_not_read_on() {
    let mut file = small_pcap(true);
    let of_zeros = Out::new(true).u32s([13, 0, 200_000, 200_000]).data(&[0; 200_000]).bytes;
    (0..40).for_each(|_| file.extend_from_slice(&of_zeros));
    let plain = packets(&file).0;
    let bomb = squeezed("bzip2", &file);
    assert!(bomb.len() < 2048, "{}", bomb.len());
    let (read, damage) = packets(&bomb);
    assert!(read > 0 && read < plain, "{read} of {plain}");
    assert!(damage.is_some_and(|why| why.contains("over 2000 times its size; set NFSLAT_UNPACK_RATIO")));
    assert_eq!(packets(&squeezed("bzip2", &small_pcap(true))).1, None);
}

/// What a host leaves of a file when it crashes: records, and zeros.
#[test]
fn zeros_at_the_end_are_no_records() {
    for (name, small) in [("pcap", small_pcap(true)), ("pcapng", small_pcapng(true))] {
        let whole = packets(&small);
        let (read, damage) = packets(&[small.as_slice(), &[0; 65_536]].concat());
        assert_eq!((read, whole.1), (whole.0, None), "{name}");
        assert_eq!(damage.as_deref(), Some(&*format!("after packet {read} {}", super::ZEROS)));
    }
}

/// How many packets there are, and why no more.
fn packets(file: &[u8]) -> (u64, Option<String>) {
    let mut reader = reader(file).unwrap();
    reader.source.any_unpacked = 1 << 20;
    let mut count = 0;
    while reader.next().unwrap().is_some() {
        count += 1;
    }
    (count, reader.info().damage.clone())
}

/// A section that describes interfaces without end takes no more memory than so many.
#[test]
fn interfaces_of_a_section_are_bounded() {
    let section = small_pcapng(false);
    let block = [1_u32.to_le_bytes(), 20_u32.to_le_bytes(), [1, 0, 0, 0], [0; 4], 20_u32.to_le_bytes()].concat();
    let head = u32::from_le_bytes(section[4..8].try_into().unwrap()) as usize;
    let file = [section[..head].to_vec(), block.repeat(70_000)].concat();
    let (count, damage) = packets(&file);
    assert_eq!(count, 0);
    assert!(damage.is_some_and(|why| why.contains("comes interface 65536 of one section")));
}
