//! Draws key numbers by Zipf's law: key n (from 0) is asked for in proportion to 1 / (n + 1)^skew.
//!
//! Shape:  alias table: one column per key, two keys share a column
//! Cost:   two random numbers per draw, 8 B per key
//! Source: Walker 1977; the table is built as by Vose, A linear algorithm for generating random numbers, 1991

use crate::limits::GENERATED_KEYS_MAX;
use units::Rng;

/// The sampler.
#[derive(Clone, Debug)]
pub struct Zipf {
    columns: Vec<Column>,
}

/// The column's own key is drawn below `threshold` / 2^32, `alias` otherwise.
#[derive(Clone, Copy, Debug)]
struct Column {
    threshold: u32,
    alias: u32,
}

impl Zipf {
    /// A sampler over `keys`, held to `1..=GENERATED_KEYS_MAX`; a `skew` of 0 is uniform.
    #[must_use]
    pub fn new(keys: u32, skew: f64) -> Self {
        let keys = keys.clamp(1, GENERATED_KEYS_MAX);
        let weights = (1..=keys).map(|place| f64::from(place).powf(-skew.max(0.0)));
        Self { columns: columns(weights.collect()) }
    }

    /// Number of keys.
    #[must_use]
    pub fn keys(&self) -> u32 {
        u32::try_from(self.columns.len()).unwrap_or(GENERATED_KEYS_MAX)
    }

    /// One key number, the most popular one is 0.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        let index = rng.index(self.columns.len());
        let column = self.columns[index];
        if rng.next_u64() >> 32 < u64::from(column.threshold) {
            u32::try_from(index).unwrap_or(column.alias)
        } else {
            column.alias
        }
    }
}

fn columns(mut weights: Vec<f64>) -> Vec<Column> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for (number, weight) in (0_u32..).zip(&mut weights) {
        *weight /= mean;
        if *weight < 1.0 { small.push(number) } else { large.push(number) }
    }
    // What no step below touches keeps its column to itself.
    let mut columns: Vec<Column> =
        (0_u32..).take(weights.len()).map(|number| Column { threshold: u32::MAX, alias: number }).collect();
    while let (Some(less), Some(more)) = (small.pop(), large.pop()) {
        columns[less as usize] = Column { threshold: of_32_bits(weights[less as usize]), alias: more };
        let rest = weights[more as usize] - (1.0 - weights[less as usize]);
        weights[more as usize] = rest;
        if rest < 1.0 { small.push(more) } else { large.push(more) }
    }
    columns
}

fn of_32_bits(probability: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    let scaled = (probability * f64::from(u32::MAX)) as u32;
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: u32, skew: f64) {
        let zipf = Zipf::new(keys, skew);
        let mut rng = Rng::new(5);
        let draws = 400_000;
        let mut seen = vec![0_u32; keys as usize];
        for _ in 0..draws {
            seen[zipf.draw(&mut rng) as usize] += 1;
        }
        let total: f64 = (1..=keys).map(|r| f64::from(r).powf(-skew)).sum();
        for number in [0, 1, 9, keys as usize - 1] {
            let p = ((number + 1) as f64).powf(-skew) / total;
            let (mean, sd) = (p * f64::from(draws), (p * f64::from(draws)).sqrt());
            let difference = (f64::from(seen[number]) - mean).abs();
            assert!(difference < 5.0 * sd + 1.0, "skew {skew} key {number}: {} {mean}", seen[number]);
        }
    }

    #[test]
    fn draws_follow_the_law() {
        for (keys, skew) in [(10, 0.0), (1_000, 0.7), (1_000, 1.0), (100, 2.1)] {
            check(keys, skew);
        }
    }

    #[test]
    fn the_edges_draw_too() {
        let mut rng = Rng::new(1);
        assert_eq!(Zipf::new(0, 1.0).draw(&mut rng), 0);
        assert_eq!(Zipf::new(1, 1.0).keys(), 1);
        assert!(Zipf::new(2, -1.0).draw(&mut rng) < 2);
    }
}
