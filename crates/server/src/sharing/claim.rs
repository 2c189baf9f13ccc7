//! What a tenant claims of a tier's bandwidth, as an operator writes it: `limit 20%`, `slowdown 1.5`, `p99 500us; cap writes
//! 100MB/s`, `critical`.
//!
//! Shape:   clauses between semicolons <-> a claim; with the price of a tier's accesses, and in the steps in which times are told, it is what
//!          policies see
//! Units:   per cent of the tier's time, bytes per second, accesses per second of a size
//! Failure: a text that is no claim says what would be one
//! Source:  NyxCache §3.4 (limits in standard operations, slowdowns, latencies), MT² §2.1 (caps and guarantees by kind)

use crate::observe::latency::told_of;
use control::bandwidth::{Cost, Kind, Kinds};
use control::{Amount, Claim, Class, Goal, Quantile, Slowdown};
use policy::estimate::access_cost::StandardOps;
use std::fmt;
use std::str::FromStr;
use units::{Bytes, BytesPerSec, Duration};

/// What a tenant claims of a tier's bandwidth; nothing at the start.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TierClaim {
    /// What it may use at most.
    limit: Option<TierLimit>,
    /// Bytes per second at most, by kind of traffic.
    caps: Kinds<Option<BytesPerSec>>,
    /// What it was promised.
    goal: Option<Goal>,
    /// No policy holds it back.
    exempt: bool,
}

/// A limit of what a tenant uses of a tier.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum TierLimit {
    /// A part of the tier's time, in 0..=1.
    Part(f64),
    /// So many accesses of one kind and size per second, or what costs the same.
    Operations(StandardOps),
    /// Bytes per second, whatever they cost.
    Bandwidth(BytesPerSec),
}

/// Why a text is no claim.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no claim to a tier's bandwidth")]
pub struct TierClaimError(String);

impl TierClaimError {
    /// What would be one.
    pub const CURE: &str = "write clauses with semicolons between: limit 20% | limit 1000 reads of 1KB per second | limit \
        500MB/s | cap reads 1GB/s | cap writes 500MB/s | keep reads 1GB/s | slowdown 1.5 | p99 500us | critical | exempt";
}

impl TierClaim {
    /// A claim to nothing.
    pub(crate) const NOTHING: Self = Self {
        limit: None,
        caps: Kinds { dram_read: None, dram_write: None, slow_read: None, slow_write: None },
        goal: None,
        exempt: false,
    };

    /// Whether it claims anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::NOTHING
    }

    /// `claim` with this in it; `price` says what an access to the tier costs of its time. Times are told in steps: a goal is the end of its own,
    /// for one that may be inside is not missed.
    pub(crate) fn put_into(&self, claim: &mut Claim, price: impl FnOnce(StandardOps) -> Cost) {
        let mut most = Amount::default();
        match self.limit {
            None => {}
            Some(TierLimit::Part(part)) => most.cost = Amount::tier_time(Cost::SECOND).part(part).cost,
            Some(TierLimit::Operations(operations)) => most.cost = price(operations),
            Some(TierLimit::Bandwidth(bandwidth)) => most.bandwidth = bandwidth,
        }
        if self.limit.is_some() {
            // A limit of nothing would be none.
            most.cost = most.cost.max(Cost(u64::from(most.bandwidth == BytesPerSec(0))));
            claim.ceiling = Some(most);
        }
        claim.caps = self.caps;
        claim.class = match self.goal {
            Some(Goal::Latency { quantile, at_most }) => {
                Class::Critical { goal: Goal::Latency { quantile, at_most: told_of(at_most) } }
            }
            Some(goal) => Class::Critical { goal },
            None if self.exempt => Class::Exempt,
            None => Class::BestEffort,
        };
    }

    fn add(&mut self, clause: &str) -> Option<()> {
        let (word, rest) = clause.split_once(char::is_whitespace).unwrap_or((clause, ""));
        let rest = rest.trim();
        match word {
            "limit" if self.limit.is_none() => self.limit = Some(limit(rest)?),
            "cap" => {
                let (kind, rate) = kind_and_rate(rest)?;
                *self.caps.get_mut(kind) = Some(rate);
            }
            "keep" => {
                let mut kept = match self.goal {
                    None => Kinds::splat(BytesPerSec(0)),
                    Some(Goal::Bandwidth(kept)) => kept,
                    Some(_) => return None,
                };
                let (kind, rate) = kind_and_rate(rest)?;
                *kept.get_mut(kind) = rate;
                self.goal = Some(Goal::Bandwidth(kept));
            }
            "slowdown" if self.goal.is_none() => {
                self.goal = Some(Goal::Slowdown(Slowdown::new(rest.parse().ok()?)?));
            }
            // First, without a goal that is held against what is measured.
            "critical" if rest.is_empty() && self.goal.is_none() => {
                self.goal = Some(Goal::Bandwidth(Kinds::default()));
            }
            "exempt" if rest.is_empty() => self.exempt = true,
            _ if self.goal.is_none() => {
                let quantile = quantile(word)?;
                let at_most: Duration = rest.parse().ok()?;
                self.goal = (Duration::ZERO < at_most).then_some(Goal::Latency { quantile, at_most });
                self.goal?;
            }
            _ => return None,
        }
        // Nobody is promised something and left alone at once.
        (!self.exempt || self.goal.is_none()).then_some(())
    }
}

