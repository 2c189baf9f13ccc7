//! What is refused: one line that says what, where and the likely cure.

use super::ask;
use crate::failure::Code;

/// The line is refused in one line that has `what`, with a cure that has `cure`.
pub(super) fn refuses(line: &str, file: &str, what: &str, cure: &str) {
    let failure = ask(line, file, &[]).expect_err(line);
    assert!(failure.what.contains(what), "{line} {file}: {failure}");
    assert!(failure.cure.contains(cure) && !failure.cure.is_empty(), "{line} {file}: {failure}");
    assert_eq!(failure.to_string().lines().count(), 2 + failure.excerpt.len(), "{failure}");
    assert_eq!(failure.code, Code::WrongUse);
}

#[test]
fn memory_that_can_be_raised_has_its_bounds() {
    for (line, what, cure) in [
        ("cotenant serve --memory-max 32MiB", "memory_max 32MiB is outside 64MiB to 1TiB", "-m"),
        ("cotenant serve --memory-max 2TiB", "outside the range: 0B to 1TiB", "1TiB"),
        (
            "cotenant serve -m 16 --memory-max 64GiB",
            "memory 16MiB is too little for what memory_max 64GiB needs at once",
            "-m",
        ),
        (
            "cotenant serve --memory-max 1GiB --tenant name=a,prefix=a:,reserved=64MiB",
            "the reservations are 64MiB",
            "raise",
        ),
    ] {
        refuses(line, "", what, cure);
    }
}

