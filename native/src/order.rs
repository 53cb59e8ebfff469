//! Numbers in, their rows in ascending order out; or only what would stand at some places of that order.
//!
//! `nfslat/kernels/order.py` calls it.

const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Fewer are sorted by comparing them.
const FEW: usize = 512;

/// Items that a bin is to hold, on average, and so many that are put in order one by one.
const IN_BIN: usize = 4;
const FEW_IN_BIN: usize = 32;

/// `items` by a key from 0 to `most`, equal ones in their order: put into bins of the key, and those put in order. What is
/// nearly in order, as the replies of a capture in the order of the calls, goes where its neighbours went.
fn by_bins<T: Copy + Default>(items: impl Iterator<Item = T> + Clone, most: u64, key: impl Fn(T) -> u64) -> Vec<T> {
    let rows = items.clone().count();
    let bits = (rows / IN_BIN + 1).ilog2();
    let shift = (u64::BITS - most.leading_zeros()).saturating_sub(bits).min(u64::BITS - 1);
    let bin = |item| (key(item) >> shift) as usize;
    let mut ends = vec![0_u32; (most >> shift) as usize + 1];
    items.clone().for_each(|item| ends[bin(item)] += 1);
    let mut sum = 0;
    ends.iter_mut().for_each(|end| sum += std::mem::replace(end, sum));
    let mut out = vec![T::default(); rows];
    for item in items {
        let place = &mut ends[bin(item)];
        out[*place as usize] = item;
        *place += 1;
    }
    let mut begin = 0;
    for end in ends {
        let inside = &mut out[begin..end as usize];
        if inside.len() > FEW_IN_BIN {
            inside.sort_by_key(|&item| key(item));
        } else {
            insert(inside, &key);
        }
        begin = end as usize;
    }
    out
}

fn insert<T: Copy>(items: &mut [T], key: impl Fn(T) -> u64) {
    for at in 1..items.len() {
        let (item, its) = (items[at], key(items[at]));
        let mut to = at;
        while to > 0 && its < key(items[to - 1]) {
            items[to] = items[to - 1];
            to -= 1;
        }
        items[to] = item;
    }
}

/// What of each value is above the least, at most.
fn range(values: &[i64]) -> Option<(i64, u64)> {
    let (&least, &most) = (values.iter().min()?, values.iter().max()?);
    Some((least, most.wrapping_sub(least) as u64))
}

/// Ascending.
pub fn sorted(values: Vec<i64>) -> Vec<i64> {
    match range(&values) {
        Some((least, most)) if !values.is_sorted() => {
            by_bins(values.iter().copied(), most, |value| value.wrapping_sub(least) as u64)
        }
        _ => values,
    }
}

/// Rows of groups, from 0 to `count` - 1, so that those of each stand side by side and keep their order; and how many
/// each has. None where there is another group.
pub fn grouped(groups: &[i32], count: usize) -> Option<(Vec<i32>, Vec<i64>)> {
    let mut next = vec![0_usize; count];
    for &group in groups {
        *next.get_mut(group as usize)? += 1;
    }
    let sizes = next.iter().map(|&size| size as i64).collect();
    let mut sum = 0;
    for begin in &mut next {
        sum += std::mem::replace(begin, sum);
    }
    let mut rows = vec![0; groups.len()];
    for (row, &group) in groups.iter().enumerate() {
        let place = &mut next[group as usize];
        rows[*place] = row as i32;
        *place += 1;
    }
    Some((rows, sizes))
}

/// Rows of `values`, ascending; equal ones in their order. Where no two are more than 2^32 apart, and they are in no
/// order yet, digit by digit.
pub fn order(values: &[i64]) -> Vec<i64> {
    narrow_order(values).into_iter().map(i64::from).collect()
}

/// The same, as numbers of 32 bits.
pub fn narrow_order(values: &[i64]) -> Vec<i32> {
    let Some((least, range)) = range(values) else { return Vec::new() };
    if values.is_sorted() {
        return (0..values.len() as i32).collect();
    }
    if values.len() < FEW || range > u64::from(u32::MAX) {
        let key = |row: i32| values[row as usize].wrapping_sub(least) as u64;
        return by_bins(0..values.len() as i32, range, key);
    }
    let mut rows: Vec<u64> =
        values.iter().zip(0..).map(|(&value, row)| (value.wrapping_sub(least) as u64) << 32 | row).collect();
    let mut other = vec![0; rows.len()];
    for shift in (32..96 - range.leading_zeros()).step_by(DIGIT_BITS as usize) {
        let digit = |one: u64| (one >> shift) as usize & (DIGITS - 1);
        let mut begins = [0_u32; DIGITS];
        rows.iter().for_each(|&one| begins[digit(one)] += 1);
        let mut sum = 0;
        for begin in &mut begins {
            sum += std::mem::replace(begin, sum);
        }
        for &one in &rows {
            let begin = &mut begins[digit(one)];
            other[*begin as usize] = one;
            *begin += 1;
        }
        std::mem::swap(&mut rows, &mut other);
    }
    rows.into_iter().map(|one| one as u32 as i32).collect()
}

