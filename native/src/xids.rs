//! How a client counts its XIDs (`nfslat/decode/xid_gaps.py`).

/// Where XIDs are less dense than one in so many numbers, they are sorted.
const SPARSE: u64 = 8;

/// From each XID of some, each taken once, to the next larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// They are counted in the byte order of the wire, else in the other.
    pub is_wire: bool,
    pub count: u64,
    pub ones: u64,
    pub total: u64,
    /// Numbers that are left out by steps that are not too large.
    pub left_out: u64,
}

impl Steps {
    /// In the byte order in which `xids` are near each other, or in the other where more of them follow each other in
    /// that; steps beyond `largest` leave out nothing.
    pub fn of(xids: &[u32], largest: u64) -> Steps {
        let in_wire = |is_wire: bool| move |&xid: &u32| if is_wire { xid } else { xid.swap_bytes() };
        let [own, other] = [true, false].map(|is_wire| bounds(xids.iter().map(in_wire(is_wire))));
        let is_wire = own.1 - own.0 <= other.1 - other.0;
        let steps = |is_wire: bool| {
            let (least, most) = if is_wire { own } else { other };
            Steps { is_wire, ..Steps::counted(xids.iter().map(in_wire(is_wire)), least, most, largest) }
        };
        let near = steps(is_wire);
        if near.ones * 2 >= near.count {
            return near;
        }
        let turned = steps(!is_wire);
        if turned.ones > near.ones { turned } else { near }
    }

    fn counted(xids: impl ExactSizeIterator<Item = u32>, least: u32, most: u32, largest: u64) -> Steps {
        let span = u64::from(most - least) + 1;
        let mut steps = Steps::default();
        if span > SPARSE * xids.len() as u64 {
            let mut sorted: Vec<u32> = xids.collect();
            sorted.sort_unstable();
            sorted.dedup();
            sorted.windows(2).for_each(|pair| steps.add(u64::from(pair[1] - pair[0]), largest));
            return steps;
        }
        let mut there = vec![0_u64; span.div_ceil(64) as usize];
        for xid in xids {
            let above = xid - least;
            there[(above / 64) as usize] |= 1 << (above % 64);
        }
        let mut last = 0;
        for (mut word, begin) in there.into_iter().zip((0_u64..).step_by(64)) {
            while word != 0 {
                let at = begin + u64::from(word.trailing_zeros());
                if at > 0 {
                    steps.add(at - last, largest);
                }
                last = at;
                word &= word - 1;
            }
        }
        steps
    }

    fn add(&mut self, step: u64, largest: u64) {
        self.count += 1;
        self.ones += u64::from(step == 1);
        self.total += step;
        self.left_out += if step <= largest { step - 1 } else { 0 };
    }
}

fn bounds(xids: impl Iterator<Item = u32>) -> (u32, u32) {
    xids.fold((u32::MAX, 0), |(least, most), xid| (least.min(xid), most.max(xid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of any XIDs in any order, written down.
    fn by_hand(xids: &[u32], is_wire: bool) -> Steps {
        let mut sorted: Vec<u32> = xids.iter().map(|&xid| if is_wire { xid } else { xid.swap_bytes() }).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut steps = Steps { is_wire, ..Steps::default() };
        for pair in sorted.windows(2) {
            let step = u64::from(pair[1] - pair[0]);
            steps.count += 1;
            steps.total += step;
            steps.ones += u64::from(step == 1);
            steps.left_out += if step > 1000 { 0 } else { step - 1 };
        }
        steps
    }

    #[test]
    fn a_client_counts_in_the_byte_order_of_its_machine() {
        let xids: Vec<u32> = (250..900).filter(|xid| xid % 10 != 3).collect();
        let swapped: Vec<u32> = xids.iter().map(|xid| xid.swap_bytes()).collect();
        assert_eq!(Steps::of(&xids, 1000), by_hand(&xids, true));
        assert_eq!(Steps::of(&swapped, 1000), by_hand(&swapped, false));
        assert_eq!(Steps::of(&xids, 1000).left_out, 65);
    }

    proptest::proptest! {
        #![proptest_config(crate::testing::cases(200))]

        #[test]
        fn steps_are_those_of_the_numbers_in_order(
            xids in proptest::collection::vec(proptest::num::u32::ANY, 1..40),
            width in proptest::sample::select(vec![20, 300, 5000, u32::MAX]),
            least in proptest::num::u32::ANY,
        ) {
            let xids: Vec<u32> = xids.into_iter().map(|xid| least.wrapping_add(xid % width)).collect();
            let found = Steps::of(&xids, 1000);
            proptest::prop_assert_eq!(found, by_hand(&xids, found.is_wire));
            let other = by_hand(&xids, !found.is_wire);
            proptest::prop_assert!(found.ones * 2 >= found.count || found.ones >= other.ones);
        }
    }
}
