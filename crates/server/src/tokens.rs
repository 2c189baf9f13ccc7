//! A bucket of tokens: how many there are follows from one word, the moment at which the bucket is full again.
//!
//! Shape:      that moment, and now -> the moment once a token is taken, or when there is one
//! Invariants: whoever takes more than there are leaves a debt: over time no more are taken than come back; without one no
//!             wait is longer than a token takes to come back
//! Units:      nanoseconds of the server's clock
//! Source:     the generic cell rate algorithm (ITU-T I.371, annex A)

use units::Instant;

/// How a bucket fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bucket {
    /// Nanoseconds until a token comes back.
    pub(crate) spacing_ns: u64,
    /// Nanoseconds until all have.
    pub(crate) depth_ns: u64,
}

impl Bucket {
    /// When a bucket is full again that would be at `full_at_ns`, once so many tokens more are taken; none if there is none.
    pub(crate) fn taken(self, full_at_ns: u64, tokens: u64, now: Instant) -> Option<u64> {
        let cost = self.spacing_ns.saturating_mul(tokens);
        let has_one = full_at_ns < now.0.saturating_add(self.depth_ns);
        has_one.then(|| full_at_ns.max(now.0).saturating_add(cost))
    }

    /// When a bucket that has none has a token.
    pub(crate) fn token_at(self, full_at_ns: u64) -> Instant {
        Instant(full_at_ns.saturating_sub(self.depth_ns) + 1)
    }

    /// The same once so many tokens are given back.
    pub(crate) fn given_back(self, full_at_ns: u64, tokens: u64) -> u64 {
        full_at_ns.saturating_sub(self.spacing_ns.saturating_mul(tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_one_by_one_leaves_no_wait_longer_than_a_token_takes() {
        let bucket = Bucket { spacing_ns: 100, depth_ns: 300 };
        let now = Instant(1000);
        let (mut full_at_ns, mut taken) = (0, 0);
        while let Some(after) = bucket.taken(full_at_ns, 1, now) {
            (full_at_ns, taken) = (after, taken + 1);
        }
        assert_eq!((full_at_ns, taken, bucket.token_at(full_at_ns)), (1300, 3, Instant(1001)));
        assert_eq!(bucket.taken(full_at_ns, 1, Instant(1001)), Some(1400));
        assert_eq!((bucket.taken(1400, 1, Instant(1001)), bucket.token_at(1400)), (None, Instant(1101)));
        assert_eq!(bucket.taken(bucket.given_back(1400, 1), 1, Instant(1001)), Some(1400));
        // A debt is worked off.
        assert_eq!(bucket.taken(0, 10, now), Some(2000));
        assert_eq!((bucket.taken(2000, 1, now), bucket.token_at(2000)), (None, Instant(1701)));
    }
}
