//! What a tenant would hit with other memory: from a running server's curve, or from a trace.
//!
//! Shape:   the administration's answer, or traces -> `Plan` -> a table for people, or one JSON object
//! Units:   sizes in bytes as the store charges them
//! Failure: a server that cannot be reached, an unknown tenant and a curve that is not there yet are told apart

use crate::names::{name_of, whose};
use crate::one_line::one_line;
use crate::replay::TENANTS_MAX;
use comfy_table::{CellAlignment, Table, presets};
use control::Curve;
use lab::{Op, Request, TraceError, TraceReader};
use policy::estimate::{SAMPLES_MAX, Shards};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use units::Bytes;

/// What an item is charged beside key and value: a header of 10 and its share of the index.
const CHARGE_BESIDE: u32 = 19;
/// Parts of the footprint in the table of a trace without a present size, in percent.
const PARTS: [u64; 12] = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100];

/// A tenant's curve, and where the tenant is on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Its name.
    pub tenant: String,
    /// What it holds now; none for a trace of which that was not said.
    pub held: Option<Bytes>,
    /// Look-ups per second of late; of a trace, all look-ups.
    pub gets: f64,
    /// Whether `gets` are per second.
    pub live: bool,
    /// Keys that the curve is made of.
    pub samples: u64,
    /// The part of the keys that is sampled.
    pub rate: f64,
    /// The curve.
    pub curve: Curve,
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// The server has no such tenant.
    #[error("the server has no such tenant")]
    NoTenant {
        /// Those it has.
        known: Vec<String>,
    },
    /// It has too few samples of it.
    #[error("{0}")]
    NoCurve(String),
    /// It refuses to answer.
    #[error("{what}")]
    Refused {
        /// The answer's status.
        status: u16,
        /// Why, in the server's words.
        what: String,
        /// What would help, in the server's words; may be empty.
        cure: String,
    },
    /// It answers something else.
    #[error("the answer is no curve: {0}")]
    Malformed(String),
}

/// Why traces give no plans.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There are too many tenants.
    #[error("the traces have more than {TENANTS_MAX} tenants")]
    Tenants,
}

/// What traces say of their tenants.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Planned {
    /// A plan for each tenant with a curve, in the order of their names.
    pub plans: Vec<Plan>,
    /// The names of those without: nobody looked a key up twice.
    pub without: Vec<String>,
}

/// One size of a plan.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Row {
    size: Bytes,
    hit_ratio: f64,
    /// Hits more than now, per second or in all; none without a present size.
    gained: Option<f64>,
}

impl Plan {
    /// The plan in the answer of `/tenants/NAME/curve`.
    ///
    /// # Errors
    /// If the answer has none.
    pub fn from_answer(status: u16, text: &str) -> Result<Self, PlanError> {
        let malformed = |what: &str| PlanError::Malformed(what.to_owned());
        let answer: Value = serde_json::from_str(text).map_err(|e| malformed(&e.to_string()))?;
        if status == 404 && answer["tenants"].is_array() {
            let names = answer["tenants"].as_array().into_iter().flatten();
            let known = names.filter_map(Value::as_str).map(str::to_owned).collect();
            return Err(PlanError::NoTenant { known });
        }
        if !(200..300).contains(&status)
            && let Some(what) = answer["error"].as_str()
        {
            let cure = answer["cure"].as_str().unwrap_or_default().to_owned();
            return Err(PlanError::Refused { status, what: what.to_owned(), cure });
        }
        if let Some(why) = answer["why"].as_str() {
            return Err(PlanError::NoCurve(why.to_owned()));
        }
        let points = answer["points"].as_array().ok_or_else(|| malformed("it has no points"))?;
        let point = |p: &Value| Some((Bytes(p["bytes"].as_u64()?), p["miss_ratio"].as_f64()?));
        let points: Option<Vec<_>> = points.iter().map(point).collect();
        let points = points.ok_or_else(|| malformed("a point is no size and ratio"))?;
        Ok(Self {
            tenant: answer["tenant"].as_str().unwrap_or_default().to_owned(),
            held: Some(Bytes(
                answer["held_bytes"].as_u64().ok_or_else(|| malformed("it has no held_bytes"))?,
            )),
            gets: answer["gets_per_sec"].as_f64().unwrap_or(0.0),
            live: true,
            samples: answer["samples"].as_u64().unwrap_or(0),
            rate: answer["sampling_rate"].as_f64().unwrap_or(0.0),
            curve: Curve::new(points).map_err(|e| malformed(&e.to_string()))?,
        })
    }

