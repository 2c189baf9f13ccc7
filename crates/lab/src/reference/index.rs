//! A map from key hashes to slots.
//!
//! Non-goals: resisting chosen keys; a simulator replays what it is given

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use units::mix64;

/// Slots by key hash.
pub(super) type Index = HashMap<u64, u32, BuildHasherDefault<Mixed>>;

/// Hashes one `u64` by `mix64`.
#[derive(Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, key_hash: u64) {
        self.0 = mix64(self.0 ^ key_hash);
    }
}
