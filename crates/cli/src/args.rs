//! From the command line, the environment and the file to what is asked of the program.
//!
//! Shape:     program name and arguments -> clap's `Command`, built from the tables -> `Request`
//! Non-goals: reading anything by itself; the world is an argument

use crate::activation::Activation;
use crate::assemble;
use crate::commands::{self, DEMO, DOCTOR, EXPERIMENT, PLAN, PROBE, REPLAY, TENANT};
use crate::demo::DemoOptions;
use crate::doctor::DoctorOptions;
use crate::experiment::ExperimentOptions;
use crate::failure::Failure;
use crate::file;
use crate::flag::{number, own, size, tax, text, texts, time, value};
use crate::layers::{self, Given, InForce, Layer, Source};
use crate::plan::{self, PlanOptions};
use crate::probe::{self, ProbeOptions};
use crate::replay::ReplayOptions;
use crate::serve::ServeOptions;
use crate::settings::{NONE, OF_THE_START, SETTINGS, Setting, row};
use crate::tenant_command::{Act, TenantOptions};
use crate::tenants::{self, Sort};
use crate::tier;
use crate::value::{self, Dialect, Kind, Value, parse};
use anyhow::Context as _;
use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use serde_json::{Map, json};
use server::TierConfig;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use store::Placement;
use units::Bytes;

/// What the program knows of its surroundings.
pub(crate) struct World<'a> {
    /// The program's name and its arguments.
    pub(crate) args: Vec<OsString>,
    /// The environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Reads a file.
    pub(crate) read: &'a dyn Fn(&Path) -> std::io::Result<String>,
}

/// What is asked of the program.
#[derive(Debug)]
pub(crate) enum Request {
    Serve(Box<ServeOptions>),
    Demo(DemoOptions),
    Replay(ReplayOptions),
    Plan(PlanOptions),
    Probe(ProbeOptions),
    Doctor(DoctorOptions),
    ExperimentList,
    ExperimentRun(ExperimentOptions),
    Tenant(TenantOptions),
    ConfigCheck(Box<ServeOptions>),
    ConfigShow(Box<ServeOptions>),
    ConfigReference,
    License,
    /// A help text or the version.
    Say(String),
}

/// What this program is asked, every value checked.
pub(crate) fn request(world: &World<'_>) -> Result<Request, Failure> {
    let args = with_command(&world.args)?;
    let matches = match commands::command_as(is_memcached(&world.args)).try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let said = error.render().to_string().trim_end().to_owned();
            // Some clients' own tests, Dalli's and gomemcache's among them, look at the first line.
            let version = || row("report_version").default;
            let said =
                if is_memcached(&world.args) { format!("memcached {}\n{said}", version()) } else { said };
            return Ok(Request::Say(said));
        }
        Err(error) => return Err(refused(&error, &args)),
    };
    match matches.subcommand() {
        Some(("serve", flags)) if flags.get_flag("license") => Ok(Request::License),
        Some(("serve", flags)) => Ok(Request::Serve(Box::new(serve(world, flags)?))),
        Some(("demo", flags)) => demo(flags).map(Request::Demo),
        Some(("replay", flags)) => replay(flags).map(Request::Replay),
        Some(("plan", flags)) => planned(world, flags).map(Request::Plan),
        Some(("probe", flags)) => probed(flags).map(Request::Probe),
        Some(("doctor", flags)) => examined(flags).map(Request::Doctor),
        Some(("experiment", experiment)) => match experiment.subcommand() {
            Some(("run", flags)) => experiments(flags).map(Request::ExperimentRun),
            _ => Ok(Request::ExperimentList),
        },
        Some(("tenant", tenant)) => match tenant.subcommand() {
            Some((act, flags)) => tenants_of(world, &tenants::TENANTS, act, flags).map(Request::Tenant),
            None => Err(no_command(String::new())),
        },
        Some(("group", group)) => match group.subcommand() {
            Some((act, flags)) => tenants_of(world, &tenants::GROUPS, act, flags).map(Request::Tenant),
            None => Err(no_command(String::new())),
        },
        Some(("config", config)) => match config.subcommand() {
            Some(("check", flags)) => Ok(Request::ConfigCheck(Box::new(serve(world, flags)?))),
            Some(("show", flags)) => Ok(Request::ConfigShow(Box::new(serve(world, flags)?))),
            _ => Ok(Request::ConfigReference),
        },
        _ => Err(no_command(String::new())),
    }
}

