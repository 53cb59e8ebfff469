//! A TCP segment wrapped in every encapsulation in, the same segment out; wherever a frame is cut, the same or nothing.

use proptest::prelude::*;

use super::{ACK, Ends, Frame, dissect, is_known};
use crate::testing::*;

const DATA: &[u8] = b"sixteen bytes of";
/// Every link type that `by_link` knows, and one that it does not.
const LINKS: [u16; 28] = [
    0, 1, 6, 9, 10, 12, 14, 50, 51, 101, 104, 105, 108, 113, 119, 127, 163, 192, 197, 204, 205, 226, 228, 229, 239,
    242, 276, 999,
];

fn segment() -> Tcp {
    tcp(CLIENT, SERVER).seq(0x0102_0304).ack(0x0506_0708).window(777).options(&[1, 1, 8, 10]).data(DATA)
}

fn packet4() -> Vec<u8> {
    segment().packet()
}

fn packet6() -> Vec<u8> {
    ipv6(1, 2, 6, &segment().segment())
}

fn gre(head: &[u8], inner: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &ipv4(8, 9, 47, 1, 0, &join(&[head, inner])))
}

fn tunnel(port: u16, head: &[u8], inner: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &ipv4(8, 9, 17, 1, 0, &udp(5555, port, &join(&[head, inner]))))
}

/// An IPv6 packet with extension headers: (number, bytes without the next header's number).
fn extended(headers: &[(u8, &[u8])]) -> Vec<u8> {
    let mut payload = segment().segment();
    let mut next = 6;
    for (number, bytes) in headers.iter().rev() {
        payload = join(&[&[next], bytes, &payload]);
        next = *number;
    }
    ethernet(0x86dd, &ipv6(1, 2, next, &payload))
}

/// A frame of IEEE 802.11: frame control and what is behind the three addresses.
fn wireless(control: [u8; 2], behind: &[u8]) -> Vec<u8> {
    join(&[&control, &[0; 20], &[0x30, 0], behind])
}

