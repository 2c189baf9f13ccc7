//! How often an item was used, in four bits: a Morris counter.
//!
//! Units:  a counter of `c` stands for about `(BASE^c − 1) / (BASE − 1)` uses after the first
//! Source: Morris 1978

/// Base of the Morris counter. A base of 1.5 reaches 873 uses with 4 bits; a guess that was not varied.
const BASE: f64 = 1.5;

/// Uses that a counter stands for, the first use included.
pub(crate) const USES: [f32; 16] = uses_table();

const fn uses_table() -> [f32; 16] {
    let mut table = [1.0; 16];
    let mut c = 0;
    let mut power = 1.0;
    while c < 16 {
        #[expect(clippy::cast_possible_truncation, reason = "below 10^4, precision does not matter")]
        {
            table[c] = 1.0 + ((power - 1.0) / (BASE - 1.0)) as f32;
        }
        power *= BASE;
        c += 1;
    }
    table
}

/// Chance in 2^32 that a use raises the counter: BASE^−c.
pub(crate) const RAISE: [u32; 16] = raise_table();

const fn raise_table() -> [u32; 16] {
    let mut table = [0; 16];
    let mut c = 0;
    let mut chance = u32::MAX as f64;
    while c < 15 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 0..=u32::MAX")]
        {
            table[c] = chance as u32;
        }
        chance /= BASE;
        c += 1;
    }
    table
}

/// The counter whose uses are nearest to those of two counters together: of what is remembered of a key (`Meta::remembered`, one more than
/// the counter) by row, of its item by column.
const TOGETHER: [[u8; 16]; 16] = together_table();

const fn together_table() -> [[u8; 16]; 16] {
    let mut table = [[0; 16]; 16];
    let mut cell = 0;
    while cell < 256 {
        let (remembered, counter) = (cell / 16, cell % 16);
        let before = if remembered == 0 { 0.0 } else { USES[remembered - 1] };
        let sum = before + USES[counter];
        let mut best = counter;
        while best < 15 && USES[best + 1] - sum < sum - USES[best] {
            best += 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 16")]
        {
            table[remembered][counter] = best as u8;
        }
        cell += 1;
    }
    table
}

/// The counter that stands best for the uses of an item, those remembered of its key included.
#[inline]
pub(crate) fn all_uses(remembered: u8, counter: u8) -> u8 {
    TOGETHER[usize::from(remembered & 15)][usize::from(counter & 15)]
}

/// One of the two counters next to that sum, the nearer one more often: right on average, however often an item goes and comes.
pub(crate) fn all_uses_by_chance(remembered: u8, counter: u8, random: u32) -> u8 {
    let before = usize::from(remembered & 15).checked_sub(1).map_or(0.0, |counter| USES[counter]);
    let sum = before + USES[usize::from(counter & 15)];
    let low = USES.iter().rposition(|uses| *uses <= sum).unwrap_or(0);
    let high = (low + 1).min(USES.len() - 1);
    let is_high = (sum - USES[low]) * u32::MAX as f32 > (USES[high] - USES[low]) * random as f32;
    u8::try_from(if is_high { high } else { low }).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_counts_with_what_came_since() {
        assert_eq!(
            (0..16).map(|counter| all_uses(0, counter)).collect::<Vec<_>>(),
            (0..16).collect::<Vec<_>>()
        );
        assert_eq!((all_uses(1, 0), all_uses(2, 0), all_uses(15, 15)), (1, 2, 15));
        // An item that goes after each use and comes again, twenty times.
        let mut rng = units::Rng::new(7);
        let mut random = || u32::try_from(rng.next_u64() >> 32).unwrap();
        let rounds = if cfg!(miri) { 200 } else { 10_000 };
        let uses_of = |_| {
            let counter =
                (0..20).fold(0, |remembered, _| all_uses_by_chance(remembered, 0, random()) + 1) - 1;
            f64::from(USES[usize::from(counter)])
        };
        let mean = (0..rounds).map(uses_of).sum::<f64>() / f64::from(rounds);
        let tolerance = if cfg!(miri) { 3.0 } else { 0.5 };
        assert!((mean - 20.0).abs() < tolerance, "{mean}");
    }

    #[test]
    fn morris_counts_are_right_on_average() {
        let mut rng = units::Rng::new(4);
        let uses = 100;
        let (rounds, tolerance) = if cfg!(miri) { (100, 50.0) } else { (5_000, 10.0) };
        let mut sum = 0.0;
        for _ in 0..rounds {
            let mut c = 0_usize;
            for _ in 1..uses {
                if u32::try_from(rng.next_u64() >> 32).unwrap() <= RAISE[c] && c < 15 {
                    c += 1;
                }
            }
            sum += f64::from(USES[c]);
        }
        let mean = sum / f64::from(rounds);
        assert!((mean - 100.0).abs() < tolerance, "{mean}");
    }
}
