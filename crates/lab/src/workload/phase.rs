//! How a tenant's demand changes with time: what makes sharing better than a partition that nobody moves.

use units::{Duration, Instant};

/// The course of one tenant's demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The same all the time: `steady`.
    Steady,
    /// For the last `length` of every `period` the working set and the request rate triple: `burst 20s 8s`.
    Burst {
        /// From one burst's start to the next one's.
        period: Duration,
        /// How long a burst lasts.
        length: Duration,
    },
    /// For the last `length` of every `period` the tenant walks over its keys in order: `scan 30s 10s`.
    Scan {
        /// From one scan's start to the next one's.
        period: Duration,
        /// How long a scan lasts.
        length: Duration,
    },
    /// No request before `after`: `late 15s`.
    Late {
        /// When it arrives.
        after: Duration,
    },
}

impl Phase {
    /// How many times larger the working set and the request rate are in a burst.
    pub const BURST_FACTOR: u32 = 3;

    /// The phase that `text` names, as in the variants' descriptions.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let name = words.next()?;
        let mut duration = || words.next()?.parse::<Duration>().ok();
        let phase = match name {
            "steady" => Self::Steady,
            "burst" => Self::Burst { period: duration()?, length: duration()? },
            "scan" => Self::Scan { period: duration()?, length: duration()? },
            "late" => Self::Late { after: duration()? },
            _ => return None,
        };
        let fits = match phase {
            Self::Burst { period, length } | Self::Scan { period, length } => {
                length <= period && Duration::ZERO < period
            }
            Self::Steady | Self::Late { .. } => true,
        };
        (fits && words.next().is_none()).then_some(phase)
    }

    /// Whether a burst is on at `now`.
    #[must_use]
    pub fn is_burst(self, now: Instant) -> bool {
        matches!(self, Self::Burst { period, length } if is_last_part(now, period, length))
    }

    /// Whether a scan is on at `now`.
    #[must_use]
    pub fn is_scan(self, now: Instant) -> bool {
        matches!(self, Self::Scan { period, length } if is_last_part(now, period, length))
    }

    /// Requests at `now` relative to the tenant's usual rate.
    #[must_use]
    pub fn rate(self, now: Instant) -> u32 {
        match self {
            Self::Late { after } if now.since(Instant::ZERO) < after => 0,
            _ if self.is_burst(now) => Self::BURST_FACTOR,
            _ => 1,
        }
    }
}

fn is_last_part(now: Instant, period: Duration, length: Duration) -> bool {
    let into = now.0.checked_rem(period.0).unwrap_or(0);
    (period - length).0 <= into && Duration::ZERO < length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn phases_parse() {
        let burst = Phase::Burst { period: Duration::from_secs(20), length: Duration::from_secs(8) };
        assert_eq!(Phase::parse("burst 20s 8s"), Some(burst));
        assert_eq!(Phase::parse("late 15s"), Some(Phase::Late { after: Duration::from_secs(15) }));
        for bad in ["", "burst", "burst 20s", "burst 8s 20s", "scan 0s 0s", "late 1", "steady 1s", "sleepy"] {
            assert_eq!(Phase::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn phases_change_with_time() {
        for (text, rates) in
            [("steady", [1, 1, 1, 1]), ("burst 20s 8s", [1, 1, 3, 1]), ("late 12s", [0, 0, 1, 1])]
        {
            let phase = Phase::parse(text).unwrap();
            assert_eq!([0, 11, 12, 20].map(|secs| phase.rate(at(secs))), rates, "{text}");
        }
        let scan = Phase::parse("scan 30s 10s").unwrap();
        assert_eq!(
            [0, 19, 20, 29, 30, 50].map(|s| scan.is_scan(at(s))),
            [false, false, true, true, false, true]
        );
    }
}