/// A frame of each link that is no Ethernet and no cooked one, around an IPv4 packet.
fn links(ip4: &[u8]) -> Vec<(&'static str, u16, Vec<u8>)> {
    let snap = join(&[&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], ip4]);
    let eth = ethernet(0x0800, ip4);
    let air = wireless([8, 2], &snap);
    let erf = |kind: u8, behind: &[u8]| join(&[&[0; 8], &[kind, 4], &[0, 99, 0, 0, 0, 99], behind]);
    let nflog = |field: fn(u16) -> [u8; 2]| {
        let [length, kind] = [field(4 + ip4.len() as u16), field(9)];
        let mark = join(&[&field(7), &field(10), b"eth\0"]);
        join(&[&[2, 0, 0, 5], &mark, &length, &kind, ip4])
    };
    let (wep, amsdu) = ([0, 0], join(&[&[0; 12], &(snap.len() as u16).to_be_bytes(), &snap]));
    let radio = |flags: u8, air: &[u8]| {
        // TSFT, which is aligned, and flags, behind two words that say so
        join(&[&[0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0], &[7; 8], &[flags], air])
    };
    let avs = join(&[&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64], &[0; 56]]);
    vec![
        ("token ring", 6, join(&[&[0x10, 0x40], &[2; 6], &[1; 6], &snap])),
        ("token ring, route", 6, join(&[&[0x10, 0x40], &[2; 6], &[0x81; 6], &[4, 0, 1, 2], &snap])),
        ("FDDI", 10, join(&[&[0x50], &[0; 12], &snap])),
        ("FDDI, IP over LLC", 10, join(&[&[0x57], &[0; 12], &[6, 6, 3], ip4])),
        ("PPP, one byte", 9, join(&[&[0x21], ip4])),
        ("PPP, HDLC, one byte", 9, join(&[&[0xff, 3, 0x21], ip4])),
        ("PPP, MPLS", 9, join(&[&[2, 0x81, 0, 1, 1, 64], ip4])),
        ("PPP over a line", 50, join(&[&[0xff, 3, 0, 0x21], ip4])),
        ("Cisco HDLC over a line", 50, join(&[&[0x0f, 0, 8, 0], ip4])),
        ("PPPoE by itself", 51, join(&[&[0x11, 0, 0, 1, 0, 78, 0, 0x21], ip4])),
        ("Cisco HDLC", 104, join(&[&[0x8f, 0, 8, 0], ip4])),
        ("PPP with direction", 204, join(&[&[1, 0xff, 3, 0, 0x21], ip4])),
        ("HDLC with direction", 205, join(&[&[0, 0x0f, 0, 8, 0], ip4])),
        ("802.11", 105, air.clone()),
        ("802.11, QoS", 105, wireless([0x88, 1], &join(&[&wep, &snap]))),
        ("802.11, QoS, HT control", 105, wireless([0x88, 0x81], &join(&[&wep, &[0; 4], &snap]))),
        ("802.11, four addresses", 105, wireless([0x88, 3], &join(&[&[0; 6], &wep, &snap]))),
        ("802.11, A-MSDU", 105, wireless([0x88, 1], &join(&[&[0x80, 0], &amsdu]))),
        ("Prism", 119, join(&[&[0x44, 0, 0, 0, 144, 0, 0, 0], &[0; 136], &air])),
        ("Prism, big-endian", 119, join(&[&[0, 0, 0, 0x44, 0, 0, 0, 144], &[0; 136], &air])),
        ("AVS as Prism", 119, join(&[&avs, &air])),
        ("AVS", 163, join(&[&avs, &air])),
        ("radiotap", 127, join(&[&[0, 0, 8, 0, 0, 0, 0, 0], &air])),
        ("radiotap, flags", 127, radio(0x10, &air)),
        ("radiotap, padding", 127, radio(0x20, &wireless([0x88, 1], &join(&[&wep, &wep, &snap])))),
        ("PPI, 802.11", 192, join(&[&[0, 0, 12, 0, 105, 0, 0, 0], &[0; 4], &air])),
        ("PPI, ethernet", 192, join(&[&[0, 0, 8, 0, 1, 0, 0, 0], &eth])),
        ("ERF, ethernet", 197, erf(2, &join(&[&[0, 0], &eth]))),
        ("ERF, two headers, ethernet", 197, erf(0x82, &join(&[&[0x80; 8], &[4; 8], &[0, 0], &eth]))),
        ("ERF, HDLC", 197, erf(1, &join(&[&[0x0f, 0, 8, 0], ip4]))),
        ("ERF, PPP in a channel", 197, erf(5, &join(&[&[0; 4], &[0xff, 3, 0, 0x21], ip4]))),
        ("ERF, IPv4", 197, erf(22, ip4)),
        ("ipnet", 226, join(&[&[1, 2], &[0; 22], ip4])),
        ("NFLOG, little-endian", 239, nflog(u16::to_le_bytes)),
        ("NFLOG, big-endian", 239, nflog(u16::to_be_bytes)),
        ("IPoIB", 242, join(&[&[0; 40], &[8, 0, 0, 0], ip4])),
    ]
}

