//! The program: what the operator asks becomes a checked request, and every end has one exit code.

mod args;
mod clock;
mod commands;
mod config_command;
mod demo;
mod experiment;
mod plan;
mod replay;
mod serve;
mod tenant_command;

mod extended;
mod settings;
mod value;

mod address;
mod assemble;
mod file;
mod layers;
mod tenants;

mod failure;
mod suggest;

#[cfg(test)]
mod cases;

use args::{Request, World};
use failure::{Code, Failure, say};
use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;

const LICENSE: &str =
    "Cotenant is licensed under the Apache License, Version 2.0, or the MIT license, at your option.";

fn main() -> ExitCode {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let world = World {
        args: std::env::args_os().collect(),
        environment: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
        read: &|path| std::fs::read_to_string(path),
        is_current_user: &is_current_user,
    };
    if world.args.len() == 2 && world.args[1] == replay::UNPACK {
        return failure::exit_code(replay::unpack());
    }
    failure::exit_code(args::request(&world).and_then(answer))
}

fn answer(request: Request) -> Result<Code, Failure> {
    match request {
        Request::Serve(options) => serve::run(*options),
        Request::Demo(options) => demo::run(options),
        Request::Replay(options) => replay::run(options),
        Request::Plan(options) => plan::run(&options),
        Request::ExperimentList => experiment::list(),
        Request::ExperimentRun(options) => experiment::run(&options),
        Request::Tenant(options) => tenant_command::run(&options),
        Request::ConfigCheck(options) => Ok(config_command::check(&options)),
        Request::ConfigShow(in_force) => Ok(config_command::show(&in_force)),
        Request::ConfigReference => Ok(config_command::reference()),
        Request::License => {
            say(LICENSE);
            Ok(Code::Done)
        }
        Request::Say(text) => {
            say(text);
            Ok(Code::Done)
        }
    }
}

/// Whether the user database gives `name` the number of the user who owns this process.
fn is_current_user(name: &str) -> bool {
    let Ok(own) = std::fs::metadata("/proc/self") else { return false };
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| {
        let mut fields = line.split(':');
        let (user, number) = (fields.next(), fields.nth(1));
        user == Some(name) && number.and_then(|n| n.parse().ok()) == Some(own.uid())
    })
}
