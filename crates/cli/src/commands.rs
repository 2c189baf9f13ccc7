//! The command line's shape for clap, built from the tables of settings.

use crate::extended::EXTENDED;
use crate::settings::{
    Effect, GROUP_SETTINGS, OF_THE_START, PROMOTIONS, SETTINGS, Setting, TENANT_SETTINGS, row, setting,
    switch,
};
use crate::value::Kind;
use clap::{Arg, ArgAction, Command, value_parser};
use std::path::PathBuf;

/// The flags that only `demo` has.
pub(crate) const DEMO: &[Setting] =
    &[setting("seconds", Kind::Count, "", "1 and up", "End after so many seconds instead of at Ctrl-C")];

/// The flags that only `replay` has.
pub(crate) const REPLAY: &[Setting] = &[
    setting(
        "server",
        Kind::Text,
        "",
        "HOST:PORT",
        "Replay against this memcached server instead of in-process",
    ),
    setting("format", Kind::Text, "", TRACES, "The traces' format; found by their look without it"),
    setting("limit", Kind::Count, "", "1 and up", "Stop after so many requests"),
    setting(
        "tier",
        Kind::Size,
        "",
        "1MiB and up",
        "A tier below DRAM, of memory as fast as DRAM, beside --memory",
    ),
    setting(
        "placement",
        Kind::Choice(PLACEMENTS),
        "auto",
        "dram, tier or auto",
        "Where values go if there is a tier",
    ),
    setting(
        "promotion",
        Kind::Choice(PROMOTIONS),
        "repeated",
        "never, repeated or always",
        "Which hits bring values back from the tier",
    ),
    switch("json", "Print one JSON object"),
    switch("ttl", "Let items expire by the trace's times"),
    switch("realtime", "Send requests at the trace's times, not as fast as possible"),
];

/// The words for formats of traces.
const TRACES: &str = "mix, stream, twitter or arc";
/// Words for `store::Placement`.
const PLACEMENTS: &[&str] = &["dram", "tier", "auto"];
/// The flags that only `plan` has.
pub(crate) const PLAN: &[Setting] = &[
    setting(
        "change",
        Kind::Text,
        "+20%,-20%",
        "-100% to 10000%, separated by commas",
        "Changes of memory to tell about",
    ),
    setting(
        "want",
        Kind::Ratio,
        "",
        "above 0, below 1",
        "Say how much memory this hit ratio needs; exit with 1 if none does",
    ),
    setting("at", Kind::Size, "", "1B and up", "What each tenant of a trace holds now"),
    setting("format", Kind::Text, "", TRACES, "The traces' format; found by their look without it"),
    setting("admin", Kind::Text, "127.0.0.1:11280", "HOST:PORT", "The server's administration"),
    switch("json", "Print one JSON object per tenant"),
];

/// The flags that only `probe` has.
pub(crate) const PROBE: &[Setting] = &[
    setting("profile", Kind::Text, "", "a file", "Keep the profile in this file instead of beside the tier"),
    setting("out", Kind::Text, "", "a folder", "Write index.html with plots into this folder"),
    setting("time", Kind::Time, "40s", "above 0s, at most 55s", "Measure for about so long in all"),
    switch("json", "Print the profile as JSON instead of a table"),
];

/// The flags that only `doctor` has.
pub(crate) const DOCTOR: &[Setting] = &[
    setting("at", Kind::Text, ".", "a folder", "Where a file tier would be: direct I/O is tried there"),
    switch("json", "Print one JSON object instead of a text"),
];

/// The flags that only `experiment run` has.
pub(crate) const EXPERIMENT: &[Setting] = &[
    switch("quick", "Take seconds for each, at the cost of precision"),
    setting(
        "out",
        Kind::Text,
        "",
        "a folder",
        "Write results.jsonl and index.html with plots into this folder",
    ),
    setting("seed", Kind::Count, "1", "0 to 9223372036854775807", "The first seed of everything random"),
    switch("json", "Print one JSON object per number instead of tables"),
];