fn limit(text: &str) -> Option<TierLimit> {
    if let Some(number) = text.strip_suffix('%') {
        let per_cent = per_cent(number.trim())?;
        let fits = 0.0 < per_cent && per_cent <= 100.0;
        return fits.then_some(TierLimit::Part(per_cent / 100.0));
    }
    if let Ok(bandwidth) = text.parse::<BytesPerSec>() {
        return (BytesPerSec(0) < bandwidth).then_some(TierLimit::Bandwidth(bandwidth));
    }
    text.parse::<StandardOps>()
        .ok()
        .filter(|operations| 0.0 < operations.per_sec())
        .map(TierLimit::Operations)
}

fn kind_and_rate(text: &str) -> Option<(Kind, BytesPerSec)> {
    let (kind, rate) = text.split_once(char::is_whitespace)?;
    let kind = match kind {
        "reads" => Kind::SlowRead,
        "writes" => Kind::SlowWrite,
        _ => return None,
    };
    Some((kind, rate.trim().parse().ok().filter(|rate| BytesPerSec(0) < *rate)?))
}

/// `p50`, `p99`, `p99.9`.
fn quantile(word: &str) -> Option<Quantile> {
    Quantile::new(per_cent(word.strip_prefix('p')?)? / 100.0)
}

/// A number in per cent, to what is shown of one.
fn per_cent(text: &str) -> Option<f64> {
    text.parse().ok().map(rounded)
}

impl FromStr for TierClaim {
    type Err = TierClaimError;

    fn from_str(text: &str) -> Result<Self, TierClaimError> {
        let mut claim = Self::default();
        for clause in text.split(';').map(str::trim).filter(|clause| !clause.is_empty()) {
            claim.add(clause).ok_or_else(|| TierClaimError(clause.to_owned()))?;
        }
        Ok(claim)
    }
}

impl fmt::Display for TierClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut clauses = Vec::new();
        match self.limit {
            None => {}
            Some(TierLimit::Part(part)) => clauses.push(format!("limit {}%", rounded(part * 100.0))),
            Some(TierLimit::Operations(operations)) => clauses.push(format!("limit {operations}")),
            Some(TierLimit::Bandwidth(rate)) => clauses.push(format!("limit {}", exact(rate))),
        }
        for (kind, cap) in self.caps.iter() {
            clauses.extend(cap.map(|rate| format!("cap {} {}", word(kind), exact(rate))));
        }
        match self.goal {
            None => {}
            Some(Goal::Bandwidth(kept)) if kept == Kinds::default() => clauses.push("critical".to_owned()),
            Some(Goal::Bandwidth(kept)) => {
                let asked = kept.iter().filter(|(_, rate)| BytesPerSec(0) < **rate);
                clauses.extend(asked.map(|(kind, rate)| format!("keep {} {}", word(kind), exact(*rate))));
            }
            Some(Goal::Slowdown(slowdown)) => clauses.push(format!("slowdown {}", slowdown.get())),
            Some(Goal::Latency { quantile, at_most }) => {
                clauses.push(format!("p{} {}ns", rounded(quantile.get() * 100.0), at_most.0));
            }
        }
        if self.exempt {
            clauses.push("exempt".to_owned());
        }
        f.write_str(&clauses.join("; "))
    }
}

fn word(kind: Kind) -> &'static str {
    if kind == Kind::SlowRead { "reads" } else { "writes" }
}

/// A rate that is read again as the same.
fn exact(rate: BytesPerSec) -> String {
    format!("{}B/s", rate.0)
}

/// Without what binary fractions add.
fn rounded(x: f64) -> f64 {
    (x * 1e9).round() / 1e9
}

