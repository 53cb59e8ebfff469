//! Data packets in, bytes by stretch out.

use proptest::prelude::*;

use super::*;
use crate::testing::cases;

const MS: i64 = 1_000_000;
const ENDS: Ends = Ends { src: 1, dst: 2, sport: 3, dport: 4 };

fn rows(loads: &Loads) -> Vec<(i32, i8, i64, i64)> {
    let LoadColumns { conn, direction, begin_ns, bytes } = loads.columns();
    (0..conn.len()).map(|row| (conn[row], direction[row], begin_ns[row] / MS, bytes[row])).collect()
}

/// Stretches begin at multiples of their length; those without data have no row.
#[test]
fn stretches() {
    let (mut loads, mut load) = (AllLoads::default(), Load::default());
    for (t_ns, len) in [(9_999_999, 1), (10_000_000, 10), (19_999_999, 100), (50_000_000, 1000)] {
        load.data((3, 1), &ENDS, len, t_ns, &mut loads);
    }
    load.end((3, 1), &ENDS, &mut loads);
    loads.close();
    assert_eq!(rows(&loads.of_rpc), [(3, 1, 0, 1), (3, 1, 10, 110), (3, 1, 50, 1000)]);
    assert_eq!(loads.of_rpc.stretch_ns, 10 * MS);
}

/// Before a connection shows RPC its bytes are another stream's, but for those of the stretch in which it does.
#[test]
fn without_rpc() {
    let (mut loads, mut load) = (AllLoads::default(), Load::default());
    load.data((NO_CONN, 0), &ENDS, 1, 0, &mut loads);
    load.data((NO_CONN, 0), &ENDS, 10, 10 * MS, &mut loads);
    load.data((0, 0), &ENDS, 100, 11 * MS, &mut loads);
    load.end((0, 0), &ENDS, &mut loads);
    loads.close();
    assert_eq!(rows(&loads.of_rpc), [(0, 0, 10, 110)]);
    let Others { columns, streams, .. } = loads.take_others();
    assert_eq!((columns.stream, columns.begin_ns, columns.bytes), (vec![0], vec![0], vec![1]));
    assert_eq!(streams, [ENDS]);
}

/// Other streams have numbers by who sends to whom; those beyond a bound are not followed, and what another decoder saw
/// joins what this one did.
#[test]
fn other_streams() {
    let (mut loads, mut more) = (AllLoads::default(), AllLoads::default());
    for number in 0..MOST_STREAMS as u16 + 2 {
        let ends = Ends { dport: number, ..ENDS };
        for all in [&mut loads, &mut more] {
            let mut load = Load::default();
            load.data((NO_CONN, 1), &ends, 10, 5, all);
            load.end((NO_CONN, 1), &ends, all);
        }
    }
    loads.fold(&more);
    loads.close();
    let Others { columns, streams, stretch_ns } = loads.take_others();
    assert_eq!((columns.bytes, streams.len(), stretch_ns), (vec![20; MOST_STREAMS], MOST_STREAMS, 10 * MS));
    assert!(rows(&loads.of_rpc).is_empty());
}

/// Where there would be too many rows, stretches become twice as long, and again, and no byte is lost.
#[test]
fn longer_stretches() {
    let (mut loads, mut load) = (AllLoads::default(), Load::default());
    for number in 0..MOST_ROWS as i64 * 3 {
        load.data((0, 0), &ENDS, 1 + number as u32, number * 10 * MS, &mut loads);
    }
    load.end((0, 0), &ENDS, &mut loads);
    loads.close();
    assert_eq!(loads.of_rpc.stretch_ns, 40 * MS); // at the 65th row: 33 of 20 ms are too many still, 17 of 40 ms are not
    let found = rows(&loads.of_rpc);
    assert_eq!(found.len(), 48);
    assert_eq!(found[..2], [(0, 0, 0, 10), (0, 0, 40, 26)]);
    assert_eq!(found.iter().map(|row| row.3).sum::<i64>(), 192 * 193 / 2);
}

/// With more directions than rows the stretches become as long as they may, and what does not fit is counted.
#[test]
fn too_many_directions() {
    let mut loads = AllLoads::default();
    let directions = MOST_ROWS as u32 * 3;
    for conn in 0..directions {
        let mut load = Load::default();
        load.data((conn, 0), &ENDS, 1, i64::from(conn) * 10 * MS, &mut loads);
        load.end((conn, 0), &ENDS, &mut loads);
    }
    loads.close();
    assert!(loads.of_rpc.stretch_ns >= LONGEST_NS);
    assert_eq!(rows(&loads.of_rpc).len(), MOST_ROWS);
    assert_eq!(loads.of_rpc.dropped, u64::from(directions) - MOST_ROWS as u64);
}

proptest! {
    #![proptest_config(cases(500))]

    /// Whenever packets come, their bytes are in the stretches of their time, and no stretch has two rows.
    #[test]
    fn sums(packets in prop::collection::vec((0u32..3, 0usize..2, 0u32..5000, -400i64..4000), 0..300)) {
        let mut loads = AllLoads::default();
        let mut of: Vec<Load> = (0..6).map(|_| Load::default()).collect();
        for (conn, direction, len, ms) in &packets {
            of[2 * *conn as usize + direction].data((*conn, *direction), &ENDS, *len, ms * MS, &mut loads);
        }
        for (number, load) in of.iter_mut().enumerate() {
            load.end((number as u32 / 2, number % 2), &ENDS, &mut loads);
        }
        loads.close();
        let found = rows(&loads.of_rpc);
        prop_assert!(found.len() <= MOST_ROWS);
        prop_assert!(found.windows(2).all(|pair| (pair[0].2, pair[0].0, pair[0].1) < (pair[1].2, pair[1].0, pair[1].1)));
        for (conn, direction, begin_ms, bytes) in found {
            let range = begin_ms..begin_ms + loads.of_rpc.stretch_ns / MS;
            let expected: i64 = packets.iter()
                .filter(|one| (one.0 as i32, one.1 as i8) == (conn, direction) && range.contains(&one.3))
                .map(|one| i64::from(one.2))
                .sum();
            prop_assert_eq!(bytes, expected);
        }
    }
}
