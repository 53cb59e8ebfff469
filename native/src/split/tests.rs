//! Packets in, slices out, which are read again.

use proptest::prelude::*;

use super::*;
use crate::container::Reader;
use crate::testing::*;

/// A folder of its own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("nfslat-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn outs(&self, count: usize) -> Vec<PathBuf> {
        (0..count).map(|number| self.0.join(number.to_string())).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

proptest! {
    #![proptest_config(cases(50))]

    /// Every packet is in one slice, whatever is in it: with its time, link type, both lengths, bytes and number.
    #[test]
    fn packets_are_as_they_were(
        packets in prop::collection::vec(
            (0i64..1 << 62, prop::sample::select(vec![1u16, 113, 276, 65000]), prop::collection::vec(any::<u8>(), 0..80), 0u32..9),
            0..60,
        ),
        count in 1usize..5,
    ) {
        let folder = Folder::new("packets");
        let outs = folder.outs(count);
        let mut split = Split::create(&outs, 0).unwrap();
        let all: Vec<_> = packets.iter().enumerate().map(|(number, (t_ns, link, captured, more))| {
            let wire_len = captured.len() as u32 + more;
            Packet { t_ns: *t_ns, link: *link, captured, wire_len, interface: 0, id: number as u64 + 1 }
        }).collect();
        all.iter().for_each(|packet| Take::packet(&mut split, packet));
        split.finish().unwrap();
        let mut seen = vec![0; all.len()];
        for out in &outs {
            let mut reader = Reader::open(Box::new(fs::File::open(out).unwrap())).unwrap();
            let mut last = 0;
            while let Some(packet) = reader.next().unwrap() {
                let number = packet.id as usize - 1;
                prop_assert_eq!(Packet { interface: 0, ..packet }, all[number]);
                prop_assert!(packet.id > last);
                last = packet.id;
                seen[number] += 1;
            }
            prop_assert_eq!(&reader.info().damage, &None);
        }
        prop_assert!(seen.iter().all(|times| *times == 1));
    }
}

/// Both directions of a pair of hosts are in one slice, and hosts are spread over all slices.
#[test]
fn slices_by_hosts() {
    for count in [1, 2, 7, 64] {
        let mut used = vec![0; count];
        for host in 0..10 * count as u64 {
            let hosts = (0xffff_0a00_0002, 0xffff_0a00_0100 + Addr::from(host));
            used[slice_of(hosts, count)] += 1;
        }
        assert!(used.iter().all(|hosts| (1..=40).contains(hosts)), "{used:?}");
    }
}

/// Seconds count from the given time; steps back are counted, and the ends are those of the file.
#[test]
fn pace() {
    let folder = Folder::new("pace");
    let mut split = Split::create(&folder.outs(1), 500_000_000).unwrap();
    for t_ms in [600, 1400, 1600, 900, 5000, 400] {
        let frame = udp_frame(CLIENT, SERVER, 0, &[]);
        let t_ns = t_ms * 1_000_000;
        Take::packet(&mut split, &Packet { t_ns, link: 1, captured: &frame, wire_len: 42, interface: 0, id: 0 });
    }
    assert_eq!(split.pace.seconds(), (vec![-1, 0, 1, 4], vec![1, 3, 1, 1]));
    assert_eq!((split.pace.backward_times, split.pace.largest_backward_ns), (2, 4_600_000_000));
    assert_eq!(split.pace.ends_ns, Some((600_000_000, 400_000_000)));
}

/// A folder that is not there, and a device that is full.
#[test]
fn what_cannot_be_written() {
    let nowhere = [PathBuf::from("/nowhere/at/all")];
    assert!(matches!(Split::create(&nowhere, 0), Err(Error::Write { out: 0, .. })));
    let full = [PathBuf::from("/dev/full")];
    let Ok(mut split) = Split::create(&full, 0) else { return };
    let frame = udp_frame(CLIENT, SERVER, 0, &[7; 1400]);
    for _ in 0..200 {
        Take::packet(&mut split, &Packet { t_ns: 0, link: 1, captured: &frame, wire_len: 1442, interface: 0, id: 0 });
    }
    assert!(matches!(split.full(), Some(Error::Write { out: 0, .. })));
    assert!(split.finish().is_err());
}
