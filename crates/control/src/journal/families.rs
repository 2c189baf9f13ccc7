//! How claims, and the signals and shares of the four families, stand in a line.
//!
//! Units: names end with their unit; latencies and instants in ns, cost in ps of the tier's time, MBA in percent, CPU time in
//!        thousandths of a core

use super::line::{Line, field, line};
use crate::bandwidth::{BandwidthSignal, Budget, Kinds, Throttle};
use crate::claim::{Amount, Claim, Class, CpuQuota, Goal, Levers, Mba, Quantile, Slowdown, Weight};
use crate::curve::Curve;
use crate::form::{FormSignal, Forms};
use crate::joint::{Accesses, Joint, JointSignal, Table, Utility};
use crate::memory::{MemoryShare, MemorySignal, TierTraffic, Worth};
use serde_json::{Value, json};
use units::Bytes;

line!(Amount { bytes: "bytes", bandwidth: "bytes_per_sec", cost: "cost_ps_per_sec" });
line!(Claim {
    weight: "weight",
    floor: "floor",
    ceiling: "ceiling",
    caps: "caps_bytes_per_sec",
    credit: "credit_bytes",
    class: "class",
    levers: "levers",
    group: "group",
});
line!(Levers { brake: "brake", mba: "mba", cpu: "cpu" });
line!(Mba { acts_on: "acts_on", levels: "levels_bits" });
line!(CpuQuota { most: "most_millicores", least: "least_millicores" });

line!(MemorySignal {
    held: "held_bytes",
    idle: "idle_bytes",
    shadow_hits: "shadow_hits",
    gets: "gets",
    hits: "hits",
    expected_hits: "expected_hits_thousandths",
    below: "below",
});
line!(TierTraffic { held: "held_bytes", hits: "hits", promotions: "promotions", demotions: "demotions" });
line!(MemoryShare { target: "target_bytes", ceiling: "ceiling_bytes", worth: "worth" });
line!(Worth { more: "more_eighth_octaves", within_group: "within_group" });

line!(BandwidthSignal {
    bytes: "bytes",
    accesses: "accesses",
    sampled: "sampled",
    cost: "cost_ps",
    operations: "operations",
    threads: "threads",
    mean_latency: "mean_latency_ns",
    tail_latency: "tail_latency_ns",
    depleted_at: "depleted_at_ns",
});
line!(Throttle {
    delay: "delay_10ns",
    paused: "paused",
    budget: "budget",
    cap: "cap_bytes_per_sec",
    mba: "mba_percent",
    cpu: "cpu_millicores",
});
line!(Budget { cost: "cost_ps", per: "per_ns" });

line!(JointSignal {
    held: "held_bytes",
    bandwidth: "bytes_per_sec",
    operations: "operations",
    utility: "utility",
});
line!(Joint { bytes: "bytes", bandwidth: "bytes_per_sec" });

line!(FormSignal {
    held: "held_bytes",
    operations: "operations",
    latency: "latency_ns",
    tail: "tail_latency_ns",
    latency_error: "latency_error",
    tail_error: "tail_latency_error",
    compression: "compression",
});
line!(Forms { write_cache: "write_cache_bytes", memory: "memory_bytes", compressed: "compressed_bytes" });

impl<T: Line> Line for Kinds<T> {
    fn to_json(&self) -> Value {
        json!({"dram_read": self.dram_read.to_json(), "dram_write": self.dram_write.to_json(),
               "slow_read": self.slow_read.to_json(), "slow_write": self.slow_write.to_json()})
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        let map = value.as_object().ok_or("")?;
        Ok(Self {
            dram_read: field(map, "dram_read")?,
            dram_write: field(map, "dram_write")?,
            slow_read: field(map, "slow_read")?,
            slow_write: field(map, "slow_write")?,
        })
    }
}

/// A number that its own constructor checks.
macro_rules! checked {
    ($($type:ty),*) => {$(
        impl Line for $type {
            fn to_json(&self) -> Value {
                json!(self.get())
            }
            fn of_json(value: &Value) -> Result<Self, &'static str> {
                value.as_f64().and_then(Self::new).ok_or("")
            }
        }
    )*};
}
checked!(Weight, Slowdown, Quantile);

impl Line for Curve {
    fn to_json(&self) -> Value {
        Value::Array(self.points().iter().map(|(size, ratio)| json!([size.0, ratio])).collect())
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        Self::new(Vec::<(Bytes, f64)>::of_json(value)?).map_err(|_| "curve")
    }
}

