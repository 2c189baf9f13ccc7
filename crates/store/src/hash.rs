//! Hash of a key: computed once per request, used for bucket, tag, shadow sampling.
//!
//! Source: rapidhash v3 (stable output) with secrets of the process, so that strangers cannot choose collisions

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use units::TenantId;

/// Whose keys a key is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Space {
    /// The key space of the default tenant and of all tenants known by prefix.
    #[default]
    Shared,
    /// The key space of one tenant, known by its port or credentials.
    Own(TenantId),
}

/// 64 bits of hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct KeyHash(pub(crate) u64);

/// Hashes keys with the secrets of one store.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    secrets: RapidSecrets,
}

impl Hasher {
    pub(crate) fn new(seed: u64) -> Self {
        Self { secrets: RapidSecrets::seed(seed) }
    }

    #[inline]
    pub(crate) fn hash(&self, space: Space, key: &[u8]) -> KeyHash {
        let h = rapidhash_v3_seeded(key, &self.secrets);
        KeyHash(match space {
            Space::Shared => h,
            Space::Own(tenant) => units::mix64(h ^ (u64::from(tenant.0) << 1 | 1)),
        })
    }
}
