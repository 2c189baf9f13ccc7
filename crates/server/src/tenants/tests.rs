//! Whose keys and certificates are whose, and how many tenants come by themselves.

use super::*;
use units::Bytes;

fn router(tenants: &[(&str, &[&str])]) -> Router {
    let options = store::Options {
        memory: Bytes::mib(16),
        item_max: Bytes::mib(1),
        threads: 1,
        tenants_max: 64,
        no_evict: false,
        seed: 0,
    };
    let tenants = tenants.iter().map(|(name, identities)| TenantConfig {
        name: (*name).to_owned(),
        identities: identities.iter().map(|name| (*name).to_owned()).collect(),
        ..TenantConfig::default()
    });
    let config = Config { tenants: tenants.collect(), ..Config::default() };
    Router::new(Store::new(options).unwrap(), &config).unwrap()
}

#[test]
fn the_first_name_of_a_certificate_that_is_known_decides() {
    // Were it left to the order of a map, one of these would differ.
    for _ in 0..20 {
        let router = router(&[("a", &["a.example", "a.test"]), ("b", &["b.example"]), ("c", &["c.example"])]);
        let found = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            router.find_identity(&names).and_then(|id| router.about(id)).map(|about| about.name)
        };
        for (names, wanted) in [
            (&["b.example", "a.example", "c.example"][..], Some("b")),
            (&["c.example", "b.example"], Some("c")),
            (&["nobody", "a.example", "c.example"], Some("a")),
            (&["nobody"], None),
            (&[], None),
        ] {
            assert_eq!(found(names).as_deref(), wanted, "{names:?}");
        }
    }
}

/// However many prefixes come, what is known of tenants leaves most of the memory to items, and what goes is another's.
#[test]
fn prefixes_make_no_more_tenants_than_the_memory_affords() {
    let options = store::Options {
        memory: Bytes::mib(16),
        item_max: Bytes::mib(1),
        threads: 1,
        tenants_max: 5_000,
        no_evict: false,
        seed: 0,
    };
    let config = Config { prefix_delimiter: Some(b':'), ..Config::default() };
    let router = Router::new(Store::new(options).unwrap(), &config).unwrap();
    let made = |from: u32| {
        let keys = (from..from + 5_000).map(|n| format!("{n}:key"));
        let is_made = |key: &String| {
            router.route_for_store(&Binding::Unbound, key.as_bytes(), router.default) != router.default
        };
        keys.filter(is_made).count()
    };
    let first = made(0);
    let (there, each) = (first + 1, TENANT_BYTES.0);
    assert!(250 < first && there as u64 * each < (16 << 20) / 3, "{first}");
    assert!(router.store.affords_tenants(there, TENANT_BYTES));
    assert!(!router.store.affords_tenants(there + 1, TENANT_BYTES));
    router.look_for_free_ids();
    assert_eq!(made(10_000), 0, "nor later");
    assert!(router.adopt("as before", false).is_some(), "who was there before a restart comes again");
    router.remove(router.find("as before").unwrap());
    router.remove(router.find("7").unwrap());
    router.look_for_free_ids();
    assert_eq!(made(20_000), 1, "but in place of who has gone");
    router.store.withhold(Bytes::mib(8));
    router.remove(router.find("8").unwrap());
    router.look_for_free_ids();
    assert_eq!(made(30_000), 0, "nor in less memory");
}

#[test]
fn a_name_of_certificates_is_one_tenants() {
    let router = router(&[("a", &["a.example"])]);
    let tenant = TenantConfig {
        name: "b".to_owned(),
        identities: vec!["b.example".to_owned(), "a.example".to_owned()],
        ..TenantConfig::default()
    };
    let added = router.add(&tenant, None, None, Origin::Configuration);
    assert_eq!(added, Err(AddError::IdentityTaken("a.example".to_owned())));
    assert_eq!(router.find("b"), None);
}

#[test]
fn nested_prefixes_go_to_the_longest_whoever_has_gone() {
    let router = router(&[]);
    let add = |name: &str, prefix: &str| {
        let (name, prefix) = (name.to_owned(), Some(prefix.as_bytes().to_vec()));
        let tenant = TenantConfig { name, prefix, ..TenantConfig::default() };
        router.add(&tenant, None, None, Origin::Administration).unwrap()
    };
    let (short, long, middle) = (add("short", "a:"), add("long", "a:b:c:"), add("middle", "a:b:"));
    let gone = [add("first", "x:"), add("other", "longer:")];
    let whose = |key: &str| router.route(&Binding::Unbound, key.as_bytes()).0;
    let default = router.default_tenant();
    for id in [None, Some(gone[0]), Some(gone[1])] {
        id.into_iter().for_each(|id| router.remove(id));
        let found = ["a:b:c:d", "a:b:d", "a:d", "b"].map(whose);
        assert_eq!(found, [long, middle, short, default], "without {id:?}");
    }
    assert_eq!(["x:1", "longer:1"].map(whose), [default; 2]);
    router.remove(middle);
    assert_eq!(["a:b:c:d", "a:b:d", "a:d"].map(whose), [long, short, short]);
}

#[test]
fn what_a_new_tenant_is_given_is_in_force() {
    let router = router(&[]);
    for (name, rank) in [("a", Some(RankKind::Lru)), ("b", Some(RankKind::Lfu)), ("c", None)] {
        let (prefix, over_share) = (Some(format!("{name}:").into_bytes()), store::OverShare::Refuse);
        let name = name.to_owned();
        let tenant = TenantConfig { name, prefix, rank: rank.clone(), over_share, ..TenantConfig::default() };
        let id = router.add(&tenant, None, None, Origin::Administration).unwrap();
        let state = router.store.tenant_state(id).unwrap();
        assert_eq!((state.rank, state.over_share), (rank.unwrap_or_else(|| router.rank()), over_share));
    }
}