#[test]
fn what_cannot_be_meant_is_one_line_with_a_cure() {
    for (line, what, cure) in [
        ("cotenant -m 64 -p 0", "no command", "cotenant serve -m 64 -p 0"),
        ("cotenant", "no command", "cotenant serve"),
        ("cotenant serv", "serv", "did you mean 'serve'?"),
        ("cotenant serve --memroy 64", "--memroy", "did you mean '--memory'?"),
        ("cotenant serve -q", "-q", "cotenant serve --help"),
        ("cotenant serve -m", "-m", "cotenant serve --help"),
        ("cotenant serve -m lots", "-m/--memory: 'lots' is not a size", "64MiB"),
        ("cotenant serve -m 1", "-m/--memory: 1MiB is outside the range: 8MiB to 1TiB", "64MiB"),
        ("cotenant serve -m 99999999999999", "-m/--memory: '99999999999999' is too large", "8MiB to 1TiB"),
        ("cotenant serve -t x", "-t/--threads: 'x' is not a whole number", "4"),
        ("cotenant serve -t 257", "-t/--threads: 257 is outside the range: 1 to 256", "4"),
        ("cotenant serve -m 8 -t 128", "128 threads cannot share 8MiB", "-m"),
        (
            "cotenant serve -m 64 --tier dram:16GiB",
            "the notes of tiers in memory take 34.5MiB of the memory of 64MiB, and may take 16MiB",
            "-m",
        ),
        ("cotenant serve --credit 64", "--credit: '64' is not a size with a unit", "64MiB"),
        ("cotenant serve --idle-timeout 5", "not a time with a unit", "5s"),
        ("cotenant serve -I 1025m", "-I/--max-item-size: 1025MiB is outside the range", "1MiB"),
        ("cotenant serve -p 65536", "-p/--port", "11211"),
        ("cotenant serve -p -1", "nothing else is listened on", "-p"),
        ("cotenant serve -l 10.0.0", "-l/--listen: '10.0.0' is not an address", "localhost"),
        ("cotenant serve -l tenant[a]:localhost:5", "tenant 'a', which is not configured", "[tenant.NAME]"),
        ("cotenant serve -l proto[x]:localhost", "there is no protocol 'x'", "proto[ascii]"),
        ("cotenant serve -o ext_path=/a:lots", "-o ext_path: ", "file:PATH:SIZE"),
        ("cotenant serve -l 127.0.0.1,localhost", "listened on twice", "once"),
        ("cotenant serve --admin nowhere", "--admin: 'nowhere' is not an address", "127.0.0.1"),
        ("cotenant serve --policy fair", "not one of partitioned, shared, idle-tax, auto, pooled", "choose"),
        ("cotenant serve --tax 1.5", "--tax: 1.5 is outside the range: 0 to 1", "0.5"),
        ("cotenant serve --idle-time 0s", "--idle-time: 0s is outside the range: above 0s", "5h"),
        ("cotenant replay t.csv --tax 2", "--tax: 2.0 is outside the range", "0.5"),
        ("cotenant serve --rank lro", "--rank: 'lro' is no rank", "did you mean 'lru'?"),
        ("cotenant serve --rank f/sise", "--rank: unknown variable 'sise'", "did you mean 'size'?"),
        ("cotenant replay a.csv --rank f/", "--rank: the rank ends", "f / (size * t)"),
        (
            "cotenant serve --tenant name=a,prefix=a:,rank=max(f,z),weight=2",
            "unknown variable 'z'",
            "an expression over",
        ),
        ("cotenant serve --tenant name=a,prefix=a:,rank=max(f,t", "a '(' is not closed", "add ')'"),
        ("cotenant serve -D ab", "one printable", ":"),
        ("cotenant serve --report-version 1.6.45-a-name-far-too-long", "printable characters", "1.6.45"),
        ("cotenant serve -o hash_pover=2", "unknown extended option 'hash_pover'", "'hashpower'"),
        ("cotenant serve --config gone.toml", "cannot read the configuration gone.toml", "--config"),
        ("cotenant config check gone.toml", "cannot read the configuration gone.toml", "--config"),
        ("cotenant config", "subcommand", "cotenant config --help"),
        ("cotenant replay", "TRACE", "cotenant replay --help"),
        ("cotenant replay a.csv --reserved 64", "--reserved: '64' is not a size", "64MiB"),
        ("cotenant replay a.csv --server here", "not HOST:PORT", "127.0.0.1:11211"),
        ("cotenant plan --tenant a --at 1MiB", "--at: a server knows", "--trace"),
        ("cotenant plan --trace t.csv --change +5%", "--change: nobody says", "--at SIZE"),
        ("cotenant tenant list --admin here", "--admin: 'here' is not HOST:PORT", "127.0.0.1:11280"),
        ("cotenant replay a.csv --server h:1 --ttl", "pace", "--realtime"),
        ("cotenant replay a.csv --server h:1 -m 64", "--memory: a server", "leave --memory away"),
        ("cotenant replay a.csv --server h:1 --idle-time 9s", "--idle-time: a server", "without --server"),
        ("cotenant replay a.csv --server h:1 --member x=g", "--member: a server", "without --server"),
        ("cotenant replay a.csv --realtime", "--realtime: requests are sent to nobody", "--server"),
        ("cotenant group add x", "add", "cotenant group --help"),
        ("cotenant experiment", "subcommand", "cotenant experiment --help"),
        ("cotenant experiment run", "NAME", "cotenant experiment run --help"),
        ("cotenant experiment rnu all", "'rnu'", "cotenant experiment --help"),
        ("cotenant experiment run all --qick", "--qick", "did you mean '--quick'?"),
        ("cotenant experiment run all --seed x", "--seed: 'x' is not a whole number", "4"),
        ("cotenant demo --seconds x", "--seconds: 'x' is not a whole number", "4"),
        ("cotenant demo -p -1", "needs TCP", "-p 0"),
    ] {
        refuses(line, "", what, cure);
    }
}

#[test]
fn what_tls_cannot_be_is_one_line_with_a_cure() {
    for (line, what, cure) in [
        ("cotenant serve -l btls:localhost", "is to speak TLS, which is off", "-Z"),
        ("cotenant serve -Z", "TLS needs -o ssl_chain_cert", "ssl_key=FILE"),
        (
            "cotenant serve -Z -o ssl_chain_cert=c,ssl_key=k,ssl_verify_mode=2",
            "which are good",
            "ssl_ca_cert",
        ),
        (
            "cotenant serve -Z -o ssl_chain_cert=c,ssl_key=k -l mtls:localhost",
            "which are good",
            "ssl_ca_cert",
        ),
        (
            "cotenant serve -Z -o ssl_chain_cert=c,ssl_key=k,ssl_ciphers=HIGH",
            "suite 'HIGH'; there are",
            "leave",
        ),
        ("cotenant serve -Z -o ssl_verify_mode=4", "not one of 0, 1, 2, 3", "choose one of 0, 1"),
    ] {
        refuses(line, "", what, cure);
    }
}

