//! What one turn executed: runs of requests of one tenant and operation, and the keys that were sampled of them.
//!
//! Cost: a comparison and an addition per request; a copy of one key in `HOT_SAMPLING`

use super::operation::Operation;
use crate::limits::HOT_SAMPLING;
use store::Key;
use units::TenantId;

/// Requests of one tenant and operation in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) tenant: TenantId,
    pub(crate) operation: Operation,
    pub(crate) requests: u32,
}

/// What a turn executed. One per worker, used again for every turn.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) runs: Vec<Run>,
    pub(crate) sampled: Vec<(TenantId, Box<[u8]>)>,
    /// Keys until the next is sampled.
    until: u32,
    rng: u64,
}

impl Tally {
    pub(crate) fn new(seed: u64) -> Self {
        let mut tally = Self { runs: Vec::new(), sampled: Vec::new(), until: 1, rng: seed | 1 };
        tally.until = tally.draw();
        tally
    }

    /// Counts a request that was executed.
    #[inline]
    pub(crate) fn count(&mut self, tenant: TenantId, operation: Operation, keys: &[(Key<'_>, TenantId)]) {
        match self.runs.last_mut() {
            Some(run) if run.tenant == tenant && run.operation == operation => run.requests += 1,
            _ => self.runs.push(Run { tenant, operation, requests: 1 }),
        }
        self.note_keys(keys);
    }

    /// Notes keys that a request asked for.
    #[inline]
    pub(crate) fn note_keys(&mut self, keys: &[(Key<'_>, TenantId)]) {
        match u32::try_from(keys.len()) {
            Ok(count) if count < self.until => self.until -= count,
            _ => self.sample(keys),
        }
    }

    /// Notes a key that was hashed while its request ran.
    pub(crate) fn note_key(&mut self, tenant: TenantId, key: &[u8]) {
        self.until -= 1;
        if self.until == 0 {
            self.sampled.push((tenant, key.into()));
            self.until = self.draw();
        }
    }

    #[cold]
    fn sample(&mut self, mut keys: &[(Key<'_>, TenantId)]) {
        while let Some((key, tenant)) = keys.get(self.until as usize - 1) {
            self.sampled.push((*tenant, key.bytes().into()));
            keys = &keys[self.until as usize..];
            self.until = self.draw();
        }
        self.until -= u32::try_from(keys.len()).unwrap_or(0);
    }

    /// Keys to the next sample: evenly 1 to twice the mean, so that no period of the requests is met.
    fn draw(&mut self) -> u32 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        1 + (self.rng >> 32) as u32 % (2 * HOT_SAMPLING - 1)
    }

    /// Forgets the turn.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.sampled.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_come_one_by_one_are_sampled_as_often_as_others() {
        let mut tally = Tally::new(7);
        for n in 0..64_000_u32 {
            tally.count(TenantId(1), Operation::Get, &[]);
            tally.note_key(TenantId(1), &n.to_be_bytes());
        }
        assert_eq!(tally.runs, [Run { tenant: TenantId(1), operation: Operation::Get, requests: 64_000 }]);
        assert!((900..=1100).contains(&tally.sampled.len()), "{}", tally.sampled.len());
    }
}