/// From the number `near` places below to the one as far above, where `values` ascend: of each, in their own order, at
/// least `least`, times how many there are and by how many places these two are apart (`regularity::log_spacings`).
pub fn spacings(values: &[i64], near: usize, least: f64) -> Vec<f64> {
    let rows = narrow_order(values);
    let ordered: Vec<f64> = rows.iter().map(|&row| values[row as usize] as f64).collect();
    let (count, last) = (rows.len() as f64, rows.len().saturating_sub(1));
    let mut out = vec![0.0; rows.len()];
    for (at, &row) in rows.iter().enumerate() {
        let (below, above) = (at.saturating_sub(near), (at + near).min(last));
        out[row as usize] = (ordered[above] - ordered[below]).max(least) * count / (above - below) as f64;
    }
    out
}

/// Bins of what is above the least: each number below `FINE` has its own, those above are of as many to a doubling.
const FINE_BITS: u32 = 6;
const FINE: u64 = 1 << FINE_BITS;
const BINS: usize = ((u64::BITS - FINE_BITS + 1) << FINE_BITS) as usize;

fn bin_of(above: u64) -> usize {
    let shift = (u64::BITS - 1 - FINE_BITS).saturating_sub((above | FINE).leading_zeros());
    (u64::from(shift) << FINE_BITS) as usize + (above >> shift) as usize
}

/// What stands at each of `places`, counted from 0, when `values` ascend; None where there are not so many. Of those only
/// the bins are put in order in which these places are.
pub fn ranks<T: Copy + Into<i64>>(values: &[T], places: &[usize]) -> Option<Vec<i64>> {
    let least: i64 = values.iter().map(|&value| value.into()).min().unwrap_or_default();
    let bin = |value: T| bin_of(value.into().wrapping_sub(least) as u64);
    let mut ends = vec![0_usize; BINS];
    values.iter().for_each(|&value| ends[bin(value)] += 1);
    let mut sum = 0;
    ends.iter_mut().for_each(|end| (*end, sum) = (sum + *end, sum + *end));
    let mut inside: Vec<Option<Vec<i64>>> = vec![None; BINS];
    let bins: Vec<usize> = places.iter().map(|&place| ends.partition_point(|&end| end <= place)).collect();
    for &at in &bins {
        *inside.get_mut(at)? = Some(Vec::new());
    }
    for &value in values {
        if let Some(some) = &mut inside[bin(value)] {
            some.push(value.into());
        }
    }
    let found = bins.iter().zip(places).map(|(&at, &place)| {
        let begin = if at == 0 { 0 } else { ends[at - 1] };
        Some(*inside.get_mut(at)?.as_mut()?.select_nth_unstable(place - begin).1)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_in_order_and_what_is_not_is_sorted() {
        let mut state = 1_u64;
        for spread in [1, 3, 40, 100_000] {
            let values: Vec<i64> = (0..5000)
                .map(|row| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    row + (state >> 33) as i64 % spread
                })
                .collect();
            let mut wanted = values.clone();
            wanted.sort_unstable();
            assert_eq!(sorted(values), wanted);
        }
    }

    #[test]
    fn numbers_as_far_apart_as_can_be_are_sorted() {
        assert_eq!(sorted(vec![i64::MAX, 0, i64::MIN]), [i64::MIN, 0, i64::MAX]);
        assert_eq!(order(&[i64::MAX, 0, i64::MIN]), [2, 1, 0]);
    }

    #[test]
    fn a_group_that_there_is_not_is_refused() {
        assert_eq!(grouped(&[1, 0, 1], 2), Some((vec![1, 0, 2], vec![1, 2])));
        assert_eq!(grouped(&[0, 2], 2), None);
        assert_eq!(grouped(&[-1], 2), None);
    }

    proptest::proptest! {
        #![proptest_config(crate::testing::cases(200))]

        #[test]
        fn rows_are_in_the_order_of_their_values(
            values in proptest::collection::vec(-3000_i64..3000, 0..1500),
            stretch in proptest::sample::select(vec![1, 3_000_000_007, i64::MAX / 3000]),
        ) {
            let values: Vec<i64> = values.into_iter().map(|value| value / 2 * stretch).collect();
            let mut wanted: Vec<i64> = (0..values.len() as i64).collect();
            wanted.sort_by_key(|&row| values[row as usize]);
            proptest::prop_assert_eq!(order(&values), wanted);
        }

        #[test]
        fn what_stands_at_a_place_is_what_sorting_puts_there(
            values in proptest::collection::vec(-3000_i64..3000, 1..1500),
            stretch in proptest::sample::select(vec![1, 3_000_000_007, i64::MAX / 3000]),
            outlier in proptest::option::of(proptest::num::i64::ANY),
        ) {
            let values: Vec<i64> = values.into_iter().map(|value| value * stretch).chain(outlier).collect();
            let mut wanted = values.clone();
            wanted.sort_unstable();
            let places: Vec<usize> = (0..values.len()).step_by(7).collect();
            let wanted: Vec<i64> = places.iter().map(|&place| wanted[place]).collect();
            proptest::prop_assert_eq!(ranks(&values, &places), Some(wanted));
            proptest::prop_assert_eq!(ranks(&values, &[values.len()]), None);
        }
    }
}
