//! The key as it goes over the wire: tenant prefix, key, padding.
//!
//! ```text
//!   tenant : key . . . .      padded at the end with '.' to the size that the trace states,
//!   |<--- key_bytes --->|     never cut: a longer prefix and key stay as they are
//! ```

use super::error::{TraceError, shown};
use super::lines::Line;
use crate::limits::KEY_BYTES_MAX;

/// A buffer that holds one wire key at a time.
pub(super) struct WireKey {
    bytes: Vec<u8>,
}

impl WireKey {
    /// An empty buffer.
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(KEY_BYTES_MAX) }
    }

    /// `tenant:key` padded to `padded_bytes`; without the colon where there is no tenant.
    pub(super) fn build(
        &mut self,
        line: Line<'_>,
        tenant: &[u8],
        key: &[u8],
        padded_bytes: u32,
    ) -> Result<&[u8], TraceError> {
        let named = if tenant.is_empty() { 0 } else { tenant.len() + 1 };
        let own_bytes = named + key.len();
        let padded_bytes = usize::try_from(padded_bytes).unwrap_or(usize::MAX).max(own_bytes);
        if key.is_empty() {
            return Err(TraceError::EmptyKey { at: line.place() });
        }
        if padded_bytes > KEY_BYTES_MAX {
            return Err(TraceError::KeyTooLong { at: line.place(), bytes: padded_bytes as u64 });
        }
        self.bytes.clear();
        if named > 0 {
            self.bytes.extend_from_slice(tenant);
            self.bytes.push(b':');
        }
        self.bytes.extend_from_slice(key);
        check(line, &self.bytes)?;
        self.bytes.resize(padded_bytes, b'.');
        Ok(&self.bytes)
    }
}

/// The key itself, if it may go over the wire as it is.
pub(super) fn as_is<'a>(line: Line<'a>, key: &'a [u8]) -> Result<&'a [u8], TraceError> {
    if key.is_empty() {
        return Err(TraceError::EmptyKey { at: line.place() });
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(TraceError::KeyTooLong { at: line.place(), bytes: key.len() as u64 });
    }
    check(line, key)?;
    Ok(key)
}

fn check(line: Line<'_>, key: &[u8]) -> Result<(), TraceError> {
    // No early exit: the loop is vectorised, and nearly every key passes.
    let bad = key.iter().fold(false, |bad, &byte| bad | (byte <= b' ') | (byte == 0x7f));
    if bad { Err(TraceError::KeyByte { at: line.place(), found: shown(key, 40) }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line<'static> = Line { bytes: b"", file: "t", number: 7 };

    #[test]
    fn keys_are_padded_and_never_cut() {
        for (tenant, key, padded, wire) in [
            ("web", "1", 8, "web:1..."),
            ("web", "1", 5, "web:1"),
            ("web", "1", 2, "web:1"),
            ("", "1", 3, "1.."),
            ("", "/a,b", 0, "/a,b"),
        ] {
            let mut buffer = WireKey::new();
            let built = buffer.build(LINE, tenant.as_bytes(), key.as_bytes(), padded).unwrap();
            assert_eq!(built, wire.as_bytes());
        }
    }

    #[test]
    fn keys_that_the_protocol_cannot_carry_are_refused() {
        let mut buffer = WireKey::new();
        for (key, padded, error) in [
            ("", 8, "t:7: the key is empty"),
            ("a b", 8, "t:7: the key 'a b' contains a space or a control byte"),
            ("a\0", 8, "t:7: the key 'a\u{fffd}' contains a space or a control byte"),
            ("a", 251, "t:7: the key has 251 bytes, the limit is 250"),
            ("a", u32::MAX, "t:7: the key has 4294967295 bytes, the limit is 250"),
        ] {
            assert_eq!(buffer.build(LINE, b"", key.as_bytes(), padded).unwrap_err().to_string(), error);
        }
        assert!(as_is(LINE, &[b'k'; 250]).is_ok());
        assert!(as_is(LINE, &[b'k'; 251]).is_err());
        assert!(as_is(LINE, b"").is_err());
    }
}