/// The options of the server that this program is asked to run.
pub(crate) fn serve_options(world: &World<'_>) -> Result<ServeOptions, Failure> {
    match request(world)? {
        Request::Serve(options) => Ok(*options),
        _ => Err(no_command(String::new())),
    }
}

fn is_memcached(args: &[OsString]) -> bool {
    args.first().and_then(|name| Path::new(name).file_name()).is_some_and(|name| name == "memcached")
}

/// The arguments with a command among them: under memcached's name the program is `serve`.
fn with_command(args: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let is_memcached = is_memcached(args);
    let mut args = args.to_vec();
    if is_memcached {
        args.insert(1, "serve".into());
    }
    let rest = || args[2..].iter().map(|a| a.to_string_lossy()).collect::<Vec<_>>().join(" ");
    match args.get(1).map(|first| first.to_string_lossy()) {
        None => Err(no_command(String::new())),
        Some(first) if first.starts_with('-') && !["-h", "--help", "-V", "--version"].contains(&&*first) => {
            Err(no_command(format!(" {first} {}", rest()).trim_end().to_owned()))
        }
        Some(_) => Ok(args),
    }
}

fn no_command(flags: String) -> Failure {
    Failure::wrong_use("no command is given", format!("cotenant serve{flags}, or cotenant --help"))
}

/// clap's complaint in one line with a cure.
fn refused(error: &clap::Error, args: &[OsString]) -> Failure {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect::<Vec<_>>();
    let what = lines.join(" ").trim_start_matches("error: ").to_owned();
    let suggested =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let word = suggested.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(word) => Some(word.clone()),
        ContextValue::Strings(words) => words.first().cloned(),
        _ => None,
    });
    let help = || format!("{} --help", innermost(args));
    Failure::wrong_use(what, word.map_or_else(help, |word| format!("did you mean '{word}'?")))
}

/// The command that the arguments name, as far as there is such.
fn innermost(args: &[OsString]) -> String {
    let mut command = commands::command();
    let mut path = "cotenant".to_owned();
    for name in args[1..].iter().map(|a| a.to_string_lossy()) {
        let Some(inner) = command.find_subcommand(&*name).cloned() else { break };
        path = format!("{path} {name}");
        command = inner;
    }
    path
}

fn serve(world: &World<'_>, flags: &ArgMatches) -> Result<ServeOptions, Failure> {
    let (in_force, notes) = in_force(world, flags)?;
    let mut options = assemble::serve_options(&in_force)?;
    options.activation = Activation::from(&world.environment);
    options.notes.splice(..0, notes);
    Ok(options)
}

/// The settings in force, and what the log should say about those that are none.
fn in_force(world: &World<'_>, flags: &ArgMatches) -> Result<(InForce, Vec<String>), Failure> {
    let mut in_force = InForce::defaults()?;
    let variable = world.environment.iter().find(|(name, _)| name == "COTENANT_CONFIG");
    let positional = flags.try_get_one::<PathBuf>("file").ok().flatten();
    let path = positional.or_else(|| flags.get_one("config")).cloned();
    if let Some(path) = path.or_else(|| variable.map(|(_, path)| PathBuf::from(path))) {
        let name = path.display().to_string();
        let text = (world.read)(&path).with_context(|| format!("cannot read the configuration {name}"));
        let text =
            text.map_err(|e| Failure::wrong_use(format!("{e:#}"), "name a readable file: --config FILE"))?;
        in_force.lay(file::layer(&name, &text)?)?;
    }
    let (environment, notes) = layers::environment(&world.environment)?;
    in_force.lay(environment)?;
    in_force.lay(flag_layer(flags)?)?;
    Ok((in_force, notes))
}

