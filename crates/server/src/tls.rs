//! TLS: the server's keys, read again without touching connections, and whom a client's certificate names.
//!
//! Shape:      files -> `Keys` -> one `ServerConnection` per connection; a verified certificate -> names
//! Invariants: keys change as a whole or not at all; a connection keeps those that it began with
//! Failure:    a file that cannot be used names itself; when keys are read again, the old ones stay in force
//! Non-goals:  moving bytes, that is `transport.rs`'s

use crate::listener::TlsMode;
use memchr::memmem;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Whether clients are asked for a certificate, memcached's `ssl_verify_mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verify {
    /// They are not.
    #[default]
    None,
    /// They are; whoever has none is served, too.
    Request,
    /// They are, and need one.
    Require,
}

/// The oldest version of TLS that is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OldestTls {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl OldestTls {
    /// memcached's name for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "tlsv1.2",
            Self::Tls13 => "tlsv1.3",
        }
    }
}

/// How TLS is spoken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsConfig {
    /// PEM file of the server's certificate and those between it and its root.
    pub chain: PathBuf,
    /// PEM or DER file of its private key.
    pub key: PathBuf,
    /// PEM file of the roots that clients' certificates must lead to.
    pub ca: Option<PathBuf>,
    /// Whether clients are asked for a certificate.
    pub verify: Verify,
    /// The oldest version spoken.
    pub oldest: OldestTls,
    /// Cipher suites of TLS 1.2 by OpenSSL's names; none means all that are safe.
    pub ciphers: Vec<String>,
    /// Whether clients may resume sessions.
    pub resumes: bool,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read as what it should be.
    #[error("cannot read the {what} {}", path.display())]
    File {
        /// What it should have held.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: rustls::pki_types::pem::Error,
    },
    /// A file has no certificate in it.
    #[error("there is no certificate in {}", path.display())]
    Empty {
        /// Its path.
        path: PathBuf,
    },
    /// A private key that only a password opens.
    #[error("the private key {} is encrypted; openssl pkey -in {} -out FILE writes it without a password", path.display(), path.display())]
    EncryptedKey {
        /// Its path.
        path: PathBuf,
    },
    /// Certificates have to be asked for, and nobody says which are good.
    #[error("clients' certificates are asked for without ssl_ca_cert")]
    NoRoots,
    /// A cipher suite is unknown.
    #[error("unknown cipher suite '{name}'; there are {known}")]
    Cipher {
        /// The name.
        name: String,
        /// What there is.
        known: String,
    },
    /// The roots cannot be used.
    #[error("cannot use the certificates in {}", path.display())]
    Roots {
        /// Their path.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: rustls::server::VerifierBuilderError,
    },
    /// Certificate and key do not go together, or cannot be used.
    #[error("cannot use the certificate {} with the key {}", chain.display(), key.display())]
    Pair {
        /// Path of the certificate.
        chain: PathBuf,
        /// Path of the key.
        key: PathBuf,
        /// Why not.
        #[source]
        cause: rustls::Error,
    },
}

/// The keys in force.
#[derive(Debug)]
pub(crate) struct Keys {
    config: TlsConfig,
    loaded: RwLock<Loaded>,
}

/// One configuration per mode of a listener.
#[derive(Debug)]
struct Loaded {
    basic: Arc<ServerConfig>,
    asked: Arc<ServerConfig>,
    mutual: Option<Arc<ServerConfig>>,
}

impl Keys {
    /// Reads the files.
    pub(crate) fn load(config: TlsConfig) -> Result<Self, TlsError> {
        let loaded = RwLock::new(Loaded::load(&config)?);
        Ok(Self { config, loaded })
    }

    /// Reads the files again; connections made from now on have what is in them.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let loaded = Loaded::load(&self.config)?;
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    /// What a connection begins with; none if the mode needs roots that are not there.
    pub(crate) fn server_config(&self, mode: TlsMode) -> Option<Arc<ServerConfig>> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        match mode {
            TlsMode::Off => None,
            TlsMode::On => Some(Arc::clone(&loaded.asked)),
            TlsMode::Basic => Some(Arc::clone(&loaded.basic)),
            TlsMode::Mutual => loaded.mutual.clone(),
        }
    }
}

