//! Numbers in, their rows in ascending order out; or only what would stand at some places of that order.
//!
//! The twin of `nfslat/kernels/order.py`.

const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Fewer are sorted by comparing them.
const FEW: usize = 512;

/// Rows of `values`, ascending; equal ones in their order. Where no two are more than 2^32 apart, and they are in no
/// order yet, digit by digit.
pub fn order(values: &[i64]) -> Vec<i64> {
    let (Some(&least), Some(&most)) = (values.iter().min(), values.iter().max()) else { return Vec::new() };
    let range = most.wrapping_sub(least) as u64;
    if values.is_sorted() {
        return (0..values.len() as i64).collect();
    }
    if values.len() < FEW || range > u64::from(u32::MAX) {
        let mut rows: Vec<(i64, u32)> = values.iter().zip(0..).map(|(&value, row)| (value, row)).collect();
        rows.sort_by_key(|&(value, _)| value); // stable, and quick where much is in order
        return rows.into_iter().map(|(_, row)| i64::from(row)).collect();
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
    rows.into_iter().map(|one| i64::from(one as u32)).collect()
}

/// Numbers are put into so many bins, two to that, and what is looked for is looked for in one of them.
const BIN_BITS: u32 = 16;

/// What stands at each of `places`, counted from 0, when `values` ascend. Panics where there are not so many.
pub fn ranks(values: &[i64], places: &[usize]) -> Vec<i64> {
    let (Some(&least), Some(&most)) = (values.iter().min(), values.iter().max()) else { return Vec::new() };
    let range = most.wrapping_sub(least) as u64;
    let shift = (u64::BITS - range.leading_zeros()).saturating_sub(BIN_BITS);
    if values.len() < FEW || shift == 0 && range as usize >= values.len() {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        return places.iter().map(|&place| sorted[place]).collect();
    }
    let bin = |value: i64| (value.wrapping_sub(least) as u64 >> shift) as usize;
    let mut ends = vec![0; bin(most) + 1];
    values.iter().for_each(|&value| ends[bin(value)] += 1);
    let mut sum = 0;
    ends.iter_mut().for_each(|end| (*end, sum) = (sum + *end, sum + *end));
    let bins = places.iter().map(|&place| ends.partition_point(|&end| end <= place));
    if shift == 0 {
        return bins.map(|at| least + at as i64).collect();
    }
    let mut found: Vec<(usize, Vec<i64>)> = bins.map(|at| (at, Vec::new())).collect();
    let mut is_wanted = vec![false; ends.len()];
    found.iter().for_each(|(at, _)| is_wanted[*at] = true);
    for &value in values.iter().filter(|&&value| is_wanted[bin(value)]) {
        let at = bin(value);
        found.iter_mut().filter(|(wanted, _)| *wanted == at).for_each(|(_, inside)| inside.push(value));
    }
    let place_in = |at: usize, place: usize| place - if at == 0 { 0 } else { ends[at - 1] };
    found.iter().zip(places).map(|((at, inside), &place)| ranks(inside, &[place_in(*at, place)])[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            proptest::prop_assert_eq!(ranks(&values, &places), wanted);
        }
    }
}
