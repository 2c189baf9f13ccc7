//! memcached's expiry times: one number that is a time from now or a date.

/// memcached takes longer times for dates.
const RELATIVE_MAX_SECS: i64 = 60 * 60 * 24 * 30;
/// A second of the store's clock that has passed.
const PAST: u32 = 1;

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