#[test]
fn what_is_out_of_range_is_refused_wherever_it_is_given() {
    for (line, what, cure) in [
        ("cotenant serve -b 4294967296", "-b/--listen-backlog: 4294967296 is outside", "1024"),
        ("cotenant serve -f 0.5", "-f/--slab-growth-factor: 0.5 is outside the range: above 1", "1.25"),
        ("cotenant serve -n 0", "-n/--slab-min-size: 0 is outside the range: 1 and up", "48"),
        ("cotenant serve --max-tenants 0", "--max-tenants: 0 is outside", "1 to 65000"),
        ("cotenant serve --cleaners 9", "--cleaners: 9 is outside the range: 1 to 8", "the default is 1"),
        ("cotenant serve --tax nan", "--tax: 'nan' is not a number", "0 to 1"),
        ("cotenant serve --idle-timeout 1000000d", "--idle-timeout: '1000000d' is too large", "0s and up"),
        (
            "cotenant serve -o idle_timeout=99999999999999999999",
            "-o idle_timeout: '99999999999999999999' is too",
            "-o",
        ),
        ("cotenant serve --tenant name=a,prefix=a:,max_item=0B", "max_item: 0B is outside", "1B and up"),
        ("cotenant serve --tenant name=a,prefix=a:,burst=4294967296", "burst: 4294967296 is outside", "1 to"),
        ("cotenant serve --tenant name=a,prefix=a:,weight=0", "weight: 0.0 is outside", "1e-12 to 1e12"),
        ("cotenant serve --group name=g,weight=0", "weight: 0.0 is outside", "1e-12 to 1e12"),
        ("cotenant tenant set a --weight 0", "--weight: 0.0 is outside the range: 1e-12 to", "1e-12 to 1e12"),
        ("cotenant group set g --weight 1e13", "is outside the range: 1e-12 to 1e12", "1e-12 to 1e12"),
        ("cotenant tenant set a --max-item 0B", "--max-item: 0B is outside", "leave it out"),
        ("cotenant tenant set a --max-ttl 500ms", "--max-ttl: 500ms is outside the range: 1s to", "1s"),
        ("cotenant replay t.csv --limit 0", "--limit: 0 is outside the range: 1 and up", "leave it out"),
        ("cotenant replay t.csv --memory 1MiB", "-m/--memory: 1MiB is outside", "64MiB"),
        ("cotenant replay t.csv --reserved 9999999999TiB", "'9999999999TiB' is too large", "less"),
        ("cotenant demo --seconds 0", "--seconds: 0 is outside", "leave it out"),
        ("cotenant plan --tenant a --want 95%", "--want: '95%' is not a number", "0.95"),
        ("cotenant plan --tenant a --want 1", "--want: 1.0 is outside", "below 1"),
        ("cotenant plan --tenant a --at 0B", "--at: 0B is outside", "1B and up"),
        ("cotenant probe file:a:1MiB --time 56s", "--time: 56s is outside", "40s"),
    ] {
        refuses(line, "", what, cure);
    }
    for (file, what, cure) in [
        ("verbose = 9", "c.toml:1: verbose: 9 is outside the range: 0 to 3", "0"),
        ("memory = \"0\"", "c.toml:1: memory: '0' is not a size", "64MiB"),
        ("memory = \"99999999999999MiB\"", "is too large", "8MiB to 1TiB"),
        ("[tenant.a]\nprefix = \"a:\"\nmax_item = \"0B\"", "c.toml:3: max_item: 0B is outside", "1B and up"),
        (
            "[tenant.a]\nprefix = \"a:\"\ndefault_ttl = \"1000000d\"",
            "default_ttl: '1000000d' is too large",
            "49710d",
        ),
        (
            "[tenant.a]\nprefix = \"a:\"\nbandwidth = \"limit 20\"",
            "file c.toml:1: tenant 'a': bandwidth: ",
            "limit",
        ),
    ] {
        refuses("cotenant serve --config c.toml", file, what, cure);
    }
    assert_eq!(super::served("cotenant serve -vvvvv", "", &[]).2, 3);
}

