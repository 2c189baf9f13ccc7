//! What is drawn of an experiment: the paper's numbers beside ours, and the curves of the run.
//!
//! Shape:     an outcome -> Vega-Lite specifications, one per unit and one per plot of the run
//! Non-goals: drawing; the page does that

use lab::experiment::{Outcome, Plot};
use serde_json::{Value, json};

/// The grammar that the vendored Vega-Lite reads.
const SCHEMA: &str = "https://vega.github.io/schema/vega-lite/v6.json";

/// Colours of the paper's numbers and of ours: told apart by all kinds of colour vision (Okabe and Ito).
const PAPER_AND_OURS: [&str; 2] = ["#999999", "#0072b2"];
const CURVES: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#000000", "#f0e442"];

/// Beyond this ratio of the largest number to the smallest, bars need a logarithmic axis. Guess.
const LINEAR_RATIO_MAX: f64 = 200.0;

/// Pixels of a plot. Two stand side by side on the page.
const WIDTH: u32 = 360;
const HEIGHT: u32 = 260;

/// The specifications of an experiment's plots.
pub(super) fn specs(outcome: &Outcome) -> Vec<Value> {
    let mut units: Vec<&str> = Vec::new();
    for row in outcome.rows.iter().filter(|row| row.line.ours.is_some()) {
        if !units.contains(&row.line.unit.as_str()) {
            units.push(&row.line.unit);
        }
    }
    let bars = units.into_iter().map(|unit| bars(outcome, unit));
    bars.chain(outcome.plots.iter().map(curves)).collect()
}

/// The numbers with `unit`, ours beside the paper's where it gives one.
fn bars(outcome: &Outcome, unit: &str) -> Value {
    let rows = outcome.rows.iter().filter(|row| row.line.unit == unit && row.line.ours.is_some());
    let numbers: Vec<(&str, &str, f64)> = rows
        .flat_map(|row| [("paper", row.line.paper), ("ours", row.line.ours)].map(|(who, n)| (row, who, n)))
        .filter_map(|(row, who, number)| Some((row.line.item.as_str(), who, number?)))
        .collect();
    let values: Vec<Value> =
        numbers.iter().map(|(item, who, number)| json!({"item": item, "who": who, "n": number})).collect();
    let sizes = numbers.iter().map(|(.., number)| number.abs()).filter(|size| 0.0 < *size);
    let (low, high) = sizes.fold((f64::INFINITY, 0.0_f64), |(low, high), n| (low.min(n), high.max(n)));
    let scale =
        if low * LINEAR_RATIO_MAX < high { json!({"type": "symlog", "constant": low}) } else { json!({}) };
    json!({
        "$schema": SCHEMA,
        "title": if unit.is_empty() { "paper against ours".to_owned() } else { format!("paper against ours, {unit}") },
        "width": WIDTH,
        "height": {"step": 14},
        "data": {"values": values},
        "mark": {"type": "bar", "tooltip": true},
        "encoding": {
            "y": {"field": "item", "type": "nominal", "sort": null, "title": null, "axis": {"labelLimit": 160}},
            "yOffset": {"field": "who", "type": "nominal", "sort": ["paper", "ours"]},
            "x": {"field": "n", "type": "quantitative", "title": unit, "scale": scale},
            "color": {
                "field": "who", "type": "nominal", "title": null,
                "scale": {"domain": ["paper", "ours"], "range": PAPER_AND_OURS},
            },
        },
    })
}

/// One plot of the run.
pub(super) fn curves(plot: &Plot) -> Value {
    let points = plot
        .series
        .iter()
        .flat_map(|series| series.points.iter().map(|(x, y)| json!({"x": x, "y": y, "s": series.name})));
    let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
    let few = plot.series.iter().all(|series| series.points.len() <= 40);
    json!({
        "$schema": SCHEMA,
        "title": plot.title,
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": points.collect::<Vec<_>>()},
        "mark": {"type": "line", "point": few, "tooltip": true},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": plot.x, "scale": {"zero": false}},
            "y": {"field": "y", "type": "quantitative", "title": plot.y},
            "color": {
                "field": "s", "type": "nominal", "title": null,
                "scale": {"domain": names, "range": CURVES},
            },
        },
    })
}
