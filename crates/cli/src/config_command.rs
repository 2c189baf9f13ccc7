//! `config`: whether settings are valid, what is in force, and what there is to set.

use crate::extended::EXTENDED;
use crate::failure::{Code, complain, say};
use crate::layers::{InForce, Source};
use crate::serve::ServeOptions;
use crate::settings::{Effect, SETTINGS, Setting};
use crate::tenants::{GROUPS, Sort, TENANTS};
use crate::value::{Value, quoted};
use std::fmt::Write as _;

/// Says that the settings are valid; that they are is shown by the options' existence.
pub(crate) fn check(options: &ServeOptions) -> Code {
    tell_notes(options);
    say("ok");
    Code::Done
}

/// Prints what is in force.
pub(crate) fn show(options: &ServeOptions) -> Code {
    tell_notes(options);
    say(toml(&options.in_force).trim_end());
    Code::Done
}

fn tell_notes(options: &ServeOptions) {
    for note in &options.notes {
        complain(format_args!("note: {note}"));
    }
}

/// Prints every setting there is.
pub(crate) fn reference() -> Code {
    say(markdown().trim_end());
    Code::Done
}

/// The settings in force as a file that parses back to them.
fn toml(in_force: &InForce) -> String {
    let mut text = String::new();
    let mut line = |key: &str, value: &str, source: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{:<48} # {source}", format!("{key} = {value}"));
    };
    for (setting, value, source) in in_force.rows() {
        let is_told = setting.effect == Effect::Used || *source != Source::Default;
        if is_told && setting.name != "extended" {
            line(setting.name, &value.map_or_else(|| "\"\"".to_owned(), Value::toml), source);
        }
    }
    let options = Value::List(in_force.extended.iter().map(|(option, _)| option.text()).collect());
    let source = in_force.extended.last().map_or(&Source::Default, |(_, source)| source);
    line("extended", &options.toml(), source);
    let groups = in_force.groups.iter().map(|group| (GROUPS.word, group));
    for (word, tenant) in groups.chain(in_force.tenants.iter().map(|tenant| (TENANTS.word, tenant))) {
        let name = if tenant.name.contains('.') { quoted(&tenant.name) } else { tenant.name.clone() };
        let _ = write!(text, "\n# {}\n[{word}.{name}]\n", tenant.source);
        for (setting, value) in tenant.rows() {
            let _ = writeln!(text, "{} = {}", setting.name, value.toml());
        }
    }
    text
}

/// The reference of all settings.
fn markdown() -> String {
    let mut text = String::from("# Settings\n\nDefaults, then the file, then the environment, then flags.\n");
    for setting in SETTINGS {
        let _ = write!(text, "\n## {}\n\n{}\n\n", setting.name, explain(setting));
        let _ = writeln!(text, "- flags: `{}`; variable: `{}`", setting.flags(), setting.variable());
        facts(&mut text, setting);
        let _ = writeln!(text, "- {}", change(setting.reload));
    }
    for Sort { word, settings, .. } in [&TENANTS, &GROUPS] {
        let keys = format!("Keys of `[{word}.NAME]` and of `--{word} name=NAME,key=value`.");
        let _ = write!(text, "\n# Settings of a {word}\n\n{keys}\n");
        for setting in *settings {
            let _ = write!(text, "\n## {word}.{}\n\n{}\n\n", setting.name, explain(setting));
            facts(&mut text, setting);
            let _ = writeln!(text, "- {}", change(!OF_A_RESTART.contains(&setting.name)));
        }
    }
    text.push_str("\n# Options of -o\n\n");
    for option in EXTENDED {
        let _ = writeln!(text, "- `{}`: {}", option.usage(), option.effect);
    }
    text
}

/// Settings of a tenant that no reading of the file changes.
const OF_A_RESTART: &[&str] = &["prefix", "listen", "identity"];

/// Whether a setting can change while the server runs.
fn change(can: bool) -> &'static str {
    if can { "may change while the server runs" } else { "needs a restart to change" }
}

fn facts(text: &mut String, setting: &Setting) {
    let default = if setting.default.is_empty() { "none" } else { setting.default };
    let _ = writeln!(text, "- range: {}; default: {default}", setting.range);
}

fn explain(setting: &Setting) -> String {
    let effect = match setting.effect {
        Effect::Used => String::new(),
        Effect::Accepted(why) => format!(" Accepted without meaning: {why}."),
        Effect::Unavailable { instead, .. } => format!(" Not available in this version: {instead}."),
    };
    let more = if setting.more.is_empty() { String::new() } else { format!(" {}", setting.more) };
    format!("{}.{more}{effect}", setting.help)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::settings;

    /// What `config show` prints.
    pub(crate) fn shown(in_force: &InForce) -> String {
        toml(in_force)
    }

    #[test]
    fn the_reference_has_every_setting() {
        let text = markdown();
        for setting in SETTINGS {
            assert!(text.contains(&format!("\n## {}\n", setting.name)), "{}", setting.name);
        }
    }

    #[test]
    fn the_reference_says_of_every_setting_whether_it_can_change_and_sends_nobody_to_itself() {
        let text = markdown();
        let entries: Vec<&str> = text.split("\n## ").skip(1).collect();
        let of_named = TENANTS.settings.len() + GROUPS.settings.len();
        assert_eq!(entries.len(), SETTINGS.len() + of_named);
        for entry in &entries {
            let said = [change(true), change(false)].into_iter().filter(|said| entry.contains(*said)).count();
            assert_eq!(said, 1, "{entry}");
        }
        let needs_restart = |name: &str| {
            entries
                .iter()
                .find(|entry| entry.starts_with(name))
                .is_some_and(|entry| entry.contains(change(false)))
        };
        assert!(needs_restart("tenant.listen\n") && !needs_restart("tenant.users\n"));
        assert!(!text.contains("see --help") && !text.contains("see tenants"), "{text}");
        let policies = &settings::row("bandwidth_policy").range;
        for name in server::BandwidthKind::names() {
            assert!(policies.split([',', ' ']).any(|word| word == name), "{name}: {policies}");
        }
    }
}