fn flag_layer(flags: &ArgMatches) -> Result<Layer, Failure> {
    let mut layer = Layer::default();
    for (row, setting) in SETTINGS.iter().enumerate() {
        if is_given(flags, setting.name) {
            let source = Source::Flag(setting.flags());
            layer.given.push(Given { row, texts: texts(flags, setting), source });
        }
    }
    for spec in flags.get_many::<String>("tenant").into_iter().flatten() {
        layer.tenants.push(tenants::from_spec(
            &tenants::TENANTS,
            spec,
            &Source::Flag("--tenant".to_owned()),
        )?);
    }
    layer.groups = groups(flags)?;
    Ok(layer)
}

/// The groups that flags give.
fn groups(flags: &ArgMatches) -> Result<Vec<tenants::Tenant>, Failure> {
    let source = Source::Flag("--group".to_owned());
    let specs = flags.get_many::<String>("group").into_iter().flatten();
    specs.map(|spec| tenants::from_spec(&tenants::GROUPS, spec, &source)).collect()
}

fn demo(flags: &ArgMatches) -> Result<DemoOptions, Failure> {
    let port = number(flags, row("port"))?.and_then(|port| u16::try_from(port).ok());
    Ok(DemoOptions {
        seconds: number(flags, &DEMO[0])?,
        memory: size(flags, row("memory"))?,
        port: port
            .ok_or_else(|| Failure::wrong_use("-p/--port: a demo needs TCP", "-p 0 takes any free port"))?,
    })
}

fn replay(flags: &ArgMatches) -> Result<ReplayOptions, Failure> {
    let own = |name: &str| own(REPLAY, name);
    let is_on = |name: &str| flags.get_flag(own(name).name);
    let reserved = flags.get_many::<String>("reserved").into_iter().flatten().map(|text| reservation(text));
    let options = ReplayOptions {
        traces: flags.get_many::<PathBuf>("trace").into_iter().flatten().cloned().collect(),
        memory: size(flags, row("memory"))?,
        policy: assemble::policy(&text(flags, row("policy"))?.unwrap_or_default()),
        reserved: reserved.collect::<Result<_, _>>()?,
        groups: groups(flags)?.iter().map(assemble::group).collect::<Result<_, _>>()?,
        members: flags
            .get_many::<String>("member")
            .into_iter()
            .flatten()
            .map(|text| member(text))
            .collect::<Result<_, _>>()?,
        rank: value::rank(&text(flags, row("rank"))?.unwrap_or_default())?,
        credit: size(flags, row("credit"))?,
        tax: tax(flags)?,
        idle_time: time(flags, row("idle_time"))?,
        learning: time(flags, row("learning"))?,
        tier: match value(flags, own("tier"))? {
            Some(Value::Size(size)) => size,
            _ => Bytes::ZERO,
        },
        placement: match text(flags, own("placement"))?.as_deref() {
            Some("dram") => Placement::Dram,
            Some("tier") => Placement::Tier(0),
            _ => Placement::Auto,
        },
        promotion: assemble::promotion(&text(flags, own("promotion"))?.unwrap_or_default()),
        server: text(flags, own("server"))?
            .map(|at| server_address(at, "--server", "127.0.0.1:11211"))
            .transpose()?,
        json: is_on("json"),
        ttl: is_on("ttl"),
        realtime: is_on("realtime"),
        format: text(flags, own("format"))?,
        limit: number(flags, own("limit"))?,
        seed: number(flags, row("seed"))?.unwrap_or_default(),
    };
    if options.placement == Placement::Tier(0) && options.tier == Bytes::ZERO {
        return Err(Failure::wrong_use("--placement: there is no tier", "add one: --tier 64MiB"));
    }
    if options.server.is_some()
        && let Some(name) = commands::REPLAYED_HERE.iter().find(|name| is_given(flags, name))
    {
        let flag = format!("--{}", name.replace('_', "-"));
        return Err(Failure::wrong_use(
            format!("{flag}: a server that is replayed against has its own"),
            format!("leave {flag} away, or replay in this process without --server"),
        ));
    }
    if options.realtime && options.server.is_none() {
        return Err(Failure::wrong_use(
            "--realtime: requests are sent to nobody",
            "name the server: --server HOST:PORT",
        ));
    }
    if options.ttl && options.server.is_some() && !options.realtime {
        return Err(Failure::wrong_use(
            "--ttl against a server needs the trace's own pace",
            "add --realtime",
        ));
    }
    Ok(options)
}

