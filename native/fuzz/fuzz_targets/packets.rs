//! Any records in a pcap file that is one: the whole decoding, and the rows of TCP packets. The first byte chooses the kind of link.
#![no_main]

use std::io::{Cursor, Read};

use libfuzzer_sys::fuzz_target;
use nfslat_native::capture::{Progress, read_all};
use nfslat_native::compound::Ranks;
use nfslat_native::decoder::{Wanted, decode};
use nfslat_native::packets::{Asked, Trace};

/// Ethernet, raw IP, Linux "any" in both versions, loopback; then every other link that is known.
const LINKS: [u32; 22] =
    [1, 101, 113, 276, 0, 6, 9, 10, 50, 51, 104, 105, 119, 127, 163, 192, 197, 204, 205, 226, 239, 242];

fuzz_target!(|data: &[u8]| {
    let Some((link, records)) = data.split_first() else { return };
    let link = LINKS[usize::from(*link) % LINKS.len()];
    let mut file = Vec::with_capacity(24 + records.len());
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, link] {
        file.extend_from_slice(&u32::to_le_bytes(word));
    }
    file.extend_from_slice(records);
    let input = || -> std::io::Result<Box<dyn Read + Send>> { Ok(Box::new(Cursor::new(file.clone()))) };
    let mut trace = Trace::new(Asked::default());
    if read_all([input()], &mut trace, &Progress::default()).is_ok() {
        let rows = trace.rows.frame.len() as u64;
        assert_eq!(u64::from(trace.packets), rows + trace.other + trace.skipped + trace.copies + trace.damaged);
    }
    // Any order will do, if operations differ in it.
    let rank = |operation: u8| operation % 5;
    let ranks = Ranks { nfs: (0..80).map(rank).collect(), callback: (0..16).map(rank).collect(), action: 3 };
    let Ok((decoder, _)) = decode([input()], ranks, Wanted::All, true, &Progress::default()) else { return };

    let ops = &decoder.pairing.ops;
    let rows = ops.t0.len();
    for length in [ops.t1.len(), ops.t2.len(), ops.t3.len(), ops.xid.len(), ops.conn.len(), ops.kind.len()] {
        assert_eq!(length, rows);
    }
    for frame in [&ops.call_first_frame, &ops.call_last_frame, &ops.reply_first_frame, &ops.reply_last_frame] {
        assert_eq!(frame.len(), rows);
        assert!(frame.iter().all(|frame| i64::from(*frame) <= i64::from(decoder.packets)));
    }
});
