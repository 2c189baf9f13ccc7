//! Every setting of the server, declared once: flags, file keys, environment, `config show` and the reference follow.
//!
//! Shape:      `memory` is the key of the file, `--memory` the flag and `COTENANT_MEMORY` the variable
//! Invariants: names, short flags and memcached's long names are unique (tested)

use crate::failure::Failure;
use crate::range;
use crate::value::{self, Dialect, Kind, Value};

/// One setting.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its key in the file; the long flag and the variable are made of it.
    pub(crate) name: &'static str,
    /// Its letter, memcached's.
    pub(crate) short: Option<char>,
    /// memcached's long flag, where that is another word.
    pub(crate) alias: &'static str,
    /// What its values are.
    pub(crate) kind: Kind,
    /// The value without any given; empty means none.
    pub(crate) default: &'static str,
    /// Which values make sense, in words; where they are a range's (`range`), no other value is taken.
    pub(crate) range: &'static str,
    /// One line.
    pub(crate) help: &'static str,
    /// What else there is to know; may be empty.
    pub(crate) more: &'static str,
    /// Whether it may change while the server runs.
    pub(crate) reload: bool,
    /// What giving it does.
    pub(crate) effect: Effect,
    /// Its name in `stats settings`, where the server does not know the value itself; may be empty.
    pub(crate) echo: &'static str,
}

/// What giving a setting does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// What its help says.
    Used,
    /// Nothing, and the log says why.
    Accepted(&'static str),
    /// An error with this cure, but for values that ask for nothing.
    Unavailable {
        /// The values that are fine.
        except: &'static [&'static str],
        /// What to do instead.
        instead: &'static str,
    },
}

/// A setting of the program itself, that memcached has not.
pub(crate) const fn setting(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    range: &'static str,
    help: &'static str,
) -> Setting {
    let (short, alias, more, reload, echo) = (None, "", "", false, "");
    Setting { name, short, alias, kind, default, range, help, more, reload, effect: Effect::Used, echo }
}

/// A setting that is on or off.
pub(crate) const fn switch(name: &'static str, help: &'static str) -> Setting {
    setting(name, Kind::Switch, "false", "true or false", help)
}

impl Setting {
    const fn short(self, letter: char) -> Self {
        Self { short: Some(letter), ..self }
    }

    const fn alias(self, alias: &'static str) -> Self {
        Self { alias, ..self }
    }

    const fn more(self, more: &'static str) -> Self {
        Self { more, ..self }
    }

    const fn accepted(self, why: &'static str) -> Self {
        Self { effect: Effect::Accepted(why), ..self }
    }

    const fn unavailable(self, except: &'static [&'static str], instead: &'static str) -> Self {
        Self { effect: Effect::Unavailable { except, instead }, ..self }
    }

    /// It may change while the server runs.
    const fn reload(self) -> Self {
        Self { reload: true, ..self }
    }

    const fn echo(self, echo: &'static str) -> Self {
        Self { echo, ..self }
    }

    /// The value that `text` says, if it is in the range; no text is no value.
    pub(crate) fn parse(&self, text: &str, dialect: Dialect) -> Result<Option<Value>, Failure> {
        let value = value::parse(self.kind, text, dialect).map_err(|failure| failure.or_try(self.cure()))?;
        match &value {
            Some(value) if !range::has(self.kind, self.range, value) => {
                let what = format!("{} is outside the range: {}", value.plain(), self.range);
                Err(Failure::wrong_use(what, self.cure()))
            }
            _ => Ok(value),
        }
    }

    /// What helps against a value out of range.
    fn cure(&self) -> String {
        let Self { default, range, .. } = self;
        if default.is_empty() {
            format!("leave it out, or give {range}")
        } else {
            format!("give {range}; the default is {default}")
        }
    }

    /// The long flag.
    pub(crate) fn long(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name.to_ascii_uppercase())
    }

    /// The flags as an operator writes them.
    pub(crate) fn flags(&self) -> String {
        self.short.map_or_else(|| format!("--{}", self.long()), |c| format!("-{c}/--{}", self.long()))
    }
}

/// What the names of all environment variables begin with.
pub(crate) const VARIABLE_PREFIX: &str = "COTENANT_";

/// The row of `name`.
pub(crate) fn position(name: &str) -> Option<usize> {
    SETTINGS.iter().position(|s| s.name == name)
}

