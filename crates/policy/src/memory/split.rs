//! Splits a number of bytes by weight so that the parts sum to it exactly.

use units::Bytes;

/// Adds to `parts[i]` its part of `total` by `weights[i]`; the bytes lost to rounding go to the first parts.
/// With no weight above zero everybody gets an equal part. Nothing happens without parts.
pub(super) fn add_by_weight(total: Bytes, weights: &[f64], parts: &mut [Bytes]) {
    debug_assert_eq!(weights.len(), parts.len());
    let sum: f64 = weights.iter().sum();
    let count = parts.len();
    if count == 0 {
        return;
    }
    let mut left = total.0;
    for (part, weight) in parts.iter_mut().zip(weights) {
        let fraction = if 0.0 < sum { weight / sum } else { 1.0 / count as f64 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a fraction in 0..=1 of a size, bounded by what is left"
        )]
        let give = ((total.0 as f64 * fraction) as u64).min(left);
        part.0 += give;
        left -= give;
    }
    // What rounding left: a few bytes, or all of it if the weights were lost in the sum's precision.
    let each = left / count as u64;
    let extra = left % count as u64;
    for (i, part) in parts.iter_mut().enumerate() {
        part.0 += each + u64::from((i as u64) < extra);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_sum_to_the_whole() {
        for (total, weights, expected) in [
            (100, vec![1.0, 1.0], vec![50, 50]),
            (10, vec![5.0, 1.0], vec![9, 1]),
            (7, vec![1.0, 1.0, 1.0], vec![3, 2, 2]),
            (5, vec![0.0, 0.0], vec![3, 2]),
            (0, vec![1.0], vec![0]),
            (9, vec![], vec![]),
        ] {
            let mut parts = vec![Bytes(0); weights.len()];
            add_by_weight(Bytes(total), &weights, &mut parts);
            assert_eq!(parts, expected.into_iter().map(Bytes).collect::<Vec<_>>(), "{total} {weights:?}");
        }
    }
}
