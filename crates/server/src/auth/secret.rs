//! A password as it is kept: a digest, never the text.
//!
//! Shape:      `$argon2id$…` in the file is checked at the price that it names, once; what matched is remembered as a
//!             cheap digest, and a password in plain is one from the start
//! Invariants: digests are compared in constant time
//! Cost:       about 17 µs a check, answer included; a password that was hashed costs what its hash says until the right one
//!             was shown, which is not for a worker to pay
//! Failure:    the first wrong password for a hash costs its full price too, so that prices have limits

use crate::limits::{HASH_MEMORY_MAX, HASH_PASSES_MAX, PASSWORD_MAX};
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordVerifier as _, Version};
use std::fmt;
use std::sync::OnceLock;
use subtle::ConstantTimeEq as _;

type Digest = [u8; 32];

/// What a hashed password begins with.
const HASHED: &[u8] = b"$argon2";
/// What the salts of digests begin with; the user's name follows.
const SALT: &[u8] = b"cotenant";

/// A password.
pub(super) struct Secret {
    /// The digest of the right password, once it is known.
    digest: OnceLock<Digest>,
    /// What the file has, if that is a hash.
    hash: Option<PasswordHash>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// The password that a file has for a user, or why it cannot be used.
    pub(super) fn new(user: &str, text: &[u8]) -> Result<Self, &'static str> {
        if !text.starts_with(HASHED) {
            if PASSWORD_MAX < text.len() {
                return Err("the password is longer than 255 bytes");
            }
            return Ok(Self { digest: OnceLock::from(digest(user.as_bytes(), text)), hash: None });
        }
        let text = str::from_utf8(text).map_err(|_| "the hash is no text")?;
        let hash = PasswordHash::new(text).map_err(|_| "the hash is no Argon2 hash")?;
        if hash.hash.is_none() || Algorithm::try_from(hash.algorithm.as_str()).is_err() {
            return Err("the hash is no Argon2 hash");
        }
        let params = Params::try_from(&hash).map_err(|_| "the hash has parameters that Argon2 has not")?;
        if HASH_MEMORY_MAX.0 / 1024 < u64::from(params.m_cost()) || HASH_PASSES_MAX < params.t_cost() {
            return Err("the hash asks for more than 64 MiB or 16 passes");
        }
        Ok(Self { digest: OnceLock::new(), hash: Some(hash) })
    }

    /// A password that nobody has.
    pub(super) fn of_nobody() -> Self {
        Self { digest: OnceLock::from([0; 32]), hash: None }
    }

    /// Whether it is dear to say if this is the password.
    pub(super) fn is_dear(&self, password: &[u8]) -> bool {
        self.digest.get().is_none() && password.len() <= PASSWORD_MAX
    }

    /// Whether this is the password.
    pub(super) fn matches(&self, user: &[u8], password: &[u8]) -> bool {
        if PASSWORD_MAX < password.len() {
            return false;
        }
        let shown = digest(user, password);
        if let Some(known) = self.digest.get() {
            return shown.ct_eq(known).into();
        }
        let is_hashed = |hash| Argon2::default().verify_password(password, hash).is_ok();
        let is_right = self.hash.as_ref().is_some_and(is_hashed);
        if is_right {
            // Whoever was faster found the same.
            let _same = self.digest.set(shown);
        }
        is_right
    }
}

/// What is remembered of a password: the least Argon2, which hides it and makes all lengths equal.
fn digest(user: &[u8], password: &[u8]) -> Digest {
    let params = Params::new(Params::MIN_M_COST, Params::MIN_T_COST, Params::MIN_P_COST, Some(32));
    let params = params.expect("the least of every parameter is allowed");
    let mut out = [0; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password, &[SALT, user].concat(), &mut out)
        .expect("a password of at most 255 bytes and a salt of at least 8 can be hashed");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `password` with 256 KiB and two passes, of Argon2's own test vectors.
    const HASHED_PASSWORD: &[u8] =
        b"$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

    #[test]
    fn plain_and_hashed_passwords_match_themselves_only() {
        for text in [b"password".as_slice(), HASHED_PASSWORD] {
            let secret = Secret::new("a", text).unwrap();
            // Before and after the right one is remembered.
            for is_dear in [text == HASHED_PASSWORD, false] {
                assert_eq!(secret.is_dear(b"Password"), is_dear);
                assert!(!secret.matches(b"a", b"Password"));
                assert!(!secret.matches(b"a", b""));
                assert!(!secret.matches(b"a", &[b's'; PASSWORD_MAX + 1]));
                assert!(!secret.matches(b"a", text) || text == b"password");
                assert!(secret.matches(b"a", b"password"));
            }
            assert_eq!(format!("{secret:?}"), "Secret");
        }
        assert!(!Secret::of_nobody().matches(b"a", b""));
    }

    #[test]
    fn hashes_that_are_wrong_or_too_dear_are_refused() {
        let dear = "$argon2id$v=19$m=1048576,t=1,p=1$c2FsdHNhbHQ$c29tZWhhc2hzb21laGFzaA";
        let slow = "$argon2id$v=19$m=8,t=17,p=1$c2FsdHNhbHQ$c29tZWhhc2hzb21laGFzaA";
        for text in ["$argon2id$nonsense", "$argon2", dear, slow] {
            assert!(Secret::new("a", text.as_bytes()).is_err(), "{text}");
        }
        assert!(Secret::new("a", &[b'x'; PASSWORD_MAX + 1]).is_err());
    }
}