/// The row that memcached's long flag is another word for, with underscores between the parts of `word`.
pub(crate) fn by_alias(word: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| !s.alias.is_empty() && s.alias.replace('-', "_") == word)
}

/// The row that must exist.
pub(crate) fn row(name: &str) -> &'static Setting {
    &SETTINGS[position(name).expect("the program names only settings of its table, all are read by a test")]
}

const NO_SLABS: &str = "the store is a log of segments, it has no slab classes";

/// Every setting of `serve`, in the order of the reference.
pub(crate) const SETTINGS: &[Setting] = &[
    setting("memory", Kind::Mebibytes, "64MiB", "8MiB to 1TiB", "Bound on the resident memory of the process")
        .short('m')
        .alias("memory-limit")
        .more("All memory counts: items, index and buffers. As a flag a bare number counts MiB, also with an m \
               behind it. While the server runs it can be lowered, and raised up to memory_max.")
        .reload(),
    setting("memory_max", Kind::Size, "0B", "0B to 1TiB", "How far memory can be raised while the server runs")
        .more("By cache_memlimit, or the file and SIGHUP. 0B: no further than it is at the start. Segments, and what is held for shadow \
               queues, curves and ghosts, are as large as this asks for."),
    setting("max_item_size", Kind::ItemSize, "1MiB", "1KiB to 1GiB", "Largest item, key and header included")
        .short('I')
        .more("As a flag memcached's forms are understood, too: 512k, 2m, or a number of bytes."),
    switch("no_evict", "Answer 'out of memory' instead of evicting").short('M').alias("disable-evictions"),
    setting("threads", Kind::Count, "4", "1 to 256", "Worker threads").short('t').more("One per core serves best."),
    setting("port", Kind::Port, "11211", "0 to 65535, or -1", "TCP port of the addresses that name none")
        .short('p')
        .more("0 takes any free port and logs it; -1 turns TCP off, which needs a UNIX socket."),
    setting("listen", Kind::List, "127.0.0.1", LISTENERS, "Addresses to listen on")
        .short('l')
        .more(LISTENERS_MORE),
    setting("max_connections", Kind::Count, "1024", "1 to 1000000", "Connections accepted at once")
        .short('c')
        .alias("conn-limit")
        .reload(),
    setting("listen_backlog", Kind::Count, "1024", "0 to 4294967295", "Connections that may wait to be accepted")
        .short('b'),
    setting("max_reqs_per_event", Kind::Count, "64", "1 to 1024", "Requests of one connection in a row").short('R'),
    setting("io_engine", Kind::Choice(IO_ENGINES), "auto", "auto, epoll or io_uring", "What waits for the sockets")
        .more("auto is io_uring, which needs Linux 6.1; where the system forbids it epoll serves. stats settings says which is in force, and why."),
    setting("idle_timeout", Kind::Time, "0s", "0s and up", "Close connections that are silent for so long")
        .more("0s means never. The same as -o idle_timeout=SECONDS.")
        .reload(),
    setting("send_timeout", Kind::Time, "5min", "0s and up", "Close connections that do not take a reply for so long")
        .more("0s means never. Where the memory of buffers is short it is 10 s.")
        .reload(),
    setting("slow_request", Kind::Time, "10ms", "0s and up", "Requests that take so long are listed as slow")
        .more("From when a request has arrived until its reply is given to the socket, waiting for others included.")
        .reload(),
    setting("admin", Kind::Text, "127.0.0.1:11280", "ADDRESS:PORT or off", "Address of the administration listener")
        .more("An address that is taken is an error if it was asked for, otherwise a warning."),
    setting("policy", Kind::Choice(POLICIES), "pooled", "partitioned, shared, idle-tax, auto or pooled", "What divides memory among tenants")
        .more("partitioned: each tenant its reservation and a weighted part of the rest. \
               shared: memory moves to the tenant whose shadow queue is hit. \
               idle-tax: as partitioned, but what a tenant leaves idle goes to others. \
               auto: shared while it learns, then idle-tax on what was learnt. \
               pooled: beyond reservations what is worth least goes, whosever it is.")
        .reload(),
    setting("credit", Kind::Size, "64KiB", "1B and up", "Bytes that one shadow hit moves")
        .more("Under shared and auto; under pooled it raises worth by so much. At most an 8192nd of the memory; a tenant's own credit is cut in the same proportion.")
        .reload(),
    setting("private", Kind::Ratio, "0", "0 to 1", "Part of its first share that each tenant has for itself")
        .more("Of a tenant without a reservation: 0 shares all memory, 1 none. It counts as its reservation.")
        .reload(),
    setting("tax", Kind::Ratio, "0.5", "0 to 1", "Part of idle memory that idle-tax and auto take").reload(),
    setting("idle_time", Kind::Time, "5h", "above 0s", "Memory not touched for so long is idle to the idle tax")
        .more("What outlived three and a half times the memory written counts as idle earlier.")
        .reload(),
    setting("learning", Kind::Time, "3h", "0s and up", "How long auto runs as shared before it taxes").reload(),
    setting("cleaner_cpu", Kind::Ratio, "0.05", "above 0, at most 1", "Part of the CPU time that cleaning may take")
        .more("Where few requests write; 2.4 times as much where all do. It counts from where three quarters of the CPU time are used, not at all up to a half, by degrees between; 1 never gives way."),
    setting("cleaners", Kind::Count, "1", "1 to 8", "Background cleaners")
        .more("The first cleans; the others help where writers outrun it. Writers that find no room clean beside them."),
    setting("rank", Kind::Rank, "density", RANKS, "Eviction order of tenants that name none")
        .more(RANKS_MORE)
        .reload(),
    setting("prefix_delimiter", Kind::Char, "", "one ASCII character", "Every new key prefix up to it is a tenant")
        .short('D')
        .more("Prefixes account and share, they do not isolate. At most max_tenants prefixes are told apart."),
    setting("max_tenants", Kind::Count, "1024", "1 to 65000", "Tenants at most, the default tenant included"),
    setting("seed", Kind::Count, "0", "0 to 9223372036854775807", "Seed of what policies draw, and of keys' places if not 0"),
    setting("report_version", Kind::Text, "1.6.45", "1 to 23 characters", "The version that clients are told")
        .more("Clients switch features on by memcached's version numbers."),
    setting("protocol", Kind::Choice(PROTOCOLS), "auto", "auto, ascii or binary", "Which protocols are spoken")
        .short('B')
        .more("auto: the first byte of a connection tells. ascii has the meta commands, too."),
    setting("auth_file", Kind::Text, "", "a path", "File of users; asks every connection for a password")
        .short('Y')
        .more("USER:PASSWORD in each line; the password as it is, or its Argon2 hash ($argon2id$…). Read again on SIGHUP. \
               Connections of a user belong to the tenant that names the user, else to a tenant of the user's name."),
    switch("enable_sasl", "Ask every connection for a password, which needs auth_file")
        .short('S')
        .more("In either protocol: SASL PLAIN in the binary one, a first set with 'user password' in the text one."),
    setting("shared_users", Kind::List, "", "names of users, or *", "Users of the default tenant")
        .more("They share one key space, as all users of memcached do. * is everybody whom no tenant names.")
        .reload(),
    setting("read_only_users", Kind::List, "", "names of users", "Users who change nothing").reload(),
    setting("no_flush_users", Kind::List, "", "names of users", "Users who flush nothing").reload(),
    switch("disable_flush_all", "Refuse flush_all").short('F'),
    switch("disable_cas", "Keep no CAS values").short('C').accepted("CAS values cost no memory here and are kept"),
    setting("verbose", Kind::Level, "0", "0 to 3", "Say more in the log: who connects; -vv also what is asked").short('v').echo("verbosity"),
    setting("user", Kind::Text, "", "a user of this host", "The user to run as, when started by root")
        .short('u')
        .more("Once everything is bound. Started by another user than root it changes nothing."),
    setting("unix_socket", Kind::Text, "", "a path", "UNIX socket to listen on")
        .short('s')
        .more("Without -l it turns TCP off. A socket that nobody listens on is replaced.")
        .echo("domain_socket"),
    setting("unix_mask", Kind::Octal, "700", "0 to 777", "Mode of the UNIX socket, octal").short('a').echo("umask"),
    switch("enable_ssl", "Speak TLS where a listener does not say otherwise")
        .short('Z')
        .more("Needs -o ssl_chain_cert=FILE,ssl_key=FILE."),
    switch("daemon", "Run in the background").short('d').more("The command ends when the server is ready, or has failed."),
    setting("pidfile", Kind::Text, "", "a path", "File for the process id").short('P'),
    switch("enable_coredumps", "Raise the core file limit").short('r'),
    switch("lock_memory", "Lock all memory that is touched").short('k'),
    switch("enable_largepages", "Say so where huge pages are not to be had")
        .short('L')
        .more("The log asks for transparent huge pages with or without it."),
    setting("extended", Kind::List, "", "see the list of options", "memcached's extended options")
        .short('o')
        .more("OPTION or OPTION=VALUE; repeatable, or separated by commas."),
    setting("tier", Kind::List, "", "[NAME=]MEDIUM:…:SIZE", "Tiers below DRAM, the fastest first")
        .more("emulated:1dimm|2dimm|6dimm[/SLOWER]:SIZE, file:PATH:SIZE, synced:PATH:SIZE, dax:PATH:SIZE, numa:NODE:SIZE or dram:SIZE; repeatable. A tier without \
               a name is called as its medium, dram as plain. Keys stay in DRAM, within the memory."),
    setting("placement", Kind::Text, "auto", "dram, auto or a tier", "Where values go of tenants that name nothing else")
        .more("dram: nowhere else. auto: into DRAM while they are in use, then into the first tier. A tier's name: there. Values below \
               128 B, and such as fit no segment, stay in DRAM.")
        .reload(),
    setting("bandwidth_policy", Kind::Text, "none", BANDWIDTH_POLICIES, "Who may use a tier how fast")
        .more("none: everybody as fast as it is. limit: nobody more of the tier's time than its limit. qos: latencies and rates that \
               tenants were promised. fair-slowdown: all are slowed alike, by weight, nobody more than promised. proportional: the \
               tier's time by weight, and what is left idle to others. prevention: nobody more than its caps; prevention+remedy: and \
               less where tenants disturb each other. guarantee: bytes per second of a \
               kind that tenants were promised, by caps of the others; slo: what critical tenants come to need, the same way. symbiosis: DRAM and the tier's time together, by auction: who gains from \
               one gives of the other, and nobody ends below a fixed share. For comparison: bandwidth-limit, throttle-biggest, qos-biggest, and over \
               both static, harvest, trade, and ideal, by speeds that a file has. Tenants claim by `bandwidth`.")
        .reload(),
    setting("bandwidth_tier", Kind::Text, "", "a tier", "Tier whose bandwidth is divided; without a name the first"),
    setting("bandwidth_speeds", Kind::Text, "", "a path", "File with every tenant's speed at every share, for ideal")
        .more("JSON. Read when ideal is chosen, and again when settings are.")
        .reload(),
    setting("bandwidth_epoch", Kind::Time, "30s", "100ms and up", "Time between two auctions of symbiosis")
        .more("Or two decisions of static, harvest, trade and ideal.")
        .reload(),
    setting("bandwidth_part", Kind::Ratio, "1", "above 0, at most 1", "Part of the tier's time that is divided")
        .more("By proportional, symbiosis, static, harvest, trade and ideal; other policies hold each tenant to what it claims.")
        .reload(),
    setting("bandwidth_step", Kind::Size, "0B", "a size", "Bytes per second that an experiment of qos takes")
        .more("And its steps. 0B: a tenth of what the tier reads, 500 MB at most.")
        .reload(),
    setting("bandwidth_donation", Kind::Ratio, "0.1", "0 to 1", "Step in which proportional lends what a tenant leaves idle")
        .more("A part of what that has, and as far as it is slowed down less than its weight allows. 0 lends nothing, 1 all at once.")
        .reload(),
    setting("promotion", Kind::Choice(PROMOTIONS), "repeated", "repeated, never or always", "Hits that bring values back to DRAM")
        .more("Of those that auto put into a tier.")
        .reload(),
    setting("memory_file", Kind::Text, "", "a path", "File that keeps the items over a restart")
        .short('e')
        .more("Written by a clean end (SIGTERM, SIGINT, SIGUSR1), read and removed by the next start. A tier that outlives the \
               process keeps its items without it, and what leads to them beside a tier's file.")
        .echo("memory_file"),
    // From here on: what memcached has and this version has not.
    setting("udp_port", Kind::Count, "0", "0", "UDP port, 0 is off")
        .short('U')
        .unavailable(&["0"], "use TCP, UDP amplifies attacks"),
    switch("enable_shutdown", "The command shutdown").short('A'),
    setting("slab_growth_factor", Kind::Ratio, "1.25", "above 1", "Ratio of one slab class to the next")
        .short('f')
        .accepted(NO_SLABS)
        .echo("growth_factor"),
    setting("slab_min_size", Kind::Count, "48", "1 and up", "Least item size of the slab classes in bytes")
        .short('n')
        .accepted(NO_SLABS)
        .echo("chunk_size"),
    switch("disable_dumping", "Refuse cachedump and metadump").short('X'),
    switch("disable_watch", "Refuse watch").short('W'),
    setting("napi_ids", Kind::Count, "0", "0 and up", "Spread connections by network queue")
        .short('N')
        .alias("napi_ids")
        .accepted("the kernel spreads connections over the workers")
        .echo("num_napi_ids"),
];

