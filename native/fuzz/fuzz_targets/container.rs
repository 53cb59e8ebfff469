//! Any bytes as a file: its packets are read, or it says why not.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use nfslat_native::container::Reader;

fuzz_target!(|data: &[u8]| {
    let Ok(mut reader) = Reader::open(Box::new(Cursor::new(data.to_vec()))) else { return };
    while let Ok(Some(packet)) = reader.next() {
        assert!(packet.wire_len as usize >= packet.captured.len());
    }
});
