//! Numbers of requests, as memcached reads them: by C's `strtol` and its kin, which skip white space before a number, and end it at
//! white space, whatever comes then. No word has a space or a line end; it may have the others.

/// A decimal number with an optional sign.
pub(super) fn number(word: &[u8]) -> Option<i64> {
    let word = trimmed(word);
    let (negative, digits) = match word.split_first() {
        Some((b'-', digits)) => (true, digits),
        Some((b'+', digits)) => (false, digits),
        _ => (false, word),
    };
    let value = i64::try_from(digits_of(digits)?).ok()?;
    Some(if negative { -value } else { value })
}

/// A number of 32 bits with a sign, as an exptime is. One in milliseconds is none.
pub(super) fn time(word: &[u8]) -> Option<i32> {
    number(word).and_then(|n| i32::try_from(n).ok())
}

/// A decimal number below 2^64 as memcached reads it, with C's `strtoull`: a sign may stand before it, and a minus takes it
/// off 2^64, which is refused where the outcome is 2^63 or more.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let word = trimmed(word);
    match word.split_first()? {
        (b'+', digits) => digits_of(digits),
        (b'-', digits) => digits_of(digits).map(u64::wrapping_neg).filter(|n| *n <= i64::MAX.cast_unsigned()),
        _ => digits_of(word),
    }
}

/// The same below 2^32.
pub(super) fn unsigned_32(word: &[u8]) -> Option<u32> {
    unsigned(word).and_then(|n| u32::try_from(n).ok())
}

/// What C reads of a word: nothing of the white space before, nothing from white space on.
fn trimmed(word: &[u8]) -> &[u8] {
    let is_white = |b: &u8| matches!(b, b'\t'..=b'\r');
    if !word.iter().any(is_white) {
        return word;
    }
    let start = word.iter().position(|b| !is_white(b)).unwrap_or(word.len());
    let rest = &word[start..];
    &rest[..rest.iter().position(is_white).unwrap_or(rest.len())]
}

/// A decimal number below 2^64, without a sign.
fn digits_of(word: &[u8]) -> Option<u64> {
    if word.is_empty() || !word.iter().all(u8::is_ascii_digit) {
        return None;
    }
    word.iter().try_fold(0_u64, |n, b| n.checked_mul(10)?.checked_add(u64::from(b - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_a_number_is_none_of_it() {
        for word in ["12", "\t12", "12\t", "\x0b\r12\x0c", "12\rabc", "+12", "\t+12\t+"] {
            assert_eq!(
                (number(word.as_bytes()), unsigned(word.as_bytes())),
                (Some(12), Some(12)),
                "{word:?}"
            );
        }
        assert_eq!(number(b"\t-7\r"), Some(-7));
        for word in ["", "\t", "1a", "a\t1", "\t-\t1", "1\0"] {
            assert_eq!((number(word.as_bytes()), unsigned(word.as_bytes())), (None, None), "{word:?}");
        }
    }
}