    /// The least memory with at least this hit ratio; none if no size of the curve has it.
    #[must_use]
    pub fn size_for(&self, hit_ratio: f64) -> Option<Bytes> {
        let points = self.curve.points();
        let reached = points.iter().position(|(_, miss)| hit_ratio <= 1.0 - *miss + ROUNDING)?;
        let (size, miss) = points[reached];
        let Some((before, above)) = reached.checked_sub(1).map(|i| points[i]) else { return Some(size) };
        let part = (above - (1.0 - hit_ratio)) / (above - miss);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of the way to the next point"
        )]
        let bytes = ((size.0 - before.0) as f64 * part.clamp(0.0, 1.0)).ceil() as u64;
        Some(before + Bytes(bytes))
    }

    fn row(&self, size: Bytes) -> Row {
        let hit_ratio = 1.0 - self.curve.miss_ratio(size);
        let now = self.held.map(|held| 1.0 - self.curve.miss_ratio(held));
        Row { size, hit_ratio, gained: now.map(|now| (hit_ratio - now) * self.gets) }
    }

    /// The rows: now and after each change in percent, or parts of the whole where nothing is known of now.
    fn rows(&self, changes: &[i64]) -> Vec<(String, Row)> {
        let Some(held) = self.held else {
            let whole = self.curve.points().last().map_or(Bytes::ZERO, |(size, _)| *size);
            return PARTS.map(|part| (format!("{part}%"), self.row(whole.scale(part, 100)))).to_vec();
        };
        let now = ("now".to_owned(), self.row(held));
        let changed = changes.iter().map(|change| {
            let percent = u64::try_from(100 + change).unwrap_or(0);
            (format!("{change:+}%"), self.row(held.scale(percent, 100)))
        });
        std::iter::once(now).chain(changed).collect()
    }

    /// The table for people; `want` is a hit ratio to reach.
    #[must_use]
    pub fn to_table(&self, changes: &[i64], want: Option<f64>) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
        table.set_header([
            "memory",
            "",
            "hit ratio",
            if self.live { "hits/s gained" } else { "hits gained" },
        ]);
        for (name, row) in self.rows(changes) {
            let gained = row.gained.map_or_else(|| "-".to_owned(), |gained| format!("{gained:+.1}"));
            table.add_row([name, row.size.to_string(), format!("{:.4}", row.hit_ratio), gained]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let per = if self.live { "look-ups/s" } else { "look-ups" };
        let Self { tenant, gets, samples, rate, .. } = self;
        let mut text = format!(
            "tenant {}: {gets:.0} {per}, {samples} keys sampled at a rate of {rate:.4}\n{table}",
            one_line(tenant)
        );
        if let Some(want) = want {
            let _ = match self.size_for(want) {
                Some(size) => write!(text, "\na hit ratio of {want} needs {size}"),
                // What comes back from farther away than the server looks is in none of its curves.
                None if self.live => write!(
                    text,
                    "\nup to {} no memory gives a hit ratio of {want}, and the curve ends there at {:.4}; with more memory the server sees farther",
                    self.end().0,
                    self.end().1
                ),
                None => write!(
                    text,
                    "\nno memory gives a hit ratio of {want}: the curve ends at {:.4}",
                    self.end().1
                ),
            };
        }
        text
    }

    /// The largest size that the curve knows, and the hit ratio there.
    fn end(&self) -> (Bytes, f64) {
        self.curve.points().last().map_or((Bytes::ZERO, 0.0), |(size, miss)| (*size, 1.0 - miss))
    }

    /// The object of `plan --json`.
    #[must_use]
    pub fn to_json(&self, changes: &[i64], want: Option<f64>) -> Value {
        let row = |(name, row): &(String, Row)| json!({"memory": name, "bytes": row.size.0, "hit_ratio": row.hit_ratio, "hits_gained": row.gained});
        let rows: Vec<Value> = self.rows(changes).iter().map(row).collect();
        json!({"tenant": self.tenant, "held_bytes": self.held.map(|b| b.0), "gets": self.gets, "live": self.live,
               "samples": self.samples, "sampling_rate": self.rate, "sizes": rows, "want": want,
               "bytes_for_want": want.and_then(|want| self.size_for(want)).map(|b| b.0)})
    }
}

