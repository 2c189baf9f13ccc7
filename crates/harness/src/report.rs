//! What a replay found: the JSON object of `replay --json`, and the table for people.

use crate::one_line::one_line;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use units::Bytes;

/// What a replay found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The policy in force, or what is known of the server.
    pub policy: String,
    /// The memory divided.
    pub memory: Bytes,
    /// Requests replayed; the sets that follow misses are not counted.
    pub requests: u64,
    /// Look-ups.
    pub gets: u64,
    /// Look-ups that found their item.
    pub hits: u64,
    /// Wall-clock time of the replay.
    pub seconds: f64,
    /// Bytes that the cleaner copied; none where it is not known.
    pub cleaner_moved_bytes: Option<u64>,
    /// Items evicted; none where it is not known.
    pub evictions: Option<u64>,
    /// What became of a tier below DRAM, if there was one.
    pub tier: Option<TierReport>,
    /// Peak resident memory of the process; none where it is not known.
    pub peak_resident: Option<Bytes>,
    /// One row per tenant of the trace.
    pub tenants: Vec<TenantReport>,
}

/// A tier below DRAM in a replay.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TierReport {
    /// Its size.
    pub size: Bytes,
    /// Bytes of records at the end that items lead to.
    pub live: Bytes,
    /// Look-ups that found their value there.
    pub hits: u64,
    /// Values that hits brought back.
    pub promotions: u64,
    /// Values that came from DRAM.
    pub demotions: u64,
    /// Items evicted from there.
    pub evictions: u64,
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
}

/// One tenant of a replay.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TenantReport {
    /// Its name in the trace.
    pub name: String,
    /// Look-ups.
    pub gets: u64,
    /// Look-ups that found their item.
    pub hits: u64,
    /// What it should hold at the end.
    pub target: Option<Bytes>,
    /// What it holds at the end.
    pub held: Option<Bytes>,
    /// Its items evicted.
    pub evictions: Option<u64>,
    /// Its misses that a little more memory would have hit.
    pub shadow_hits: Option<u64>,
}

fn ratio(hits: u64, gets: u64) -> f64 {
    if gets == 0 { 0.0 } else { hits as f64 / gets as f64 }
}

impl Report {
    /// Hits ÷ look-ups, 0 without any.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.gets)
    }

    /// The object of `replay --json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let tenants: Vec<Value> = self
            .tenants
            .iter()
            .map(|t| {
                json!({"name": t.name, "gets": t.gets, "hits": t.hits, "hit_ratio": t.hit_ratio(),
                       "target_bytes": t.target.map(|b| b.0), "held_bytes": t.held.map(|b| b.0),
                       "evictions": t.evictions})
            })
            .collect();
        let mut object = json!({"policy": self.policy, "memory_bytes": self.memory.0, "requests": self.requests, "gets": self.gets,
               "hits": self.hits, "hit_ratio": self.hit_ratio(), "seconds": self.seconds,
               "cleaner_moved_bytes": self.cleaner_moved_bytes, "evictions": self.evictions,
               "peak_resident_bytes": self.peak_resident.map(|b| b.0), "tenants": tenants});
        if let (Some(tier), Some(fields)) = (&self.tier, object.as_object_mut()) {
            let tier = json!({"size_bytes": tier.size.0, "live_bytes": tier.live.0, "hits": tier.hits,
                              "promotions": tier.promotions, "demotions": tier.demotions,
                              "evictions": tier.evictions, "read_bytes": tier.read.0, "written_bytes": tier.written.0});
            fields.insert("tier".to_owned(), tier);
        }
        object
    }

    /// The table for people, with a line of totals.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
        table.set_header(["tenant", "gets", "hits", "hit ratio", "target", "held", "evictions"]);
        let size = |b: Option<Bytes>| b.map_or_else(|| "-".to_owned(), |b| b.to_string());
        let count = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        for t in &self.tenants {
            table.add_row([
                one_line(&t.name),
                t.gets.to_string(),
                t.hits.to_string(),
                format!("{:.4}", t.hit_ratio()),
                size(t.target),
                size(t.held),
                count(t.evictions),
            ]);
        }
        table.add_row([
            "all".to_owned(),
            self.gets.to_string(),
            self.hits.to_string(),
            format!("{:.4}", self.hit_ratio()),
            self.memory.to_string(),
            size(self.tenants.iter().map(|t| t.held).sum()),
            count(self.evictions),
        ]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let moved =
            self.cleaner_moved_bytes.map_or(String::new(), |b| format!(", cleaner moved {}", Bytes(b)));
        let tier = self.tier.as_ref().map_or(String::new(), |t| {
            format!(
                "\ntier of {}: {} live, {} hits, {} promoted, {} demoted, {} evicted, {} read, {} written",
                t.size, t.live, t.hits, t.promotions, t.demotions, t.evictions, t.read, t.written
            )
        });
        format!(
            "{table}\n{} requests in {:.1} s, policy {}{moved}{tier}",
            self.requests,
            self.seconds,
            one_line(&self.policy)
        )
    }
}

impl TenantReport {
    /// Hits ÷ look-ups, 0 without any.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.gets)
    }
}
