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