/// Whether a flag stands on the command line.
fn is_given(flags: &ArgMatches, name: &str) -> bool {
    flags.value_source(name) == Some(ValueSource::CommandLine)
}

/// Where the administration is asked for, and who says so: the flag, else the server's own variable, else the default.
fn admin_address(
    world: &World<'_>,
    flags: &ArgMatches,
    setting: &Setting,
) -> Result<(String, String), Failure> {
    let variable = row("admin").variable();
    let told = world.environment.iter().find(|(name, _)| !is_given(flags, setting.name) && *name == variable);
    match told {
        Some((_, address)) if !["", "off"].contains(&address.as_str()) => Ok((address.clone(), variable)),
        _ => Ok((text(flags, setting)?.unwrap_or_default(), setting.flags())),
    }
}

fn planned(world: &World<'_>, flags: &ArgMatches) -> Result<PlanOptions, Failure> {
    let own = |name: &str| own(PLAN, name);
    let want = match value(flags, own("want"))? {
        Some(Value::Ratio(want)) => Some(want),
        _ => None,
    };
    let at = match value(flags, own("at"))? {
        Some(Value::Size(size)) => Some(size),
        _ => None,
    };
    plan::check_given(|name| is_given(flags, name))?;
    let (address, place) = admin_address(world, flags, own("admin"))?;
    Ok(PlanOptions {
        tenant: flags.get_one::<String>("tenant").cloned(),
        traces: flags.get_many::<PathBuf>("trace").into_iter().flatten().cloned().collect(),
        format: text(flags, own("format"))?,
        admin: server_address(address, &place, own("admin").default)?,
        changes: plan::changes(&text(flags, own("change"))?.unwrap_or_default())?,
        want,
        at,
        json: flags.get_flag(own("json").name),
    })
}

fn probed(flags: &ArgMatches) -> Result<ProbeOptions, Failure> {
    let own = |name: &str| own(PROBE, name);
    let spec = flags.get_one::<String>("tier").map_or("", String::as_str);
    // As a server is told of it: with a name, which a profile has no use for.
    let tier =
        TierConfig::parse(spec).map_err(|e| Failure::wrong_use(e.to_string(), media::SPEC_FORMS))?.spec;
    tier::check_size(&tier)?;
    let time = match value(flags, own("time"))? {
        Some(Value::Time(time)) => time,
        _ => probe::TIME_MAX,
    };
    let path = |name: &str| Ok::<_, Failure>(text(flags, own(name))?.map(PathBuf::from));
    let (profile, out) = (path("profile")?, path("out")?);
    Ok(ProbeOptions { tier, profile, out, time, json: flags.get_flag(own("json").name) })
}

fn examined(flags: &ArgMatches) -> Result<DoctorOptions, Failure> {
    let own = |name: &str| own(DOCTOR, name);
    let at = text(flags, own("at"))?.unwrap_or_default();
    Ok(DoctorOptions { at: PathBuf::from(at), json: flags.get_flag(own("json").name) })
}

fn experiments(flags: &ArgMatches) -> Result<ExperimentOptions, Failure> {
    let own = |name: &str| own(EXPERIMENT, name);
    Ok(ExperimentOptions {
        names: flags.get_many::<String>("name").into_iter().flatten().cloned().collect(),
        quick: flags.get_flag(own("quick").name),
        out: text(flags, own("out"))?.map(PathBuf::from),
        seed: number(flags, own("seed"))?.unwrap_or_default(),
        json: flags.get_flag(own("json").name),
    })
}

