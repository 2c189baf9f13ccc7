//! Reading the settings again while the server runs: what can change does, what cannot is named in the log.
//!
//! Shape:      the same command line and environment, the file as it is now -> what differs -> the server, or a line
//! Invariants: settings that make no sense change nothing; those of the start that cannot change are named each time
//! Failure:    one line says what is wrong, where, and the likely cure

use crate::failure::Failure;
use crate::layers::InForce;
use crate::serve::ServeOptions;
use crate::settings::Setting;
use crate::system;
use crate::value::Value;
use server::{Config, Running};

/// What was read last, and what the server was started with.
#[derive(Debug)]
pub(crate) struct Reload {
    started: InForce,
    config: Config,
}

/// Reads the settings again.
pub(crate) type Read<'a> = dyn Fn() -> Result<ServeOptions, Failure> + 'a;

impl Reload {
    /// The settings of the start.
    pub(crate) fn new(started: InForce, config: Config) -> Self {
        Self { started, config }
    }

    /// Takes over what can change; says so, and what cannot.
    pub(crate) fn settings(&mut self, read: &Read<'_>, running: &Running) {
        let again = match read() {
            Ok(again) => again,
            Err(failure) => {
                tracing::error!("the settings stay as they were: {}; {}", failure.what, failure.cure);
                return;
            }
        };
        if self.config.max_connections < again.config.max_connections {
            system::raise_files(&again.config);
        }
        let adopted = running.operator().adopt(&self.config, &again.config);
        let memory = adopted.config.memory;
        if self.config.memory < memory {
            // How far it may be raised is as it was.
            system::check_memory(&Config { memory, memory_max: None, ..self.config.clone() });
        }
        for done in &adopted.done {
            tracing::info!("the settings were read again: {done}");
        }
        for kept in &adopted.kept {
            tracing::warn!("the settings were read again, but not {kept}");
        }
        for (setting, before, after) in differences(&self.started, &again.in_force) {
            if !setting.reload {
                tracing::warn!("{} needs a restart to change from {before} to {after}", setting.name);
            }
        }
        if self.started.extended != again.in_force.extended {
            tracing::warn!("what -o gives needs a restart to change");
        }
        if adopted.done.is_empty() && adopted.kept.is_empty() {
            tracing::info!("the settings were read again");
        }
        // What was refused is tried again the next time.
        self.config = adopted.config;
    }
}

/// Settings whose values differ, with both.
fn differences<'a>(
    before: &'a InForce,
    after: &'a InForce,
) -> impl Iterator<Item = (&'static Setting, String, String)> + 'a {
    let text = |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), Value::plain);
    let rows = before.rows().zip(after.rows()).filter(|((_, before, _), (_, after, _))| before != after);
    rows.map(move |((setting, before, _), (_, after, _))| (setting, text(before), text(after)))
}
