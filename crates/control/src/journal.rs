//! What was decided: when, from which signals, which shares, why.
//!
//! Shape:      a bounded ring of records in memory; one JSON object per line where it is kept
//! Invariants: records hold the whole input of a decision, so a fresh policy with the same seed and the whole
//!             journal repeats every decision (`replay`)

use crate::claim::{Amount, Claim, Weight};
use crate::memory::{MemoryShare, MemorySignal};
use crate::policy::{Note, Policy, Pool, Row, Seen, Window};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant, TenantId};

/// One decision with all that went into it.
#[derive(Clone, PartialEq, Debug)]
pub struct Record<S, A> {
    /// When it was made.
    pub at: Instant,
    /// The time that the signals cover.
    pub window: Window,
    /// What was divided.
    pub pool: Pool,
    /// What was seen of each tenant.
    pub rows: Vec<Row<S, A>>,
    /// What was decided.
    pub shares: Vec<(TenantId, A)>,
    /// When the policy wanted to be asked again.
    pub wake: Duration,
    /// How long the shares hold without a loop.
    pub lease: Duration,
    /// Whether it was more than an experiment.
    pub steady: bool,
    /// Why.
    pub notes: Vec<Note>,
}

/// The newest decisions, in order.
#[derive(Clone, Debug)]
pub struct Journal<S, A> {
    records: VecDeque<Record<S, A>>,
    limit: usize,
    recorded_total: u64,
}

/// Where a replay left the record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("decision {index} differs when replayed")]
pub struct Divergence {
    /// Index of the first decision that differs.
    pub index: usize,
}

/// Why a line is no record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JournalError {
    /// Not JSON.
    #[error("line {line} of the journal is not JSON")]
    NotJson {
        /// The line, from 1.
        line: usize,
    },
    /// A field is missing or of the wrong type.
    #[error("line {line} of the journal lacks a usable '{field}'")]
    Field {
        /// The line, from 1.
        line: usize,
        /// The field.
        field: &'static str,
    },
}

impl<S, A> Journal<S, A> {
    /// A journal that keeps the newest `limit` records.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { records: VecDeque::new(), limit, recorded_total: 0 }
    }

    /// Appends a record; the oldest goes when the journal is full.
    pub fn push(&mut self, record: Record<S, A>) {
        if self.limit <= self.records.len() {
            self.records.pop_front();
        }
        self.recorded_total += 1;
        self.records.push_back(record);
    }

    /// The records kept, oldest first.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Record<S, A>> + DoubleEndedIterator {
        self.records.iter()
    }

    /// Decisions made since the start, kept or not.
    #[must_use]
    pub fn recorded_total(&self) -> u64 {
        self.recorded_total
    }
}

/// Feeds records to a policy in its first state and compares what it decides.
///
/// # Errors
/// The first decision that differs.
pub fn replay<'r, P>(
    policy: &mut P,
    records: impl Iterator<Item = &'r Record<P::Signal, P::Share>>,
) -> Result<usize, Divergence>
where
    P: Policy,
    P::Signal: 'r,
    P::Share: PartialEq + 'r,
{
    let mut count = 0;
    for (index, record) in records.enumerate() {
        let seen = Seen::new(record.window, &record.pool, &record.rows).map_err(|_| Divergence { index })?;
        let decision = policy.decide(record.at, &seen);
        let same = decision.shares.rows() == record.shares
            && decision.wake == record.wake
            && decision.notes == record.notes;
        if !same {
            return Err(Divergence { index });
        }
        count += 1;
    }
    Ok(count)
}

/// A decision about memory as one line of JSON.
#[must_use]
pub fn memory_line(record: &Record<MemorySignal, MemoryShare>) -> String {
    let share =
        |s: &MemoryShare| json!({"target_bytes": s.target.0, "ceiling_bytes": s.ceiling.map(|b| b.0)});
    let rows: Vec<Value> = record
        .rows
        .iter()
        .map(|row| {
            let signal = row.signal.map(|s| {
                json!({"held_bytes": s.held.0, "idle_bytes": s.idle.0, "shadow_hits": s.shadow_hits,
                       "gets": s.gets, "hits": s.hits})
            });
            json!({"tenant": row.id.0, "weight": row.claim.weight.get(), "floor_bytes": row.claim.floor.bytes.0,
                   "credit_bytes": row.claim.credit.map(|b| b.0), "signal": signal,
                   "in_force": row.in_force.as_ref().map(share)})
        })
        .collect();
    let shares: Vec<Value> =
        record.shares.iter().map(|(id, s)| json!({"tenant": id.0, "share": share(s)})).collect();
    let notes: Vec<Value> = record
        .notes
        .iter()
        .map(|n| json!({"tenant": n.tenant.map(|t| t.0), "reason": n.reason.word(), "amount": n.amount}))
        .collect();
    json!({"at_ns": record.at.0, "window_start_ns": record.window.start.0, "window_end_ns": record.window.end.0,
           "mixed": record.window.mixed, "capacity_bytes": record.pool.capacity.bytes.0,
           "wake_ns": record.wake.0, "lease_ns": record.lease.0, "steady": record.steady, "tenants": rows, "shares": shares, "notes": notes})
    .to_string()
}

