//! A record as one line of JSON, and back.
//!
//! Shape:      what can stand in a line says how by a table: field of the type, name in the line
//! Invariants: what is read back equals what was written, floats to the bit; notes are written as words and not read back
//! Failure:    a line that is none names its number and the field

use super::{Record, Rows};
use crate::claim::GroupId;
use crate::policy::{Note, Pool, Row, Window};
use serde_json::{Map, Value, json};
use units::{Bytes, BytesPerSec, Duration, Instant, TenantId};

/// What can stand in a line of a journal.
pub trait Line: Sized {
    /// As JSON.
    fn to_json(&self) -> Value;

    /// From JSON.
    ///
    /// # Errors
    /// The name of the innermost field that cannot be used.
    fn of_json(value: &Value) -> Result<Self, &'static str>;
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

/// The field `name` of an object; a field that is absent reads as null.
pub(super) fn field<T: Line>(map: &Map<String, Value>, name: &'static str) -> Result<T, &'static str> {
    T::of_json(map.get(name).unwrap_or(&Value::Null))
        .map_err(|inner| if inner.is_empty() { name } else { inner })
}

/// Says how a type stands in a line: its fields and their names there.
macro_rules! line {
    ($type:ty { $($field:ident: $name:literal),* $(,)? }) => {
        impl $crate::journal::Line for $type {
            fn to_json(&self) -> serde_json::Value {
                let mut map = serde_json::Map::new();
                $(map.insert($name.to_owned(), $crate::journal::Line::to_json(&self.$field));)*
                serde_json::Value::Object(map)
            }
            fn of_json(value: &serde_json::Value) -> Result<Self, &'static str> {
                let map = value.as_object().ok_or("")?;
                Ok(Self { $($field: $crate::journal::line::field(map, $name)?),* })
            }
        }
    };
}
pub(super) use line;

/// A type that is a number with a name.
macro_rules! number {
    ($($type:ty: $raw:ty),* $(,)?) => {$(
        impl Line for $type {
            fn to_json(&self) -> Value {
                self.0.to_json()
            }
            fn of_json(value: &Value) -> Result<Self, &'static str> {
                <$raw>::of_json(value).map(Self)
            }
        }
    )*};
}
number!(Bytes: u64, BytesPerSec: u64, Duration: u64, Instant: u64, TenantId: u32, crate::bandwidth::Cost: u64, GroupId: u16);

macro_rules! integer {
    ($as:ident: $($type:ty),*) => {$(
        impl Line for $type {
            fn to_json(&self) -> Value {
                Value::from(*self)
            }
            fn of_json(value: &Value) -> Result<Self, &'static str> {
                value.$as().and_then(|n| Self::try_from(n).ok()).ok_or("")
            }
        }
    )*};
}
integer!(as_u64: u8, u16, u32, u64);
integer!(as_i64: i16);

impl Line for bool {
    fn to_json(&self) -> Value {
        Value::Bool(*self)
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        value.as_bool().ok_or("")
    }
}

impl Line for f64 {
    fn to_json(&self) -> Value {
        json!(self)
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        value.as_f64().ok_or("")
    }
}

impl<T: Line> Line for Option<T> {
    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, Line::to_json)
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        if value.is_null() { Ok(None) } else { T::of_json(value).map(Some) }
    }
}

impl<T: Line> Line for Vec<T> {
    fn to_json(&self) -> Value {
        Value::Array(self.iter().map(Line::to_json).collect())
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        value.as_array().ok_or("")?.iter().map(T::of_json).collect()
    }
}

impl<T: Line, U: Line> Line for (T, U) {
    fn to_json(&self) -> Value {
        json!([self.0.to_json(), self.1.to_json()])
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        match value.as_array().map(Vec::as_slice) {
            Some([first, second]) => Ok((T::of_json(first)?, U::of_json(second)?)),
            _ => Err(""),
        }
    }
}

impl Line for Note {
    fn to_json(&self) -> Value {
        let group = self.tenant.and_then(GroupId::of_row).map(|g| g.0);
        let tenant = self.tenant.filter(|_| group.is_none()).map(|t| t.0);
        let mut map = Map::new();
        map.insert("tenant".to_owned(), json!(tenant));
        if group.is_some() {
            map.insert("group".to_owned(), json!(group));
        }
        map.insert("reason".to_owned(), json!(self.reason.word()));
        map.insert("text".to_owned(), json!(self.reason.text()));
        map.insert("amount".to_owned(), json!(self.amount));
        Value::Object(map)
    }
    /// Words are not read back: a note says nothing that a replay would need.
    fn of_json(_: &Value) -> Result<Self, &'static str> {
        Err("notes")
    }
}

line!(Window { start: "start_ns", end: "end_ns", mixed: "mixed" });
line!(Pool { capacity: "capacity", profile: "profile", model: "model", latency: "latency_ns" });

impl<S: Line, A: Line> Line for Row<S, A> {
    fn to_json(&self) -> Value {
        json!({"tenant": self.id.0, "claim": self.claim.to_json(), "signal": self.signal.to_json(),
               "in_force": self.in_force.to_json()})
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        let map = value.as_object().ok_or("")?;
        Ok(Self {
            id: field(map, "tenant")?,
            claim: field(map, "claim")?,
            signal: field(map, "signal")?,
            in_force: field(map, "in_force")?,
        })
    }
}

impl<S: Line + Clone, A: Line + Clone> Record<S, A> {
    /// As one line of JSON, without its end. Tenants are written one by one: all of a thousand as one value take megabytes.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = format!("{{\"at_ns\":{},\"lease_ns\":{},\"notes\":", self.at.0, self.lease.0);
        push_list(&mut line, self.notes.iter().map(Line::to_json));
        line.push_str(&format!(",\"pool\":{},\"shares\":", self.pool.to_json()));
        push_list(&mut line, self.shares.iter().map(Line::to_json));
        line.push_str(&format!(",\"steady\":{},\"tenants\":", self.steady));
        push_list(&mut line, self.rows.iter().map(|row| row.to_json()));
        line.push_str(&format!(",\"wake_ns\":{},\"window\":{}}}", self.wake.0, self.window.to_json()));
        line
    }

    /// The record of a line, without its notes.
    ///
    /// # Errors
    /// The line and the field that cannot be used.
    pub fn of_line(line: usize, text: &str) -> Result<Self, JournalError> {
        let value: Value = serde_json::from_str(text).map_err(|_| JournalError::NotJson { line })?;
        let map = value.as_object().ok_or(JournalError::NotJson { line })?;
        let read = || {
            Ok(Self {
                at: field(map, "at_ns")?,
                window: field(map, "window")?,
                pool: field(map, "pool")?,
                rows: Rows::of(&field::<Vec<_>>(map, "tenants")?, None),
                shares: field(map, "shares")?,
                wake: field(map, "wake_ns")?,
                lease: field(map, "lease_ns")?,
                steady: field(map, "steady")?,
                notes: Vec::new(),
            })
        };
        read().map_err(|field| JournalError::Field { line, field })
    }
}

fn push_list(line: &mut String, list: impl Iterator<Item = Value>) {
    line.push('[');
    for (i, one) in list.enumerate() {
        if 0 < i {
            line.push(',');
        }
        line.push_str(&one.to_string());
    }
    line.push(']');
}
