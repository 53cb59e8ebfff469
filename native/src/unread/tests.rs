use super::*;

fn bytes(conn: u32, direction: u8, t_ns: i64, bytes: u64) -> Bytes {
    Bytes { conn, direction, begin_ns: t_ns, end_ns: t_ns, bytes }
}

/// Packets of a stretch that come together are a row; what was read between two stretches parts them.
#[test]
fn a_row_a_packet_and_a_mark_where_a_stretch_begins() {
    let (mut unread, mut open) = (Unread::default(), Open::default());
    open.push(&bytes(0, 1, 1_000_000, 700), &mut unread);
    open.push(&bytes(0, 1, 1_050_000, 300), &mut unread);
    open.push(&bytes(0, 1, 2_000_000, 50), &mut unread);
    open.end();
    open.push(&bytes(0, 1, 2_010_000, 8), &mut unread);
    assert_eq!(unread.bytes, [1000, 50, 8]);
    assert_eq!(unread.begins, [1, 0, 1]);
    assert_eq!(unread.end_ns, [1_050_000, 2_000_000, 2_010_000]);
}

/// Rows leave by connection and direction, and in the order of the stream within them.
#[test]
fn in_the_order_of_their_streams() {
    let mut unread = Unread::default();
    for (conn, direction, size) in [(1, 0, 1), (0, 1, 2), (0, 0, 3), (0, 1, 4)] {
        Open::default().push(&bytes(conn, direction, 5, size), &mut unread);
    }
    unread.close();
    assert_eq!(unread.bytes, [3, 2, 4, 1]);
}

/// What is not kept is counted, and no earlier row grows by it.
#[test]
fn rows_are_bounded() {
    let (mut unread, mut open) = (Unread::default(), Open::default());
    for n in 0..MOST_ROWS as i64 + 5 {
        open.push(&bytes(0, 0, n * 1_000_000, 1), &mut unread);
    }
    open.push(&bytes(0, 0, (MOST_ROWS as i64 + 4) * 1_000_000, 1), &mut unread);
    assert_eq!((unread.bytes.len(), unread.dropped), (MOST_ROWS, 6));
    assert!(unread.bytes.iter().all(|bytes| *bytes == 1));
}

/// A hole at the very beginning has no packet in front; time that goes back makes a row of its own.
#[test]
fn instants_at_the_ends_of_time() {
    let (mut unread, mut open) = (Unread::default(), Open::default());
    open.push(&Bytes { begin_ns: i64::MIN, ..bytes(0, 0, 7, 1) }, &mut unread);
    open.push(&bytes(0, 0, 9, 1), &mut unread);
    open.push(&bytes(0, 0, i64::MIN, 1), &mut unread);
    assert_eq!(unread.bytes, [1, 1, 1]);
}

/// A READ counts with what it has beside the data asked for, a short one with all of it.
#[test]
fn sizes_of_replies_by_kind() {
    let mut replies = Replies::default();
    for (kind, bytes, size) in [(2, 8324, 8192), (2, 8330, 8192), (2, 132, 8192), (0, 116, NONE), (0, 32, NONE)] {
        replies.push(kind, bytes, size);
    }
    replies.close();
    assert_eq!((replies.kind, replies.count, replies.short), (vec![0, 2], vec![2, 3], vec![0, 1]));
    assert_eq!((replies.least, replies.most), (vec![32, 132], vec![116, 138]));
}