impl Line for Utility {
    fn to_json(&self) -> Value {
        match self {
            Self::Curve(curve) => json!({"curve": curve.to_json()}),
            Self::Accesses(accesses) => json!({"accesses": accesses.to_json()}),
            Self::Table(table) => json!({"table": table.to_json()}),
        }
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        let map = value.as_object().ok_or("utility")?;
        if map.contains_key("curve") {
            return field(map, "curve").map(Self::Curve);
        }
        if map.contains_key("accesses") {
            return field(map, "accesses").map(Self::Accesses);
        }
        field(map, "table").map(Self::Table)
    }
}

impl Line for Accesses {
    fn to_json(&self) -> Value {
        json!({"counts": self.counts(), "page_bytes": self.page().0, "pages": self.pages(),
               "cached_bytes": self.cached().0, "miss_ratio": self.miss_ratio()})
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        let map = value.as_object().ok_or("accesses")?;
        let counts = map.get("counts").and_then(Value::as_array).ok_or("counts")?;
        let count = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
        let counts = counts.iter().map(count).collect::<Option<Vec<u32>>>().ok_or("counts")?;
        let (page, pages, cached) =
            (field(map, "page_bytes")?, field(map, "pages")?, field(map, "cached_bytes")?);
        Self::new(counts, page, pages, cached, field(map, "miss_ratio")?).map_err(|_| "accesses")
    }
}

impl Line for Table {
    fn to_json(&self) -> Value {
        json!({"most": self.most().to_json(), "rows": self.rows(), "speeds": self.speeds()})
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        let map = value.as_object().ok_or("table")?;
        let speeds = map.get("speeds").and_then(Value::as_array).ok_or("speeds")?;
        #[expect(clippy::cast_possible_truncation, reason = "written from 32 bits")]
        let speed = |value: &Value| value.as_f64().map(|n| n as f32);
        let speeds = speeds.iter().map(speed).collect::<Option<Vec<f32>>>().ok_or("speeds")?;
        let rows = map.get("rows").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let rows = rows.filter(|rows| 0 < *rows && speeds.len().is_multiple_of(*rows)).ok_or("rows")?;
        let columns = speeds.len() / rows;
        Self::new(field(map, "most")?, rows, columns, speeds).map_err(|_| "table")
    }
}

impl Line for Class {
    fn to_json(&self) -> Value {
        match self {
            Self::Critical { goal } => json!({"critical": goal.to_json()}),
            Self::BestEffort => json!("best-effort"),
            Self::Exempt => json!("exempt"),
        }
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        match (value.as_str(), value.get("critical")) {
            (Some("best-effort"), _) => Ok(Self::BestEffort),
            (Some("exempt"), _) => Ok(Self::Exempt),
            (None, Some(goal)) => Ok(Self::Critical { goal: Goal::of_json(goal)? }),
            _ => Err(""),
        }
    }
}

