//! Sums of integers by group, exact however large.

/// Of each of `count` groups; `groups` has that of each value, None: all are in the first. None where there is another
/// group, or not one for each value.
pub fn sums<T: Copy + Into<i64>>(groups: Option<&[i64]>, values: &[T], count: usize) -> Option<Vec<i128>> {
    let mut sums = vec![0_i128; count];
    match groups {
        None => *sums.first_mut()? = values.iter().map(|&value| i128::from(value.into())).sum(),
        Some(groups) if groups.len() == values.len() => {
            for (&group, &value) in groups.iter().zip(values) {
                *sums.get_mut(group as usize)? += i128::from(value.into());
            }
        }
        Some(_) => return None,
    }
    Some(sums)
}

/// Durations, ns, in each of so many buckets: none and less; up to 1 us, 2 us, 4 us ...; the last has all that are longer.
pub fn buckets(durations_ns: &[i64], buckets: usize) -> Vec<u64> {
    let mut counts = vec![0; buckets];
    for &ns in durations_ns {
        let bits = (u64::BITS - ((ns.max(1) as u64 - 1) / 1000).leading_zeros()) as usize;
        let at = if ns <= 0 { 0 } else { (bits + 1).min(buckets - 1) };
        counts[at] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_may_be_larger_than_any_of_its_numbers() {
        let most = i128::from(i64::MAX);
        assert_eq!(sums(Some(&[1, 0, 1]), &[i64::MAX, -1, i64::MAX], 2), Some(vec![-1, 2 * most]));
        assert_eq!(sums(None, &[i64::MIN, i64::MIN], 1), Some(vec![-2 * most - 2]));
        assert_eq!(sums::<i64>(None, &[], 1), Some(vec![0]));
    }

    #[test]
    fn a_bucket_holds_what_is_up_to_its_bound() {
        assert_eq!(buckets(&[-5, 0, 1, 1000, 1001, 2000, 2001, 4000, 4001, i64::MAX], 5), [2, 2, 2, 2, 2]);
    }

    #[test]
    fn a_group_that_there_is_not_is_refused() {
        assert_eq!(sums(Some(&[2]), &[1_i64], 2), None);
        assert_eq!(sums(Some(&[-1]), &[1_i64], 2), None);
        assert_eq!(sums(Some(&[0, 0]), &[1_i64], 2), None);
    }
}
