//! Inner loops of nfslat's stages for which numpy is too slow.

/// What the ops of one side are joined by: connection, kind and XID, one row an op.
pub struct Side<'a> {
    pub conn: &'a [i32],
    pub kind: &'a [i16],
    pub xid: &'a [u32],
    /// Where the keys of each connection begin, -1 where the other side does not have it.
    pub place: &'a [i32],
    /// What each kind adds to that.
    pub number: &'a [i32],
}

/// Rows of two sides that belong together.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// For each row of the client the row of the server with the same key, where each side has one row with it; else -1.
    pub partner: Vec<i32>,
    /// Rows of each key that both sides have and one of them has several times: the server's, then the client's. Keys
    /// are in the order of their first row at the server.
    pub several: Vec<i32>,
    /// How many of them are of the server and how many of the client, for each such key.
    pub sizes: Vec<[i32; 2]>,
}

/// Join two sides by (place of the connection + number of the kind, XID); `places` is above all of the former.
///
/// Rows of one key keep their order. Panics where a connection or kind is not in its table.
pub fn join(server: &Side, client: &Side, places: usize) -> Joined {
    // In that order neighbours in a table are neighbours in the sorted one, too, and in the cache.
    let order = if counts_up(server.xid, u32::swap_bytes) > counts_up(server.xid, |xid| xid) {
        u32::swap_bytes
    } else {
        |xid| xid
    };
    let (ours, ends) = sorted(server, places, order);
    let (theirs, their_ends) = sorted(client, places, order);
    let mut partner = vec![-1; client.xid.len()];
    let mut groups = Vec::new();
    let (mut begin, mut their_begin) = (0, 0);
    for (&end, &their_end) in ends.iter().zip(&their_ends) {
        merge(&ours[begin..end], &theirs[their_begin..their_end], &mut partner, &mut groups);
        (begin, their_begin) = (end, their_end);
    }
    groups.sort_unstable_by_key(|(ours, _)| row_of(ours[0]));
    let sizes = groups.iter().map(|(ours, theirs)| [ours.len() as i32, theirs.len() as i32]).collect();
    let several =
        groups.iter().flat_map(|(ours, theirs)| ours.iter().chain(*theirs)).map(|&entry| row_of(entry)).collect();
    Joined { partner, several, sizes }
}

/// How often an XID at the beginning of a table is a little above another one of the rows before it.
///
/// Clients count in the byte order of their machine, and connections alternate.
fn counts_up(xids: &[u32], order: fn(u32) -> u32) -> usize {
    let sample: Vec<u32> = xids.iter().take(SAMPLE).map(|&xid| order(xid)).collect();
    sample.windows(LOOK_BACK).filter(|rows| rows[1..].iter().any(|xid| xid.wrapping_sub(rows[0]) < SMALL_STEP)).count()
}

const SAMPLE: usize = 1000;
const LOOK_BACK: usize = 16;
const SMALL_STEP: u32 = 64;

/// A row as it is sorted: its XID above, its number below.
type Entry = u64;

fn xid_of(entry: Entry) -> u32 {
    (entry >> 32) as u32
}

fn row_of(entry: Entry) -> i32 {
    entry as u32 as i32
}

/// The rows in order of place, XID and row, and where each place ends; rows without a place are left out.
fn sorted(side: &Side, places: usize, order: fn(u32) -> u32) -> (Vec<Entry>, Vec<usize>) {
    let place_of = |(&conn, &kind): (&i32, &i16)| {
        let place = side.place[conn as usize];
        (place >= 0).then(|| (place + side.number[kind as usize]) as usize)
    };
    let mut ends = vec![0; places];
    for place in side.conn.iter().zip(side.kind).filter_map(place_of) {
        ends[place] += 1;
    }
    let mut rows = 0;
    let mut next: Vec<usize> = ends.iter().map(|size| (rows, rows += size).0).collect();
    let mut entries = vec![0; rows];
    for (row, (key, &xid)) in side.conn.iter().zip(side.kind).zip(side.xid).enumerate() {
        if let Some(place) = place_of(key) {
            entries[next[place]] = Entry::from(order(xid)) << 32 | row as Entry;
            next[place] += 1;
        }
    }
    let mut other = Vec::new();
    let mut begin = 0;
    for &end in &next {
        by_xid(&mut entries[begin..end], &mut other);
        begin = end;
    }
    (entries, next)
}

const DIGIT_BITS: u32 = 11;