/// One frame of every encapsulation: name, link type, bytes, and whether the segment in it is over IPv6.
fn encapsulations() -> Vec<(&'static str, u16, Vec<u8>, bool)> {
    let (ip4, ip6) = (packet4(), packet6());
    let eth = ethernet(0x0800, &ip4);
    let eth6 = ethernet(0x86dd, &ip6);
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let sll = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    let sll2 = [0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    let v4 = vec![
        ("ethernet", 1, eth.clone()),
        ("802.1Q", 1, ethernet(0x8100, &join(&[&[0, 5, 8, 0], &ip4]))),
        ("QinQ", 1, ethernet(0x88a8, &join(&[&[0, 5, 0x81, 0, 0, 6, 8, 0], &ip4]))),
        ("old QinQ", 1, ethernet(0x9100, &join(&[&[0, 5, 0x81, 0, 0, 6, 8, 0], &ip4]))),
        ("VNTag", 1, ethernet(0x8926, &join(&[&[0, 1, 0, 2, 8, 0], &ip4]))),
        ("VNTag, 802.1Q", 1, ethernet(0x8926, &join(&[&[0, 1, 0, 2, 0x81, 0, 0, 5, 8, 0], &ip4]))),
        ("HSR", 1, ethernet(0x892f, &join(&[&[0, 99, 0, 2, 8, 0], &ip4]))),
        ("802.1BR", 1, ethernet(0x893f, &join(&[&[0, 1, 0, 2, 0, 0, 8, 0], &ip4]))),
        ("802.1ah", 1, ethernet(0x88a8, &join(&[&[0, 5, 0x88, 0xe7, 0, 0, 0, 9], &eth]))),
        ("IP over LLC", 1, ethernet(3 + ip4.len() as u16, &join(&[&[6, 6, 3], &ip4]))),
        ("LLC/SNAP", 1, ethernet(8 + ip4.len() as u16, &join(&[&snap, &ip4]))),
        ("802.1Q, LLC/SNAP", 1, ethernet(0x8100, &join(&[&[0, 5, 0, 99], &snap, &ip4]))),
        ("MPLS", 1, ethernet(0x8847, &join(&[&[0, 1, 0, 64, 0, 2, 1, 64], &ip4]))),
        ("MPLS, ethernet", 1, ethernet(0x8847, &join(&[&[0, 2, 1, 64], &[0xfe], &eth[1..]]))),
        ("MPLS, ethernet to an address with 0", 1, ethernet(0x8847, &join(&[&[0, 2, 1, 64], &eth]))),
        ("MPLS, control word", 1, ethernet(0x8847, &join(&[&[0, 2, 1, 64, 0, 0, 0, 9], &eth]))),
        ("PPPoE", 1, ethernet(0x8864, &join(&[&[0x11, 0, 0, 1, 0, 78, 0, 0x21], &ip4]))),
        ("SLL", 113, join(&[&sll, &[8, 0], &ip4])),
        ("SLL, 802.1Q", 113, join(&[&sll, &[0x81, 0, 0, 5, 8, 0], &ip4])),
        ("SLL2", 276, join(&[&[8, 0], &sll2, &ip4])),
        ("null, little-endian", 0, join(&[&[2, 0, 0, 0], &ip4])),
        ("null, big-endian", 0, join(&[&[0, 0, 0, 2], &ip4])),
        ("loop", 108, join(&[&[0, 0, 0, 2], &ip4])),
        ("raw 12", 12, ip4.clone()),
        ("raw 14", 14, ip4.clone()),
        ("raw", 101, ip4.clone()),
        ("raw IPv4", 228, ip4.clone()),
        ("PPP", 9, join(&[&[0, 0x21], &ip4])),
        ("PPP, HDLC", 9, join(&[&[0xff, 3, 0, 0x21], &ip4])),
        ("VXLAN", 1, tunnel(4789, &[8, 0, 0, 0, 0, 0, 7, 0], &eth)),
        ("VXLAN, policy", 1, tunnel(4789, &[0x88, 0x48, 0, 7, 0, 0, 7, 0], &eth)),
        ("VXLAN, reserved bits", 1, tunnel(4789, &[0xff, 1, 2, 3, 0, 0, 7, 9], &eth)),
        ("VXLAN-GPE", 1, tunnel(4790, &[0x0c, 0, 0, 3, 0, 0, 7, 0], &eth)),
        ("VXLAN-GPE, IPv4", 1, tunnel(4790, &[0x0c, 0, 0, 1, 0, 0, 7, 0], &ip4)),
        ("VXLAN-GPE, nothing said", 1, tunnel(4790, &[8, 0, 0, 0, 0, 0, 7, 0], &eth)),
        ("VXLAN-GPE, NSH", 1, tunnel(4790, &[0x0c, 0, 0, 4, 0, 0, 7, 0, 0x0f, 0xc2, 2, 3, 0, 0, 1, 0xff], &eth)),
        ("NSH", 1, ethernet(0x894f, &join(&[&[0x0f, 0xc6, 1, 1], &[0; 20], &ip4]))),
        ("CAPWAP", 1, tunnel(5247, &[0, 0x10, 0, 0, 0, 0, 0, 0], &eth)),
        (
            "CAPWAP, as in the air",
            1,
            tunnel(5247, &[0, 0x10, 3, 0, 0, 0, 0, 0], &wireless([8, 1], &join(&[&snap, &ip4]))),
        ),
        (
            "CAPWAP, of Cisco",
            1,
            tunnel(
                5247,
                &[0, 0x20, 3, 0x10, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0],
                &wireless([1, 8], &join(&[&snap, &ip4])),
            ),
        ),
        ("PPP, Cisco's HDLC", 9, join(&[&[0x0f, 0, 8, 0], &ip4])),
        ("GTP-U", 1, tunnel(2152, &[0x30, 0xff, 0, 56, 0, 0, 0, 9], &ip4)),
        ("GTP-U, number", 1, tunnel(2152, &[0x32, 0xff, 0, 60, 0, 0, 0, 9, 0, 1, 0, 0], &ip4)),
        (
            "GTP-U, two headers",
            1,
            tunnel(2152, &[0x34, 0xff, 0, 68, 0, 0, 0, 9, 0, 0, 0, 0x85, 1, 0, 0, 0xc0, 1, 9, 9, 0], &ip4),
        ),
        ("GRE over UDP", 1, tunnel(4754, &[0, 0, 8, 0], &ip4)),
        ("GRE over UDP, key, ethernet", 1, tunnel(4754, &[0x20, 0, 0x65, 0x58, 0, 0, 0, 7], &eth)),
        ("Aruba", 1, gre(&[0, 0, 0x82, 0x10], &wireless([8, 1], &join(&[&snap, &ip4])))),
        ("VXLAN, old port", 1, tunnel(8472, &[8, 0, 0, 0, 0, 0, 7, 0], &eth)),
        ("Geneve", 1, tunnel(6081, &[0, 0, 0x65, 0x58, 0, 0, 7, 0], &eth)),
        ("Geneve, options", 1, tunnel(6081, &[2, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 1, 9, 9, 9, 9], &eth)),
        ("Geneve, IPv4", 1, tunnel(6081, &[0, 0, 8, 0, 0, 0, 7, 0], &ip4)),
        ("GRE", 1, gre(&[0, 0, 8, 0], &ip4)),
        ("GRE, key", 1, gre(&[0x20, 0, 8, 0, 0, 0, 0, 7], &ip4)),
        ("GRE, checksum, key, sequence", 1, gre(&[0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1], &ip4)),
        ("GRE, ethernet", 1, gre(&[0, 0, 0x65, 0x58], &eth)),
        ("ERSPAN I", 1, gre(&[0, 0, 0x88, 0xbe], &eth)),
        ("ERSPAN II", 1, gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 5, 0, 1, 0, 0, 0, 1], &eth)),
        ("ERSPAN III", 1, gre(&join(&[&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20], &[0; 11]]), &eth)),
        (
            "ERSPAN III, platform",
            1,
            gre(&join(&[&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20], &[0; 10], &[1], &[0; 8]]), &eth),
        ),
        ("IP in IP", 1, ethernet(0x0800, &ipv4(8, 9, 4, 1, 0, &ip4))),
        ("IPv4 in IPv6", 1, ethernet(0x86dd, &ipv6(8, 9, 4, &ip4))),
        ("802.1Q, VXLAN, 802.1Q", 1, {
            let inner = ethernet(0x8100, &join(&[&[0, 5, 8, 0], &ip4]));
            let outer = tunnel(4789, &[8, 0, 0, 0, 0, 0, 7, 0], &inner);
            ethernet(0x8100, &join(&[&[0, 6], &outer[12..]]))
        }),
    ];
    let v6 = vec![
        ("ethernet, IPv6", 1, eth6.clone()),
        ("PPPoE, IPv6", 1, ethernet(0x8864, &join(&[&[0x11, 0, 0, 1, 0, 78, 0, 0x57], &ip6]))),
        ("MPLS, IPv6", 1, ethernet(0x8847, &join(&[&[0, 2, 1, 64], &ip6]))),
        ("SLL, IPv6", 113, join(&[&sll, &[0x86, 0xdd], &ip6])),
        ("SLL2, IPv6", 276, join(&[&[0x86, 0xdd], &sll2, &ip6])),
        ("null, Linux", 0, join(&[&[10, 0, 0, 0], &ip6])),
        ("null, NetBSD", 0, join(&[&[24, 0, 0, 0], &ip6])),
        ("null, FreeBSD", 0, join(&[&[0, 0, 0, 28], &ip6])),
        ("null, macOS", 0, join(&[&[30, 0, 0, 0], &ip6])),
        ("raw, IPv6", 101, ip6.clone()),
        ("raw IPv6", 229, ip6.clone()),
        ("PPP, IPv6", 9, join(&[&[0, 0x57], &ip6])),
        ("6in4", 1, ethernet(0x0800, &ipv4(8, 9, 41, 1, 0, &ip6))),
        ("GRE, IPv6", 1, gre(&[0, 0, 0x86, 0xdd], &ip6)),
        ("hop-by-hop options", 1, extended(&[(0, &[0, 1, 4, 0, 0, 0, 0])])),
        ("destination options of 16 bytes", 1, extended(&[(60, &join(&[&[1, 1, 12], &[0; 12]]))])),
        ("routing", 1, extended(&[(43, &[0, 0, 0, 0, 0, 0, 0])])),
        ("authentication", 1, extended(&[(51, &join(&[&[4], &[0; 22]]))])),
        ("a fragment that is all", 1, extended(&[(44, &[0, 0, 0, 0, 0, 0, 9])])),
        ("three headers", 1, extended(&[(0, &[0; 7]), (60, &[0; 7]), (44, &[0; 7])])),
    ];
    let with = |list: Vec<(&'static str, u16, Vec<u8>)>, is_v6| {
        list.into_iter().map(move |(name, link, bytes)| (name, link, bytes, is_v6))
    };
    with(v4, false).chain(with(links(&ip4), false)).chain(with(v6, true)).collect()
}

