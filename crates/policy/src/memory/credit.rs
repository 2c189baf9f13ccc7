//! What one shadow hit moves.
//!
//! Shape:      what is configured -> what of it fits a memory; a tenant's own credit in the same proportion
//! Invariants: who claims as much as is configured is treated as who claims nothing, in memories of every size
//! Source:     Memshare §4.1 (64 KiB; sizes of their own are the priorities of tenants)

use units::Bytes;

/// A credit is at most this part of a memory, one in so many: in a small one larger steps are a random walk (the mixed trace
/// in 128 MiB hits .7502 with 64 KiB, .7860 with 16 KiB; in 256 MiB .8180 with 64 and .8179 with 32 KiB).
const PART: u64 = 8_192;

/// What one shadow hit moves, in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Credit {
    asked: Bytes,
    fits: Bytes,
}

impl Credit {
    /// `asked`, or an 8192nd of `memory` where that is less. Memshare's 64 KiB are for memories of gigabytes; they hold from 512 MiB
    /// on.
    #[must_use]
    pub fn fitting(asked: Bytes, memory: Bytes) -> Self {
        Self { asked, fits: asked.min(Bytes((memory.0 / PART).max(1))) }
    }

    /// The same in a part of that memory.
    #[must_use]
    pub fn within(self, part: Bytes) -> Self {
        Self { fits: self.fits.min(Self::fitting(self.asked, part).fits), ..self }
    }

    /// Of a tenant that claims so much as its own, or nothing.
    #[must_use]
    pub fn of(self, own: Option<Bytes>) -> Bytes {
        match own {
            Some(own) if Bytes::ZERO < own && self.fits < self.asked => {
                own.scale(self.fits.0, self.asked.0).max(Bytes(1))
            }
            own => own.unwrap_or(self.fits),
        }
    }
}

/// One that fits every memory.
impl From<Bytes> for Credit {
    fn from(asked: Bytes) -> Self {
        Self { asked, fits: asked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_fit_the_memory() {
        for (memory, credit) in [(16, 2), (128, 16), (256, 32), (512, 64), (4_096, 64)] {
            let fitting = Credit::fitting(Bytes::kib(64), Bytes::mib(memory));
            assert_eq!(fitting.of(None), Bytes::kib(credit), "{memory} MiB");
            for (own, times) in [(64, 1), (128, 2), (192, 3)] {
                assert_eq!(fitting.of(Some(Bytes::kib(own))), Bytes::kib(credit * times), "{memory} MiB");
            }
        }
        let small = Credit::fitting(Bytes(7), Bytes::mib(64));
        assert_eq!((small.of(None), small.of(Some(Bytes(9)))), (Bytes(7), Bytes(9)));
        let least = Credit::fitting(Bytes::kib(64), Bytes(100));
        assert_eq!([None, Some(Bytes(2)), Some(Bytes(0))].map(|own| least.of(own).0), [1, 1, 0]);
    }

    #[test]
    fn a_part_of_a_memory_has_no_more() {
        let all = Credit::fitting(Bytes::kib(64), Bytes::mib(128));
        assert_eq!(all.within(Bytes::mib(16)).of(None), Bytes::kib(2));
        assert_eq!(all.within(Bytes::mib(16)).of(Some(Bytes::kib(128))), Bytes::kib(4));
        assert_eq!(all.within(Bytes::mib(4_096)), all);
        assert_eq!(Credit::from(Bytes::kib(64)).within(Bytes::mib(16)).of(None), Bytes::kib(2));
    }
}