/// What `tenant` or `group` is asked.
fn tenants_of(
    world: &World<'_>,
    sort: &'static Sort,
    act: &str,
    flags: &ArgMatches,
) -> Result<TenantOptions, Failure> {
    let name = || flags.get_one::<String>("name").cloned().unwrap_or_default();
    let act = match act {
        "show" => Act::Show(name()),
        "add" => Act::Add(name(), named_settings(sort, flags)?),
        "set" => Act::Set(name(), named_settings(sort, flags)?),
        "remove" => Act::Remove(name()),
        _ => Act::List,
    };
    let (address, place) = admin_address(world, flags, own(TENANT, "admin"))?;
    Ok(TenantOptions {
        admin: server_address(address, &place, own(TENANT, "admin").default)?,
        json: flags.get_flag(own(TENANT, "json").name),
        sort,
        act,
    })
}

/// The settings that the flags give, as the administration calls them.
fn named_settings(sort: &Sort, flags: &ArgMatches) -> Result<Map<String, serde_json::Value>, Failure> {
    let mut settings = Map::new();
    for setting in sort.settings {
        if flags.value_source(setting.name) != Some(ValueSource::CommandLine) {
            continue;
        }
        if OF_THE_START.contains(&setting.name) {
            return Err(Failure::wrong_use(
                format!("--{}: a running server opens no port and takes no users for a tenant", setting.name),
                "give it a prefix, or configure it and start the server again",
            ));
        }
        let value = if is_taken_back(flags, setting) { None } else { value(flags, setting)? };
        let value = match value {
            Some(Value::Size(size)) => json!(size.0),
            Some(Value::Number(number)) => json!(number),
            Some(Value::Time(time)) => json!(time.as_millis().div_ceil(1000)),
            Some(Value::Ratio(ratio)) => json!(ratio),
            Some(other) => json!(other.plain()),
            None if can_be_taken_back(setting) => serde_json::Value::Null,
            None => return Err(Failure::wrong_use(format!("{}: is empty", setting.flags()), setting.range)),
        };
        settings.insert(field(setting), value);
    }
    Ok(settings)
}

/// What the administration calls a setting.
fn field(setting: &Setting) -> String {
    match setting.kind {
        Kind::Size => format!("{}_bytes", setting.name),
        Kind::Time => format!("{}_seconds", setting.name),
        _ => setting.name.to_owned(),
    }
}

/// Whether there is something that holds where the setting is not given.
fn can_be_taken_back(setting: &Setting) -> bool {
    setting.default.is_empty() && setting.name != "prefix"
}

/// Whether the flag's value is that of none.
fn is_taken_back(flags: &ArgMatches, setting: &Setting) -> bool {
    can_be_taken_back(setting) && ["", NONE].contains(&texts(flags, setting).join(",").as_str())
}

/// `SIZE` for every tenant, or `NAME=SIZE` for one.
fn reservation(text: &str) -> Result<(Option<String>, Bytes), Failure> {
    let (name, size) =
        text.split_once('=').map_or((None, text), |(name, size)| (Some(name.to_owned()), size));
    let size = parse(Kind::Size, size, Dialect::Strict);
    match size.map_err(|e| e.at("--reserved").or_try("reserve less than there is"))? {
        Some(Value::Size(size)) if name.as_deref() != Some("") => Ok((name, size)),
        _ => Err(Failure::wrong_use(
            format!("--reserved: '{text}' is not SIZE or NAME=SIZE"),
            "for example --reserved feeds=64MiB",
        )),
    }
}

/// `TENANT=GROUP`.
fn member(text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((tenant, group)) if !tenant.is_empty() && !group.is_empty() => {
            Ok((tenant.to_owned(), group.to_owned()))
        }
        _ => Err(Failure::wrong_use(
            format!("--member: '{text}' is not TENANT=GROUP"),
            "for example --group name=team,reserved=64MiB --member feeds=team",
        )),
    }
}

/// `HOST:PORT`, said at `place`; a refusal shows `example`.
fn server_address(text: String, place: &str, example: &str) -> Result<String, Failure> {
    let is_host = |host: &str| {
        let is_v6 = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && !host.contains('/') && (is_v6 || !host.contains(':'))
    };
    let has_port =
        text.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok());
    if has_port {
        return Ok(text);
    }
    Err(Failure::wrong_use(format!("{place}: '{text}' is not HOST:PORT"), format!("for example {example}")))
}
