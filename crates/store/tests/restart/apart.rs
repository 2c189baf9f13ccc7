//! Values in pages of their own over a clean end, and over starts whose segments have another size.

use crate::load::{Folder, WALL};
use control::Claim;
use std::path::Path;
use std::sync::Arc;
use store::{
    Fetch, Fields, Mode, NotTaken, Options, RankKind, Refused, Restored, Space, Store, TenantSpec, Worker,
};
use units::{Bytes, TenantId};

/// Lengths that fit a segment of 64 KiB, one of 256 KiB, and none.
const LENGTHS: [usize; 6] = [10, 30_000, 100_000, 200_000, 300_000, 2_500_000];

struct Server {
    store: Arc<Store>,
    worker: Worker,
    tenant: TenantId,
    restored: Restored,
}

fn start(memory: Bytes, item_max: Bytes, saved: &Path, wall: u64) -> Server {
    let options = Options { memory, item_max, threads: 1, tenants_max: 4, no_evict: false, seed: 1 };
    let store = Store::with_tiers(options, &[], wall).unwrap();
    let (name, claim, rank) = ("t".to_owned(), Claim::default(), RankKind::default());
    let tenant = store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
    let mut worker = store.worker().unwrap();
    let restored = worker.restore(Some(saved), &mut |_, _| None);
    worker.check();
    Server { store, worker, tenant, restored }
}

/// Bytes of which no two words are alike.
fn value(len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8)).map(|at| units::mix64((len << 32 | at) as u64).to_le_bytes());
    words.flatten().take(len).collect()
}

impl Server {
    fn set(&mut self, len: usize) {
        let (name, value) = (len.to_string(), value(len));
        let expires_at = if len == 100_000 { self.store.now_secs() + 1_000 } else { 0 };
        let fields = Fields { client_flags: u32::try_from(len).unwrap(), expires_at };
        loop {
            let key = self.worker.key(Space::Own(self.tenant), name.as_bytes()).unwrap();
            match self.worker.set(self.tenant, &key, Mode::Set, fields, &value) {
                Ok(_) => return self.worker.quiesce(),
                Err(Refused::NoRoom) => self.worker.make_room().unwrap(),
                Err(why) => panic!("{why:?}"),
            }
        }
    }

    /// CAS value and flags of an item, if it is there with its own value.
    fn get(&mut self, len: usize) -> Option<(u64, u32)> {
        self.worker.quiesce();
        let name = len.to_string();
        let key = self.worker.key(Space::Own(self.tenant), name.as_bytes()).unwrap();
        let item = self.worker.fetch(self.tenant, &key, &Fetch::default()).unwrap()?.was.item;
        assert!(item.value() == value(len), "the value of {len} bytes");
        Some((item.cas(), item.client_flags()))
    }

    fn there(&mut self) -> Vec<Option<(u64, u32)>> {
        LENGTHS.iter().map(|len| self.get(*len)).collect()
    }
}

#[test]
fn large_values_come_back_wherever_they_fit_now() {
    let folder = Folder::new("apart");
    let saved = folder.saved();
    let item_max = Bytes::mib(3);
    let mut server = start(Bytes::mib(16), item_max, &saved, WALL);
    LENGTHS.iter().for_each(|len| server.set(*len));
    let stored = server.there();
    assert!(stored.iter().all(Option::is_some));
    // Segments of 64 KiB, 256 KiB, 64 KiB; up to half of one stands in it.
    let apart: Vec<_> = [16, 64, 16, 16]
        .into_iter()
        .enumerate()
        .map(|(round, mib)| {
            assert_eq!(server.worker.save(&saved).unwrap(), LENGTHS.len() as u64);
            server = start(Bytes::mib(mib), item_max, &saved, WALL + round as u64 + 1);
            let Restored { items, dropped, not_taken, .. } = server.restored;
            assert_eq!((items, dropped, not_taken), (LENGTHS.len() as u64, 0, None));
            assert_eq!(server.there(), stored, "in {mib} MiB");
            server.store.memory_use().values
        })
        .collect();
    assert_eq!(apart.iter().map(|large| large.0 / 100_000).collect::<Vec<_>>(), [31, 30, 31, 31]);
    // What is too large now is left out, and nothing else.
    server.worker.save(&saved).unwrap();
    server = start(Bytes::mib(16), Bytes::mib(1), &saved, WALL + 9);
    assert_eq!((server.restored.items, server.restored.dropped), (5, 1));
    assert_eq!(server.there(), [&stored[..5], &[None]].concat());
    // What has expired meanwhile is read over.
    server.worker.save(&saved).unwrap();
    server = start(Bytes::mib(16), item_max, &saved, WALL + 2_000);
    assert_eq!((server.restored.items, server.restored.dropped), (4, 1));
    assert_eq!(server.there(), [&stored[..2], &[None], &stored[3..5], &[None]].concat());
    server.worker.check();
}

#[test]
fn what_does_not_fit_goes_as_in_any_full_memory() {
    let folder = Folder::new("apart-small");
    let saved = folder.saved();
    let mut server = start(Bytes::mib(64), Bytes::mib(3), &saved, WALL);
    let lengths: Vec<_> = (0..20).map(|n| 2_000_000 + n).collect();
    lengths.iter().for_each(|len| server.set(*len));
    assert_eq!(server.worker.save(&saved).unwrap(), 20);
    server = start(Bytes::mib(16), Bytes::mib(3), &saved, WALL + 1);
    assert_eq!(server.restored.items + server.restored.dropped, 20);
    let there = lengths.iter().filter(|len| server.get(**len).is_some()).count();
    assert!((4..=8).contains(&there), "{there} of 2 MB in 16 MiB");
    server.set(10);
    assert!(server.get(10).is_some());
    server.worker.check();
}

#[test]
fn damage_in_a_large_value_is_a_miss() {
    let folder = Folder::new("apart-damaged");
    let saved = folder.saved();
    let mut server = start(Bytes::mib(16), Bytes::mib(3), &saved, WALL);
    LENGTHS.iter().for_each(|len| server.set(*len));
    server.worker.save(&saved).unwrap();
    let good = std::fs::read(&saved).unwrap();
    let inside = &value(2_500_000)[1_500_000..1_500_016];
    let at = good.windows(16).position(|bytes| bytes == inside).unwrap();
    for (cut, flip) in [(good.len(), Some(at)), (at, None)] {
        let mut bytes = good[..cut].to_vec();
        flip.into_iter().for_each(|at| bytes[at] ^= 1);
        std::fs::write(&saved, bytes).unwrap();
        server = start(Bytes::mib(16), Bytes::mib(3), &saved, WALL + 1);
        assert_eq!(server.restored.not_taken, Some(NotTaken::Damaged));
        assert_eq!(server.get(2_500_000), None);
        let there = server.there().iter().flatten().count() as u64;
        assert_eq!(there, server.restored.items, "what was before it");
        server.worker.check();
    }
}
