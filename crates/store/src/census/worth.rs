//! What the items of a tenant are worth that go in an order of their own.
//!
//! Shape:      bytes and hits to be expected, both by the tenant's rank -> bytes by worth, the scale on which tenants compete
//! Invariants: the bytes are the same; what goes first is worth no more than what goes next
//! Units:      bytes charged; hits per tick; a worth as bins of `rank/density.rs`
//! Source:     least squares under an order, by pooling neighbours that violate it: Ayer, Brunk, Ewing, Reid, Silverman 1955. Here the
//!             sum of what a tenant loses becomes a convex function of its bytes, so that taking where least is lost is best

use super::{BytesByBin, HitsByBin};
use crate::rank::{BIN_MIN, worth};

/// Bytes by worth: of each rank the mean of what has it. A rank that goes before others worth less is one with them: who takes
/// it takes them next. Of the last rank `pinned` bytes stay, whatever they are worth.
pub(crate) fn by_worth(bytes: &BytesByBin, hits: &HitsByBin, pinned: u32) -> BytesByBin {
    let mut blocks: Vec<(u32, f32)> = Vec::new();
    let of = |rank: u8| {
        let stays = if rank == u8::MAX { pinned } else { 0 };
        (bytes[usize::from(rank)].saturating_sub(stays), hits[usize::from(rank)])
    };
    for (mut bytes, mut hits) in (BIN_MIN..=u8::MAX).map(of).filter(|(bytes, _)| *bytes != 0) {
        while let Some((fewer, lower)) = blocks.pop_if(|(b, h)| hits * *b as f32 <= *h * bytes as f32) {
            bytes += fewer;
            hits += lower;
        }
        blocks.push((bytes, hits));
    }
    let mut row = [0; 256];
    row[usize::from(u8::MAX)] = pinned.min(bytes[usize::from(u8::MAX)]);
    for (bytes, hits) in blocks {
        row[usize::from(worth(hits / bytes as f32))] += bytes;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::AGE_MAX;
    use crate::rank::{Clock, RankKind, Usage, density};

    /// Bytes and hits of items by rank, and what becomes of them by worth: what has any, the lowest first.
    fn worths(items: &[(u8, u32, f32)]) -> Vec<(u8, u32)> {
        worths_beside(items, 0)
    }

    /// The same, with so many bytes of the last rank that stay.
    fn worths_beside(items: &[(u8, u32, f32)], pinned: u32) -> Vec<(u8, u32)> {
        let (mut bytes, mut hits) = ([0; 256], [0.0; 256]);
        for &(rank, size, density) in items {
            bytes[usize::from(rank)] += size;
            hits[usize::from(rank)] += size as f32 * density;
        }
        bytes[255] += pinned;
        let row = by_worth(&bytes, &hits, pinned);
        (0..=u8::MAX).map(|rank| (rank, row[usize::from(rank)])).filter(|(_, bytes)| *bytes != 0).collect()
    }

    #[test]
    fn an_order_by_worth_stays_as_it_is() {
        let [low, middle, high] = [1e-5, 1e-4, 1e-3].map(|density| (density, worth(density)));
        let got = worths(&[(9, 100, low.0), (20, 200, middle.0), (21, 50, high.0)]);
        assert_eq!(got, [(low.1, 100), (middle.1, 200), (high.1, 50)]);
    }

    #[test]
    fn what_shields_something_worth_less_is_one_with_it() {
        let mean = (100.0 * 1e-3 + 300.0 * 1e-5) / 400.0;
        assert_eq!(worths(&[(9, 100, 1e-3), (20, 300, 1e-5)]), [(worth(mean), 400)]);
        let mean = (100.0 * 1e-3 + 300.0 * 1e-5 + 50.0 * 1e-4) / 450.0;
        assert_eq!(
            worths(&[(9, 100, 1e-3), (20, 300, 1e-5), (21, 50, 1e-4)]),
            [(worth(mean), 450)],
            "those before are worth more than what follows"
        );
        assert_eq!(worths(&[(9, 100, 1e-5), (20, 300, 1e-3)]).len(), 2);
    }

    #[test]
    fn what_stays_whatever_its_worth_does() {
        assert_eq!(worths_beside(&[(2, 10, 1.0)], 100), [(worth(1.0), 10), (255, 100)]);
        assert_eq!(worths_beside(&[(255, 10, 1e-4)], 100), [(worth(1e-4), 10), (255, 100)]);
        assert_eq!(
            worths(&[(255, 10, 1e-4)]),
            [(worth(1e-4), 10)],
            "a rank that has no higher one is no such thing"
        );
        assert_eq!(worths(&[(3, 10, f32::MAX / 1e10)]), [(254, 10)], "worth very much is not that");
        assert_eq!(worths(&[(3, 10, 0.0)]), [(BIN_MIN, 10)]);
        assert_eq!(worths(&[]), []);
    }

    /// By `density` itself the way over worths says what ranks say.
    #[test]
    fn ranks_that_are_worths_come_out_as_they_went_in() {
        let clock = Clock::default();
        for (age, uses, size) in [(0, 0, 40), (AGE_MAX, 0, 1 << 20), (17, 9, 333), (3, 15, 70)] {
            let usage = Usage { age, uses, size, ..Usage::default() };
            let rank = RankKind::Density.bin(&usage, 0.0, &clock);
            assert_eq!(worths(&[(rank, 1_000, density(&usage))]), [(rank, 1_000)]);
        }
    }
}
