//! memcached's `stats`: its names in its order, with our figures.
//!
//! Invariants: plain `stats` is below 4,096 bytes and holds memcached's names only; every answer ends with `END`;
//!             `stats settings` has three words per line
//! Source:     memcached 1.6.45's output; the contract is what its exporters and dashboards read

mod classes;
mod clients;
mod figures;
mod general;
mod observed;
mod ours;
mod settings;
mod tiers;

pub(crate) use clients::{Client, Clients};
pub(crate) use general::cpu_micros;
pub(crate) use ours::Controller;
pub(crate) use tiers::traffic;

use crate::dump;
use crate::memcache::reply_text;
use crate::shared::Shared;
use crate::tenants::{Binding, Router};
use crate::view::Visible;
use figures::Figures;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use store::{CLASSES, ClassTotals, Totals, Worker};
use units::TenantId;

/// What `stats reset` has set to zero: figures are shown less what they were then.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    seen: Mutex<Vec<(Binding, Zeroed)>>,
}

#[derive(Clone, Debug)]
struct Zeroed {
    totals: Totals,
    /// Those of the default listeners; a bound connection's class is made of its totals.
    classes: Option<Arc<[ClassTotals; CLASSES]>>,
    figures: Figures,
    /// What prefixes were asked, for `stats detail dump`.
    prefixes: Arc<HashMap<TenantId, Asked>>,
}

/// What was asked of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Asked {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

impl Asked {
    fn of(totals: &Totals) -> Self {
        Self {
            gets: totals.get_hits + totals.get_misses,
            hits: totals.get_hits,
            sets: totals.cmd_set,
            deletes: totals.delete_hits + totals.delete_misses,
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            gets: self.gets.saturating_sub(earlier.gets),
            hits: self.hits.saturating_sub(earlier.hits),
            sets: self.sets.saturating_sub(earlier.sets),
            deletes: self.deletes.saturating_sub(earlier.deletes),
        }
    }
}

impl Baseline {
    /// A connection that was a binding's is another's now, with all that it has counted: what is left of the figures of the first is
    /// counted on from there.
    pub(crate) fn lower(&self, shared: &Shared, binding: Binding) {
        // Most have none, and to look at all connections is dear; no lock is held meanwhile.
        if baseline(shared, &binding).is_none() {
            return;
        }
        let left = Figures::seen(shared, binding);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, zeroed)) = seen.iter_mut().find(|(of, _)| *of == binding) {
            zeroed.figures.lower_to(&left);
        }
    }

    /// A tenant has gone; who has its id next begins anew.
    pub(crate) fn forget(&self, id: TenantId) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|(of, _)| *of != Binding::To(id));
        // Who comes under its id has asked for nothing yet.
        seen.iter_mut().for_each(|(_, zeroed)| _ = Arc::make_mut(&mut zeroed.prefixes).remove(&id));
    }
}

/// What `stats detail` was told: shown by `stats settings`, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    told: Mutex<Vec<(Binding, bool)>>,
}

impl Detail {
    /// Each binding has its own, as each has its own zero.
    fn tell(&self, binding: &Binding, is_on: bool) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|(of, _)| of != binding);
        told.push((*binding, is_on));
    }

    /// What a binding has said last.
    fn of(&self, binding: &Binding) -> Option<bool> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().find(|(of, _)| of == binding).map(|(_, is_on)| *is_on)
    }
}

type Row = (String, String);

/// Whether `stats WHAT` changes what others are shown.
pub(crate) fn changes(what: &[u8]) -> bool {
    let mut words = what.split(|b| *b == b' ').filter(|word| !word.is_empty());
    match words.next() {
        Some(b"reset") => true,
        Some(b"detail") => matches!(words.next(), Some(b"on" | b"off")),
        _ => false,
    }
}

/// The answer to `stats WHAT`.
pub(crate) fn answer(
    shared: &Shared,
    router: &Router,
    worker: &Worker,
    binding: &Binding,
    what: &[u8],
) -> Vec<u8> {
    let mut words = what.split(|b| *b == b' ').filter(|word| !word.is_empty());
    match words.next().unwrap_or_default() {
        b"" => lines(&general::general(shared, router, binding)),
        b"settings" => lines(&settings::settings(shared, router, binding)),
        b"items" => classes::items(shared, router, worker, binding),
        b"slabs" => classes::classes(shared, router, binding, classes::slabs_of_class, true),
        b"sizes" => lines(&classes::sizes(shared, router, binding)),
        b"sizes_enable" => b"STAT sizes_status enabled\r\nEND\r\n".to_vec(),
        b"sizes_disable" => b"STAT sizes_status disabled\r\nEND\r\n".to_vec(),
        b"conns" => lines(&shared.clients.rows(binding, shared.clock.now())),
        b"detail" => detail(shared, router, binding, words.next()),
        b"cachedump" => cachedump(shared, worker, binding, words.next(), words.next()),
        b"tenants" => lines(&ours::tenants(shared, router, binding)),
        b"latency" => lines(&observed::latency(shared, router, binding)),
        b"hotkeys" => lines(&observed::hot_keys(shared, router, binding)),
        b"slow" => lines(&observed::slow(shared, router, binding)),
        b"tiers" => lines(&tiers::tiers(shared, router, binding)),
        b"extstore" => lines(&tiers::extstore(shared, router, binding)),
        b"controller" if *binding == Binding::Unbound => lines(&ours::controller(shared, router)),
        b"cleaner" if *binding == Binding::Unbound => lines(&ours::cleaner(shared)),
        b"reset" => {
            reset(shared, router, binding);
            reply_text::RESET.to_vec()
        }
        _ => reply_text::ERROR.to_vec(),
    }
}