/// The path of a tenant's curve.
#[must_use]
pub fn path_of(tenant: &str) -> String {
    let mut path = "/tenants/".to_owned();
    for byte in tenant.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path + "/curve"
}

/// The plans of all tenants of traces, read one after another; `at` is what each holds.
///
/// # Errors
/// If a trace cannot be read, or there are more tenants than a replay takes.
pub fn of_traces(traces: &mut [&mut dyn TraceReader], at: Option<Bytes>) -> Result<Planned, TracesError> {
    let mut tenants: BTreeMap<Vec<u8>, (Shards, u64)> = BTreeMap::new();
    for trace in traces {
        while let Some(request) = trace.next()? {
            let tenant = whose(request.tenant);
            if !tenants.contains_key(tenant)
                && let Some(shards) = Shards::new(1.0, SAMPLES_MAX)
            {
                if TENANTS_MAX <= tenants.len() {
                    return Err(TracesError::Tenants);
                }
                tenants.insert(tenant.to_vec(), (shards, 0));
            }
            if let Some((shards, gets)) = tenants.get_mut(tenant) {
                *gets += u64::from(request.op.is_look_up());
                take(shards, &request);
            }
        }
    }
    let mut planned = Planned::default();
    for (name, (shards, gets)) in tenants {
        let tenant = name_of(&name);
        let Ok(curve) = shards.curve() else {
            planned.without.push(tenant);
            continue;
        };
        let (samples, rate) = (shards.samples() as u64, shards.rate());
        planned.plans.push(Plan { tenant, held: at, gets: gets as f64, live: false, samples, rate, curve });
    }
    Ok(planned)
}

/// Ratios that differ by less are the same: they are differences of ratios.
const ROUNDING: f64 = 1e-9;