/// Is this the segment of `segment()`, of which `kept` bytes of data were captured?
fn is_right(frame: &Frame<'_>, is_v6: bool, kept: Option<usize>) -> bool {
    let Frame::Tcp(ends, segment) = frame else { return false };
    let (src, dst) = if is_v6 { (addr6(1), addr6(2)) } else { (addr4(1), addr4(2)) };
    let numbers = (segment.seq, segment.ack, segment.flags, segment.window, segment.len);
    *ends == Ends { src, dst, sport: CLIENT.1, dport: SERVER.1 }
        && numbers == (0x0102_0304, 0x0506_0708, ACK, 777, DATA.len() as u32)
        && DATA.starts_with(segment.bytes)
        && [1, 1, 8, 10].starts_with(segment.options)
        && kept.is_none_or(|kept| kept == segment.bytes.len())
}

/// The segment is found in every encapsulation, whole.
#[test]
fn every_encapsulation() {
    for (name, link, bytes, is_v6) in encapsulations() {
        let frame = dissect(link, &bytes, bytes.len() as u32);
        assert!(is_right(&frame, is_v6, Some(DATA.len())), "{name}: {frame:?}");
        assert!(is_known(link, &bytes), "{name}");
    }
    let known: Vec<u16> = (0..2000).filter(|link| is_known(*link, &[0, 0, 0, 0, 0, 0, 0, 0, 22])).collect();
    assert_eq!(known, LINKS[..LINKS.len() - 1]);
}