/// `stats detail`: what was asked of each prefix that the connection sees. It is always counted.
fn detail(shared: &Shared, router: &Router, binding: &Binding, what: Option<&[u8]>) -> Vec<u8> {
    match what {
        _ if shared.config.dump_disabled => reply_text::DETAIL_DISABLED.to_vec(),
        Some(b"on" | b"off") => {
            shared.detail.tell(binding, what == Some(b"on"));
            reply_text::OK.to_vec()
        }
        Some(b"dump") => {
            let mut out = Vec::new();
            let zero = baseline(shared, binding);
            for id in router.visible(binding) {
                let Some(prefix) = router.about(id).and_then(|about| about.prefix) else { continue };
                let before = zero.as_ref().and_then(|zero| zero.prefixes.get(&id)).copied();
                let asked = Asked::of(&shared.store.totals(id)).since(before.unwrap_or_default());
                if before.is_some() && asked == Asked::default() {
                    // As memcached, which forgets them with a reset until somebody asks again.
                    continue;
                }
                let name = prefix.strip_suffix(&[shared.config.prefix_delimiter.unwrap_or(b':')]);
                out.extend_from_slice(b"PREFIX ");
                put_word(&mut out, name.unwrap_or(&prefix));
                let Asked { gets, hits, sets, deletes } = asked;
                let line = format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n");
                out.extend_from_slice(line.as_bytes());
            }
            out.extend_from_slice(reply_text::END);
            out
        }
        _ => reply_text::DETAIL_USAGE.to_vec(),
    }
}

/// Bytes as one word: white space and control characters as `%` and two hexadecimal digits.
fn put_word(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        if byte == b' ' || byte.is_ascii_control() {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
}

fn cachedump(
    shared: &Shared,
    worker: &Worker,
    binding: &Binding,
    class: Option<&[u8]>,
    limit: Option<&[u8]>,
) -> Vec<u8> {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u32>().ok();
    if shared.config.dump_disabled {
        return reply_text::CACHEDUMP_DISABLED.to_vec();
    }
    let (Some(class), Some(limit)) = (class, limit) else { return reply_text::CACHEDUMP_FORMAT.to_vec() };
    match (number(class), number(limit)) {
        (None, _) | (_, None) => reply_text::BAD_FORMAT.to_vec(),
        (Some(class), Some(_)) if CLASSES <= class as usize => reply_text::CACHEDUMP_CLASS.to_vec(),
        (Some(class), Some(limit)) => {
            dump::cachedump(shared, worker, binding, class as usize, limit as usize)
        }
    }
}

/// A name as one word that no other name becomes: white space, control characters and `%` as `%` and two hexadecimal digits
/// for each byte.
fn one_word(name: &str) -> String {
    let mut word = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_whitespace() || c.is_control() || c == '%' {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| word.push_str(&format!("%{byte:02X}")));
        } else {
            word.push(c);
        }
    }
    word
}

fn lines(rows: &[(String, String)]) -> Vec<u8> {
    let mut out = String::new();
    for (name, value) in rows {
        // A string takes every write.
        let _ = write!(out, "STAT {name} {value}\r\n");
    }
    out.push_str("END\r\n");
    out.into_bytes()
}

/// Each binding has its own zero: one tenant's reset is nobody else's.
fn reset(shared: &Shared, router: &Router, binding: &Binding) {
    let prefixed = |id: &TenantId| router.about(*id).is_some_and(|about| about.prefix.is_some());
    let asked = router.visible(binding).into_iter().filter(prefixed);
    let zeroed = Zeroed {
        totals: Visible::to(shared, router, binding).totals,
        classes: (*binding == Binding::Unbound).then(|| Arc::new(shared.store.class_totals(false))),
        figures: Figures::seen(shared, *binding),
        prefixes: Arc::new(asked.map(|id| (id, Asked::of(&shared.store.totals(id)))).collect()),
    };
    let mut seen = shared.baseline.seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.retain(|(of, _)| of != binding);
    seen.push((*binding, zeroed));
}

fn baseline(shared: &Shared, binding: &Binding) -> Option<Zeroed> {
    let seen = shared.baseline.seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.iter().find(|(of, _)| of == binding).map(|(_, zeroed)| zeroed.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_names_are_distinct_words() {
        for (name, word) in [
            ("a.b-1", "a.b-1"),
            ("a b", "a%20b"),
            ("a\tb", "a%09b"),
            ("a_b", "a_b"),
            ("a%20b", "a%2520b"),
            ("\u{85}ä\n", "%C2%85ä%0A"),
        ] {
            assert_eq!(one_word(name), word);
        }
    }
}