/// Input and shares of a decision about memory, read back from its line. Notes stay words and are not read.
///
/// # Errors
/// The line and the field that cannot be used.
pub fn parse_memory_line(line: usize, text: &str) -> Result<Record<MemorySignal, MemoryShare>, JournalError> {
    let value: Value = serde_json::from_str(text).map_err(|_| JournalError::NotJson { line })?;
    let top = Fields { line, map: value.as_object().ok_or(JournalError::NotJson { line })? };
    let rows = top.list("tenants")?.iter().map(|row| memory_row(line, row)).collect::<Result<_, _>>()?;
    let shares = top
        .list("shares")?
        .iter()
        .map(|row| {
            let fields = Fields::of(line, row, "shares")?;
            let share = fields.memory_share("share")?;
            Ok((fields.tenant()?, share.ok_or(JournalError::Field { line, field: "share" })?))
        })
        .collect::<Result<_, JournalError>>()?;
    Ok(Record {
        at: Instant(top.number("at_ns")?),
        window: Window {
            start: Instant(top.number("window_start_ns")?),
            end: Instant(top.number("window_end_ns")?),
            mixed: top.map.get("mixed").and_then(Value::as_bool).unwrap_or(false),
        },
        pool: Pool { capacity: Amount::memory(Bytes(top.number("capacity_bytes")?)), ..Pool::default() },
        rows,
        shares,
        wake: Duration(top.number("wake_ns")?),
        lease: Duration(top.number("lease_ns")?),
        steady: top.map.get("steady").and_then(Value::as_bool).unwrap_or(true),
        notes: Vec::new(),
    })
}

fn memory_row(line: usize, row: &Value) -> Result<Row<MemorySignal, MemoryShare>, JournalError> {
    let fields = Fields::of(line, row, "tenants")?;
    let weight = fields.map.get("weight").and_then(Value::as_f64).and_then(Weight::new);
    let claim = Claim {
        weight: weight.ok_or(JournalError::Field { line, field: "weight" })?,
        floor: Amount::memory(Bytes(fields.number("floor_bytes")?)),
        credit: fields.map.get("credit_bytes").and_then(Value::as_u64).map(Bytes),
        ..Claim::default()
    };
    let signal = match fields.map.get("signal") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let s = Fields::of(line, value, "signal")?;
            Some(MemorySignal {
                held: Bytes(s.number("held_bytes")?),
                idle: Bytes(s.number("idle_bytes")?),
                shadow_hits: s.number("shadow_hits")?,
                gets: s.number("gets")?,
                hits: s.number("hits")?,
            })
        }
    };
    Ok(Row { id: fields.tenant()?, claim, signal, in_force: fields.memory_share("in_force")? })
}

/// The fields of one JSON object of a line.
struct Fields<'a> {
    line: usize,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn of(line: usize, value: &'a Value, field: &'static str) -> Result<Self, JournalError> {
        Ok(Self { line, map: value.as_object().ok_or(JournalError::Field { line, field })? })
    }

    fn number(&self, field: &'static str) -> Result<u64, JournalError> {
        let value = self.map.get(field).and_then(Value::as_u64);
        value.ok_or(JournalError::Field { line: self.line, field })
    }

    fn list(&self, field: &'static str) -> Result<&'a [Value], JournalError> {
        let value = self.map.get(field).and_then(Value::as_array);
        value.map(Vec::as_slice).ok_or(JournalError::Field { line: self.line, field })
    }

    fn tenant(&self) -> Result<TenantId, JournalError> {
        let id = u32::try_from(self.number("tenant")?);
        id.map(TenantId).map_err(|_| JournalError::Field { line: self.line, field: "tenant" })
    }

    fn memory_share(&self, field: &'static str) -> Result<Option<MemoryShare>, JournalError> {
        let Some(value @ Value::Object(_)) = self.map.get(field) else { return Ok(None) };
        let share = Self::of(self.line, value, field)?;
        let ceiling = share.map.get("ceiling_bytes").and_then(Value::as_u64).map(Bytes);
        Ok(Some(MemoryShare { target: Bytes(share.number("target_bytes")?), ceiling }))
    }
}
