use super::*;
use crate::link::{Frame, dissect};
use crate::testing::*;

/// What each of some segments is, one of them every so many ns.
fn copies(segments: &[(Tcp, u32)], apart_ns: i64) -> Vec<bool> {
    let (mut seen, mut repeats_ids) = (Copies::default(), false);
    let mut t_ns = 0;
    let mut is_copy = |(segment, point): &(Tcp, u32)| {
        let bytes = segment.frame();
        let Frame::Tcp(_, segment) = dissect(1, &bytes, bytes.len() as u32) else { panic!("no segment") };
        t_ns += apart_ns;
        seen.is_copy(3, *point, &segment, t_ns, &mut repeats_ids)
    };
    segments.iter().map(&mut is_copy).collect()
}

fn with_id(id: u16) -> Tcp {
    tcp(CLIENT, SERVER).seq(7).data(b"data").id(id)
}

#[test]
fn the_same_identification_and_numbers_are_a_copy() {
    let near = [(with_id(5), 0), (with_id(6), 0), (with_id(5), 0), (with_id(5), 0)];
    assert_eq!(copies(&near, 1000), [false, false, true, true]);
    assert_eq!(copies(&near, NEAR_NS as i64), [false; 4]);
    assert_eq!(copies(&[(with_id(5), 0), (with_id(5).window(9), 0)], 1000), [false; 2]);
}

/// Hardware that cuts packets up may give all pieces one identification.
#[test]
fn a_sender_that_repeats_identifications_is_not_believed() {
    let segments = [(with_id(5), 0), (with_id(5).seq(11), 0), (with_id(5), 0), (with_id(5), 0)];
    assert_eq!(copies(&segments, 1000), [false; 4]);
}

#[test]
fn without_identification_another_interface_tells() {
    let segments = [(with_id(0), 1), (with_id(0), 2), (with_id(0), 1), (with_id(0), 2), (with_id(0).ack(3), 1)];
    assert_eq!(copies(&segments, 1000), [false, true, false, true, false]);
}