/// What a listener is.
const LISTENERS: &str = "[FORM:]ADDRESS[:PORT] or unix:PATH[:MODE]";
/// What stands before the address of a listener.
const LISTENERS_MORE: &str = "ADDRESS is an IP address, localhost or a host's name; IPv6 in brackets where a port follows. \
    Before it may stand, in any order: notls:, btls: (no client certificate) or mtls: (a client certificate is needed), \
    proxy: (connections begin with a PROXY header of version 2), tenant[NAME]: (they belong to that tenant), \
    proto[NAME]: (ascii, binary or auto), auth: or noauth: (a password is asked for, or not) and tag[NAME]:. Repeatable, or separated by commas.";
/// The words for policies.
pub(crate) const POLICIES: &[&str] = &["partitioned", "shared", "idle-tax", "auto", "pooled"];
/// The eviction orders.
const RANKS: &str = "density, lhd, lru, lfu, slru, gdsf, hyperbolic, hyperbolic-size or an expression";
/// What expressions are made of.
const RANKS_MORE: &str = "The item of the lowest rank goes first. An expression has numbers, + - * / ^, < <= > >= == != \
    (1 or 0), if(a, b, c), min max pow log log2 sqrt exp, and of the item t (seconds since its last use), f (uses), size \
    (bytes), age (seconds since it was stored) and ttl_left (seconds, endless without one): \"f / (size * t)\".";
