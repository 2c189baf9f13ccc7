//! The program: what the operator asks becomes a checked request, and every end has one exit code.

mod activation;
mod args;
mod clock;
mod commands;
mod config_command;
mod daemon;
mod demo;
mod doctor;
mod experiment;
mod log_line;
mod patience;
mod plan;
mod probe;
mod reload;
mod replay;
mod serve;
mod system;
mod tenant_command;

mod extended;
mod range;
mod settings;
mod value;

mod address;
mod assemble;
mod file;
mod flag;
mod layers;
mod tenants;
mod tier;

mod failure;
mod suggest;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod damaged_file;

use args::{Request, World};
use failure::{Code, Failure, say};
use std::process::ExitCode;

const LICENSE: &str =
    "Cotenant is licensed under the Apache License, Version 2.0, or the MIT license, at your option.";

fn main() -> ExitCode {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let mut args: Vec<_> = std::env::args_os().collect();
    let is_child = args.get(1).is_some_and(|first| first == daemon::CHILD);
    if is_child {
        args.remove(1);
    }
    // Files that are read again are those of the start, wherever a daemon has gone meanwhile.
    let folder = std::env::current_dir().unwrap_or_default();
    let world = World {
        args,
        environment: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
        read: &|path| std::fs::read_to_string(folder.join(path)),
    };
    if let [_, command, magic] = &world.args[..]
        && let (true, Some(magic)) = (command == replay::UNPACK, magic.to_str())
    {
        return failure::exit_code(replay::unpack(magic));
    }
    let result = args::request(&world).and_then(|request| answer(request, &world, is_child));
    if let (true, Err(failure)) = (is_child, &result) {
        // Whoever waits for the start reads it here.
        say(failure);
    }
    failure::exit_code(result)
}

fn answer(request: Request, world: &World<'_>, is_child: bool) -> Result<Code, Failure> {
    match request {
        Request::Serve(options) => {
            let read = || args::serve_options(world);
            serve::run(serve::ServeOptions { is_child, ..*options }, &read)
        }
        Request::Demo(options) => demo::run(options),
        Request::Replay(options) => replay::run(options),
        Request::Plan(options) => plan::run(&options),
        Request::Probe(options) => probe::run(&options),
        Request::Doctor(options) => doctor::run(&options),
        Request::ExperimentList => experiment::list(),
        Request::ExperimentRun(options) => experiment::run(&options),
        Request::Tenant(options) => tenant_command::run(&options),
        Request::ConfigCheck(options) => Ok(config_command::check(&options)),
        Request::ConfigShow(options) => Ok(config_command::show(&options)),
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