impl Loaded {
    fn load(config: &TlsConfig) -> Result<Self, TlsError> {
        let provider = Arc::new(provider(&config.ciphers)?);
        // The first random byte of a process takes some 40 ms, which a worker would be away for at the first handshake. Whether there are
        // any, handshakes say.
        let _unknown = provider.secure_random.fill(&mut [0]);
        let roots = match &config.ca {
            None => None,
            Some(path) => Some((Arc::new(roots(path)?), path)),
        };
        let asking = |verify: Verify| -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
            let Some((roots, path)) = &roots else {
                // Who need not show one is not asked: nobody says which are good.
                return if verify == Verify::Require { Err(TlsError::NoRoots) } else { Ok(None) };
            };
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(&provider));
            let verifier = match verify {
                Verify::None => return Ok(None),
                Verify::Request => verifier.allow_unauthenticated(),
                Verify::Require => verifier,
            };
            let path = (*path).clone();
            verifier.build().map(|v| Some(v as _)).map_err(|cause| TlsError::Roots { path, cause })
        };
        let basic = Arc::new(server_config(config, &provider, None)?);
        let asked = match config.verify {
            Verify::None => Arc::clone(&basic),
            verify => Arc::new(server_config(config, &provider, asking(verify)?)?),
        };
        let mutual = match &roots {
            None => None,
            Some(_) => Some(Arc::new(server_config(config, &provider, asking(Verify::Require)?)?)),
        };
        Ok(Self { basic, asked, mutual })
    }
}

/// What a password encrypts has this object identifier near its beginning (RFC 8018, PBES2).
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];

/// The key in a file, in whichever of the three encodings it is: a heading may say another, and DER has none.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let named = PrivateKeyDer::from_pem_file(path).or_else(|cause| {
        let bytes = std::fs::read(path).unwrap_or_default();
        let path = path.to_owned();
        match bytes.first() {
            Some(0x30) => Ok(PrivatePkcs8KeyDer::from(bytes).into()),
            _ if memmem::find(&bytes, b"ENCRYPTED").is_some() => Err(TlsError::EncryptedKey { path }),
            _ => Err(TlsError::File { what: "private key", path, cause }),
        }
    })?;
    let der = || named.secret_der().to_vec();
    let forms = [
        PrivatePkcs8KeyDer::from(der()).into(),
        PrivatePkcs1KeyDer::from(der()).into(),
        PrivateSec1KeyDer::from(der()).into(),
    ];
    let is_read = |key: &PrivateKeyDer<'_>| aws_lc_rs::sign::any_supported_type(key).is_ok();
    let is_encrypted = || memmem::find(named.secret_der(), PBES2).is_some();
    match forms.into_iter().find(is_read) {
        None if is_encrypted() => Err(TlsError::EncryptedKey { path: path.to_owned() }),
        found => Ok(found.unwrap_or_else(|| named.clone_key())),
    }
}

fn server_config(
    config: &TlsConfig,
    provider: &Arc<CryptoProvider>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, TlsError> {
    let pair = |cause| TlsError::Pair { chain: config.chain.clone(), key: config.key.clone(), cause };
    let key = private_key(&config.key)?;
    let versions: &[&SupportedProtocolVersion] = match config.oldest {
        OldestTls::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        OldestTls::Tls13 => &[&rustls::version::TLS13],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_protocol_versions(versions).map_err(pair)?;
    let builder = match verifier {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier),
    };
    let chain = certificates(&config.chain)?;
    let mut server = builder.with_single_cert(chain, key).map_err(pair)?;
    if config.resumes {
        server.ticketer = aws_lc_rs::Ticketer::new().map_err(pair)?;
    } else {
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
    }
    Ok(server)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fail = |cause| TlsError::File { what: "certificate", path: path.to_owned(), cause };
    let chain = CertificateDer::pem_file_iter(path).map_err(fail)?.collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(fail)?;
    if chain.is_empty() { Err(TlsError::Empty { path: path.to_owned() }) } else { Ok(chain) }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(certificates(path)?);
    if good == 0 { Err(TlsError::Empty { path: path.to_owned() }) } else { Ok(roots) }
}

/// Whether there are cipher suites of these names.
pub(crate) fn check_ciphers(ciphers: &[String]) -> Result<(), TlsError> {
    provider(ciphers).map(drop)
}

/// The provider with these cipher suites of TLS 1.2, and all of TLS 1.3.
fn provider(ciphers: &[String]) -> Result<CryptoProvider, TlsError> {
    let mut provider = aws_lc_rs::default_provider();
    if ciphers.is_empty() {
        return Ok(provider);
    }
    let is_13 = |suite: &rustls::SupportedCipherSuite| suite.tls13().is_some();
    let name =
        |suite: &rustls::SupportedCipherSuite| openssl_name(suite.suite().as_str().unwrap_or_default());
    let known: Vec<_> = provider.cipher_suites.iter().filter(|s| !is_13(s)).map(name).collect();
    if let Some(unknown) = ciphers.iter().find(|c| !known.contains(c)) {
        return Err(TlsError::Cipher { name: unknown.clone(), known: known.join(":") });
    }
    provider.cipher_suites.retain(|suite| is_13(suite) || ciphers.contains(&name(suite)));
    Ok(provider)
}

/// `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` as OpenSSL calls it, `ECDHE-RSA-AES128-GCM-SHA256`.
fn openssl_name(suite: &str) -> String {
    let name = suite.trim_start_matches("TLS_").replace("_WITH", "").replace("AES_", "AES").replace('_', "-");
    match name.strip_suffix("-SHA256") {
        Some(short) if short.ends_with("POLY1305") => short.to_owned(),
        _ => name,
    }
}

/// The names that a verified certificate gives its holder: common name, DNS names and URIs.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) else { return Vec::new() };
    let common = common_names(parsed.subject());
    let others = parsed.valid_dns_names().chain(parsed.valid_uri_names()).map(str::to_owned);
    common.into_iter().chain(others).collect()
}

