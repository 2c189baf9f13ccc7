//! From which rank on items stay.
//!
//! Shape:      bytes by rank, and how many of them are kept -> a rank, and a part of what has it -> whether an item stays
//! Invariants: what ranks above stays, what ranks below goes; of the rank's own bytes the part stays, spread evenly
//! Units:      bytes charged, or of records

use super::BytesByBin;
use crate::rank::BIN_MIN;
use std::cmp::Ordering;

/// All of something.
const WHOLE: u64 = 1 << 16;

/// Where a tenant's ranks are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    rank: u8,
    /// Of the bytes of the rank's own bin so many stay, in `WHOLE`ths.
    part: u64,
    /// What of that is due: an item stays when all of it is.
    due: u64,
}

impl Cut {
    /// Everything stays.
    pub(crate) const NOTHING: Self = Self { rank: BIN_MIN, part: WHOLE, due: 0 };

    /// So many of the bytes stay, those of the highest ranks.
    pub(crate) fn keeping(kept: u64, bytes_by_bin: &BytesByBin) -> Self {
        let mut left = kept;
        for rank in (BIN_MIN..=u8::MAX).rev() {
            let bytes = u64::from(bytes_by_bin[usize::from(rank)]);
            if left < bytes {
                return Self { rank, part: left * WHOLE / bytes, due: 0 };
            }
            left -= bytes;
        }
        Self::NOTHING
    }

    /// The rank at which it cuts.
    pub(super) fn rank(self) -> u8 {
        self.rank
    }

    /// Whether an item of a rank stays, and its bytes.
    pub(crate) fn keeps(&mut self, rank: u8, bytes: u64) -> bool {
        if rank != self.rank {
            return self.rank < rank;
        }
        self.due += bytes * self.part;
        let stays = bytes * WHOLE <= self.due;
        if stays {
            self.due -= bytes * WHOLE;
        }
        stays
    }

    /// Of so many bytes of a rank, those that stay.
    pub(super) fn kept_of(self, rank: u8, bytes: u64) -> u64 {
        match rank.cmp(&self.rank) {
            Ordering::Less => 0,
            Ordering::Equal => bytes * self.part / WHOLE,
            Ordering::Greater => bytes,
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    /// Bytes of three ranks.
    fn row() -> BytesByBin {
        let mut row = [0; 256];
        (row[10], row[20], row[30]) = (1_000, 500, 250);
        row
    }

    #[test]
    fn so_much_stays_as_was_to_be_kept() {
        for kept in [0, 1, 100, 250, 251, 500, 750, 1_000, 1_749] {
            let mut cut = Cut::keeping(kept, &row());
            let mut stayed = 0;
            for (rank, bytes) in [(10, 10), (20, 5), (30, 1)].into_iter().flat_map(|(rank, bytes)| {
                let items = u64::from(row()[usize::from(rank)]) / bytes;
                (0..items).map(move |_| (rank, bytes))
            }) {
                stayed += if cut.keeps(rank, bytes) { bytes } else { 0 };
            }
            assert!(kept.abs_diff(stayed) <= 10, "{stayed} stayed for {kept}");
            let foreseen: u64 =
                [10, 20, 30].map(|rank| cut.kept_of(rank, row()[usize::from(rank)].into())).iter().sum();
            assert!(kept.abs_diff(foreseen) <= 1, "{foreseen} were foreseen for {kept}");
        }
    }

    #[test]
    fn where_all_is_kept_nothing_goes() {
        for kept in [1_750, u64::MAX] {
            assert_eq!(Cut::keeping(kept, &row()), Cut::NOTHING);
        }
        let mut cut = Cut::NOTHING;
        assert!((BIN_MIN..=u8::MAX).all(|rank| cut.keeps(rank, 7) && cut.kept_of(rank, 7) == 7));
    }

    /// Of one rank items go and stay in turn, and not the first or the last of them.
    #[test]
    fn what_goes_of_the_rank_that_is_cut_is_spread_evenly() {
        let mut cut = Cut::keeping(500, &{
            let mut row = [0; 256];
            row[10] = 1_000;
            row
        });
        let stays: Vec<bool> = (0..10).map(|_| cut.keeps(10, 100)).collect();
        assert_eq!(stays, [false, true].repeat(5));
    }
}