/// Cut anywhere, a frame is what it is or `Other`; a tunnel over UDP may be left as the datagram that it is.
#[test]
fn every_cut() {
    for (name, link, bytes, is_v6) in encapsulations() {
        for kept in 0..bytes.len() {
            let frame = dissect(link, &bytes[..kept], bytes.len() as u32);
            let headers = bytes.len() - DATA.len();
            match frame {
                _ if kept >= headers => {
                    assert!(is_right(&frame, is_v6, Some(kept - headers)), "{name}, {kept}: {frame:?}")
                }
                Frame::Tcp(..) => assert!(is_right(&frame, is_v6, Some(0)), "{name}, {kept}: {frame:?}"),
                Frame::Udp(ends, _) => assert!(ends.sport == 5555, "{name}, {kept}: {frame:?}"),
                Frame::Fragment(_) => panic!("{name}, {kept}: {frame:?}"),
                Frame::Other => {}
            }
        }
    }
}

/// What Ethernet fills a short frame up with is no data.
#[test]
fn padding() {
    let mut frame = tcp(CLIENT, SERVER).frame();
    frame.resize(60, 0xee);
    let Frame::Tcp(_, segment) = dissect(1, &frame, 60) else { panic!() };
    assert_eq!((segment.len, segment.bytes), (0, &[][..]));

    let mut frame = udp_frame(CLIENT, SERVER, 5, b"four");
    frame.resize(60, 0xee);
    let Frame::Udp(ends, datagram) = dissect(1, &frame, 60) else { panic!() };
    assert_eq!((ends, datagram.len, datagram.bytes, datagram.ip_id), (ends4(CLIENT, SERVER), 4, &b"four"[..], 5));
}

