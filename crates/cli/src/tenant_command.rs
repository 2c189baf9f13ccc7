//! `tenant` and `group`: who shares a running server's memory, and how that changes.
//!
//! Shape: a subcommand -> a request to the administration -> a table, or its JSON as it came
//! Exit:  1 if the server refuses what was asked, 2 if it makes no sense, 3 if the server cannot be reached

use crate::failure::{Code, Failure, say};
use crate::tenants::{GROUPS, Sort};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value, json};
use server::admin::client;
use std::io;
use units::Bytes;

/// What `tenant` is told.
#[derive(Debug)]
pub(crate) struct TenantOptions {
    /// `HOST:PORT` of the server's administration.
    pub(crate) admin: String,
    /// Print the answer as it came.
    pub(crate) json: bool,
    /// With tenants, or with groups of them.
    pub(crate) sort: &'static Sort,
    /// What to do.
    pub(crate) act: Act,
}

/// What to do with tenants.
#[derive(Debug)]
pub(crate) enum Act {
    List,
    Show(String),
    Add(String, Map<String, Value>),
    Set(String, Map<String, Value>),
    Remove(String),
}

/// A column of the list: its heading, and what it shows of a tenant.
type Column = (&'static str, fn(&Value) -> String);

/// The columns.
const COLUMNS: &[Column] = &[
    ("tenant", |t| plain(&t["name"])),
    ("prefix", |t| plain(&t["prefix"])),
    ("group", |t| plain(&t["group"])),
    ("reserved", |t| size(&t["reserved_bytes"])),
    ("weight", |t| plain(&t["weight"])),
    ("held", |t| size(&t["held_bytes"])),
    ("target", |t| size(&t["target_bytes"])),
    ("items", |t| plain(&t["items"])),
    ("hit ratio", hit_ratio),
    ("evictions", |t| plain(&t["evictions"])),
    ("refused", |t| plain(&t["writes_refused"])),
];

/// The columns of groups.
const GROUP_COLUMNS: &[Column] = &[
    ("group", |g| plain(&g["name"])),
    ("policy", |g| plain(&g["policy"])),
    ("reserved", |g| size(&g["reserved_bytes"])),
    ("weight", |g| plain(&g["weight"])),
    ("held", |g| size(&g["held_bytes"])),
    ("target", |g| size(&g["target_bytes"])),
    ("members", |g| plain(&json!(g["members"].as_array().map_or(0, Vec::len)))),
];

/// Does it and prints what came of it.
pub(crate) fn run(options: &TenantOptions) -> Result<Code, Failure> {
    let word = options.sort.word;
    let path = |name: &str| format!("/{word}s/{}", client::part(name));
    let text = match &options.act {
        Act::List => ask(options, "GET", &format!("/{word}s"), None)?,
        Act::Show(name) => ask(options, "GET", &path(name), None)?,
        Act::Add(name, settings) => {
            if ask_any(options, "GET", &path(name), None)?.0 == 200 {
                return Err(Failure {
                    what: format!("there is a tenant '{name}' already"),
                    cure: format!("cotenant tenant set {name} changes it"),
                    code: Code::No,
                    excerpt: Vec::new(),
                });
            }
            ask(options, "PUT", &path(name), Some(settings))?
        }
        Act::Set(name, settings) => ask(options, "PUT", &path(name), Some(settings))?,
        Act::Remove(name) => ask(options, "DELETE", &path(name), None)?,
    };
    if options.json {
        say(text.trim_end());
        return Ok(Code::Done);
    }
    let answer: Value = serde_json::from_str(&text).map_err(|e| strange(&e.to_string()))?;
    match &options.act {
        Act::List if word == GROUPS.word => say(list(&answer["groups"], GROUP_COLUMNS)),
        Act::List => say(list(&answer["tenants"], COLUMNS)),
        Act::Remove(name) => say(format!("{word} {name} is removed")),
        _ => say(one(&answer)),
    }
    Ok(Code::Done)
}

fn strange(what: &str) -> Failure {
    Failure::failed(format!("the administration's answer is not understood: {what}"), "is it a cotenant's?")
}

fn ask_any(
    options: &TenantOptions,
    method: &str,
    path: &str,
    body: Option<&Map<String, Value>>,
) -> Result<(u16, String), Failure> {
    let body = body.map(|settings| json!(settings).to_string());
    client::ask(options.admin.as_str(), method, path, body.as_deref()).map_err(|e| {
        let cure = match e.kind() {
            io::ErrorKind::FileTooLarge => "ask for less: cotenant tenant show NAME",
            _ => "start the server, or name its address: --admin HOST:PORT",
        };
        Failure::failed(format!("cannot ask the administration at {}: {e}", options.admin), cure)
    })
}

/// The answer, if it is yes.
fn ask(
    options: &TenantOptions,
    method: &str,
    path: &str,
    body: Option<&Map<String, Value>>,
) -> Result<String, Failure> {
    let (status, text) = ask_any(options, method, path, body)?;
    if (200..300).contains(&status) {
        return Ok(text);
    }
    if status == 503 {
        return Err(Failure::failed("the server is starting", "ask again once it serves"));
    }
    let refusal: Value = serde_json::from_str(&text).unwrap_or_default();
    let Some(what) = refusal["error"].as_str() else {
        return Err(strange(&format!("status {status}")));
    };
    let code = match status {
        404 | 409 => Code::No,
        400..500 => Code::WrongUse,
        _ => Code::Failed,
    };
    Err(Failure { what: what.to_owned(), cure: plain(&refusal["cure"]), code, excerpt: Vec::new() })
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
    table
}

fn list(rows: &Value, columns: &[Column]) -> String {
    let mut table = table();
    table.set_header(columns.iter().map(|(heading, _)| *heading));
    for row in rows.as_array().into_iter().flatten() {
        table.add_row(columns.iter().map(|(_, show)| show(row)));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn one(tenant: &Value) -> String {
    let mut table = table();
    for (key, value) in tenant.as_object().into_iter().flatten() {
        let (name, value) = match key.strip_suffix("_bytes") {
            Some(name) => (name, size(value)),
            None => (key.as_str(), plain(value)),
        };
        table.add_row([name.replace('_', " "), value]);
    }
    table.trim_fmt()
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        // A prefix that a client made may hold what terminals obey.
        Value::String(text) => text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect(),
        other => other.to_string(),
    }
}

fn size(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string())
}

fn hit_ratio(tenant: &Value) -> String {
    match (tenant["hits"].as_f64(), tenant["gets"].as_f64()) {
        (Some(hits), Some(gets)) if 0.0 < gets => format!("{:.4}", hits / gets),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&str> {
        line.split([' ', '|']).filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn tables_show_what_the_answer_says() {
        let tenant = json!({"name": "feeds", "prefix": "f:", "group": "team", "reserved_bytes": 8 << 20, "weight": 2.0, "held_bytes": 5,
            "target_bytes": 1 << 30, "items": 3, "hits": 1, "gets": 4, "evictions": 7, "writes_refused": 0,
            "credit_bytes": null});
        let listed = list(&json!([tenant]), COLUMNS);
        let rows: Vec<Vec<&str>> = listed.lines().map(words).collect();
        let feeds = rows.iter().find(|row| row.first() == Some(&"feeds"));
        assert_eq!(
            feeds.unwrap()[..],
            ["feeds", "f:", "team", "8MiB", "2.0", "5B", "1GiB", "3", "0.2500", "7", "0"]
        );
        let shown = one(&tenant);
        assert!(shown.lines().any(|line| words(line) == ["reserved", "8MiB"]), "{shown}");
        assert!(shown.lines().any(|line| words(line) == ["credit", "-"]), "{shown}");
        assert!(list(&json!([]), COLUMNS).contains("hit ratio"));
        let group = json!({"name": "team", "policy": null, "reserved_bytes": 8 << 20, "weight": 2.0, "held_bytes": 5,
            "target_bytes": 1 << 30, "members": ["a", "b"]});
        let listed = list(&json!([group]), GROUP_COLUMNS);
        let rows: Vec<Vec<&str>> = listed.lines().map(words).collect();
        let team = rows.iter().find(|row| row.first() == Some(&"team"));
        assert_eq!(team.unwrap()[..], ["team", "-", "8MiB", "2.0", "5B", "1GiB", "2"]);
    }
}
