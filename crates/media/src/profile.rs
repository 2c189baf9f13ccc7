//! A tier's MaxIOPS profile: how many accesses of one kind and size it bears per second, and so what one of them costs.
//!
//! Shape:      rows by size -> a table by 64 B up to 4 KiB -> cost of an access
//! Invariants: sizes of rows ascend; every rate is above zero
//! Units:      cost in picoseconds of the tier, whole: a tier that is used to its limit spends 10¹² of it per second
//! Cost:       a shift and a load up to 4 KiB; a division above
//! Source:     NyxCache §3.3 (cost = 1 / MaxIOPS of kind and size, profile from 64 B to 4 KiB by 64 B). We add: sizes between
//!             rows cost what the next larger row costs, above 4 KiB an access costs as many whole pieces and the rest

use crate::SlowAccess;
use crate::model::{LINE, MemorySystem};
use units::Bytes;

/// Largest access of a profile; larger ones cost whole pieces of it.
pub const PROFILE_MAX: Bytes = Bytes(4096);
/// Steps of the table.
const STEPS: usize = (PROFILE_MAX.0 / LINE) as usize;
/// A second, in ps.
const SECOND_PS: f64 = 1e12;

/// One line of a tier's profile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProfileRow {
    /// Size of the accesses.
    pub size: Bytes,
    /// Most random reads of that size per second.
    pub read_iops: f64,
    /// Most random writes of that size per second.
    pub write_iops: f64,
}

/// Why rows are no profile.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum ProfileError {
    /// The largest size is not there, or not the last.
    #[error("the profile does not end with accesses of {PROFILE_MAX}")]
    End,
    /// Sizes do not ascend.
    #[error("the profile's sizes do not ascend at {0}")]
    Order(Bytes),
    /// A rate is not a positive number.
    #[error("the profile has no rate for accesses of {0}")]
    Rate(Bytes),
}

/// What accesses to a tier cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Reads, then writes; by size in lines, less one.
    cost_ps: Box<[[u64; STEPS]; 2]>,
}

impl Profile {
    /// The profile that `rows` make, which end at [`PROFILE_MAX`].
    ///
    /// # Errors
    /// If they do not ascend from above zero to there, or a rate is missing.
    pub fn new(rows: &[ProfileRow]) -> Result<Self, ProfileError> {
        let mut cost_ps = Box::new([[0; STEPS]; 2]);
        let mut filled = 0;
        for row in rows {
            if PROFILE_MAX < row.size {
                return Err(ProfileError::End);
            }
            let last = lines(row.size);
            if row.size == Bytes::ZERO || last <= filled {
                return Err(ProfileError::Order(row.size));
            }
            let costs = [cost(row, row.read_iops)?, cost(row, row.write_iops)?];
            for (table, cost) in cost_ps.iter_mut().zip(costs) {
                table[filled..last].fill(cost);
            }
            filled = last;
        }
        if filled < STEPS { Err(ProfileError::End) } else { Ok(Self { cost_ps }) }
    }

    /// What the model says of a memory system: what a probe of it would find.
    #[must_use]
    pub fn modelled(system: &MemorySystem) -> Vec<ProfileRow> {
        let iops = |access, size| system.max_iops(access, size).unwrap_or(0.0);
        let row = |size| ProfileRow {
            size,
            read_iops: iops(crate::Access::SlowRead, size),
            write_iops: iops(crate::Access::SlowWrite, size),
        };
        (1..=STEPS as u64).map(|i| row(Bytes(i * LINE))).collect()
    }

    /// What one access costs, in ps of the tier.
    #[inline]
    #[must_use]
    pub fn cost_ps(&self, access: SlowAccess, size: Bytes) -> u64 {
        let table = &self.cost_ps[access as usize];
        match table.get(lines(size) - 1) {
            Some(cost) => *cost,
            None => large(table, size),
        }
    }
}

/// What an access beyond the table costs.
#[cold]
fn large(table: &[u64; STEPS], size: Bytes) -> u64 {
    let (pieces, rest) = (size.0 / PROFILE_MAX.0, Bytes(size.0 % PROFILE_MAX.0));
    let whole = pieces.saturating_mul(table[STEPS - 1]);
    if rest.0 == 0 { whole } else { whole.saturating_add(table[lines(rest) - 1]) }
}

/// Lines that an access touches, one at least.
fn lines(size: Bytes) -> usize {
    Bytes(size.0.max(1).div_ceil(LINE)).as_usize()
}

fn cost(row: &ProfileRow, iops: f64) -> Result<u64, ProfileError> {
    if !iops.is_finite() || iops <= 0.0 {
        return Err(ProfileError::Rate(row.size));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; above zero")]
    let ps = (SECOND_PS / iops).round() as u64;
    Ok(ps.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use SlowAccess::{Read, Write};

    fn row(size: u64, read_iops: f64, write_iops: f64) -> ProfileRow {
        ProfileRow { size: Bytes(size), read_iops, write_iops }
    }

    #[test]
    fn cost_is_the_inverse_of_the_rate_and_sizes_round_up() {
        let profile = Profile::new(&[row(64, 4e6, 2e6), row(256, 2e6, 1e6), row(4096, 1e6, 1e5)]).unwrap();
        let cost = |access, size| profile.cost_ps(access, Bytes(size));
        assert_eq!([0, 1, 64].map(|size| cost(Read, size)), [250_000; 3]);
        assert_eq!([65, 128, 256].map(|size| cost(Write, size)), [1_000_000; 3]);
        assert_eq!([257, 4096].map(|size| cost(Write, size)), [10_000_000; 2]);
        assert_eq!(cost(Read, 4097), 1_250_000, "a piece and a line");
        assert_eq!(cost(Read, 8192), 2_000_000, "two pieces");
        assert_eq!(cost(Read, u64::MAX), u64::MAX, "no overflow");
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        let good = row(4096, 1.0, 1.0);
        assert_eq!(Profile::new(&[]), Err(ProfileError::End));
        assert_eq!(Profile::new(&[row(64, 1.0, 1.0)]), Err(ProfileError::End));
        assert_eq!(Profile::new(&[good, row(64, 1.0, 1.0)]), Err(ProfileError::Order(Bytes(64))));
        assert_eq!(
            Profile::new(&[row(64, 1.0, 1.0), row(64, 1.0, 1.0), good]),
            Err(ProfileError::Order(Bytes(64)))
        );
        let order = Err(ProfileError::Order(Bytes::ZERO));
        assert_eq!(Profile::new(&[row(0, 1.0, 1.0), good]), order, "no accesses");
        for beyond in [4097, 8192, u64::MAX] {
            let last = row(beyond, 1.0, 1.0);
            assert_eq!(Profile::new(&[last]), Err(ProfileError::End), "it says nothing of 4 KiB");
            assert_eq!(Profile::new(&[good, last]), Err(ProfileError::End), "nor does one end there");
        }
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Profile::new(&[row(4096, 1.0, rate)]), Err(ProfileError::Rate(PROFILE_MAX)));
        }
    }

    #[test]
    fn the_modelled_profile_has_the_paper_s_shape() {
        let rows = Profile::modelled(&MemorySystem::nyx());
        let profile = Profile::new(&rows).unwrap();
        assert_eq!(rows.len(), STEPS);
        let write = |size| profile.cost_ps(Write, Bytes(size));
        assert_eq!(write(64), write(256), "a line costs what a unit of the medium costs");
        assert!(write(256) * 19 / 10 < write(320));
        assert!(profile.cost_ps(Read, Bytes(256)) < write(256));
    }
}