/// The flags that all of `tenant` have.
pub(crate) const TENANT: &[Setting] = &[
    setting(
        "admin",
        Kind::Text,
        "127.0.0.1:11280",
        "HOST:PORT",
        "Address of the running server's administration",
    ),
    switch("json", "Print the answer as JSON"),
];

/// Settings of the server that `demo` has, too.
const DEMO_SHARED: &[&str] = &["memory", "port"];
/// Settings of the server that `replay` has, too.
const REPLAY_SHARED: &[&str] =
    &["memory", "policy", "rank", "credit", "tax", "idle_time", "learning", "seed"];
/// What `replay` is told of the store in this process: nothing of it reaches a server.
pub(crate) const REPLAYED_HERE: &[&str] = &[
    "memory",
    "policy",
    "rank",
    "credit",
    "tax",
    "idle_time",
    "learning",
    "seed",
    "tier",
    "placement",
    "promotion",
    "reserved",
    "group",
    "member",
];

/// What `config check` looks at, and what not.
const CHECKED: &str = "Say whether the settings are valid, by their text alone. Only a start looks at what they name: files of users and of \
    keys, tiers and what is in them, names of hosts and of users, addresses that are taken, and whether the machine has the memory.";

/// The formats of traces.
const FORMATS: &str = "Formats of traces, plain or packed by zstd:\n  \
    mix      header t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n  \
    stream   header t_ms,key,size,op; without t_ms the time of the row before, without size 1 byte\n  \
    twitter  no header; timestamp,key,key_size,value_size,client_id,operation,ttl\n  \
    arc      .lis, no header; first block, number of blocks, ignored, number of the request, with spaces between\n\
    op is get, gets, set, add, replace, cas, append, prepend, delete, incr or decr. Times to live are in seconds, 0 is for ever.";

/// The whole command line, as it is under memcached's name or under the program's own.
pub(crate) fn command_as(is_memcached: bool) -> Command {
    let command = command();
    if !is_memcached {
        return command;
    }
    command.mut_subcommand("serve", |serve| serve.override_usage("memcached [OPTIONS]"))
}

/// The whole command line.
pub(crate) fn command() -> Command {
    let config = Command::new("config")
        .about("Check and show the settings of the server, or print all there are")
        .subcommand_required(true)
        .subcommand(
            serve_flags(Command::new("check"))
                .arg(file())
                .about("Say whether the settings are valid, by their text alone")
                .long_about(CHECKED),
        )
        .subcommand(
            serve_flags(Command::new("show")).about("Print the settings in force and who gave them, as TOML"),
        )
        .subcommand(Command::new("reference").about("Print every setting there is, as Markdown"));
    Command::new("cotenant")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A memcached-compatible cache server that divides its memory among tenants")
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommand(serve())
        .subcommand(demo())
        .subcommand(replay())
        .subcommand(plan())
        .subcommand(probe())
        .subcommand(doctor())
        .subcommand(experiment())
        .subcommand(tenant())
        .subcommand(group())
        .subcommand(config)
}

fn serve() -> Command {
    let license =
        Arg::new("license").short('i').long("license").help("Print the licence").action(ArgAction::SetTrue);
    serve_flags(Command::new("serve"))
        .display_name("cotenant")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Run the server; memcached's flags mean what they mean there")
        .arg(license)
}

/// A command with all that `serve` can be told.
fn serve_flags(command: Command) -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Read settings from this TOML file; the environment and flags go before it");
    let keys = TENANT_SETTINGS.iter().map(|setting| setting.name).collect::<Vec<_>>().join(", ");
    let tenant = Arg::new("tenant")
        .long("tenant")
        .value_name("SPEC")
        .action(ArgAction::Append)
        .help("A tenant: name=feeds,prefix=feeds:,reserved=64MiB,weight=2; repeatable")
        .long_help(format!(
            "A tenant: name=feeds,prefix=feeds:,reserved=64MiB,weight=2; repeatable.\n\
             Keys are those of [tenant.NAME] in the file: {keys}. Several users or identities have semicolons between."
        ));

    let options = EXTENDED.iter().map(|row| row.usage()).collect::<Vec<_>>().join(", ");
    command
        .args_override_self(true)
        .arg(config)
        .arg(tenant)
        .arg(group_spec())
        .args(SETTINGS.iter().map(flag))
        .after_long_help(format!("Options of -o: {options}"))
}

