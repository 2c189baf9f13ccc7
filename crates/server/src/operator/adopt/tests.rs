//! Configurations that are read again, over a server's parts without its threads.

use super::*;
use crate::AuthConfig;
use crate::auth::{Auth, Said};
use crate::loops::memory_loop;
use crate::tenants::{Binding, Router};
use crate::testing;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Options, Store};
use units::{Bytes, Instant};

/// A server's parts, and the configuration that was read last.
struct Stage {
    operator: Operator,
    read: Config,
}

impl Stage {
    fn new(config: Config) -> Self {
        let options = Options {
            memory: config.most_memory(),
            item_max: config.item_max,
            threads: 1,
            tenants_max: 8,
            no_evict: false,
            seed: 0,
        };
        let store = Store::new(options).expect("enough memory");
        let router = Arc::new(Router::new(Arc::clone(&store), &config).expect("room for all tenants"));
        let auth = Auth::load(&config, &router).expect("a file of users");
        let policy = crate::groups::Division::of(&config).configured(&config);
        let shared = Arc::new(testing::shared(config.clone(), auth, store, Arc::default()));
        let operator = Operator::new(&shared, &router, &memory_loop(policy), &Arc::default());
        Self { operator, read: config }
    }

    /// Reads a configuration, and the users; what was not done.
    fn adopt(&mut self, after: &Config) -> Vec<String> {
        let adopted = self.operator.adopt(&self.read, after);
        self.read = adopted.config;
        let auth = self.operator.shared.auth.as_ref();
        auth.map(|auth| auth.reload(&self.operator.router).expect("the users can be read"));
        adopted.kept
    }

    /// Whose the connections of a user are whose password is its name; none if it is not let in.
    fn whose(&self, user: &str) -> Option<String> {
        let auth = self.operator.shared.auth.as_ref().expect("there are users");
        let Said::Grant(grant) = auth.attempt(user.as_bytes(), user.as_bytes(), None, Instant::ZERO) else {
            panic!("a password in plain text is looked at, at once")
        };
        Some(match grant?.binding {
            Binding::Unbound => "nobody".to_owned(),
            Binding::To(id) => self.operator.router.about(id)?.name,
        })
    }
}

fn config() -> Config {
    Config { memory: Bytes::mib(64), threads: 1, ..Config::default() }
}

fn tenant(name: &str, reserved: Bytes) -> TenantConfig {
    let prefix = Some(format!("{name}:").into_bytes());
    TenantConfig { name: name.to_owned(), prefix, reserved, ..TenantConfig::default() }
}

/// A tenant that only its users reach.
fn of_users(name: &str, reserved: Bytes, users: &[&str]) -> TenantConfig {
    let users = users.iter().map(|user| (*user).to_owned()).collect();
    TenantConfig { prefix: None, users, ..tenant(name, reserved) }
}

/// Settings with a file of users, whose passwords are their names.
fn config_of(users: &[&str], test: &str) -> Config {
    let file = std::env::temp_dir().join(format!("cotenant-adopt-{test}-{}", std::process::id()));
    write_users(&file, users);
    let nobody = Vec::new;
    let auth =
        AuthConfig { file, shared_users: nobody(), read_only_users: nobody(), no_flush_users: nobody() };
    Config { auth: Some(auth), ..config() }
}

fn write_users(file: &PathBuf, users: &[&str]) {
    let lines: String = users.iter().map(|user| format!("{user}:{user}\n")).collect();
    std::fs::write(file, lines).expect("a temporary file");
}

#[test]
fn what_an_operator_changed_of_a_group_stays_though_its_file_changes_otherwise() {
    let group = |reserved, weight| GroupConfig {
        name: "team".to_owned(),
        reserved,
        weight,
        policy: None,
        bandwidth: crate::TierClaim::default(),
    };
    let with = |groups| Config { groups, ..config() };
    let mut stage = Stage::new(with(vec![group(Bytes::mib(4), 1.0)]));
    let by_hand = GroupSettings {
        weight: Some(7.0),
        policy: Some(Some(crate::MemoryPolicy::Pooled)),
        bandwidth: Some("limit 20%".parse().expect("a claim")),
        ..GroupSettings::default()
    };
    assert_eq!(stage.operator.put_group("team", &by_hand), Ok(false));
    assert!(stage.adopt(&with(vec![group(Bytes::mib(8), 1.0)])).is_empty());
    let now = stage.operator.shared.in_charge.now();
    let (_, team) = now.find("team").expect("it is there");
    let as_text = team.bandwidth.to_string();
    assert_eq!((team.reserved, team.weight, as_text.as_str()), (Bytes::mib(8), 7.0, "limit 20%"));
    assert_eq!(team.policy, Some(crate::MemoryPolicy::Pooled));
    assert!(stage.adopt(&with(vec![group(Bytes::mib(8), 2.0)])).is_empty());
    let weight = stage.operator.shared.in_charge.now().find("team").map(|(_, team)| team.weight);
    assert_eq!(weight, Some(2.0), "what the file says anew holds");
    // One that was removed comes back as the file has it.
    stage.operator.remove_group("team").expect("nobody is in it");
    assert!(stage.adopt(&with(vec![group(Bytes::mib(9), 2.0)])).is_empty());
    let now = stage.operator.shared.in_charge.now();
    let again = now.find("team").map(|(_, team)| (team.reserved, team.weight, team.policy));
    assert_eq!(again, Some((Bytes::mib(9), 2.0, None)));
}

