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

#[cfg(test)]
mod tests {
    use super::*;

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