/// Segmentation offload leaves the IP length 0: then the frame says how long the segment is.
#[test]
fn no_length() {
    let data = vec![7; 70_000];
    let mut frame = ethernet(0x0800, &ipv4(1, 2, 6, 1, 0, &tcp(CLIENT, SERVER).data(&data).segment()));
    frame[16..18].copy_from_slice(&[0, 0]);
    let Frame::Tcp(_, segment) = dissect(1, &frame, frame.len() as u32) else { panic!() };
    assert_eq!((segment.len, segment.bytes.len()), (70_000, 70_000));
    let Frame::Tcp(_, segment) = dissect(1, &frame[..100], frame.len() as u32) else { panic!() };
    assert_eq!((segment.len, segment.bytes.len()), (70_000, 46));

    // BIG TCP: the length of the jumbo payload option (RFC 2675) is in the frame's, too
    let jumbo = join(&[&[6, 0, 0xc2, 4, 0, 1, 0x11, 0x88], &tcp(CLIENT, SERVER).data(&data).segment()]);
    let mut frame = ethernet(0x86dd, &ipv6(1, 2, 0, &jumbo));
    frame[18..20].copy_from_slice(&[0, 0]);
    let Frame::Tcp(_, segment) = dissect(1, &frame, frame.len() as u32) else { panic!() };
    assert_eq!(segment.len, 70_000);
}

