//! Commands about the server as a whole: `lru_crawler`, `lru`, `slabs`, `watch`, `shutdown`.
//!
//! Invariants: what a connection of a tenant's own asks changes nothing of others
//! Source:     memcached 1.6.45's answers. What tunes machinery that is not here is checked and answered, no more

use super::numbers::{time, unsigned_32};
use super::parse::Words;
use super::reply::text;
use super::session::Session;
use super::turn::Ended;
use crate::connection::Parting;
use crate::dump::{Form, Wanted, classes};
use crate::tenants::Binding;
use crate::watch::interests;
use std::sync::atomic::Ordering;

/// A command that changes its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Lists items, then goes on.
    Dump(Wanted),
    /// Sends log lines from now on.
    Watch(u32),
}

/// Microseconds between two items of memcached's crawler at most.
const CRAWLER_SLEEP_MAX: u32 = 1_000_000;
/// Parts of memcached's hot and warm queues together at most.
const LRU_PERCENT_MAX: u32 = 80;

/// Executes `word rest`; the answer, or what becomes of the connection.
pub(super) fn execute(session: &Session<'_>, word: &[u8], rest: &[u8]) -> Result<&'static [u8], Ended> {
    let mut words = Words::of(rest);
    match word {
        b"lru_crawler" => crawler(session, words),
        b"lru" => Ok(lru(words)),
        b"slabs" => Ok(slabs(words)),
        b"watch" if session.shared.config.watch_disabled => Ok(text::WATCH_DISABLED),
        b"watch" => match interests(words) {
            Some(_) if session.shared.watch.is_full(session.binding) => Ok(text::WATCH_FULL),
            Some(wanted) => Err(Ended::Asked(Asked::Watch(wanted))),
            None => Ok(text::ERROR),
        },
        b"shutdown" => shutdown(session, words.next(), words.next()),
        _ => Ok(text::ERROR),
    }
}

fn crawler(session: &Session<'_>, mut words: Words<'_>) -> Result<&'static [u8], Ended> {
    let enabled = &session.shared.crawler_enabled;
    let (Some(what), argument, None) = (words.next(), words.next(), words.next()) else {
        return Ok(text::ERROR);
    };
    let is_own = session.binding != Binding::Unbound;
    Ok(match (what, argument) {
        (b"enable" | b"disable", None) if is_own => text::NOT_FOR_TENANTS,
        (b"enable", None) if enabled.swap(true, Ordering::Relaxed) => text::CRAWLER_RUNS,
        (b"enable", None) => text::OK,
        (b"disable", None) => {
            enabled.store(false, Ordering::Relaxed);
            text::OK
        }
        (b"sleep", Some(time)) => match unsigned_32(time) {
            Some(0..=CRAWLER_SLEEP_MAX) => text::OK,
            Some(_) => text::CRAWLER_SLEEP,
            None => text::BAD_FORMAT,
        },
        (b"tocrawl", Some(count)) => unsigned_32(count).map_or(text::BAD_FORMAT, |_| text::OK),
        (b"crawl" | b"metadump" | b"mgdump", Some(_)) if !enabled.load(Ordering::Relaxed) => {
            text::CRAWLER_DISABLED
        }
        (b"crawl", Some(b"hash")) => text::CRAWLER_ERROR,
        // What has expired counts as free already.
        (b"crawl", Some(list)) => classes(list).map_or(text::BAD_CLASS, |_| text::OK),
        (b"metadump" | b"mgdump", Some(_)) if session.shared.config.dump_disabled => text::DUMP_DISABLED,
        (b"metadump" | b"mgdump", Some(list)) => {
            let form = if what == b"metadump" { Form::Meta } else { Form::Get };
            match classes(list) {
                Some(classes) => return Err(Ended::Asked(Asked::Dump(Wanted { form, classes }))),
                None => text::BAD_CLASS,
            }
        }
        _ => text::ERROR,
    })
}

fn lru(mut words: Words<'_>) -> &'static [u8] {
    match words.next() {
        Some(b"tune") => {
            let (hot, warm) = (words.next().and_then(unsigned_32), words.next().and_then(unsigned_32));
            let (hot_age, warm_age) = (words.next().and_then(factor), words.next().and_then(factor));
            match (hot, warm, hot_age, warm_age) {
                (Some(hot), Some(warm), Some(_), Some(_)) if LRU_PERCENT_MAX < hot.saturating_add(warm) => {
                    text::LRU_PERCENT
                }
                (Some(_), Some(_), Some(hot), Some(warm)) if hot <= 0.0 || warm <= 0.0 => text::LRU_FACTOR,
                (Some(_), Some(_), Some(_), Some(_)) => text::OK,
                _ => text::ERROR,
            }
        }
        Some(b"mode") if matches!(words.next(), Some(b"flat" | b"segmented")) => text::OK,
        Some(b"temp_ttl") if words.next().and_then(time).is_some() => text::OK,
        _ => text::ERROR,
    }
}

/// A factor; one whose digits say more or less than a number can be is none.
fn factor(word: &[u8]) -> Option<f64> {
    let factor: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    let mut digits = word.iter().take_while(|b| !b.eq_ignore_ascii_case(&b'e'));
    let is_zero_or_spelt = !digits.any(|b| (b'1'..=b'9').contains(b));
    (factor.is_normal() || is_zero_or_spelt).then_some(factor)
}

fn slabs(mut words: Words<'_>) -> &'static [u8] {
    match (words.next(), words.next(), words.next()) {
        (Some(b"reassign"), Some(source), Some(target)) if words.next().is_none() => {
            match (time(source), time(target)) {
                (None, _) | (_, None) => text::BAD_FORMAT,
                (Some(source), Some(target)) if source == target => text::SLABS_SAME,
                (Some(source), Some(target)) if (0..64).contains(&source) && (0..64).contains(&target) => {
                    text::SLABS_NO_SPARE
                }
                _ => text::SLABS_BAD_CLASS,
            }
        }
        (Some(b"automove"), Some(b"ratio"), ratio) => {
            ratio.and_then(factor).map_or(text::ERROR, |_| text::OK)
        }
        (Some(b"automove"), Some(level), _) => match unsigned_32(level) {
            Some(0..=2) => text::OK,
            Some(_) => text::ERROR,
            None => text::BAD_FORMAT,
        },
        _ => text::ERROR,
    }
}

fn shutdown(session: &Session<'_>, how: Option<&[u8]>, more: Option<&[u8]>) -> Result<&'static [u8], Ended> {
    if !session.shared.config.shutdown_enabled {
        return Ok(text::SHUTDOWN_DISABLED);
    }
    if session.binding != Binding::Unbound {
        return Ok(text::NOT_FOR_TENANTS);
    }
    if more.is_some() || !matches!(how, None | Some(b"graceful")) {
        return Ok(text::SHUTDOWN_MODE);
    }
    // The process hears it as it would hear the operator, and drains.
    let told = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    match told {
        Ok(()) => Err(Ended::Quit(Parting::Shutdown)),
        Err(_) => Ok(text::SHUTDOWN_DISABLED),
    }
}