#[test]
fn what_tenants_groups_and_tiers_cannot_be_is_one_line_with_a_cure() {
    for (line, what, cure) in [
        ("cotenant serve --tenant prefix=a:", "has no name=", "--tenant name="),
        ("cotenant serve --tenant name=a,prefix", "'prefix' is not key=value", "--tenant name="),
        ("cotenant serve --tenant name=a,prefix=a,prefix=b", "given twice", "--tenant name="),
        ("cotenant serve --tenant name=a,wieght=2", "unknown setting 'wieght' of a tenant", "'weight'"),
        ("cotenant serve --tenant name=a,prefix=a:,reserved=64", "reserved: '64' is not a size", "64MiB"),
        ("cotenant serve --group weight=2", "has no name=", "--group name="),
        ("cotenant serve --group name=g,prefix=g:", "unknown setting 'prefix' of a group", "a group has"),
        ("cotenant serve --group name=g,policy=best", "policy: 'best'", "partitioned"),
        ("cotenant serve --tenant name=a,prefix=a:,group=g", "in group 'g', which is not there", "[group.g]"),
        ("cotenant replay a.csv --placement tier", "--placement: there is no tier", "--tier"),
        ("cotenant replay a.csv --member a", "--member: 'a' is not TENANT=GROUP", "--member feeds=team"),
        ("cotenant serve -S", "-S/--enable-sasl: there is no file of users", "-Y FILE"),
        ("cotenant serve --read-only-users ann", "--read-only-users: there is no file", "-Y FILE"),
        ("cotenant serve --tenant name=a,listen=[::1]:5,users=ann", "no file of users", "-Y FILE"),
        ("cotenant serve -Y f --tenant name=a,prefix=a:,users=ann", "do not isolate", "key space"),
        (
            "cotenant serve -Y f --tenant name=a,users=x --tenant name=b,users=x",
            "'x' belongs to",
            "one tenant",
        ),
        ("cotenant serve --tier dram:0B", "--tier: 'dram:0B': a tier of 0B is too small", "1MiB or more"),
        ("cotenant config check --tier file:/a/b:1023KiB", "--tier: 'file:/a/b:1023KiB': a tier of", "1MiB"),
        ("cotenant serve -o ext_path=/a/b:0", "-o ext_path: 'file:/a/b:0B': a tier of 0B", "1MiB or more"),
        ("cotenant probe dram:0B", "'dram:0B': a tier of 0B is too small: 1MiB at least", "1MiB or more"),
        ("cotenant replay a.csv --tier 0B", "--tier: 0B is outside the range: 1MiB and up", "leave it out"),
        ("cotenant replay a.csv --tier 1KiB", "--tier: 1KiB is outside the range: 1MiB and up", "1MiB"),
        (
            "cotenant serve --tier dram:64MiB --bandwidth-policy ideal",
            "--bandwidth-policy: the policy 'ideal' needs every tenant's speed at every share",
            "bandwidth_speeds = ",
        ),
        ("cotenant serve --tier below=dram:64MiB", "a tier cannot be called 'below'", "stats"),
        ("cotenant serve --tier auto=dram:64MiB", "a tier cannot be called 'auto'", "placement"),
        (
            "cotenant serve --tier file:/a/b:1GiB -e /a/b",
            "the items cannot be saved in /a/b: tier 'file'",
            "-e",
        ),
        ("cotenant serve --tier dax:src/b:1GiB -e ./src/../src/b", "tier 'dax' lies there", "-e"),
        ("cotenant serve --tier a=synced:/a/b.new:1GiB -e /a/b", "tier 'a' lies there", "-e"),
        ("cotenant serve --tier a=file:/b:1GiB --tier b=file:/b.saved:1GiB", "tier 'b' lies there", "-e"),
        ("cotenant serve --tenant name=a", "neither a prefix nor a listen", "add"),
        (
            "cotenant serve --tenant name=a,prefix=a:,reserved=8388607TiB --tenant name=b,prefix=b:,reserved=8388607TiB --tenant name=c,prefix=c:,reserved=3TiB",
            "the reservations are",
            "lower",
        ),
        ("cotenant serve --tenant name=default,prefix=d:", "cannot be named 'default'", "another name"),
        ("cotenant serve --tenant name=a,listen=::1", "names no port", "[::1]:"),
        ("cotenant serve --tenant name=a,prefix=a:,reserved=1GiB", "reservations are 1GiB", "lower"),
        ("cotenant serve --tenant name=a,prefix=x: --tenant name=b,prefix=x:", "the same prefix 'x:'", "own"),
        ("cotenant serve --tenant name=a,prefix=x: --tenant name=a,prefix=y:", "named 'a'", "rename"),
        (
            "cotenant serve --tenant name=a,listen=127.0.0.1:11211",
            "both listen on 127.0.0.1:11211",
            "port of its own",
        ),
    ] {
        refuses(line, "", what, cure);
    }
}

