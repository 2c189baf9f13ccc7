//! The requests that took longest of late: a ring of those beyond a threshold.
//!
//! Units:   microseconds from when the request had arrived to when its reply was given to the socket
//! Failure: more than `SLOW_PER_SECOND` are counted, not kept

use super::operation::CommandClass;
use crate::limits::{SLOW_KEY_MAX, SLOW_PER_SECOND, SLOW_RECORDS};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use units::TenantId;

/// A batch of requests that took long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slow {
    /// Its number, from 1.
    pub number: u64,
    /// Seconds since 1970.
    pub unix_secs: i64,
    /// Whose its first request was.
    pub tenant: TenantId,
    /// What its first request was.
    pub class: CommandClass,
    /// Its word in the text protocol, empty if it is none of its commands; its opcode in the binary one, as `0x00`.
    pub command: Cow<'static, str>,
    /// The first key in it, or what of it is kept.
    pub key: Box<[u8]>,
    /// Requests in the batch, which were answered together.
    pub requests: u32,
    /// What it took.
    pub micros: u64,
    /// Bytes of the requests.
    pub received_bytes: u64,
    /// Bytes of the replies.
    pub sent_bytes: u64,
    /// The connection's number.
    pub connection: usize,
    /// Its address; none behind a UNIX socket.
    pub peer: Option<SocketAddr>,
}

/// The ring.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    total: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    ring: VecDeque<Slow>,
    second: i64,
    in_second: u32,
}

impl SlowLog {
    /// Notes a slow batch and numbers it.
    pub(crate) fn add(&self, mut slow: Slow) {
        slow.number = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.second != slow.unix_secs {
            (kept.second, kept.in_second) = (slow.unix_secs, 0);
        }
        if SLOW_PER_SECOND <= kept.in_second {
            return;
        }
        kept.in_second += 1;
        if kept.ring.len() == SLOW_RECORDS {
            kept.ring.pop_front();
        }
        kept.ring.push_back(slow);
    }

    /// How many there were.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Those kept, the latest first.
    pub(crate) fn records(&self) -> Vec<Slow> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.ring.iter().rev().cloned().collect()
    }

    /// A tenant has gone: its batches are nobody's.
    pub(crate) fn forget(&self, tenant: TenantId) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.ring.retain(|slow| slow.tenant != tenant);
    }

    /// Memory at most.
    pub(crate) const BYTES_MAX: usize = SLOW_RECORDS * (size_of::<Slow>() + SLOW_KEY_MAX + "0x00".len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(unix_secs: i64, micros: u64) -> Slow {
        Slow {
            number: 0,
            unix_secs,
            tenant: TenantId(0),
            class: CommandClass::Read,
            command: Cow::Borrowed("get"),
            key: Box::default(),
            requests: 1,
            micros,
            received_bytes: 0,
            sent_bytes: 0,
            connection: 1,
            peer: None,
        }
    }

    #[test]
    fn who_is_gone_leaves_nothing_to_who_comes() {
        let log = SlowLog::default();
        for tenant in [1, 2, 1, 3].map(TenantId) {
            log.add(Slow { tenant, ..slow(1, 9) });
        }
        log.forget(TenantId(1));
        let kept: Vec<_> = log.records().iter().map(|slow| (slow.tenant.0, slow.number)).collect();
        assert_eq!((kept, log.total()), (vec![(3, 4), (2, 2)], 4));
    }

    #[test]
    fn a_flood_is_counted_and_the_ring_keeps_the_latest() {
        let log = SlowLog::default();
        (0..1000).for_each(|n| log.add(slow(1, n)));
        assert_eq!(log.total(), 1000);
        assert_eq!(log.records().len(), SLOW_PER_SECOND as usize);
        (2..1000).for_each(|second| log.add(slow(second, 5)));
        let records = log.records();
        assert_eq!(records.len(), SLOW_RECORDS);
        assert_eq!((records[0].unix_secs, records[0].number), (999, 1998));
        assert!(records.iter().all(|record| record.micros == 5));
    }
}