/// The cost per second of a limit in standard operations, by what one of them costs.
pub(crate) fn per_sec(operations: StandardOps, one_ps: u64) -> Cost {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; above zero")]
    let cost = (one_ps as f64 * operations.per_sec()).round() as u64;
    Cost(cost)
}

/// The size and kind of a limit's operations.
pub(crate) fn operation(operations: StandardOps) -> (media::SlowAccess, Bytes) {
    let kind = match operations.kind() {
        Kind::SlowWrite | Kind::DramWrite => media::SlowAccess::Write,
        Kind::SlowRead | Kind::DramRead => media::SlowAccess::Read,
    };
    (kind, operations.size())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> TierClaim {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_claim_is_read_as_it_is_written() {
        for (text, written) in [
            ("", ""),
            ("limit 20%", "limit 20%"),
            ("limit 12.5 %", "limit 12.5%"),
            ("limit 1000 reads of 1KB per second", "limit 1000 reads of 1024B per second"),
            ("limit 1.25M 4KB random reads per second", "limit 1250000 reads of 4096B per second"),
            ("limit 500MB/s", "limit 500000000B/s"),
            ("cap writes 1GB/s; cap reads 2GB/s", "cap reads 2000000000B/s; cap writes 1000000000B/s"),
            ("keep reads 1GB/s", "keep reads 1000000000B/s"),
            ("slowdown 1.5;limit 50%", "limit 50%; slowdown 1.5"),
            ("p99 500us", "p99 500000ns"),
            ("p99.9 1ms", "p99.9 1000000ns"),
            ("critical", "critical"),
            ("critical; limit 20%", "limit 20%; critical"),
            ("exempt", "exempt"),
        ] {
            let claim = parsed(text);
            assert_eq!(claim.to_string(), written);
            assert_eq!(parsed(written), claim, "{written}");
            assert_eq!(claim.is_empty(), text.is_empty());
        }
    }

    #[test]
    fn what_is_no_claim_is_refused() {
        for text in [
            "limit",
            "limit 0%",
            "limit 101%",
            "limit -5%",
            "limit 0.0000000001%",
            "limit nan%",
            "limit 5",
            "limit 0 reads of 1KB per second",
            "limit 20%; limit 30%",
            "cap 5GB/s",
            "cap deletes 5GB/s",
            "keep reads 0GB/s",
            "slowdown 0.5",
            "slowdown inf",
            "p0 1ms",
            "p100 1ms",
            "p0.0000000001 1ms",
            "p99.9999999999 1ms",
            "p99 0ms",
            "p99",
            "p99 1ms; slowdown 2",
            "exempt; slowdown 2",
            "critical; exempt",
            "critical; p99 1ms",
            "slowdown 2; critical",
            "critical 5",
            "exempt 5",
            "something",
        ] {
            let result = text.parse::<TierClaim>();
            assert!(result.is_err(), "'{text}' is read as {result:?}");
        }
    }

    #[test]
    fn policies_see_limits_in_time_of_the_tier() {
        let of = |text: &str| {
            let mut claim = Claim::default();
            parsed(text).put_into(&mut claim, |operations| per_sec(operations, 250_000));
            claim
        };
        assert_eq!(of("").ceiling, None);
        assert_eq!(of("limit 20%").ceiling, Some(Amount::tier_time(Cost(Cost::SECOND.0 / 5))));
        let operations = of("limit 1000 reads of 1KB per second").ceiling;
        assert_eq!(operations, Some(Amount::tier_time(Cost(250_000_000))));
        let bytes = of("limit 500MB/s").ceiling.map(|ceiling| (ceiling.bandwidth, ceiling.cost));
        assert_eq!(bytes, Some((BytesPerSec(500_000_000), Cost(0))));
        assert!(matches!(of("slowdown 1.5").class, Class::Critical { goal: Goal::Slowdown(_) }));
        let quantile = Quantile::new(0.99).expect("a quantile");
        let goal = Goal::Latency { quantile, at_most: Duration::from_micros(512) };
        assert_eq!(of("p99 500us").class, Class::Critical { goal }, "450 to 512 us are told as 512");
        assert_eq!(of("critical").class, Class::Critical { goal: Goal::Bandwidth(Kinds::default()) });
        assert_eq!(of("exempt").class, Class::Exempt);
        assert_eq!(of("cap writes 1GB/s").caps.slow_write, Some(BytesPerSec(1_000_000_000)));
    }
}