/// Sorts by XID and leaves rows of one XID as they are: a digit at a time, and none that all XIDs share.
fn by_xid(entries: &mut [Entry], other: &mut Vec<Entry>) {
    if entries.is_sorted_by_key(|&entry| xid_of(entry)) {
        return;
    }
    let first = xid_of(entries[0]);
    let varying = entries.iter().fold(0, |bits, &entry| bits | (xid_of(entry) ^ first));
    other.clear();
    other.resize(entries.len(), 0);
    let (mut from, mut to) = (&mut entries[..], &mut other[..]);
    let mut is_swapped = false;
    let mut shift = varying.trailing_zeros();
    while shift < 32 && varying >> shift != 0 {
        let digit = |entry: Entry| (xid_of(entry) >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        let mut next = [0_u32; 1 << DIGIT_BITS];
        for &entry in &*from {
            next[digit(entry)] += 1;
        }
        let mut at = 0;
        for count in &mut next {
            (*count, at) = (at, at + *count);
        }
        for &entry in &*from {
            let place = &mut next[digit(entry)];
            to[*place as usize] = entry;
            *place += 1;
        }
        (from, to) = (to, from);
        is_swapped = !is_swapped;
        shift += DIGIT_BITS;
    }
    if is_swapped {
        to.copy_from_slice(from);
    }
}

/// Entries of one place, each in order of the XID.
fn merge<'a>(
    ours: &'a [Entry],
    theirs: &'a [Entry],
    partner: &mut [i32],
    groups: &mut Vec<(&'a [Entry], &'a [Entry])>,
) {
    let (mut a, mut b) = (0, 0);
    while a < ours.len() && b < theirs.len() {
        let (xid, their_xid) = (xid_of(ours[a]), xid_of(theirs[b]));
        if xid != their_xid {
            a += usize::from(xid < their_xid);
            b += usize::from(xid > their_xid);
            continue;
        }
        let run = ours[a..].iter().take_while(|&&entry| xid_of(entry) == xid).count();
        let their_run = theirs[b..].iter().take_while(|&&entry| xid_of(entry) == xid).count();
        if run == 1 && their_run == 1 {
            partner[row_of(theirs[b]) as usize] = row_of(ours[a]);
        } else {
            groups.push((&ours[a..a + run], &theirs[b..b + their_run]));
        }
        a += run;
        b += their_run;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Columns = (Vec<i32>, Vec<u32>, Vec<i16>);

    /// Connections 0 to 2 are at both sides, 3 is not.
    const PLACE: [i32; 4] = [0, 1, 2, -1];

    fn side((conn, xid, kind): &Columns) -> Side<'_> {
        Side { conn, xid, kind, place: &PLACE, number: &[0] }
    }

    /// Ops of (connection, XID).
    fn joined(server: &[(i32, u32)], client: &[(i32, u32)]) -> Joined {
        let columns = |ops: &[(i32, u32)]| -> Columns {
            let (conn, xid): (Vec<i32>, Vec<u32>) = ops.iter().copied().unzip();
            (conn, xid, vec![0; ops.len()])
        };
        join(&side(&columns(server)), &side(&columns(client)), 3)
    }

    #[test]
    fn ops_with_one_key_are_partners_whatever_their_order() {
        let found = joined(&[(0, 8), (1, 7), (0, 7), (3, 1)], &[(0, 7), (0, 8), (1, 7), (1, 8), (3, 1)]);
        assert_eq!(found, Joined { partner: vec![2, 0, 1, -1, -1], ..Joined::default() });
    }

    #[test]
    fn ops_that_share_a_key_are_left_to_the_caller() {
        let found = joined(&[(0, 5), (0, 7), (0, 7)], &[(0, 7), (0, 6), (0, 6), (0, 5)]);
        assert_eq!(found, Joined { partner: vec![-1, -1, -1, 0], several: vec![1, 2, 0], sizes: vec![[2, 1]] });
    }

    #[test]
    fn the_byte_order_of_the_counter_does_not_matter() {
        let ops: Vec<(i32, u32)> = (0..2000).map(|row| (row % 3, row as u32 / 3 + 250)).collect();
        let swapped: Vec<(i32, u32)> = ops.iter().map(|&(conn, xid)| (conn, xid.swap_bytes())).collect();
        assert_eq!(joined(&ops, &ops), joined(&swapped, &swapped));
        assert!(joined(&ops, &ops).partner.iter().copied().eq(0..2000));
    }

    #[test]
    fn xids_of_any_spread_are_sorted() {
        let mut state = 1_u64;
        for bits in 0..=32 {
            let xids: Vec<Entry> = (0..3000)
                .map(|row| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((state >> 32) & ((1 << bits) - 1)) << 32 | row
                })
                .collect();
            let (mut sorted, mut other) = (xids.clone(), Vec::new());
            by_xid(&mut sorted, &mut other);
            let mut wanted = xids;
            wanted.sort_unstable();
            assert_eq!(sorted, wanted);
        }
    }
}
