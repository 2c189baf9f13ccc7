//! Counting in place: increments and decrements of decimal values.

use super::away::Content;
use super::place::{Draft, Identity};
use super::{Fields, Key, Old, Refused, Worker};
use crate::curves::SampledKind;
use crate::index::Locked;
use crate::item::state;
use crate::metrics::count;
use units::TenantId;

/// What became of an increment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// The new value.
    Value(u64),
    /// There is no item.
    NotFound,
    /// The value is not a decimal number below 2^64.
    NotNumber,
}

/// An increment or decrement, in full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// By how much.
    pub delta: u64,
    /// Whether it is added (wrapping at 2^64) or taken off (stopping at 0).
    pub up: bool,
    /// CAS value that the item must have; 0 for any.
    pub compare: u64,
    /// CAS value of the new item; none for the next one.
    pub cas: Option<u64>,
    /// Its new expiry; none for what it has.
    pub expires_at: Option<u32>,
    /// The number to store if there is none, and its expiry.
    pub vivify: Option<(u64, u32)>,
    /// The expiry of `vivify` is that of an item that is created, whatever `expires_at` says.
    pub vivify_expiry_wins: bool,
    /// The key was given in base64.
    pub binary_key: bool,
}

/// What became of a `Count`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountedIf {
    /// It was done.
    Done {
        /// The new value.
        value: u64,
        /// Its CAS value.
        cas: u64,
        /// Second at which it expired before; 0 for never.
        expired_at: u32,
        /// There was none.
        created: bool,
    },
    /// The CAS value differs.
    Exists,
    /// There is no item.
    NotFound,
    /// The value is not a decimal number below 2^64.
    NotNumber,
}

impl Worker {
    /// Adds to a decimal value (wrapping at 2^64), or takes from it (stopping at 0). A shorter result keeps the old
    /// length, padded with spaces, as in memcached.
    ///
    /// # Errors
    /// If there is no room.
    pub fn count_by(
        &self,
        tenant: TenantId,
        key: &Key<'_>,
        delta: u64,
        up: bool,
    ) -> Result<Counted, Refused> {
        let count = Count { delta, up, ..Count::default() };
        Ok(match self.count_if(tenant, key, &count)? {
            CountedIf::Done { value, .. } => Counted::Value(value),
            CountedIf::NotFound | CountedIf::Exists => Counted::NotFound,
            CountedIf::NotNumber => Counted::NotNumber,
        })
    }

    /// The same under conditions.
    ///
    /// # Errors
    /// If there is no room.
    pub fn count_if(&self, tenant: TenantId, key: &Key<'_>, by: &Count) -> Result<CountedIf, Refused> {
        let counters = self.counters(tenant);
        let (hits, misses) = if by.up {
            (&counters.incr_hits, &counters.incr_misses)
        } else {
            (&counters.decr_hits, &counters.decr_misses)
        };
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        let Some((found, view)) = old.live else {
            let Some((value, expires_at)) = by.vivify else {
                self.note_miss(tenant, key, Self::kind_of(old.found()));
                count(misses);
                return Ok(CountedIf::NotFound);
            };
            self.ask_shadow(tenant, key);
            return self.vivify_number(locked, tenant, key, &old, (value, expires_at), by);
        };
        // What is so long is no number, whatever it begins with: memcached says so of values in several chunks.
        if view.value_len() == 0 || view.apart().is_some() {
            // memcached says so before it compares.
            return Ok(CountedIf::NotNumber);
        }
        if by.compare != 0 && by.compare != self.cas_of(found, &view) {
            return Ok(CountedIf::Exists);
        }
        let old_value = self.value_of(&view)?;
        let Some(value) = decimal(old_value) else { return Ok(CountedIf::NotNumber) };
        let value = if by.up { value.wrapping_add(by.delta) } else { value.saturating_sub(by.delta) };
        let mut text = [0; 24];
        let len = write_decimal(value, &mut text);
        let padding = vec![b' '; old_value.len().saturating_sub(len)];
        let expired_at = view.expiry().map_or(0, |e| e.at);
        let draft = Draft {
            fields: Fields {
                client_flags: view.client_flags(),
                expires_at: by.expires_at.unwrap_or(expired_at),
            },
            content: Content::Value([&text[..len], &padding]),
            identity: by.cas.map_or(Identity::New, Identity::Told),
            // memcached overwrites a number of the same length, and makes a new item for a longer one.
            state: if len <= old_value.len() { view.state() } else { old.lasting_state() },
            is_use: true,
            look_up: Some(SampledKind::LookUp),
        };
        let cas = self.write(&locked, tenant, key, &old, &draft)?;
        drop(locked);
        self.after_write();
        count(hits);
        if old_value.len() < len {
            // As memcached, for which that is another item.
            count(&counters.total_items);
        }
        let class = self.counters.class(view.sizes().whole, view.own_space());
        count(if by.up { &class.incr_hits } else { &class.decr_hits });
        Ok(CountedIf::Done { value, cas, expired_at, created: false })
    }

    fn vivify_number(
        &self,
        locked: Locked<'_>,
        tenant: TenantId,
        key: &Key<'_>,
        old: &Old<'_>,
        (value, expires_at): (u64, u32),
        by: &Count,
    ) -> Result<CountedIf, Refused> {
        let mut text = [0; 24];
        let len = write_decimal(value, &mut text);
        let told = by.expires_at.filter(|_| !by.vivify_expiry_wins);
        let draft = Draft {
            fields: Fields { client_flags: 0, expires_at: told.unwrap_or(expires_at) },
            content: Content::Value([&text[..len], &[]]),
            identity: by.cas.map_or(Identity::New, Identity::Told),
            state: if by.binary_key { state::BINARY_KEY } else { 0 },
            is_use: false,
            look_up: Some(Self::kind_of(old.found())),
        };
        let cas = self.write(&locked, tenant, key, old, &draft)?;
        drop(locked);
        self.after_write();
        count(&self.counters(tenant).total_items);
        count(&self.counters(tenant).count_creations);
        Ok(CountedIf::Done { value, cas, expired_at: 0, created: true })
    }
}

/// A decimal number below 2^64 as memcached reads it: white space and a sign may stand before it, anything after
/// white space or a zero byte behind it.
fn decimal(value: &[u8]) -> Option<u64> {
    let is_space = |b: &u8| b.is_ascii_whitespace() || *b == 0x0B;
    let ends = |b: &u8| is_space(b) || *b == 0;
    let start = value.iter().position(|b| !is_space(b))?;
    let (sign, rest) = match value[start] {
        sign @ (b'+' | b'-') => (sign, &value[start + 1..]),
        _ => (b'+', &value[start..]),
    };
    let digits = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
    if digits == 0 || rest.get(digits).is_some_and(|b| !ends(b)) {
        return None;
    }
    let number =
        rest[..digits].iter().try_fold(0_u64, |n, b| n.checked_mul(10)?.checked_add(u64::from(b - b'0')))?;
    (sign == b'+' || number == 0).then_some(number)
}

/// Writes a number and returns its length.
fn write_decimal(mut value: u64, out: &mut [u8; 24]) -> usize {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    let len = digits.len() - at;
    out[..len].copy_from_slice(&digits[at..]);
    len
}
