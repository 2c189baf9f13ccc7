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
fn what_cannot_be_meant_is_one_line_with_a_cure() {
    for (line, what, cure) in [
        ("cotenant -m 64 -p 0", "no command", "cotenant serve -m 64 -p 0"),
        ("cotenant", "no command", "cotenant serve"),
        ("cotenant serv", "serv", "did you mean 'serve'?"),
        ("cotenant serve --memroy 64", "--memroy", "did you mean '--memory'?"),
        ("cotenant serve -q", "-q", "cotenant serve --help"),
        ("cotenant serve -m", "-m", "cotenant serve --help"),
        ("cotenant serve -m lots", "-m/--memory: 'lots' is not a size", "64MiB"),
        ("cotenant serve -m 1", "memory 1MiB is outside", "range"),
        ("cotenant serve -t x", "-t/--threads: 'x' is not a whole number", "4"),
        ("cotenant serve -t 257", "257 threads", "-t"),
        ("cotenant serve -m 8 -t 128", "128 threads cannot share 8MiB", "-m"),
        ("cotenant serve --credit 64", "--credit: '64' is not a size with a unit", "64MiB"),
        ("cotenant serve --idle-timeout 5", "not a time with a unit", "5s"),
        ("cotenant serve -I 1025m", "item size limit", "-I"),
        ("cotenant serve -p 65536", "-p/--port", "11211"),
        ("cotenant serve -p -1", "nothing else is listened on", "-p"),
        ("cotenant serve -l 10.0.0", "-l/--listen: '10.0.0' is not an address", "localhost"),
        ("cotenant serve -l tenant[a]:localhost:5", "tenant 'a', which is not configured", "[tenant.NAME]"),
        ("cotenant serve -l proto[x]:localhost", "there is no protocol 'x'", "proto[ascii]"),
        ("cotenant serve -l btls:localhost", "is to speak TLS, which is off", "-Z"),
        ("cotenant serve -Z", "TLS needs -o ssl_chain_cert", "ssl_key=FILE"),
        (
            "cotenant serve -Z -o ssl_chain_cert=c,ssl_key=k,ssl_verify_mode=1",
            "which are good",
            "ssl_ca_cert",
        ),
        (
            "cotenant serve -Z -o ssl_chain_cert=c,ssl_key=k -l mtls:localhost",
            "which are good",
            "ssl_ca_cert",
        ),
        ("cotenant serve -Z -o ssl_verify_mode=4", "not one of 0, 1, 2, 3", "did you mean"),
        ("cotenant serve -l 127.0.0.1,localhost", "listened on twice", "once"),
        ("cotenant serve --admin nowhere", "--admin: 'nowhere' is not an address", "127.0.0.1"),
        ("cotenant serve --policy fair", "not one of partitioned, shared, idle-tax, auto, pooled", "choose"),
        ("cotenant serve --tax 1.5", "a tax of 1.5 is outside 0 to 1", "0.5"),
        ("cotenant serve --idle-time 0s", "an idle time of zero", "5h"),
        ("cotenant replay t.csv --tax 2", "a tax of 2", "0.5"),
        ("cotenant serve --rank lro", "--rank: 'lro' is no rank", "did you mean 'lru'?"),
        ("cotenant serve --rank f/sise", "--rank: unknown variable 'sise'", "did you mean 'size'?"),
        ("cotenant replay a.csv --rank f/", "--rank: the rank ends", "f / (size * t)"),
        ("cotenant serve --tenant name=a,prefix=a:,rank=max(f,z),weight=2", "unknown variable 'z'", "'"),
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
        ("cotenant replay a.csv --server h:1 --ttl", "pace", "--realtime"),
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
