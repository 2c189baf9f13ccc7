//! From settings in force to the server's checked configuration, and what the log should say about them.

use crate::activation::Activation;
use crate::address;
use crate::daemon::Manners;
use crate::extended::ExtendedEffect;
use crate::failure::Failure;
use crate::layers::{InForce, Source};
use crate::serve::ServeOptions;
use crate::settings::Effect;
use crate::tenants::Tenant;
use crate::tier;
use crate::value::{Value, rank};
use server::{
    Address, Admin, Allowance, AuthConfig, BandwidthKind, Config, ConfigError, Defaults, GroupConfig,
    IoEngine, Listener, MemoryPolicy, OldestTls, OverRate, PlaceIn, Protocol, SpeedsError, TenantConfig,
    TierClaim, TierClaimError, TlsConfig, TlsMode, Verify,
};
use std::path::PathBuf;
use store::{OverShare, Promotion};
use units::{Bytes, Duration};

/// Longest version that clients keep: libmemcached's buffer has 24 bytes with the closing zero.
const VERSION_MAX: usize = 23;

/// The options of `serve` that these settings make.
pub(crate) fn serve_options(in_force: &InForce) -> Result<ServeOptions, Failure> {
    let config = Config {
        memory: in_force.size("memory"),
        memory_max: Some(in_force.size("memory_max")).filter(|max| *max != Bytes::ZERO),
        item_max: in_force.size("max_item_size"),
        no_evict: in_force.is_on("no_evict"),
        threads: as_usize(in_force.number("threads")),
        listen: listen(in_force)?,
        io_engine: io_engine(in_force.text("io_engine")),
        tls: tls(in_force)?,
        max_connections: as_usize(in_force.number("max_connections")),
        backlog: u32::try_from(in_force.number("listen_backlog")).unwrap_or(u32::MAX),
        requests_per_turn: as_usize(in_force.number("max_reqs_per_event")),
        idle_timeout: time(in_force, "idle_timeout"),
        send_timeout: time(in_force, "send_timeout"),
        slow_request: time(in_force, "slow_request"),
        admin: admin(in_force)?,
        prefix_delimiter: in_force.text("prefix_delimiter").bytes().next(),
        max_tenants: as_usize(in_force.number("max_tenants")),
        policy: policy(in_force.text("policy")),
        credit: in_force.size("credit"),
        private: ratio(in_force, "private"),
        tax: ratio(in_force, "tax"),
        idle_time: time(in_force, "idle_time"),
        learning: time(in_force, "learning"),
        cleaner_cpu: ratio(in_force, "cleaner_cpu"),
        cleaners: as_usize(in_force.number("cleaners")),
        rank: rank(in_force.text("rank"))?,
        tiers: tier::tiers(in_force)?,
        placement: PlaceIn::of_word(in_force.text("placement")),
        promotion: promotion(in_force.text("promotion")),
        bandwidth_policy: bandwidth_policy(in_force)?,
        bandwidth_epoch: time(in_force, "bandwidth_epoch"),
        bandwidth_part: ratio(in_force, "bandwidth_part"),
        bandwidth_step: Some(in_force.size("bandwidth_step")).filter(|step| *step != Bytes::ZERO),
        bandwidth_donation: ratio(in_force, "bandwidth_donation"),
        bandwidth_tier: name(in_force, "bandwidth_tier"),
        bandwidth_speeds: path(in_force, "bandwidth_speeds"),
        memory_file: path(in_force, "memory_file"),
        tenants: in_force.tenants.iter().map(|t| tenant(t, in_force)).collect::<Result<_, _>>()?,
        groups: in_force.groups.iter().map(group).collect::<Result<_, _>>()?,
        protocol: protocol(in_force.text("protocol")),
        auth: auth(in_force)?,
        flush_disabled: in_force.is_on("disable_flush_all"),
        shutdown_enabled: in_force.is_on("enable_shutdown"),
        dump_disabled: in_force.is_on("disable_dumping"),
        crawler_disabled: is_given(in_force, "lru_crawler", "no"),
        watch_disabled: in_force.is_on("disable_watch"),
        version: version(in_force)?,
        seed: u64::try_from(in_force.number("seed")).unwrap_or_default(),
        echoed: echoed(in_force),
    };
    let verbosity = u8::try_from(in_force.number("verbose")).unwrap_or(u8::MAX);
    let given = |name| *in_force.get(name).1 != Source::Default;
    let config = config.checked().map_err(|e| told_where(e, in_force))?;
    names_speeds(&config, in_force)?;
    Ok(ServeOptions {
        notes: notes(in_force).chain(refuse_all(&config)).chain(not_asked(&config)).collect(),
        config,
        in_force: in_force.clone(),
        verbosity,
        listens_by_default: !["listen", "port", "unix_socket"].into_iter().any(given),
        manners: manners(in_force),
        activation: Activation::default(),
        is_child: false,
    })
}