/// The words for who may use a tier how fast, as a server knows them (tested).
const BANDWIDTH_POLICIES: &str = "none, limit, qos, fair-slowdown, proportional, prevention, prevention+remedy, guarantee, slo, \
    symbiosis, bandwidth-limit, throttle-biggest, qos-biggest, static, harvest, trade or ideal";
/// What is claimed of a tier's bandwidth.
const CLAIMS: &str = "Clauses: limit 20% | limit 1000 reads of 1KB per second | limit 500MB/s | cap reads 1GB/s | cap writes 500MB/s | keep reads \
    1GB/s | keep writes 100MB/s | slowdown 1.5 | p99 500us | critical | exempt. A policy looks at those that it knows; what a weight is to \
    memory it is to bandwidth.";
/// How many of them there are.
const CLAUSES: &str = "clauses with semicolons between";
/// Numbers of 32 bits that are limits.
const COUNTS: &str = "1 to 4294967295";
/// What there is to reserve, also above tiers.
const DIVISIBLE: &str = "up to the divisible memory in DRAM";
/// What a server takes for a weight.
const WEIGHTS: &str = "1e-12 to 1e12";
/// What 32 bits of seconds hold, in whole days.
const TIMES_TO_LIVE: &str = "1s to 49710d";
/// What hits do to values in a tier.
pub(crate) const PROMOTIONS: &[&str] = &["repeated", "never", "always"];
/// Words of writes beyond a share.
pub(crate) const OVER_SHARE: &[&str] = &["evict", "refuse"];
/// The words for what becomes of requests beyond a rate.
pub(crate) const OVER_RATE: &[&str] = &["wait", "refuse"];
/// The words for what waits for sockets.
const IO_ENGINES: &[&str] = &["auto", "epoll", "io_uring"];
/// memcached's words for protocols.
const PROTOCOLS: &[&str] = &["auto", "ascii", "binary"];