/// Groups by name and size, tenants by name, size and group, in MiB.
type Divided<'a> = (&'a [(&'a str, u64)], &'a [(&'a str, u64, Option<&'a str>)]);

fn divided((groups, tenants): Divided<'_>) -> Config {
    let group = |&(name, mib): &(&str, u64)| GroupConfig {
        name: name.to_owned(),
        reserved: Bytes::mib(mib),
        weight: 1.0,
        policy: None,
        bandwidth: crate::TierClaim::default(),
    };
    let member = |&(name, mib, group): &(&str, u64, Option<&str>)| TenantConfig {
        group: group.map(str::to_owned),
        ..tenant(name, Bytes::mib(mib))
    };
    let tenants = tenants.iter().map(member).collect();
    Config { groups: groups.iter().map(group).collect(), tenants, ..config() }
}

/// What is reserved together in the end fits, and nothing that is there for a moment in between has to.
#[test]
fn tenants_and_groups_change_places_whatever_is_reserved_meanwhile() {
    let cases: [(Divided<'_>, Divided<'_>); 6] = [
        ((&[], &[("a", 40, None)]), (&[("g", 40)], &[("a", 40, Some("g"))])),
        (
            (&[("g", 50)], &[("a", 10, Some("g")), ("b", 40, Some("g"))]),
            (&[], &[("a", 10, None), ("b", 40, None)]),
        ),
        ((&[("g", 50)], &[("a", 50, Some("g"))]), (&[("h", 50)], &[("a", 50, Some("h"))])),
        (
            (&[("g", 50)], &[("a", 10, Some("g")), ("b", 20, Some("g"))]),
            (&[("g", 20), ("h", 30)], &[("a", 20, Some("g")), ("b", 30, Some("h"))]),
        ),
        ((&[("g", 40)], &[]), (&[], &[("a", 40, None)])),
        (
            (&[("g", 25), ("h", 30)], &[("a", 20, Some("g")), ("b", 30, Some("h"))]),
            (&[("i", 50)], &[("a", 20, Some("i")), ("b", 30, Some("i"))]),
        ),
    ];
    for (before, after) in cases {
        for (first, then) in [(before, after), (after, before)] {
            let mut stage = Stage::new(divided(first));
            assert_eq!(stage.adopt(&divided(then)), Vec::<String>::new(), "{first:?} -> {then:?}");
            let report = |of: &str| stage.operator.tenant(of).expect("it is there");
            for &(name, mib, group) in then.1 {
                let is = (report(name).state.claim.floor.bytes, report(name).group);
                assert_eq!(is, (Bytes::mib(mib), group.map(str::to_owned)), "{first:?} -> {then:?}");
            }
            let groups: Vec<_> = stage.operator.groups().into_iter().map(|g| (g.name, g.reserved)).collect();
            let wanted: Vec<_> = then.0.iter().map(|(n, mib)| ((*n).to_owned(), Bytes::mib(*mib))).collect();
            assert_eq!(BTreeMap::from_iter(groups), BTreeMap::from_iter(wanted), "{first:?} -> {then:?}");
        }
    }
}

/// With what an operator has added since it may not fit: then only what does is taken over, and nobody has more than there is.
#[test]
fn what_does_not_fit_beside_an_operators_tenant_is_refused() {
    let mut stage = Stage::new(divided((&[], &[("a", 30, None)])));
    let by_hand =
        Settings { prefix: Some("x:".into()), reserved: Some(Bytes::mib(20)), ..Settings::default() };
    assert_eq!(stage.operator.put("x", &by_hand), Ok(true));
    let kept = stage.adopt(&divided((&[("g", 50)], &[("a", 50, Some("g"))])));
    assert!(kept.iter().any(|line| line.contains("50MiB cannot be reserved")), "{kept:?}");
    assert_eq!(stage.operator.tenant("a").expect("it stays").state.claim.floor.bytes, Bytes::mib(30));
    assert!(stage.operator.groups().is_empty());
}

/// What single steps are refused for other reasons does not let others have more than there is.
#[test]
fn reservations_fit_the_memory_whatever_of_a_file_is_refused() {
    let named =
        |name: &str, mib| TenantConfig { identities: vec![name.to_owned()], ..tenant(name, Bytes::mib(mib)) };
    let with = |tenants| Config { tenants, ..config() };
    let elsewhere =
        TenantConfig { placement: Some(PlaceIn::Tier("ssd".to_owned())), ..tenant("a", Bytes::mib(10)) };
    let many = |last: (&str, u64), before: u64| -> Config {
        let names: Vec<String> = (0..62).map(|n| format!("g{n}")).collect();
        let mut groups: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
        groups.extend([("before", before), last]);
        divided((&groups, &[("a", last.1, Some(last.0))]))
    };
    let small = Config { memory: Bytes::mib(32), ..divided((&[], &[("a", 0, None), ("b", 24, None)])) };
    for (before, after) in [
        (with(vec![named("own", 40)]), with(vec![tenant("b", Bytes::mib(40))])),
        (
            with(vec![tenant("a", Bytes::mib(40)), tenant("b", Bytes::mib(10))]),
            with(vec![elsewhere, tenant("b", Bytes::mib(40))]),
        ),
        (many(("last", 50), 0), many(("other", 10), 40)),
        (divided((&[], &[("a", 40, None), ("b", 0, None)])), small),
    ] {
        let mut stage = Stage::new(before);
        let by_hand =
            Settings { prefix: Some("x:".into()), reserved: Some(Bytes::mib(8)), ..Settings::default() };
        assert_eq!(stage.operator.put("x", &by_hand), Ok(true));
        for reading in 0..2 {
            let kept = stage.adopt(&after);
            assert!(!kept.is_empty(), "reading {reading}");
            let shared = &stage.operator.shared;
            let reserved = shared.in_charge.now().reserved(stage.operator.reservations(None));
            assert!(reserved <= shared.divisible(), "{reserved} of {}: {kept:?}", shared.divisible());
        }
    }
}

/// Memory is lowered behind the reservations that no longer fit it.
#[test]
fn memory_and_reservations_are_lowered_together() {
    let stage = Stage::new(divided((&[], &[("a", 50, None)])));
    let after = Config { memory: Bytes::mib(32), ..divided((&[], &[("a", 10, None)])) };
    let adopted = stage.operator.adopt(&stage.read, &after);
    assert_eq!(adopted.kept, Vec::<String>::new());
    let at = |what: &str| adopted.done.iter().position(|line| line.contains(what));
    assert!(at("tenant 'a'").expect("it changed") < at("memory").expect("so did it"), "{:?}", adopted.done);
}

#[test]
fn users_of_a_tenant_that_was_refused_make_none_and_come_in_once_it_is_there() {
    let users = ["ann", "bea", "cat"];
    let mut stage = Stage::new(Config {
        tenants: vec![of_users("old", Bytes::ZERO, &["bea"])],
        ..config_of(&["bea"], "refused")
    });
    let file = stage.read.auth.as_ref().expect("there are users").file.clone();
    assert_eq!(stage.whose("bea").as_deref(), Some("old"));
    // An operator's tenant has what they reserve.
    let by_hand = |reserved| Settings {
        reserved: Some(reserved),
        prefix: Some("x:".to_owned()),
        ..Settings::default()
    };
    assert_eq!(stage.operator.put("x", &by_hand(Bytes::mib(40))), Ok(true));
    write_users(&file, &users);
    let tenants = vec![
        of_users("old", Bytes::ZERO, &[]),
        of_users("new", Bytes::mib(30), &["ann", "bea"]),
        of_users("cat", Bytes::mib(30), &[]),
    ];
    let after = Config { tenants, ..stage.read.clone() };
    let kept = stage.adopt(&after);
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(kept.iter().all(|kept| kept.contains("cannot be reserved")), "{kept:?}");
    for name in ["new", "cat", "ann", "bea"] {
        assert_eq!(stage.operator.router.find(name), None, "nobody made '{name}'");
    }
    assert_eq!(users.map(|user| stage.whose(user)), [None, Some("old".to_owned()), None]);
    // Once there is room they are there, with what they are to have.
    assert_eq!(stage.operator.put("x", &by_hand(Bytes::ZERO)), Ok(false));
    let kept = stage.adopt(&Config { tenants: after.tenants[..2].to_vec(), ..after.clone() });
    assert!(kept.is_empty(), "{kept:?}");
    let theirs = ["new", "new", "cat"].map(|name| Some(name.to_owned()));
    assert_eq!(
        users.map(|user| stage.whose(user)),
        theirs,
        "who has no tenant by the file has one of its name"
    );
    assert_eq!(stage.operator.tenant("new").map(|new| new.state.claim.floor.bytes), Ok(Bytes::mib(30)));
    std::fs::remove_file(file).expect("it is there");
}

#[test]
fn a_tenant_in_a_tier_that_is_not_there_is_not_added() {
    let mut stage = Stage::new(config());
    let placement = Some(PlaceIn::Tier("ssd".to_owned()));
    let after = Config { tenants: vec![TenantConfig { placement, ..tenant("a", Bytes::ZERO) }], ..config() };
    let kept = stage.adopt(&after);
    assert_eq!(kept, ["tenant 'a' added: there is no tier 'ssd'; a placement is one of dram, auto"]);
    assert_eq!(stage.operator.router.find("a"), None);
    assert_eq!(stage.adopt(&after), kept, "it is said again");
}

#[test]
fn memory_is_raised_as_far_as_was_said_at_the_start() {
    let with = |memory| Config { memory: Bytes::mib(memory), memory_max: Some(Bytes::mib(96)), ..config() };
    let mut stage = Stage::new(with(32));
    let limit = |stage: &Stage| (stage.operator.shared.memory_limit(), stage.operator.shared.divisible());
    let (at_first, divisible) = limit(&stage);
    assert_eq!(at_first, Bytes::mib(32));
    assert!(divisible < Bytes::mib(32), "what is withheld is divided among nobody");
    assert!(stage.adopt(&with(96)).is_empty());
    assert_eq!(limit(&stage), (Bytes::mib(96), divisible + Bytes::mib(64)));
    let kept = stage.adopt(&with(97));
    assert!(
        kept.len() == 1 && kept[0].contains("memory 97MiB: 96MiB is the most it started with"),
        "{kept:?}"
    );
    assert_eq!(limit(&stage).0, Bytes::mib(96));
    assert!(stage.adopt(&with(16)).is_empty());
    assert_eq!(limit(&stage).0, Bytes::mib(16));
}

#[test]
fn memory_is_lowered_as_far_as_segments_of_the_start_allow() {
    let with = |memory| Config { memory: Bytes::mib(memory), ..config() };
    let mut stage = Stage::new(with(1024));
    let kept = stage.adopt(&with(20));
    let why = "memory 20MiB: threads need more with segments of the size that they have";
    assert!(kept.len() == 1 && kept[0].contains(why), "{kept:?}");
    assert_eq!(stage.operator.shared.memory_limit(), Bytes::mib(1024));
    assert!(stage.adopt(&with(64)).is_empty());
    assert_eq!(stage.operator.shared.memory_limit(), Bytes::mib(64));
}

#[test]
fn who_decides_ends_before_tenants_change_places() {
    let operator = Stage::new(Config { memory: Bytes::mib(16), ..Config::default() }).operator;
    let begins = AtomicBool::new(false);
    let is_regrouping = || operator.shared.is_regrouping.load(Ordering::Acquire);
    std::thread::scope(|scope| {
        let decides = operator.memory.lock().expect("nobody has panicked");
        scope.spawn(|| {
            begins.store(true, Ordering::Release);
            let nobody_decides = operator.begin_regrouping();
            assert!(is_regrouping());
            drop(nobody_decides);
        });
        while !begins.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for _ in 0..1_000 {
            std::thread::yield_now();
            assert!(!is_regrouping(), "somebody decides");
        }
        drop(decides);
    });
    assert!(!is_regrouping());
}

#[test]
fn a_change_of_places_that_panics_has_ended() {
    let operator = Stage::new(Config { memory: Bytes::mib(16), ..Config::default() }).operator;
    let fails = || {
        let _nobody_decides = operator.begin_regrouping();
        panic!("on purpose");
    };
    assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
    assert!(!operator.shared.is_regrouping.load(Ordering::Acquire));
}