/// What a request does to an LRU cache. What changes only an item that is there changes nothing here.
fn take(shards: &mut Shards, request: &Request<'_>) {
    let key = rapidhash::v3::rapidhash_v3(request.key);
    let key_bytes = u32::try_from(request.key.len()).unwrap_or(u32::MAX);
    let bytes = request.value_bytes.saturating_add(key_bytes).saturating_add(CHARGE_BESIDE);
    match request.op {
        Op::Get | Op::Gets => {
            shards.count(1);
            shards.look_up(key, Some(bytes));
        }
        Op::Set | Op::Add | Op::Cas => shards.write(key, bytes),
        Op::Delete => shards.remove(key),
        Op::Replace | Op::Append | Op::Prepend | Op::Incr | Op::Decr => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let points = [(0, 1.0), (100, 0.6), (200, 0.4), (400, 0.2)].map(|(size, ratio)| (Bytes(size), ratio));
        Plan {
            tenant: "feeds".to_owned(),
            held: Some(Bytes(100)),
            gets: 1_000.0,
            live: true,
            samples: 9,
            rate: 0.5,
            curve: Curve::new(points).unwrap(),
        }
    }

    #[test]
    fn a_wanted_ratio_has_its_least_size() {
        for (want, size) in
            [(0.0, Some(0)), (0.4, Some(100)), (0.5, Some(150)), (0.8, Some(400)), (0.81, None)]
        {
            assert_eq!(plan().size_for(want), size.map(Bytes), "{want}");
        }
    }

    #[test]
    fn changes_are_of_what_is_held() {
        let object = plan().to_json(&[20, -20], Some(0.5));
        assert_eq!(object["sizes"][1]["memory"], "+20%");
        assert_eq!(object["sizes"][1]["bytes"], 120);
        let gained = |i: usize| object["sizes"][i]["hits_gained"].as_f64().unwrap();
        assert!((gained(1) - 40.0).abs() < 1e-6 && (gained(2) + 80.0).abs() < 1e-6, "{object}");
        assert_eq!(object["bytes_for_want"], 150);
        let table = plan().to_table(&[20], Some(0.9));
        assert!(table.contains("+40.0"), "{table}");
        // A trace is known to its end, a server's curve as far as the server looks.
        for (live, seen) in [(true, "\nup to 400B no memory gives"), (false, "\nno memory gives")] {
            let table = Plan { live, ..plan() }.to_table(&[20], Some(0.9));
            assert!(table.contains(seen), "{table}");
        }
    }

    #[test]
    fn a_name_that_a_client_chose_does_not_speak_to_the_terminal() {
        let table = Plan { tenant: "\u{1b}[2J\n".to_owned(), ..plan() }.to_table(&[20], None);
        assert!(table.starts_with("tenant \\u{1b}[2J\\n: ") && !table.contains('\u{1b}'), "{table}");
    }

    #[test]
    fn answers_that_are_no_curve_say_so() {
        let no_tenant = r#"{"error": "x", "tenants": ["a", "b"]}"#;
        let known = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(Plan::from_answer(404, no_tenant), Err(PlanError::NoTenant { known }));
        let too_few = r#"{"tenant": "a", "held_bytes": 1, "points": [], "why": "too few"}"#;
        assert_eq!(Plan::from_answer(200, too_few), Err(PlanError::NoCurve("too few".to_owned())));
        let other_host = r#"{"error": "the request names another host", "cure": "ask http://127.0.0.1"}"#;
        let refused = PlanError::Refused {
            status: 403,
            what: "the request names another host".to_owned(),
            cure: "ask http://127.0.0.1".to_owned(),
        };
        assert_eq!(Plan::from_answer(403, other_host), Err(refused));
        for text in ["", "no", "{}", r#"{"points": [{"bytes": -1}], "held_bytes": 1}"#] {
            assert!(matches!(Plan::from_answer(200, text), Err(PlanError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn traces_have_as_many_tenants_as_a_replay_takes() {
        let trace = |tenants: usize| {
            let mut text = "t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n".to_owned();
            for tenant in 0..tenants {
                let _ = writeln!(text, "0,t{tenant},k,20,61,get,0");
            }
            let mut reader = lab::open_reader(Box::new(std::io::Cursor::new(text)), "t", None).unwrap();
            of_traces(&mut [&mut *reader], None)
        };
        assert_eq!(trace(TENANTS_MAX).unwrap().without.len(), TENANTS_MAX);
        assert!(matches!(trace(TENANTS_MAX + 1), Err(TracesError::Tenants)));
    }

    #[test]
    fn a_trace_gives_a_plan_per_tenant() {
        let mut text = "t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n".to_owned();
        for round in 0..10 {
            for key in 0..50 {
                let _ = writeln!(text, "{round},loop,{key},20,61,get,0");
            }
        }
        let _ = writeln!(text, "10,once,k,20,61,get,0");
        let mut reader = lab::open_reader(Box::new(std::io::Cursor::new(text)), "t", None).unwrap();
        let planned = of_traces(&mut [&mut *reader], Some(Bytes(5_000))).unwrap();
        assert_eq!(planned.without, ["once"]);
        let plans = planned.plans;
        assert_eq!((plans.len(), plans[0].tenant.as_str(), plans[0].samples), (1, "loop", 50));
        assert!((plans[0].row(Bytes(5_200)).hit_ratio - 0.9).abs() < 0.01, "{:?}", plans[0].curve);
        assert!(plans[0].row(Bytes(4_800)).hit_ratio < 0.01);
        assert_eq!(path_of("a b/c"), "/tenants/a%20b%2Fc/curve");
    }
}