/// Every setting of one tenant: keys of `[tenant.NAME]` and of `--tenant name=NAME,…`.
pub(crate) const TENANT_SETTINGS: &[Setting] = &[
    setting("prefix", Kind::Text, "", "1 to 128 bytes", "Keys that begin so belong to the tenant"),
    setting(
        "listen",
        Kind::Text,
        "",
        "as of the server",
        "Connections to this listener belong to the tenant",
    ),
    setting("identity", Kind::List, "", "names", "Names of client certificates that are the tenant's")
        .more("Common name, DNS name or URI of a verified certificate, see mtls:."),
    setting("reserved", Kind::Size, "0B", DIVISIBLE, "Memory that nobody takes from it"),
    setting("weight", Kind::Ratio, "1.0", WEIGHTS, "Its part of the unreserved memory against the others'"),
    setting(
        "credit",
        Kind::Size,
        "",
        "1B and up",
        "Bytes that one shadow hit moves; none means the server's",
    ),
    setting("rank", Kind::Rank, "", RANKS, "Eviction order; none means the server's").more(RANKS_MORE),
    setting(
        "over_share",
        Kind::Choice(OVER_SHARE),
        "evict",
        "evict or refuse",
        "What becomes of writes beyond its share",
    ),
    setting(
        "placement",
        Kind::Text,
        "",
        "dram, auto or a tier",
        "Where its values go; none means where the server says",
    ),
    setting("bandwidth", Kind::Text, "", CLAUSES, "What it claims of a tier's bandwidth").more(CLAIMS),
    setting("max_connections", Kind::Count, "", COUNTS, "Connections at once; none means the server's"),
    setting("requests_per_second", Kind::Count, "", COUNTS, "Keys that it may ask for per second on average")
        .more("Each key of a get counts. Beyond that its connections wait, or see over_rate."),
    setting("burst", Kind::Count, "", COUNTS, "Keys at once after a pause; none means one second's"),
    setting(
        "over_rate",
        Kind::Choice(OVER_RATE),
        "wait",
        "wait or refuse",
        "What becomes of requests beyond its rate",
    )
    .more(
        "wait: its connection is not read from until it may go on. refuse: SERVER_ERROR too many requests.",
    ),
    setting("max_item", Kind::Size, "", "1B and up", "Largest item, key and value; none means the server's"),
    setting("default_ttl", Kind::Time, "", TIMES_TO_LIVE, "Time to live of items that are given none"),
    setting("max_ttl", Kind::Time, "", TIMES_TO_LIVE, "Longest time to live of any item"),
    setting("users", Kind::List, "", "names of users", "Users whose connections belong to the tenant"),
    setting("group", Kind::Text, "", "a group's name", "The group that it is in"),
];