impl Line for Goal {
    fn to_json(&self) -> Value {
        match self {
            Self::Bandwidth(kinds) => json!({"bytes_per_sec": kinds.to_json()}),
            Self::Slowdown(most) => json!({"slowdown": most.to_json()}),
            Self::Latency { quantile, at_most } => {
                json!({"quantile": quantile.to_json(), "at_most_ns": at_most.to_json()})
            }
        }
    }
    fn of_json(value: &Value) -> Result<Self, &'static str> {
        let map = value.as_object().ok_or("goal")?;
        if map.contains_key("bytes_per_sec") {
            return field(map, "bytes_per_sec").map(Self::Bandwidth);
        }
        if map.contains_key("slowdown") {
            return field(map, "slowdown").map(Self::Slowdown);
        }
        Ok(Self::Latency { quantile: field(map, "quantile")?, at_most: field(map, "at_most_ns")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::GroupId;
    use crate::journal::{Record, Rows};
    use crate::policy::{Note, Pool, Reason, Row, Window};
    use units::{BytesPerSec, Duration, Instant, TenantId};

    /// A record with everything set that can be.
    fn record<S: Clone, A: Clone>(signal: S, share: A) -> Record<S, A> {
        let goal =
            Goal::Latency { quantile: Quantile::new(0.99).unwrap(), at_most: Duration::from_micros(3) };
        let claim = Claim {
            weight: Weight::new(1.0 / 3.0).unwrap(),
            ceiling: Some(Amount::memory(Bytes(u64::MAX))),
            caps: Kinds { slow_write: Some(BytesPerSec(5)), ..Kinds::default() },
            class: Class::Critical { goal },
            levers: Levers {
                brake: Kinds::splat(true),
                mba: Some(Mba::MT2),
                cpu: Some(CpuQuota { most: 4000, least: 1 }),
            },
            group: Some(GroupId(3)),
            ..Claim::default()
        };
        let rows = vec![
            Row { id: TenantId(1), claim, signal: Some(signal), in_force: Some(share.clone()) },
            Row { id: TenantId(70_000), claim: Claim::default(), signal: None, in_force: None },
        ];
        let latency = Kinds { slow_read: Some(Duration(170)), ..Kinds::default() };
        Record {
            at: Instant(5),
            window: Window { start: Instant(1), end: Instant(5), mixed: true },
            pool: Pool { latency, profile: 2, ..Pool::default() },
            rows: Rows::of(&rows, None),
            shares: vec![(TenantId(1), share.clone()), (TenantId(70_000), share)],
            wake: Duration(7),
            lease: Duration(9),
            steady: false,
            notes: Vec::new(),
        }
    }

    #[track_caller]
    fn check<S, A>(record: &Record<S, A>)
    where
        S: Line + Clone + PartialEq + std::fmt::Debug,
        A: Line + Clone + PartialEq + std::fmt::Debug,
    {
        let line = record.to_line();
        assert_eq!(&Record::of_line(1, &line).unwrap(), record, "{line}");
    }

    #[test]
    fn the_records_of_all_families_come_back() {
        let curve = Curve::new(vec![(Bytes(1), 0.1 + 0.2), (Bytes(9), 1.0 / 7.0)]).unwrap();
        let worth = Some(Worth { more: -3, within_group: true });
        check(&record(
            MemorySignal { gets: 9, ..MemorySignal::default() },
            MemoryShare { worth, ..MemoryShare::default() },
        ));
        let throttle = Throttle { cpu: Some(1), delay: 3, mba: 70, ..Throttle::PAUSED };
        check(&record(
            BandwidthSignal { depleted_at: Some(Instant(3)), ..BandwidthSignal::default() },
            throttle,
        ));
        let counts = vec![7, 3, 1];
        let accesses = Accesses::new(counts, Bytes(4096), 10, Bytes(8192), 0.3).unwrap();
        let most = Joint { bytes: Bytes(9), bandwidth: BytesPerSec(8) };
        let table = Table::new(most, 2, 3, [0.1, 0.2, 0.3, 0.1, 0.7, 1.0 / 3.0 + 1.0]).unwrap();
        for utility in [Utility::Curve(curve), Utility::Accesses(accesses), Utility::Table(table)] {
            check(&record(
                JointSignal { utility: Some(utility), ..JointSignal::default() },
                Joint::default(),
            ));
        }
        check(&record(FormSignal { compression: Some(2.5), ..FormSignal::default() }, Forms::default()));
    }

    #[test]
    fn what_is_no_record_names_its_line_and_field() {
        let text = record(MemorySignal::default(), MemoryShare::default()).to_line();
        let read =
            |text: &str| Record::<MemorySignal, MemoryShare>::of_line(3, text).unwrap_err().to_string();
        assert_eq!(read("{"), "line 3 of the journal is not JSON");
        assert_eq!(read("[]"), "line 3 of the journal is not JSON");
        assert_eq!(read("{}"), "line 3 of the journal lacks a usable 'at_ns'");
        for (good, bad, field) in [
            ("\"weight\":1.0", "\"weight\":0", "weight"),
            ("\"gets\":0", "\"gets\":-1", "gets"),
            ("\"quantile\":0.99", "\"quantile\":1", "quantile"),
            ("\"target_bytes\":0", "\"target_bytes\":\"0\"", "target_bytes"),
        ] {
            assert!(text.contains(good), "{text}");
            assert_eq!(
                read(&text.replace(good, bad)),
                format!("line 3 of the journal lacks a usable '{field}'")
            );
        }
    }

    #[test]
    fn a_note_is_written_with_its_words() {
        let mut record = record(MemorySignal::default(), MemoryShare::default());
        let reason = Reason::Incident("more is promised than there is".into());
        record.notes.push(Note { tenant: Some(TenantId(1)), reason, amount: -5 });
        let line = record.to_line();
        assert!(
            line.contains(r#""reason":"incident","tenant":1,"text":"more is promised than there is""#),
            "{line}"
        );
    }
}
