//! RPC messages of NFSv3 (RFC 5531, RFC 1813) with their record marks. All of it but the data moved is the head.

pub const CALL: usize = 0;
pub const REPLY: usize = 1;

pub const GETATTR: u8 = 1;
pub const LOOKUP: u8 = 3;
pub const ACCESS: u8 = 4;
pub const READ: u8 = 6;
pub const WRITE: u8 = 7;

/// Procedures and how often they come, of 100.
pub const MIX: [(u8, u64); 5] = [(READ, 50), (WRITE, 20), (GETATTR, 12), (ACCESS, 10), (LOOKUP, 8)];

/// Bytes of a message's start without which nothing can be known of it: record mark to procedure in a call, record mark
/// to reply_stat in a reply.
pub const HEADER: [u32; 2] = [28, 16];

/// Bytes of data behind the head.
pub fn data(kind: usize, procedure: u8, size: u64) -> u64 {
    if (kind, procedure) == (CALL, WRITE) || (kind, procedure) == (REPLY, READ) { size } else { 0 }
}

/// The head of a message, which is the same each time that it is asked for.
pub fn head(out: &mut Vec<u8>, kind: usize, number: u64, xid: u32, procedure: u8, size: u64) {
    out.clear();
    words(out, &[0, xid, kind as u32]);
    if kind == CALL {
        call(out, number, procedure, size)
    } else {
        reply(out, number, procedure, size)
    }
    let length = out.len() as u64 - 4 + data(kind, procedure, size);
    out[..4].copy_from_slice(&(0x8000_0000 | length as u32).to_be_bytes());
}

fn call(out: &mut Vec<u8>, number: u64, procedure: u8, size: u64) {
    words(out, &[2, 100_003, 3, u32::from(procedure)]);
    // AUTH_SYS: stamp, name, user, group, three more groups; then AUTH_NONE as the verifier.
    words(out, &[1, 40, 12_345, 8]);
    out.extend_from_slice(b"nfsclien");
    words(out, &[1000, 1000, 3, 1000, 1001, 1002, 0, 0]);
    handle(out, number);
    let offset = (number % 100_000) * size;
    match procedure {
        ACCESS => words(out, &[0x1f]),
        LOOKUP => {
            words(out, &[16]);
            out.extend_from_slice(format!("file_{:07}.dbf", number % 10_000_000).as_bytes());
        }
        READ => words(out, &[(offset >> 32) as u32, offset as u32, size as u32]),
        WRITE => words(out, &[(offset >> 32) as u32, offset as u32, size as u32, 2, size as u32]),
        _ => {}
    }
}

fn reply(out: &mut Vec<u8>, number: u64, procedure: u8, size: u64) {
    // MSG_ACCEPTED, AUTH_NONE, SUCCESS; NFS3_OK.
    words(out, &[0, 0, 0, 0, 0]);
    match procedure {
        GETATTR => attributes(out, number),
        ACCESS => {
            words(out, &[1]);
            attributes(out, number);
            words(out, &[0x1f]);
        }
        LOOKUP => {
            handle(out, number);
            words(out, &[1]);
            attributes(out, number);
            words(out, &[0]);
        }
        READ => {
            words(out, &[1]);
            attributes(out, number);
            words(out, &[size as u32, 0, size as u32]);
        }
        WRITE => {
            // Size, mtime and ctime before; the attributes after.
            words(out, &[1, 0, 1 << 30, 1_690_000_000, 0, 1_690_000_000, 0, 1]);
            attributes(out, number);
            words(out, &[size as u32, 2, 0x0123_4567, 0x89ab_cdef]);
        }
        _ => {}
    }
}

/// A file's handle; there are 4096 files.
fn handle(out: &mut Vec<u8>, number: u64) {
    words(out, &[32, 0x0100_0601, 0x5ca1_ab1e, 0, 0, (number % 4096) as u32 + 1000, 0, 0, 0xabcd]);
}

fn attributes(out: &mut Vec<u8>, number: u64) {
    words(out, &[1, 0o644, 1, 1000, 1000, 0, 1 << 30, 0, 1 << 30, 0, 0, 0, 7, 0, (number % 4096) as u32 + 1000]);
    words(out, &[1_690_000_000, 0, 1_690_000_000, 0, 1_690_000_000, 0]);
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

/// Data that look like messages: wherever a segment begins, one of these is not far.
pub fn decoys() -> Vec<u8> {
    let mut out = Vec::new();
    let mut message = Vec::new();
    for number in 0..64 {
        let kind = (number % 2) as usize;
        head(&mut message, kind, number, 0x7000_0000 + (number / 2) as u32, GETATTR, 0);
        out.extend_from_slice(&message);
    }
    out
}