/// Settings of a tenant that only a start can give it.
pub(crate) const OF_THE_START: &[&str] = &["listen", "identity", "users"];
/// What takes a setting of a running server's tenant or group back.
pub(crate) const NONE: &str = "none";

/// Every setting of a group of tenants: keys of `[group.NAME]` and of `--group name=NAME,…`.
pub(crate) const GROUP_SETTINGS: &[Setting] = &[
    setting(
        "reserved",
        Kind::Size,
        "0B",
        "what its members reserve, and up",
        "Memory that nobody else takes",
    ),
    setting("weight", Kind::Ratio, "1.0", WEIGHTS, "Its part of the unreserved memory against others'"),
    setting(
        "policy",
        Kind::Choice(POLICIES),
        "",
        "partitioned, shared, idle-tax, auto or pooled",
        "Who divides inside; none means the server's policy",
    ),
    setting("bandwidth", Kind::Text, "", CLAUSES, "What its members claim of a tier's bandwidth")
        .more(CLAIMS),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_settings_share_a_name_or_a_flag() {
        let mut words = BTreeSet::new();
        let mut letters = BTreeSet::from(['h', 'V', 'i']);
        for setting in SETTINGS {
            assert!(words.insert(setting.long()), "{}", setting.name);
            assert!(setting.alias.is_empty() || words.insert(setting.alias.to_owned()), "{}", setting.alias);
            assert!(setting.short.is_none_or(|c| letters.insert(c)), "{:?}", setting.short);
        }
        let memcached: BTreeSet<char> = "plsamtcvUIMBDYSAFLeduPRbkCWXNrnfhVZoi".chars().collect();
        assert_eq!(letters, memcached);
    }

    #[test]
    fn every_row_is_complete() {
        for setting in SETTINGS.iter().chain(TENANT_SETTINGS).chain(GROUP_SETTINGS) {
            let name = setting.name;
            assert!(!setting.help.is_empty(), "{name}");
            assert!(!setting.range.is_empty(), "{name}");
            assert!(setting.help.len() <= 60 && !setting.help.ends_with('.'), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            let default = setting.parse(setting.default, Dialect::Strict);
            assert!(default.is_ok(), "{name}: {default:?}");
        }
    }
}