#[test]
fn a_file_that_is_wrong_names_its_line() {
    for (file, what, cure) in [
        (
            "memory = \"64MiB\"\n\nmemroy = \"1MiB\"",
            "c.toml:3: unknown setting 'memroy'",
            "did you mean 'memory'?",
        ),
        ("wibble = 1", "c.toml:1: unknown setting 'wibble'", "config reference"),
        ("conn_limit = 1", "c.toml:1: unknown setting 'conn_limit'", "did you mean 'max_connections'?"),
        ("\nmemory = 64", "c.toml:2: memory: '64' is not a size with a unit", "64MiB"),
        ("memory = \"64\"", "c.toml:1: memory: '64' is not a size with a unit", "64MiB"),
        ("idle_timeout = 5", "not a time with a unit", "5s"),
        ("threads = \"4\"", "c.toml:1: threads is of type string", "threads = 4"),
        ("no_evict = 1", "c.toml:1: no_evict is of type integer", "no_evict = true"),
        ("listen = [1]", "c.toml:1: listen is a list of other things", "listen ="),
        ("threads = ", "c.toml:1: ", "write TOML"),
        ("port = 1\nport = 2", "c.toml:2: duplicate key", "write TOML"),
        ("memory = \"\"", "c.toml:1: memory: is empty", "64MiB"),
        ("tenant = 1", "c.toml:1: tenant is not a table", "[tenant.NAME]"),
        ("group = 1", "c.toml:1: group is not a table", "[group.NAME]"),
        (
            "[tenant.a]\nprefix = \"a:\"\nreserve = \"1MiB\"",
            "c.toml:3: unknown setting 'reserve'",
            "'reserved'",
        ),
        ("[tenant.a]\nprefix = \"a:\"\nweight = \"2\"", "c.toml:3: weight is of type string", "weight = 1.0"),
        ("[tenant.a]\nprefix = \"a:\"\nreserved = 5", "c.toml:3: reserved: '5' is not a size", "5MiB"),
        ("[tenant.a]\nlisten = \"x:y\"", "c.toml:1: tenant 'a': 'x:y' is not an address", "localhost"),
        ("[tenant.a]\nprefix = \"a:\"\nrank = \"f / sise\"", "c.toml:3: rank: unknown variable", "'size'"),
        (
            "port = 1\n[tenant.a]\nprefix = \"a:\"\nburst = 5",
            "tenant 'a' has a burst, and no rate (file c.toml:2)",
            "requests_per_second",
        ),
        (
            "[tenant.a]\nprefix = \"x\"\n[tenant.b]\nprefix = \"x\"",
            "have the same prefix 'x' (file c.toml:1, file c.toml:3)",
            "own",
        ),
        ("rank = 5", "c.toml:1: rank is of type integer", "rank = \"density\""),
        ("enable_ssl = true", "c.toml:1: enable_ssl: TLS needs -o ssl_chain_cert", "ssl_key=FILE"),
        ("extended = \"hash_pover=2\"", "c.toml:1: extended: unknown extended option", "'hashpower'"),
    ] {
        refuses("cotenant serve --config c.toml", file, what, cure);
        refuses("cotenant config check c.toml", file, what, cure);
    }
}

#[test]
fn a_rank_that_is_wrong_has_a_caret_below() {
    let file = "rank = \"f / (size * tt)\"";
    for line in ["cotenant config check c.toml", "cotenant serve --config c.toml"] {
        let failure = ask(line, file, &[]).unwrap_err();
        let wanted = "error: c.toml:1: rank: unknown variable 'tt'\n    f / (size * tt)\n                ^^\n  try: did you mean 't'?";
        assert_eq!(failure.to_string(), wanted);
        assert_eq!(failure.code, Code::WrongUse);
    }
}
