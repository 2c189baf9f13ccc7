//! memcached's expiry times: one number that is a time from now or a date.

use store::CLOCK_START;

/// memcached takes longer times for dates.
const RELATIVE_MAX_SECS: i64 = 60 * 60 * 24 * 30;
/// A second of the store's clock that has passed.
const PAST: u32 = 1;
/// What memcached's clock shows when it starts: its ITEM_UPDATE_INTERVAL and two seconds.
const START_SECS: u32 = 62;

/// Whether an exptime is a date.
pub(crate) fn is_date(exptime: i64) -> bool {
    RELATIVE_MAX_SECS < exptime
}

/// memcached's exptime as a second of the store's clock: 0 for never, relative up to 30 days, a date beyond.
pub(crate) fn expires_at(exptime: i64, now_secs: u32, unix_now_secs: i64) -> u32 {
    let relative = match exptime {
        0 => return 0,
        ..0 => return PAST,
        1..=RELATIVE_MAX_SECS => exptime,
        date => date - unix_now_secs,
    };
    if relative <= 0 {
        return PAST;
    }
    u32::try_from(relative.saturating_add(i64::from(now_secs))).unwrap_or(u32::MAX)
}

/// Seconds that are left of an expiry, as memcached tells them: none of what never expires; of what is past from the start a number
/// below 0, by memcached's clock and wrapped to 32 bits.
pub(crate) fn seconds_left(expires_at: u32, now_secs: u32) -> u32 {
    match expires_at {
        0 => 0,
        PAST => PAST.wrapping_sub(now_secs).wrapping_sub(START_SECS - CLOCK_START),
        at => at.wrapping_sub(now_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_past_is_told_by_the_clock_of_memcached() {
        let now = CLOCK_START + 15;
        assert_eq!(seconds_left(expires_at(-1, now, 1_800_000_000), now), 4_294_967_220);
        assert_eq!(seconds_left(expires_at(1_000_000_000, now, 1_800_000_000), now), 4_294_967_220);
        assert_eq!((seconds_left(0, now), seconds_left(now + 60, now), seconds_left(now, now)), (0, 60, 0));
    }
}