fn group_spec() -> Arg {
    Arg::new("group")
        .long("group")
        .value_name("SPEC")
        .action(ArgAction::Append)
        .help("A group of tenants: name=team,reserved=64MiB,weight=2,policy=shared; repeatable")
}

fn file() -> Arg {
    Arg::new("file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("The file to check")
        .conflicts_with("config")
}

fn demo() -> Command {
    Command::new("demo")
        .about("Run the server under a built-in load of several tenants and say what sharing gains")
        .args(DEMO.iter().map(flag))
        .args(DEMO_SHARED.iter().map(|name| flag(row(name))))
}

fn replay() -> Command {
    let trace = Arg::new("trace")
        .value_name("TRACE")
        .value_parser(value_parser!(PathBuf))
        .required(true)
        .num_args(1..)
        .help("Traces, files or pipes, replayed one after the other");
    let reserved = Arg::new("reserved")
        .long("reserved")
        .value_name("[NAME=]SIZE")
        .action(ArgAction::Append)
        .help("Memory that nobody takes from each tenant, or from tenant NAME; repeatable");
    let member = Arg::new("member")
        .long("member")
        .value_name("TENANT=GROUP")
        .action(ArgAction::Append)
        .help("Tenant TENANT is in group GROUP, which --group makes; repeatable");
    Command::new("replay")
        .about("Run traces through the store, or against a server, and print hit ratios")
        .after_long_help(FORMATS)
        .arg(trace)
        .arg(reserved)
        .arg(group_spec())
        .arg(member)
        .args(REPLAY.iter().map(flag))
        .args(REPLAY_SHARED.iter().map(|name| flag(row(name))))
}

fn plan() -> Command {
    let tenant =
        Arg::new("tenant").long("tenant").value_name("NAME").help("Whose memory; with traces all without it");
    let trace = Arg::new("trace")
        .long("trace")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .action(ArgAction::Append)
        .help("Plan from this trace instead of a running server; repeatable");
    let hyphens = |setting: &'static Setting| flag(setting).allow_hyphen_values(setting.name == "change");
    Command::new("plan")
        .about("Say what a tenant would hit with more memory or less")
        .after_long_help(FORMATS)
        .arg(tenant)
        .arg(trace)
        .args(PLAN.iter().map(hyphens))
}

fn probe() -> Command {
    let tier = Arg::new("tier")
        .value_name("TIER")
        .required(true)
        .help(format!("{}; a name before it, NAME=, changes nothing", media::SPEC_FORMS));
    Command::new("probe")
        .about("Measure how many accesses of each size a tier bears, and keep that as its profile")
        .arg(tier)
        .args(PROBE.iter().map(flag))
}

fn doctor() -> Command {
    Command::new("doctor")
        .about("Say what this machine offers, what is used instead, and how to enable the rest")
        .args(DOCTOR.iter().map(flag))
}

fn experiment() -> Command {
    let name = Arg::new("name")
        .value_name("NAME")
        .required(true)
        .num_args(1..)
        .help("Experiments such as nyx/fig_9, all of a paper such as nyx, or all");
    Command::new("experiment")
        .about("Reproduce tables and figures of the papers: theirs, ours, and what follows")
        .subcommand_required(true)
        .subcommand(
            Command::new("list")
                .about("List every table and figure of the five papers and what became of it"),
        )
        .subcommand(
            Command::new("run")
                .about("Run experiments and print paper, ours and verdict; a miss is a result, no failure")
                .arg(name)
                .args(EXPERIMENT.iter().map(flag)),
        )
}

fn tenant() -> Command {
    let name = || Arg::new("name").value_name("NAME").required(true).help("The tenant's name");
    let asks = |name: &'static str, about: &'static str| {
        Command::new(name).about(about).args(TENANT.iter().map(flag))
    };
    let settings =
        || TENANT_SETTINGS.iter().map(|setting| flag(setting).hide(OF_THE_START.contains(&setting.name)));
    let set = "Change a tenant, or make one with a prefix; what is not given stays, none takes back";
    Command::new("tenant")
        .about("List, add, change and remove the tenants of a running server")
        .subcommand_required(true)
        .subcommand(asks("list", "List every tenant and what it holds"))
        .subcommand(asks("show", "Show all there is to know of one tenant").arg(name()))
        .subcommand(asks("add", "Add a tenant that is known by a prefix").arg(name()).args(settings()))
        .subcommand(asks("set", set).arg(name()).args(settings()))
        .subcommand(
            asks("remove", "Remove a tenant: its items are gone, its memory is the others'").arg(name()),
        )
}

fn group() -> Command {
    let name = || Arg::new("name").value_name("NAME").required(true).help("The group's name");
    let asks = |name: &'static str, about: &'static str| {
        Command::new(name).about(about).args(TENANT.iter().map(flag))
    };
    let set = "Make a group or change one; what is not given stays, none takes back";
    Command::new("group")
        .about("List, make, change and remove the groups of a running server's tenants")
        .subcommand_required(true)
        .subcommand(asks("list", "List every group and what its members hold together"))
        .subcommand(asks("show", "Show all there is to know of one group").arg(name()))
        .subcommand(asks("set", set).arg(name()).args(GROUP_SETTINGS.iter().map(flag)))
        .subcommand(asks("remove", "Remove a group that nobody is in").arg(name()))
}

/// The flag of a setting.
fn flag(setting: &'static Setting) -> Arg {
    let action = match setting.kind {
        Kind::Switch => ArgAction::SetTrue,
        Kind::Level => ArgAction::Count,
        Kind::List => ArgAction::Append,
        _ => ArgAction::Set,
    };
    let mut arg = Arg::new(setting.name)
        .long(setting.long())
        .action(action)
        .help(short_help(setting))
        .long_help(long_help(setting))
        .help_heading(heading(setting));
    if arg.get_action().takes_values() {
        arg = arg
            .value_name(setting.kind.placeholder())
            .allow_negative_numbers(setting.kind == Kind::Port)
            .allow_hyphen_values(setting.kind == Kind::Char);
    }
    if let Some(letter) = setting.short {
        arg = arg.short(letter);
    }
    if setting.alias.is_empty() { arg } else { arg.visible_alias(setting.alias) }
}

fn heading(setting: &Setting) -> Option<&'static str> {
    match setting.effect {
        Effect::Used => None,
        Effect::Accepted(_) => Some("Accepted as memcached's, without meaning here"),
        Effect::Unavailable { .. } => Some("Not available in this version"),
    }
}

fn has_default(setting: &Setting) -> bool {
    setting.kind != Kind::Switch && !setting.default.is_empty()
}

fn short_help(setting: &Setting) -> String {
    let default = if has_default(setting) { format!(" [{}]", setting.default) } else { String::new() };
    format!("{}{default}", setting.help)
}

fn long_help(setting: &Setting) -> String {
    let mut text = format!("{}.", setting.help);
    if !setting.more.is_empty() {
        text = format!("{text} {}", setting.more);
    }
    match setting.effect {
        Effect::Used => {}
        Effect::Accepted(why) => text = format!("{text} No meaning here: {why}."),
        Effect::Unavailable { instead, .. } => text = format!("{text} Instead: {instead}."),
    }
    if setting.kind != Kind::Switch {
        text = format!("{text}\nRange: {}.", setting.range);
    }
    if has_default(setting) {
        text = format!("{text} Default: {}", setting.default);
    }
    text
}
