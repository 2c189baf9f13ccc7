//! What was emptied and waits for a thread that is late is no reason to evict more.

use crate::{has, new_store, set};
use store::{Fields, Mode, Refused, Space};
use units::{Bytes, TenantId};

/// A thread is late while few keys are written over and over: everything emptied waits, and nothing that is alive goes for it.
#[test]
fn what_is_alive_stays_while_what_was_emptied_waits() {
    const COLD: u64 = 9_000;
    let (store, mut writer) = new_store(Bytes::mib(16), false, 1);
    assert!((0..COLD).all(|n| set(&mut writer, 0, n, &[1; 1_000], 0)));
    let mut cleaner = store.worker().unwrap();
    cleaner.go_offline();
    writer.quiesce();
    let evicted = |store: &store::Store| store.totals(TenantId(0)).evictions;
    let before = evicted(&store);
    // What is emptied from now on does not come back.
    let mut late = store.worker().unwrap();
    let mut written = 0;
    let is_full = loop {
        let text = format!("{:023}", COLD + written % 10);
        let key = writer.key(Space::Own(TenantId(0)), text.as_bytes()).unwrap();
        match writer.set(TenantId(0), &key, Mode::Set, Fields::default(), &[2; 4_000]) {
            Ok(_) => written += 1,
            Err(Refused::NoRoom) => break true,
            Err(refused) => panic!("{refused:?}"),
        }
        writer.quiesce();
        if 0 < store.passes_wanted() {
            cleaner.go_online();
            while cleaner.help() {}
            cleaner.go_offline();
        }
    };
    assert!(is_full && 500 < written, "{written}: what was free has been written over some times");
    assert_eq!(evicted(&store), before, "{written} written");
    late.quiesce();
    late.go_offline();
    assert!((0..COLD).all(|n| has(&writer, 0, n)));
    assert!((0..3_000).all(|n| set(&mut writer, 0, COLD + n % 10, &[3; 4_000], 0)), "it goes on");
    writer.check();
}
