//! What is true of each operation.

use std::fs::File;
use std::io::{BufWriter, Write};

use crate::capture::{CLIENT, SERVER};
use crate::messages::{CALL, HEADER, REPLY};

#[derive(Clone, Default)]
pub struct Op {
    pub xid: u32,
    pub connection: u16,
    pub procedure: u8,
    pub retransmitted: bool,
    /// By kind of message, then by host: when its first byte passed there for the first time, on that host's clock; 0
    /// before. Retransmitted calls and replies do not count, retransmitted segments do where the first one was lost.
    pub first_ns: [[i64; 2]; 2],
    /// When all of its bytes had passed.
    pub last_ns: [[i64; 2]; 2],
    /// Bytes of it that have passed.
    pub passed: [[u32; 2]; 2],
    /// One bit for each byte of the header that is in the capture.
    pub seen: [[u32; 2]; 2],
}

impl Op {
    fn visible(&self, kind: usize, host: usize) -> bool {
        self.seen[kind][host] == u32::MAX >> (32 - HEADER[kind])
    }
}

/// Writes one line per operation, in the order of the calls.
pub fn write(prefix: &str, ops: &[Op]) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(format!("{prefix}.truth.tsv"))?);
    writeln!(
        out,
        "xid\tclient_port\tprocedure\tretransmitted\t\
         client_call_first_ns\tclient_call_last_ns\tserver_call_first_ns\tserver_call_last_ns\t\
         server_reply_first_ns\tserver_reply_last_ns\tclient_reply_first_ns\tclient_reply_last_ns\t\
         client_call_visible\tserver_call_visible\tserver_reply_visible\tclient_reply_visible"
    )?;
    let way = [(CALL, CLIENT), (CALL, SERVER), (REPLY, SERVER), (REPLY, CLIENT)];
    for op in ops {
        let port = crate::capture::client_port(op.connection);
        write!(out, "0x{:08x}\t{port}\t{}\t{}", op.xid, op.procedure, u8::from(op.retransmitted))?;
        for (kind, host) in way {
            write!(out, "\t{}\t{}", op.first_ns[kind][host], op.last_ns[kind][host])?;
        }
        for (kind, host) in way {
            write!(out, "\t{}", u8::from(op.visible(kind, host)))?;
        }
        writeln!(out)?;
    }
    out.flush()
}