fn manners(in_force: &InForce) -> Manners {
    let text = |name| Some(in_force.text(name)).filter(|text| !text.is_empty()).map(str::to_owned);
    Manners {
        background: in_force.is_on("daemon"),
        pid_file: text("pidfile").map(PathBuf::from),
        user: text("user"),
        core_dumps: in_force.is_on("enable_coredumps"),
        lock_memory: in_force.is_on("lock_memory"),
        large_pages: in_force.is_on("enable_largepages"),
    }
}

/// What does not fit together, and who gave the tenants and groups that it names.
fn told_where(error: ConfigError, in_force: &InForce) -> Failure {
    let is_named = |given: &&Tenant| error.what.contains(&format!("'{}'", given.name));
    let named = in_force.tenants.iter().chain(&in_force.groups).filter(is_named);
    let mut places: Vec<_> = named.map(|given| given.source.to_string()).collect();
    places.dedup();
    if places.is_empty() {
        return error.into();
    }
    Failure::wrong_use(format!("{} ({})", error.what, places.join(", ")), error.cure)
}

fn as_usize(n: i64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The policy of a word of `settings::POLICIES`.
pub(crate) fn policy(word: &str) -> MemoryPolicy {
    MemoryPolicy::ALL.into_iter().find(|policy| policy.name() == word).unwrap_or_default()
}

/// What a word of `settings::IO_ENGINES` means.
fn io_engine(word: &str) -> IoEngine {
    IoEngine::ALL.into_iter().find(|engine| engine.name() == word).unwrap_or_default()
}

/// A part; every such setting has a default.
/// A name, if one is said.
fn name(in_force: &InForce, of: &str) -> Option<String> {
    Some(in_force.text(of)).filter(|name| !name.is_empty()).map(str::to_owned)
}

fn ratio(in_force: &InForce, name: &str) -> f64 {
    if let (Some(Value::Ratio(part)), _) = in_force.get(name) { *part } else { 0.0 }
}

fn time(in_force: &InForce, name: &str) -> Duration {
    if let (Some(Value::Time(time)), _) = in_force.get(name) { *time } else { Duration::ZERO }
}

/// What a word of `settings::OVER_SHARE` means.
fn over_share(word: &str) -> OverShare {
    if word == "refuse" { OverShare::Refuse } else { OverShare::Evict }
}

/// What a word of `settings::PROMOTIONS` means.
pub(crate) fn promotion(word: &str) -> Promotion {
    match word {
        "never" => Promotion::Never,
        "always" => Promotion::Always,
        _ => Promotion::Repeated,
    }
}

/// The path that a setting gives, if it gives one.
fn path(in_force: &InForce, name: &str) -> Option<PathBuf> {
    Some(in_force.text(name)).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The policy about a tier's bandwidth.
fn bandwidth_policy(in_force: &InForce) -> Result<BandwidthKind, Failure> {
    BandwidthKind::of_word(in_force.text("bandwidth_policy")).map_err(|e| {
        let (_, source) = in_force.get("bandwidth_policy");
        let cure = format!("one of {}", BandwidthKind::names().join(", "));
        Failure::wrong_use(format!("{}: {e}", source.place("bandwidth_policy")), cure)
    })
}

/// Refuses a policy that divides by speeds of tenants where no file of them is named.
fn names_speeds(config: &Config, in_force: &InForce) -> Result<(), Failure> {
    SpeedsError::of_settings(config.bandwidth_policy, config.bandwidth_speeds.as_deref()).map_err(|e| {
        let (_, source) = in_force.get("bandwidth_policy");
        Failure::wrong_use(format!("{}: {e}", source.place("bandwidth_policy")), e.cure())
    })
}

/// What a tenant or a group claims of a tier's bandwidth.
fn bandwidth(given: &Tenant) -> Result<TierClaim, Failure> {
    let claim = if let Some(Value::Text(text)) = given.get("bandwidth") { text } else { "" };
    let failure = |e| Failure::wrong_use(format!("bandwidth: {e}"), TierClaimError::CURE).at(given.place());
    claim.parse().map_err(failure)
}

fn listen(in_force: &InForce) -> Result<Vec<Listener>, Failure> {
    let (value, source) = in_force.get("listen");
    let defaults = listener_defaults(in_force);
    let path = in_force.text("unix_socket");
    let mut listeners = Vec::new();
    if !path.is_empty() {
        let address = Address::Unix(PathBuf::from(path), defaults.unix_mode);
        listeners.push(Listener::at(address, defaults.tls));
    }
    // As in memcached a UNIX socket takes the place of the default address.
    if !path.is_empty() && *source == Source::Default {
        return Ok(listeners);
    }
    let is_tcp_off = defaults.port.is_none();
    for text in if let Some(Value::List(texts)) = value { texts.as_slice() } else { &[] } {
        if is_tcp_off && !text.contains("unix:") {
            continue;
        }
        let place = source.place("listen");
        let listener = Listener::parse(text, &defaults).map_err(|e| refused(e).at(&place))?;
        if let Some(other) = listeners.iter().find(|l| l.address.collides(&listener.address)) {
            let cure = "name each address once; -l may carry a port: -l 127.0.0.1:11212";
            return Err(Failure::wrong_use(format!("{place}: {} is listened on twice", other.address), cure));
        }
        listeners.push(listener);
    }
    if is_tcp_off && listeners.is_empty() {
        return Err(Failure::wrong_use(
            "port -1 turns TCP off, and nothing else is listened on",
            "choose a port: -p 11211, or a UNIX socket: -s PATH",
        ));
    }
    Ok(listeners)
}

fn refused(error: server::ListenerError) -> Failure {
    Failure::wrong_use(error.what, error.cure)
}

fn listener_defaults(in_force: &InForce) -> Defaults {
    let mode = u32::from_str_radix(in_force.text("unix_mask"), 8);
    Defaults {
        port: u16::try_from(in_force.number("port")).ok(),
        tls: if in_force.is_on("enable_ssl") { TlsMode::On } else { TlsMode::Off },
        unix_mode: mode.unwrap_or(server::UNIX_MODE),
    }
}

fn tls(in_force: &InForce) -> Result<Option<TlsConfig>, Failure> {
    if !in_force.is_on("enable_ssl") {
        return Ok(None);
    }
    let needed = |name: &str| {
        in_force.option(name).map(PathBuf::from).ok_or_else(|| {
            let place = in_force.get("enable_ssl").1.place("enable_ssl");
            let cure = "add -o ssl_chain_cert=FILE,ssl_key=FILE";
            Failure::wrong_use(format!("{place}: TLS needs -o {name}"), cure)
        })
    };
    let tls = TlsConfig {
        chain: needed("ssl_chain_cert")?,
        key: needed("ssl_key")?,
        ca: in_force.option("ssl_ca_cert").map(PathBuf::from),
        verify: match in_force.option("ssl_verify_mode") {
            None | Some("0") => Verify::None,
            Some("1") => Verify::Request,
            Some(_) => Verify::Require,
        },
        oldest: match in_force.option("ssl_min_version") {
            Some("3" | "tlsv1.3") => OldestTls::Tls13,
            _ => OldestTls::Tls12,
        },
        ciphers: in_force.option("ssl_ciphers").map_or_else(Vec::new, |list| {
            list.split(':').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        }),
        resumes: in_force.option("ssl_session_cache").is_some(),
    };
    if tls.verify == Verify::Require && tls.ca.is_none() {
        return Err(Failure::wrong_use(
            "-o ssl_verify_mode: clients need certificates, and nobody says which are good",
            "add -o ssl_ca_cert=FILE",
        ));
    }
    Ok(Some(tls))
}

/// What a word of `settings::PROTOCOLS` means.
fn protocol(word: &str) -> Protocol {
    match word {
        "ascii" => Protocol::Text,
        "binary" => Protocol::Binary,
        _ => Protocol::Auto,
    }
}

/// Who may come in. Settings that speak of users need a file of users.
fn auth(in_force: &InForce) -> Result<Option<AuthConfig>, Failure> {
    let list = |name: &str| match in_force.get(name).0 {
        Some(Value::List(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let file = in_force.text("auth_file");
    if !file.is_empty() {
        return Ok(Some(AuthConfig {
            file: PathBuf::from(file),
            shared_users: list("shared_users"),
            read_only_users: list("read_only_users"),
            no_flush_users: list("no_flush_users"),
        }));
    }
    let is_given = |name: &&&str| in_force.is_on(name) || !list(name).is_empty();
    match ["enable_sasl", "shared_users", "read_only_users", "no_flush_users"].iter().find(is_given) {
        None => Ok(None),
        Some(name) => {
            let place = in_force.get(name).1.place(name);
            let what = format!("{place}: there is no file of users");
            Err(Failure::wrong_use(what, "name one, with user:password in each line: -Y FILE"))
        }
    }
}

fn admin(in_force: &InForce) -> Result<Admin, Failure> {
    let text = in_force.text("admin");
    let source = in_force.get("admin").1;
    if text == "off" {
        return Ok(Admin::Off);
    }
    let address = address::parse(text).map_err(|e| e.at(source.place("admin")))?;
    Ok(if *source == Source::Default { Admin::Default(address) } else { Admin::Explicit(address) })
}

fn version(in_force: &InForce) -> Result<String, Failure> {
    let version = in_force.text("report_version");
    if VERSION_MAX < version.len() || !version.bytes().all(|b| b.is_ascii_graphic()) {
        let place = in_force.get("report_version").1.place("report_version");
        return Err(Failure::wrong_use(
            format!("{place}: '{version}' is not 1 to {VERSION_MAX} printable characters"),
            "for example 1.6.45",
        ));
    }
    Ok(version.to_owned())
}

fn tenant(given: &Tenant, in_force: &InForce) -> Result<TenantConfig, Failure> {
    let text =
        |key: &str| if let Some(Value::Text(text)) = given.get(key) { Some(text.as_str()) } else { None };
    let size = |key: &str| if let Some(Value::Size(size)) = given.get(key) { Some(*size) } else { None };
    let defaults = Defaults { port: None, ..listener_defaults(in_force) };
    let listen = text("listen").map(|t| Listener::parse(t, &defaults).map_err(refused)).transpose();
    let identities =
        if let Some(Value::List(names)) = given.get("identity") { names.clone() } else { Vec::new() };
    Ok(TenantConfig {
        name: given.name.clone(),
        prefix: text("prefix").map(|t| t.as_bytes().to_vec()),
        listen: listen.map_err(|e| e.at(given.place()))?,
        identities,
        reserved: size("reserved").unwrap_or_default(),
        weight: if let Some(Value::Ratio(weight)) = given.get("weight") { *weight } else { 1.0 },
        credit: size("credit"),
        rank: text("rank").map(rank).transpose()?,
        over_share: over_share(text("over_share").unwrap_or_default()),
        placement: text("placement").map(PlaceIn::of_word),
        bandwidth: bandwidth(given)?,
        group: text("group").map(str::to_owned),
        users: if let Some(Value::List(users)) = given.get("users") { users.clone() } else { Vec::new() },
        allowance: allowance(given),
    })
}

/// What a tenant is allowed beside memory.
fn allowance(given: &Tenant) -> Allowance {
    let count = |key: &str| match given.get(key) {
        Some(Value::Number(number)) => u32::try_from(*number).ok(),
        _ => None,
    };
    let secs = |key: &str| match given.get(key) {
        Some(Value::Time(time)) => u32::try_from(time.as_millis().div_ceil(1000)).ok(),
        _ => None,
    };
    let refuses = matches!(given.get("over_rate"), Some(Value::Text(word)) if word == "refuse");
    Allowance {
        max_connections: count("max_connections"),
        requests_per_second: count("requests_per_second"),
        burst: count("burst"),
        over_rate: if refuses { OverRate::Refuse } else { OverRate::Wait },
        max_item: if let Some(Value::Size(size)) = given.get("max_item") { Some(*size) } else { None },
        default_ttl_secs: secs("default_ttl"),
        max_ttl_secs: secs("max_ttl"),
    }
}

/// The group that was given.
pub(crate) fn group(given: &Tenant) -> Result<GroupConfig, Failure> {
    Ok(GroupConfig {
        name: given.name.clone(),
        reserved: if let Some(Value::Size(size)) = given.get("reserved") { *size } else { Bytes::ZERO },
        weight: if let Some(Value::Ratio(weight)) = given.get("weight") { *weight } else { 1.0 },
        policy: if let Some(Value::Text(word)) = given.get("policy") { Some(policy(word)) } else { None },
        bandwidth: bandwidth(given)?,
    })
}

/// One line for each setting that was given and has no meaning here.
fn notes(in_force: &InForce) -> impl Iterator<Item = String> {
    let settings = in_force.rows().filter_map(|(setting, value, source)| match setting.effect {
        Effect::Accepted(why) if *source != Source::Default && !value.is_some_and(Value::is_off) => {
            Some(format!("{} has no meaning here: {why}", setting.flags()))
        }
        _ => None,
    });
    let without =
        |(option, _): &&(crate::extended::Chosen, Source)| option.row.effect == ExtendedEffect::Accepted;
    let options = in_force
        .extended
        .iter()
        .filter(without)
        .map(|(option, _)| format!("-o {} has no meaning here", option.text()));
    let is_off = !in_force.is_on("enable_ssl");
    let of_tls = in_force.extended.iter().filter(move |(option, _)| is_off && option.row.is_of_tls());
    let of_tls =
        of_tls.map(|(option, _)| format!("-o {} does nothing: TLS is off without -Z", option.row.name));
    settings.chain(options).chain(of_tls)
}

/// One line for each tenant that only certificates could tell, where no listener asks for any.
fn not_asked(config: &Config) -> impl Iterator<Item = String> {
    let asks = |listener: &&Listener| match listener.tls {
        TlsMode::Mutual => true,
        TlsMode::On => config.tls.as_ref().is_some_and(|tls| tls.verify != Verify::None && tls.ca.is_some()),
        TlsMode::Basic | TlsMode::Off => false,
    };
    let of_tenants = config.tenants.iter().filter_map(|tenant| tenant.listen.as_ref());
    let is_asked = config.listen.iter().chain(of_tenants).any(|listener| asks(&listener));
    let has_listener = move |tenant: &&TenantConfig| {
        let named = |listener: &Listener| listener.tenant.as_ref() == Some(&tenant.name);
        tenant.listen.is_some() || config.listen.iter().any(named)
    };
    let lost =
        config.tenants.iter().filter(move |t| !is_asked && !t.identities.is_empty() && !has_listener(t));
    lost.map(|tenant| {
        format!(
            "tenant '{}' is told by certificates, and no listener asks for any: its clients come to the default tenant; \
             add -l mtls:ADDRESS, or -o ssl_verify_mode=1,ssl_ca_cert=FILE",
            tenant.name
        )
    })
}

/// One line for each tenant whose writes would be refused once the memory is full, because it has nothing of its own.
fn refuse_all(config: &Config) -> impl Iterator<Item = String> {
    let has_nothing = config.policy == MemoryPolicy::Pooled && config.private == 0.0;
    let refuses = move |t: &&TenantConfig| {
        has_nothing && t.reserved == Bytes::ZERO && t.group.is_none() && t.over_share == OverShare::Refuse
    };
    config.tenants.iter().filter(refuses).map(|t| {
        format!(
            "tenant '{}' refuses what goes beyond its share, and under 'pooled' that is little more than it holds once the memory is full: \
             reserve something for it, or choose policy 'shared'",
            t.name
        )
    })
}

/// Whether `-o` says so.
fn is_given(in_force: &InForce, name: &str, value: &str) -> bool {
    in_force.extended.iter().any(|(option, _)| option.row.echo == name && option.value == value)
}

/// Given settings under their names in `stats settings`, where the server does not know them itself.
fn echoed(in_force: &InForce) -> Vec<(String, String)> {
    let yes_or_no = |value: &Value| match value {
        Value::Switch(on) => if *on { "yes" } else { "no" }.to_owned(),
        value => value.plain(),
    };
    let settings = in_force.rows().filter_map(|(setting, value, source)| {
        let is_told = !setting.echo.is_empty() && *source != Source::Default;
        value
            .filter(|value| is_told && value.plain() != setting.default)
            .map(|value| (setting.echo.to_owned(), yes_or_no(value)))
    });
    let options = in_force.extended.iter().filter(|(option, _)| !option.row.echo.is_empty());
    let (listen, source) = in_force.get("listen");
    let listen = listen.filter(|_| *source != Source::Default).map(|all| ("inter".to_owned(), all.plain()));
    let options = options.map(|(option, _)| (option.row.echo.to_owned(), option.value.clone()));
    settings.chain(options).chain(listen).collect()
}