/// Lengths that contradict each other: the segment ends where the IP packet does, and headers that do not fit are none.
#[test]
fn lengths_that_lie() {
    let frame = |at: usize, value: u8| {
        let mut frame = tcp(CLIENT, SERVER).data(DATA).frame();
        frame[at] = value;
        frame
    };
    let length = |frame: &[u8]| match dissect(1, frame, frame.len() as u32) {
        Frame::Tcp(_, segment) => Some((segment.len, segment.bytes.len())),
        _ => None,
    };
    assert_eq!(length(&frame(17, 56)), Some((16, 16))); // true: 20 + 20 + 16
    assert_eq!(length(&frame(17, 48)), Some((8, 8)));
    assert_eq!(length(&frame(17, 39)), None); // shorter than the headers
    assert_eq!(length(&frame(17, 200)), Some((160, 16))); // as if the rest had been cut off
    assert_eq!(length(&frame(14, 0x44)), None); // IP header of 16 bytes
    assert_eq!(length(&frame(14, 0x4f)), None); // of 60, and then no TCP header
    assert_eq!(length(&frame(14, 0x65)), None); // version 6
    assert_eq!(length(&frame(46, 0x40)), None); // TCP header of 16 bytes
    assert_eq!(length(&frame(46, 0xf0)), None); // of 60: behind the packet's end
    assert_eq!(length(&frame(46, 0x90)), Some((0, 0))); // of 36: options up to the end

    let udp_length = |value: u8| {
        let mut frame = udp_frame(CLIENT, SERVER, 5, DATA);
        frame[39] = value;
        match dissect(1, &frame, frame.len() as u32) {
            Frame::Udp(_, datagram) => datagram.len,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([24, 12, 200, 8, 0, 3].map(udp_length), [16, 4, 16, 0, 16, 16]);
}

/// Fragments of both versions: their bytes begin behind the headers, offsets are in bytes.
#[test]
fn fragments_of_both() {
    let frame = ethernet(0x0800, &ipv4(1, 2, 17, 77, 0x2000 | 5, b"a fragment"));
    let Frame::Fragment(part) = dissect(1, &frame, frame.len() as u32) else { panic!() };
    assert_eq!((part.src, part.dst, part.id, part.proto), (addr4(1), addr4(2), 77, 17));
    assert_eq!((part.offset, part.more, part.bytes, part.len), (40, true, &b"a fragment"[..], 10));

    let head = [17, 0, 0, 80, 0x89, 0xab, 0xcd, 0xef]; // offset 80, the last
    let frame = ethernet(0x86dd, &ipv6(1, 2, 44, &join(&[&head, b"a fragment"])));
    let Frame::Fragment(part) = dissect(1, &frame, frame.len() as u32) else { panic!() };
    assert_eq!((part.src, part.dst, part.id, part.proto), (addr6(1), addr6(2), 0x89ab_cdef, 17));
    assert_eq!((part.offset, part.more, part.bytes, part.len), (80, false, &b"a fragment"[..], 10));
}

/// What is not TCP, UDP or a fragment is `Other`: ARP, ICMP, an unknown link type, tunnels without end.
#[test]
fn others() {
    let other = |link, bytes: &[u8]| matches!(dissect(link, bytes, bytes.len() as u32), Frame::Other);
    assert!(other(1, &ethernet(0x0806, &[0; 46])));
    assert!(other(1, &ethernet(0x0800, &ipv4(1, 2, 1, 1, 0, &[8; 64]))));
    assert!(other(999, &tcp(CLIENT, SERVER).frame()));
    assert!(other(105, &wireless([8, 0x42], &[0; 80]))); // encrypted
    assert!(other(105, &wireless([0x48, 1], &[0; 80]))); // without data
    assert!(other(105, &wireless([0x80, 0], &[0; 80]))); // a beacon
    assert!(other(192, &[0, 0, 0, 0, 192, 0, 0, 0])); // in itself
    assert!(other(239, &[2, 0, 0, 0, 0, 0, 9, 0, 0, 0]));
    assert!(other(197, &[[0; 8], [3, 0, 0, 99, 0, 0, 0, 99]].concat())); // ATM
    assert!(other(1, &gre(&[0, 1, 0x88, 0x0b, 0, 0, 0, 0], &packet4()))); // PPTP
    let nested = (0..20).fold(packet4(), |inner, _| ipv4(8, 9, 4, 1, 0, &inner));
    assert!(other(101, &nested));
    let tags = [0x81, 0, 0, 5].repeat(1000);
    assert!(other(1, &ethernet(0x8100, &tags)));
    let labels = [0, 1, 0, 64].repeat(1000);
    assert!(other(1, &ethernet(0x8847, &labels)));
}

/// Traffic to a tunnel's port that is no tunnel is a datagram like any other.
#[test]
fn no_tunnel() {
    for port in [4789, 4790, 5247, 8472, 6081, 4754, 2152] {
        let frame = tunnel(port, &[0xff; 8], &read(1, 0, 512));
        let Frame::Udp(ends, datagram) = dissect(1, &frame, frame.len() as u32) else { panic!() };
        assert_eq!((ends.dport, datagram.len), (port, 72));
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    /// Bytes of any kind are taken apart without a panic, and nothing is said to have been captured that was not.
    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), more in 0u32..100) {
        for link in LINKS {
            check(link, &bytes, bytes.len() as u32 + more)?;
        }
    }

    /// So are frames of every encapsulation in which some bytes are wrong, cut anywhere.
    #[test]
    fn damaged_frames(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        kept in any::<prop::sample::Index>(),
    ) {
        let all = encapsulations();
        let (_, link, mut bytes, _) = all[which.index(all.len())].clone();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        check(link, &bytes, bytes.len() as u32)?;
        check(link, &bytes[..kept.index(bytes.len())], bytes.len() as u32)?;
    }
}

fn check(link: u16, bytes: &[u8], wire: u32) -> Result<(), TestCaseError> {
    let (seen, len) = match dissect(link, bytes, wire) {
        Frame::Tcp(_, segment) => (segment.bytes.len(), segment.len),
        Frame::Udp(_, datagram) => (datagram.bytes.len(), datagram.len),
        Frame::Fragment(part) => (part.bytes.len(), part.len),
        Frame::Other => (0, 0),
    };
    prop_assert!(seen <= len as usize && seen <= bytes.len());
    Ok(())
}
