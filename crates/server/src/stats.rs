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
use std::sync::atomic::Ordering;
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
    /// A tenant has gone; who has its id next begins anew.
    pub(crate) fn forget(&self, id: TenantId) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _)| *of != Binding::To(id));
    }
}

type Row = (String, String);

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
        b"settings" => lines(&settings::settings(shared, router)),
        b"items" => classes::items(shared, router, worker, binding),
        b"slabs" => classes::classes(shared, router, binding, classes::slabs_of_class, true),
        b"sizes" => lines(&classes::sizes(shared, router, binding)),
        b"sizes_enable" | b"sizes_disable" => b"STAT sizes_status enabled\r\nEND\r\n".to_vec(),
        b"conns" => lines(&shared.clients.rows(binding, shared.clock.now())),
        b"detail" => detail(shared, router, binding, words.next()),
        b"cachedump" => cachedump(shared, worker, binding, words.next(), words.next()),
        b"tenants" => lines(&ours::tenants(shared, router, binding)),
        b"latency" => lines(&observed::latency(shared, router, binding)),
        b"hotkeys" => lines(&observed::hot_keys(shared, router, binding)),
        b"slow" => lines(&observed::slow(shared, router, binding)),
        b"tiers" => lines(&tiers::tiers(shared, router, binding)),
        b"extstore" if *binding == Binding::Unbound && !router.places.names().is_empty() => {
            lines(&tiers::extstore(shared, router, binding))
        }
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
        Some(b"on" | b"off") => {
            shared.detail_enabled.store(what == Some(b"on"), Ordering::Relaxed);
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
                out.extend_from_slice(name.unwrap_or(&prefix));
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