/// OID 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const OID: u8 = 0x06;

/// The common names in the content of a distinguished name: sets of pairs of a type and a text.
fn common_names(subject: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for (_, set) in Values(subject) {
        for (_, pair) in Values(set) {
            let mut fields = Values(pair);
            if let (Some((OID, COMMON_NAME)), Some((_, text))) = (fields.next(), fields.next())
                && let Ok(text) = std::str::from_utf8(text)
            {
                found.push(text.to_owned());
            }
        }
    }
    found
}

/// Tag and content of the DER values in a row; ends where they end or make no sense.
struct Values<'d>(&'d [u8]);

impl<'d> Iterator for Values<'d> {
    type Item = (u8, &'d [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81 => (usize::from(*rest.first()?), &rest[1..]),
            0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), &rest[2..]),
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cipher_suites_have_openssl_names() {
        let names = "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305";
        let names: Vec<_> = names.split(':').map(str::to_owned).collect();
        let chosen = provider(&names).expect("both are known");
        let of_12 = chosen.cipher_suites.iter().filter(|s| s.tls13().is_none()).count();
        assert_eq!((of_12, chosen.cipher_suites.len() - of_12), (2, 3));
        let unknown = provider(&["HIGH".to_owned()]).expect_err("no list of OpenSSL's");
        assert!(unknown.to_string().contains("'HIGH'; there are ECDHE-"), "{unknown}");
    }

    #[test]
    fn common_names_are_found_and_garbage_is_none() {
        // O=x, CN=feeds
        let subject = [
            &[0x31, 10, 0x30, 8, 0x06, 3, 0x55, 4, 10, 0x0c, 1, b'x'][..],
            &[0x31, 14, 0x30, 12, 0x06, 3, 0x55, 4, 3, 0x0c, 5, b'f', b'e', b'e', b'd', b's'],
        ]
        .concat();
        assert_eq!(common_names(&subject), ["feeds"]);
        for cut in 0..subject.len() {
            assert!(common_names(&subject[..cut]).is_empty(), "{cut}");
        }
        assert!(common_names(&[0x31, 0x82, 0xff]).is_empty());
        assert!(names(&CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])).is_empty());
    }

    #[test]
    fn a_key_that_is_none_has_its_cure() {
        let file = std::env::temp_dir().join(format!("cotenant-key-{}", std::process::id()));
        let pem = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let der = [b"\x30\x20", PBES2].concat();
        for (bytes, said) in [
            (&pem[..], "is encrypted; openssl pkey -in "),
            (&der, "is encrypted; openssl pkey -in "),
            (b"nothing", "cannot read the private key"),
        ] {
            std::fs::write(&file, bytes).expect("a file of the test");
            let error = private_key(&file).expect_err("it is none").to_string();
            assert!(error.contains(said), "{error}");
        }
        std::fs::remove_file(&file).expect("it was written");
    }

    #[test]
    fn a_file_that_is_none_names_itself() {
        let config = TlsConfig {
            chain: "/nowhere/chain.pem".into(),
            key: "/nowhere/key.pem".into(),
            ca: None,
            verify: Verify::None,
            oldest: OldestTls::Tls12,
            ciphers: Vec::new(),
            resumes: false,
        };
        let error = Keys::load(config).expect_err("there is no such file");
        assert!(error.to_string().contains("/nowhere/"), "{error}");
    }
}
