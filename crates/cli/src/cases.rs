//! Command lines, files and variables, and what becomes of them: cases as data.

mod refused;

use crate::args::{Request, World, request};
use crate::config_command;
use crate::failure::Failure;
use crate::settings::{SETTINGS, TENANT_SETTINGS};
use crate::tenant_command::Act;
use refused::refuses;
use server::{Admin, Config, MemoryPolicy, OldestTls, Protocol, Verify};
use store::RankKind;
use units::Bytes;

/// What becomes of a command line, with a file named `c.toml` and an environment.
fn ask(line: &str, file: &str, environment: &[(&str, &str)]) -> Result<Request, Failure> {
    request(&World {
        args: line.split_whitespace().map(Into::into).collect(),
        environment: environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        read: &|path| match path.to_str() {
            Some("c.toml") => Ok(file.to_owned()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        },
    })
}

fn served(line: &str, file: &str, environment: &[(&str, &str)]) -> (Config, Vec<String>, u8) {
    match ask(line, file, environment) {
        Ok(Request::Serve(options)) => (options.config, options.notes, options.verbosity),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn nothing_given_is_the_default() {
    let (config, notes, verbosity) = served("cotenant serve", "", &[]);
    assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
    assert_eq!((notes.len(), verbosity), (0, 0));
}

fn listens(config: &Config) -> String {
    config.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn used_flags_reach_the_configuration() {
    let cases: &[(&str, Check)] = &[
        ("-m 128", |c| c.memory == Bytes::mib(128)),
        ("-m128", |c| c.memory == Bytes::mib(128)),
        ("--memory-limit=128", |c| c.memory == Bytes::mib(128)),
        ("--memory 2GiB", |c| c.memory == Bytes::mib(2048)),
        ("-m 64 -m 32", |c| c.memory == Bytes::mib(32)),
        ("-I 2m", |c| c.item_max == Bytes::mib(2)),
        ("--max-item-size 512k", |c| c.item_max == Bytes::kib(512)),
        ("-I 1MiB", |c| c.item_max == Bytes::mib(1)),
        ("-M", |c| c.no_evict),
        ("--disable-evictions", |c| c.no_evict),
        ("-t 2", |c| c.threads == 2),
        ("-p 0", |c| listens(c) == "127.0.0.1:0"),
        ("-l 127.0.0.1,[::1]:7 -l localhost:8 -p 9", |c| listens(c) == "127.0.0.1:9 [::1]:7 127.0.0.1:8"),
        ("-s sock", |c| listens(c) == "unix:sock"),
        ("-s sock -a 770 -l cache.example", |c| listens(c) == "unix:sock cache.example:11211"),
        ("-p -1 -s sock", |c| listens(c) == "unix:sock"),
        ("-l unix:/run/x:660,proxy:10.0.0.1", |c| listens(c) == "unix:/run/x proxy:10.0.0.1:11211"),
        ("-Z -o ssl_chain_cert=c,ssl_key=k -l 10.0.0.1,notls:127.0.0.1", |c| {
            listens(c) == "btls:10.0.0.1:11211 127.0.0.1:11211" && c.tls.as_ref().is_some_and(|t| !t.resumes)
        }),
        (
            "-Z -o ssl_chain_cert=c,ssl_key=k,ssl_ca_cert=a,ssl_verify_mode=2,ssl_min_version=3,ssl_session_cache -l mtls:10.0.0.1",
            |c| {
                let tls = c.tls.as_ref().unwrap();
                listens(c) == "mtls:10.0.0.1:11211"
                    && (tls.verify, tls.oldest) == (Verify::Require, OldestTls::Tls13)
                    && tls.resumes
            },
        ),
        ("--tenant name=a,identity=a.example -l tenant[a]:127.0.0.1:5", |c| {
            c.tenants[0].identities == ["a.example"] && c.listen[0].tenant.as_deref() == Some("a")
        }),
        ("-c 10 -b 20 -R 30", |c| (c.max_connections, c.backlog, c.requests_per_turn) == (10, 20, 30)),
        ("--conn-limit=10 --listen-backlog=5 --max-reqs-per-event=6", |c| {
            c.max_connections == 10 && c.backlog == 5
        }),
        ("-o idle_timeout=60", |c| c.idle_timeout == units::Duration::from_secs(60)),
        ("--idle-timeout 2min", |c| c.idle_timeout == units::Duration::from_secs(120)),
        ("-D :", |c| c.prefix_delimiter == Some(b':')),
        ("-F", |c| c.flush_disabled),
        ("-A -X -W", |c| c.shutdown_enabled && c.dump_disabled && c.watch_disabled),
        ("--admin off", |c| c.admin == Admin::Off),
        ("--admin 127.0.0.1:0", |c| matches!(c.admin, Admin::Explicit(_))),
    ];
    all_hold(cases);
}

#[test]
fn flags_about_sharing_reach_the_configuration() {
    let cases: &[(&str, Check)] = &[
        ("--policy partitioned", |c| c.policy == MemoryPolicy::Partitioned),
        ("--policy idle-tax --tax 0.25 --idle-time 1h", |c| {
            c.policy == MemoryPolicy::IdleTax
                && c.tax.total_cmp(&0.25).is_eq()
                && c.idle_time.as_millis() == 3_600_000
        }),
        ("--policy auto --learning 2h", |c| {
            c.policy == MemoryPolicy::Auto && c.learning.as_millis() == 7_200_000
        }),
        ("--rank lru --credit 4KiB", |c| c.rank == RankKind::Lru && c.credit == Bytes::kib(4)),
        ("--rank f/(size*t)", |c| c.rank.to_string() == "f/(size*t)"),
        ("--tenant name=a,prefix=a:,rank=if(f>=2,1/t,-size),weight=2", |c| {
            let rank = c.tenants[0].rank.as_ref().map(ToString::to_string);
            rank.as_deref() == Some("if(f>=2,1/t,-size)") && 1.5 < c.tenants[0].weight
        }),
        ("--max-tenants 7 --seed 9", |c| c.max_tenants == 7 && c.seed == 9),
        ("--report-version 1.6.30", |c| c.version == "1.6.30"),
        ("--tenant name=a,prefix=a:,reserved=8MiB,weight=2,credit=1KiB,rank=lfu", |c| {
            let t = &c.tenants[0];
            t.name == "a"
                && t.prefix.as_deref() == Some(b"a:")
                && t.reserved == Bytes::mib(8)
                && t.rank.is_some()
        }),
        ("--group name=g,reserved=9MiB,weight=2,policy=auto --tenant name=a,prefix=a:,group=g", |c| {
            let g = &c.groups[0];
            g.name == "g"
                && g.reserved == Bytes::mib(9)
                && g.policy == Some(MemoryPolicy::Auto)
                && c.tenants[0].group.as_deref() == Some("g")
        }),
        ("-e items", |c| c.memory_file.as_deref() == Some("items".as_ref())),
        ("--tier pm=emulated:6dimm:1GiB --tier file:/a:2GiB --placement pm --promotion never", |c| {
            let tiers: Vec<_> = c.tiers.iter().map(|t| format!("{}={}", t.name, t.spec)).collect();
            tiers == ["pm=emulated:6dimm:1GiB", "file=file:/a:2GiB"]
                && c.placement == server::PlaceIn::Tier("pm".to_owned())
                && c.promotion == store::Promotion::Never
        }),
        ("-o ext_path=/a/b:64", |c| c.tiers[0].spec.to_string() == "file:/a/b:64MiB"),
        ("-o ext_path=/a:64,ext_path=/b:1G -o ext_path=/c:2G", |c| {
            let tiers: Vec<_> = c.tiers.iter().map(|t| format!("{}={}", t.name, t.spec)).collect();
            tiers == ["file=file:/a:64MiB", "file2=file:/b:1GiB", "file3=file:/c:2GiB"]
        }),
        ("-o ext_path=/a/b:64m", |c| c.tiers[0].spec.to_string() == "file:/a/b:64MiB"),
        ("-o ext_path=/a/b:64MiB", |c| c.tiers[0].spec.to_string() == "file:/a/b:64MiB"),
        ("-o ext_path=/a/b:5gb", |c| c.tiers[0].spec.to_string() == "file:/a/b:5GiB"),
        ("-o ext_path=/a/b:5G", |c| c.tiers.len() == 1 && c.tiers[0].spec.to_string() == "file:/a/b:5GiB"),
        (
            "--tier a=file:/a:2GiB --tier b=file:/b:2GiB --bandwidth-policy fair-slowdown --bandwidth-tier b",
            |c| c.bandwidth_policy.name() == "fair-slowdown" && c.bandwidth_tier.as_deref() == Some("b"),
        ),
        ("--bandwidth-speeds /speeds", |c| c.bandwidth_speeds.as_deref() == Some("/speeds".as_ref())),
        ("--tenant name=a,prefix=a:,bandwidth=exempt", |c| c.tenants[0].bandwidth.to_string() == "exempt"),
        ("--tier file:/a:2GiB --tenant name=a,prefix=a:,placement=dram", |c| {
            c.tenants[0].placement == Some(server::PlaceIn::Dram)
        }),
        ("--tenant name=a,prefix=a:,over_share=refuse --private 0.5", |c| {
            c.tenants[0].over_share == store::OverShare::Refuse && c.private.total_cmp(&0.5).is_eq()
        }),
        ("--tenant name=a,listen=[::1]:5 --tenant name=b,prefix=b/", |c| c.tenants.len() == 2),
    ];
    all_hold(cases);
}

#[test]
fn flags_about_who_may_come_in_reach_the_configuration() {
    let cases: &[(&str, Check)] = &[
        ("-B binary", |c| c.protocol == Protocol::Binary),
        ("-B ascii", |c| c.protocol == Protocol::Text),
        ("-Y users", |c| c.auth.as_ref().is_some_and(|a| a.file.as_os_str() == "users")),
        ("-S -Y users --read-only-users ann,bob --no-flush-users bob --shared-users *", |c| {
            let auth = c.auth.as_ref().unwrap();
            auth.read_only_users == ["ann", "bob"]
                && auth.no_flush_users == ["bob"]
                && auth.shared_users == ["*"]
        }),
        ("-Y users --tenant name=a,users=ann", |c| c.tenants[0].users == ["ann"]),
    ];
    all_hold(cases);
}

type Check = fn(&Config) -> bool;

/// Every line is taken without a note and makes the configuration that its check wants.
fn all_hold(cases: &[(&str, Check)]) {
    for (flags, check) in cases {
        let (config, notes, _) = served(&format!("cotenant serve {flags}"), "", &[]);
        assert!(check(&config), "{flags}: {config:?}");
        assert!(notes.is_empty(), "{flags}: {notes:?}");
    }
}

#[test]
fn every_flag_of_memcached_is_known() {
    // One line says it is taken, taken with a note, or refused as not available: never that it is unknown.
    for (flags, wanted) in [
        ("-f 1.25", "slab"),
        ("-n 48", "slab"),
        ("-N 2", "kernel"),
        ("--napi-ids 2", "kernel"),
        ("--napi_ids 2", "kernel"),
        ("-o hashpower=20,no_maxconns_fast", "-o hashpower=20 has no meaning"),
        ("-o modern -o lru_crawler", "-o modern has no meaning"),
    ] {
        let (_, notes, _) = served(&format!("cotenant serve {flags}"), "", &[]);
        assert!(notes.iter().any(|n| n.contains(wanted)), "{flags}: {notes:?}");
    }
    for flags in [
        "-U 0",
        "--udp-port=0",
        "-B auto",
        "-B ascii",
        "--protocol=ascii",
        "-B binary",
        "-a 700",
        "--unix-mask=700",
        "-s sock",
        "--unix-socket=sock",
        "-r",
        "-k",
        "-L",
        "-u nobody",
        "-d",
        "--daemon",
        "-P pid",
        "--pidfile=pid",
        "-Z -o ssl_chain_cert=c,ssl_key=k",
    ] {
        assert!(served(&format!("cotenant serve {flags}"), "", &[]).1.is_empty(), "{flags}");
    }
    for flags in ["-U 11211", "-o proxy_config=routes"] {
        refuses(&format!("cotenant serve {flags}"), "", "not available in this version", "");
    }
    for (flags, verbosity) in [("-v", 1), ("-vv", 2), ("-v -vv", 3), ("--verbose", 1)] {
        assert_eq!(served(&format!("cotenant serve {flags}"), "", &[]).2, verbosity, "{flags}");
    }
    for flags in ["-h", "--help", "-V", "--version", "--enable-ssl --version"] {
        for program in ["memcached", "cotenant serve"] {
            let said = ask(&format!("{program} {flags}"), "", &[]);
            let Ok(Request::Say(said)) = said else { panic!("{program} {flags}") };
            let rest = said.strip_prefix("memcached 1.6.45\n");
            assert_eq!(rest.is_some(), program == "memcached", "{said}");
            assert!(!rest.unwrap_or(&said).is_empty(), "{said}");
        }
    }
    assert!(matches!(ask("cotenant serve -i", "", &[]), Ok(Request::License)));
}

#[test]
fn flags_go_before_the_environment_before_the_file() {
    let file = "memory = \"100MiB\"\nthreads = 2\nport = 1\nextended = \"idle_timeout=7\"\n\
                [tenant.b]\nprefix = \"b:\"\nweight = 3\n[tenant.a]\nprefix = \"a:\"";
    let environment = [
        ("COTENANT_MEMORY", "200MiB"),
        ("COTENANT_THREADS", "3"),
        ("COTENANT_TENANT", "name=c,prefix=c:;name=d,prefix=d:"),
        ("COTENANT_SERVICE_HOST", "10.0.0.1"),
        ("COTENANT_PORT", "tcp://10.0.0.1:11211"),
        ("COTENANT_MEMROY", "1GiB"),
        ("PATH", "x"),
    ];
    let line = "cotenant serve --config c.toml -m 300 --tenant name=a,prefix=A:";
    let (config, notes, _) = served(line, file, &environment);
    assert_eq!(
        (config.memory, config.threads, listens(&config).as_str()),
        (Bytes::mib(300), 3, "127.0.0.1:1")
    );
    assert_eq!(config.idle_timeout, units::Duration::from_secs(7));
    let names: Vec<_> = config.tenants.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["b", "a", "c", "d"]);
    assert_eq!(config.tenants[1].prefix.as_deref(), Some(&b"A:"[..]));
    assert!(notes.len() == 1 && notes[0].contains("did you mean 'COTENANT_MEMORY'?"), "{notes:?}");
    let by_variable = served("cotenant serve", "threads = 2", &[("COTENANT_CONFIG", "c.toml")]);
    assert_eq!(by_variable.0.threads, 2);
    // A setting whose name looks like what Kubernetes sets for a service is a setting all the same.
    let told = served("cotenant serve", "", &[("COTENANT_REPORT_VERSION", "1.5.22")]).0;
    assert_eq!(told.version, "1.5.22");
    let unit = ask("cotenant serve", "", &[("COTENANT_MEMORY", "64")]).unwrap_err();
    assert!(unit.what.starts_with("COTENANT_MEMORY: '64' is not a size"), "{unit}");
}

#[test]
fn a_variable_that_is_no_setting_is_told_with_what_is_meant_only_if_it_is_close() {
    for (variable, wanted) in [
        ("COTENANT_TREADS", "did you mean 'COTENANT_THREADS'?"),
        ("COTENANT_TENANTS", "did you mean 'COTENANT_TENANT'?"),
        ("COTENANT_MEMORY_LIMIT", "did you mean 'COTENANT_MEMORY'?"),
        ("COTENANT_FOO", "cotenant config reference lists every one"),
        ("COTENANT_LISTENERS", "cotenant config reference lists every one"),
    ] {
        let (_, notes, _) = served("cotenant serve", "", &[(variable, "1")]);
        assert!(notes.len() == 1 && notes[0].ends_with(wanted), "{notes:?}");
    }
}

#[test]
fn names_in_lists_are_whole_and_certificates_isolate() {
    let refused = |file: &str| ask("cotenant serve --config c.toml", file, &[]).unwrap_err().what;
    let comma = refused("[tenant.a]\nidentity = [\"Acme, Inc\"]");
    assert!(comma.contains("'Acme, Inc'"), "{comma}");
    let comma = refused("read_only_users = [\"a,b\"]\nusers_file = \"users\"");
    assert!(comma.contains("'a,b'"), "{comma}");
    let shared = refused("[tenant.a]\nprefix = \"a:\"\nidentity = [\"a.example\"]");
    assert!(shared.contains("prefixes do not isolate"), "{shared}");
}

#[test]
fn who_would_be_refused_everything_is_told() {
    let told = |flags: &str| served(&format!("cotenant serve {flags}"), "", &[]).1;
    let notes = told("--tenant name=a,prefix=a:,over_share=refuse --tenant name=b,prefix=b:");
    assert!(notes.len() == 1 && notes[0].starts_with("tenant 'a' refuses"), "{notes:?}");
    for flags in
        ["--policy shared", "--private 0.5", "--tenant name=c,prefix=c:,over_share=refuse,reserved=1MiB"]
    {
        let line = if flags.contains("name=c") {
            flags.to_owned()
        } else {
            format!("--tenant name=a,prefix=a:,over_share=refuse {flags}")
        };
        assert_eq!(told(&line), [""; 0], "{flags}");
    }
}

#[test]
fn certificates_that_nobody_asks_for_are_told() {
    let told = |flags: &str| served(&format!("cotenant serve {flags}"), "", &[]).1;
    let notes = told("--tenant name=a,identity=a.example");
    assert!(notes.len() == 1 && notes[0].contains("'a' is told by certificates"), "{notes:?}");
    let tls = "-Z -o ssl_chain_cert=c,ssl_key=k,ssl_ca_cert=a --tenant name=a,identity=a.example";
    let (asks, bare) = ("-o ssl_verify_mode=1", tls.replace(",ssl_ca_cert=a", ""));
    assert_eq!([told(tls).len(), told(&format!("{bare} {asks}")).len()], [1, 1]);
    assert_eq!([asks, "-l mtls:127.0.0.1"].map(|asks| told(&format!("{tls} {asks}"))), [[""; 0]; 2]);
    let notes = told("-o ssl_chain_cert=c,ssl_key=k");
    assert!(notes.len() == 2 && notes[1] == "-o ssl_key does nothing: TLS is off without -Z", "{notes:?}");
}

#[test]
fn what_is_shown_parses_back() {
    let lines = [
        "",
        "-m 100 -I 1000000 -D : -l 127.0.0.1,[::1]:5 -f 1.5 -k -v --rank lfu -o idle_timeout=90",
        "-Z -o ssl_chain_cert=c,ssl_key=k,ssl_ca_cert=a -l mtls:proxy:localhost:5 -s sock -a 660 -u nobody -P pid",
        "-o hashpower=20,no_maxconns_fast,slab_automove --admin off --policy partitioned",
        "--tenant name=a.b,prefix=\"a\\,reserved=1.5MiB,weight=0.5 --tenant name=c,listen=[::1]:9,credit=3B,rank=lru",
        "-B binary -S -Y users --read-only-users ann,bob --tenant name=a,users=ann",
        "--rank log(f)/size --tenant name=a,prefix=a:,rank=min(f,ttl_left)",
    ];
    for flags in lines {
        let Ok(Request::ConfigShow(options)) = ask(&format!("cotenant config show {flags}"), "", &[]) else {
            panic!("{flags}")
        };
        let shown = config_command::tests::shown(&options.in_force);
        let (given, _, _) = served(&format!("cotenant serve {flags}"), "", &[]);
        let (mut again, _, _) = served("cotenant serve --config c.toml", &shown, &[]);
        // The default address of the administration is not asked for until it is written down.
        if let Admin::Default(address) = given.admin {
            assert_eq!(again.admin, Admin::Explicit(address));
            again.admin = given.admin;
        }
        again.echoed.retain(|e| (e.0 != "verbosity" && e.0 != "inter") || given.echoed.contains(e));
        assert_eq!(format!("{again:?}"), format!("{given:?}"), "{flags}\n{shown}");
    }
}

#[test]
fn sources_are_shown() {
    let line = "cotenant config show --config c.toml -p 5";
    let environment = [("COTENANT_SEED", "8"), ("COTENANT_FOO", "9")];
    let Ok(Request::ConfigShow(options)) = ask(line, "\nthreads = 3", &environment) else { panic!("{line}") };
    assert!(options.notes.iter().any(|n| n.contains("COTENANT_FOO is no setting")), "{:?}", options.notes);
    let shown = config_command::tests::shown(&options.in_force);
    for (start, end) in [
        ("memory = \"64MiB\"", "# default"),
        ("threads = 3", "# file c.toml:2"),
        ("seed = 8", "# environment COTENANT_SEED"),
        ("port = 5", "# flag -p/--port"),
        ("idle_timeout = \"0s\"", "# default"),
    ] {
        assert!(shown.lines().any(|l| l.starts_with(start) && l.ends_with(end)), "{start} {end}\n{shown}");
    }
}

#[test]
fn given_settings_are_echoed_under_memcached_names() {
    let (config, _, _) = served("cotenant serve -f 1.5 -v -o hashpower=20,no_lru_crawler,modern", "", &[]);
    let echoed: Vec<_> = config.echoed.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(echoed, ["verbosity=1", "growth_factor=1.5", "hashpower_init=20", "lru_crawler=no"]);
}

#[test]
fn replay_and_demo_are_parsed() {
    let line = "cotenant replay a.csv b.zst --memory 128MiB --policy partitioned --reserved 8MiB --reserved x=4MiB \
                --group name=g,reserved=9MiB --member x=g \
                --rank lru --credit 1KiB --tax 0.25 --idle-time 9s --learning 1min --tier 7MiB --placement tier --promotion always --json --ttl --format twitter --limit 9 --seed 3";
    let Ok(Request::Replay(options)) = ask(line, "", &[]) else { panic!("{line}") };
    assert_eq!(options.traces, ["a.csv", "b.zst"].map(std::path::PathBuf::from));
    assert_eq!((options.memory, options.credit), (Bytes::mib(128), Bytes::kib(1)));
    assert_eq!((options.policy, options.rank), (MemoryPolicy::Partitioned, RankKind::Lru));
    assert_eq!((options.idle_time.as_millis(), options.learning.as_millis()), (9_000, 60_000));
    assert_eq!(Some(options.tax), harness::replay::Tax::new(0.25));
    let below = (options.tier, options.placement, options.promotion);
    assert_eq!(below, (Bytes::mib(7), store::Placement::Tier(0), store::Promotion::Always));
    assert_eq!(options.reserved, [(None, Bytes::mib(8)), (Some("x".to_owned()), Bytes::mib(4))]);
    assert_eq!(options.groups.iter().map(|g| g.name.as_str()).collect::<Vec<_>>(), ["g"]);
    assert_eq!(options.members, [("x".to_owned(), "g".to_owned())]);
    assert_eq!((options.server, options.format.as_deref()), (None, Some("twitter")));
    assert_eq!((options.limit, options.seed), (Some(9), 3));
    assert!(options.json && options.ttl && !options.realtime);
    let line = "cotenant replay a.csv --server h:1 --json --ttl --realtime --format twitter --limit 9";
    let Ok(Request::Replay(options)) = ask(line, "", &[]) else { panic!("{line}") };
    assert_eq!((options.server.as_deref(), options.limit), (Some("h:1"), Some(9)));
    assert!(options.json && options.ttl && options.realtime);
    let Ok(Request::Demo(options)) = ask("cotenant demo --seconds 5 -m 32 -p 0", "", &[]) else {
        panic!("demo")
    };
    assert_eq!((options.seconds, options.memory, options.port), (Some(5), Bytes::mib(32), 0));
}

/// What a line asks the administration to set, and where that is.
fn asked(line: &str, environment: &[(&str, &str)]) -> (String, String) {
    match ask(line, "", environment) {
        Ok(Request::Tenant(options)) => match options.act {
            Act::Set(_, settings) => (serde_json::json!(settings).to_string(), options.admin.to_string()),
            other => panic!("{line}: {other:?}"),
        },
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn what_a_tenant_was_given_is_taken_back_by_none() {
    for (flags, wanted) in [
        ("--credit none", r#"{"credit_bytes":null}"#),
        ("--credit=", r#"{"credit_bytes":null}"#),
        ("--rank none", r#"{"rank":null}"#),
        ("--group none", r#"{"group":null}"#),
        ("--placement none", r#"{"placement":null}"#),
        ("--bandwidth none", r#"{"bandwidth":null}"#),
        ("--max-connections none", r#"{"max_connections":null}"#),
        ("--requests-per-second none", r#"{"requests_per_second":null}"#),
        ("--max-item none", r#"{"max_item_bytes":null}"#),
        ("--max-ttl none", r#"{"max_ttl_seconds":null}"#),
        ("--max-ttl 90s", r#"{"max_ttl_seconds":90}"#),
        ("--prefix none", r#"{"prefix":"none"}"#),
    ] {
        assert_eq!(asked(&format!("cotenant tenant set a {flags}"), &[]).0, wanted, "{flags}");
    }
    assert_eq!(asked("cotenant group set g --policy none", &[]).0, r#"{"policy":null}"#);
    refuses("cotenant tenant set a --reserved none", "", "--reserved: 'none' is not a size", "64MiB");
    refuses("cotenant tenant set a --users x", "", "takes no users", "prefix");
    let Ok(Request::Say(help)) = ask("cotenant tenant set --help", "", &[]) else { panic!("help") };
    assert!(
        help.contains("--weight") && ["--users", "--listen", "--identity"].iter().all(|o| !help.contains(o))
    );
}

#[test]
fn the_administration_is_where_the_flag_says_or_the_server_s_variable() {
    let (line, told) = ("cotenant tenant set a --weight 2", [("COTENANT_ADMIN", "127.0.0.1:5")]);
    assert_eq!(asked(line, &told).1, "127.0.0.1:5");
    assert_eq!(asked(&format!("{line} --admin 127.0.0.1:6"), &told).1, "127.0.0.1:6");
    assert_eq!(asked(line, &[("COTENANT_ADMIN", "off")]).1, "127.0.0.1:11280");
    let Ok(Request::Plan(options)) = ask("cotenant plan --tenant a", "", &told) else { panic!("plan") };
    assert_eq!(options.admin, "127.0.0.1:5");
    let wrong = ask("cotenant plan --tenant a", "", &[("COTENANT_ADMIN", "here")]).unwrap_err();
    assert!(wrong.what.starts_with("COTENANT_ADMIN: 'here' is not HOST:PORT"), "{wrong}");
}

#[test]
fn semicolons_are_between_the_users_of_a_spec() {
    let users = |config: &Config| config.tenants.iter().map(|t| t.users.join("+")).collect::<Vec<_>>();
    let (config, _, _) = served("cotenant serve -Y f --tenant name=a,users=x;y", "", &[]);
    assert_eq!(users(&config), ["x+y"]);
    let variable = [("COTENANT_TENANT", "name=a,users=x;y;name=b,users=z")];
    assert_eq!(users(&served("cotenant serve -Y f", "", &variable).0), ["x+y", "z"]);
}

#[test]
fn experiments_are_parsed() {
    let line = "cotenant experiment run nyx mt2/fig_1 --quick --out o --seed 7 --json";
    let Ok(Request::ExperimentRun(options)) = ask(line, "", &[]) else { panic!("{line}") };
    assert_eq!(options.names, ["nyx", "mt2/fig_1"]);
    assert_eq!((options.out, options.seed), (Some("o".into()), 7));
    assert!(options.quick && options.json);
    let Ok(Request::ExperimentRun(options)) = ask("cotenant experiment run all", "", &[]) else {
        panic!("run")
    };
    assert_eq!((options.out, options.seed, options.quick, options.json), (None, 1, false, false));
    assert!(matches!(ask("cotenant experiment list", "", &[]), Ok(Request::ExperimentList)));
}

#[test]
fn help_names_every_flag() {
    let Ok(Request::Say(help)) = ask("cotenant serve --help", "", &[]) else { panic!("help") };
    for setting in SETTINGS {
        assert!(help.contains(&format!("--{}", setting.long())), "{}", setting.name);
    }
    for word in TENANT_SETTINGS.iter().map(|setting| setting.name).chain(["synced:PATH:SIZE"]) {
        assert!(help.contains(word), "{word}");
    }
    let Ok(Request::Say(help)) = ask("cotenant doctor --help", "", &[]) else { panic!("help") };
    assert!(help.contains("Default: .") && !help.contains("Default: .."), "{help}");
}
