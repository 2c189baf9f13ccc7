//! The tiers below DRAM that a server is told of: their names, which of them a tenant's values go to, what a restart finds.
//!
//! Shape:      settings -> devices, the fastest first -> a store; a tenant's word -> a placement
//! Invariants: two tiers have two names, and none is called as a placement is, or as all of them together in `stats tiers`
//! Failure:    a tier that cannot be had is why the server does not start

use crate::config::Config;
use crate::operator::told;
use crate::sharing::TierModel;
use media::probe::{ProfileFile, ProfileFileError, machine_id, machine_name};
use media::{Device, OpenTier, Profile, TierMedium, TierSpec};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use store::{Placement, Store};

/// One tier, as it is configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TierConfig {
    /// Its name: 1 to 32 of `a-z A-Z 0-9 . _ -`.
    pub name: String,
    /// What it is made of, and how large.
    pub spec: TierSpec,
}

/// What all tiers together are called in `stats tiers`.
pub(crate) const ALL_TIERS: &str = "below";

/// Where values go, as an operator says it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum PlaceIn {
    /// Into DRAM.
    Dram,
    /// Into DRAM while they are in use, else into the first tier; into DRAM where there is no tier.
    #[default]
    Auto,
    /// Into the tier of that name.
    Tier(String),
}

impl PlaceIn {
    /// What a word says.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        match word {
            "dram" => Self::Dram,
            "auto" => Self::Auto,
            name => Self::Tier(name.to_owned()),
        }
    }

    /// The word.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Dram => "dram",
            Self::Auto => "auto",
            Self::Tier(name) => name,
        }
    }
}

impl TierConfig {
    /// A tier written as `[NAME=]MEDIUM:…:SIZE`; without a name it is called as its medium, `dram` as `plain`.
    ///
    /// # Errors
    /// If the text names no tier.
    pub fn parse(text: &str) -> Result<Self, media::SpecError> {
        let named = text.split_once('=').filter(|(name, _)| is_name(name));
        let spec: TierSpec = named.map_or(text, |(_, spec)| spec).parse()?;
        let name = named.map_or_else(|| medium_name(&spec.medium), |(name, _)| name);
        Ok(Self { name: name.to_owned(), spec })
    }
}

fn medium_name(medium: &TierMedium) -> &'static str {
    match medium {
        // `dram` is where values are that are in no tier.
        TierMedium::Dram => "plain",
        TierMedium::Emulated(_) => "emulated",
        TierMedium::File(_) | TierMedium::Synced(_) => "file",
        TierMedium::Dax(_) => "dax",
        TierMedium::Numa(_) => "numa",
    }
}

/// Whether a text can be a tier's name.
pub(crate) fn is_name(text: &str) -> bool {
    let is_one = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=crate::limits::TIER_NAME_MAX).contains(&text.len()) && text.bytes().all(is_one)
}

impl Config {
    /// Where a word leads with these tiers; none if it names no tier.
    pub(crate) fn placement(&self, place: &PlaceIn) -> Option<Placement> {
        Places::of(self).find(place)
    }

    /// The file that a clean end saves the items in, if there is to be one: `-e`, or beside the first tier that has a place of
    /// its own on a disk.
    #[must_use]
    pub fn saved_at(&self) -> Option<PathBuf> {
        let beside = || self.tiers.iter().find_map(|tier| beside(&tier.spec.medium));
        self.memory_file.clone().or_else(beside)
    }
}

/// Where a tier lies, if it has a place of its own.
pub(crate) fn path_of(medium: &TierMedium) -> Option<&Path> {
    match medium {
        TierMedium::File(path) | TierMedium::Synced(path) | TierMedium::Dax(path) => Some(path),
        TierMedium::Dram | TierMedium::Emulated(_) | TierMedium::Numa(_) => None,
    }
}

fn beside(medium: &TierMedium) -> Option<PathBuf> {
    let path = path_of(medium).filter(|path| !path.starts_with("/dev"))?;
    let mut name = path.as_os_str().to_owned();
    name.push(".saved");
    Some(PathBuf::from(name))
}

/// A tier that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("tier '{name}' cannot be had")]
pub struct TierUnavailable {
    name: String,
    cure: Option<String>,
    #[source]
    cause: media::TierError,
}

impl TierUnavailable {
    /// What would likely help.
    #[must_use]
    pub fn cure(&self) -> Option<&str> {
        self.cure.as_deref()
    }
}

/// A tier of a configuration that is open, what accesses to it cost where that is known, and how its reads and writes slow each other.
pub(crate) struct Opened {
    pub(crate) device: Arc<dyn Device>,
    profile: Option<Profile>,
    model: TierModel,
}

/// Opens the tiers of a configuration.
pub(crate) fn open(tiers: &[TierConfig]) -> Result<Vec<Opened>, TierUnavailable> {
    let open = |tier: &TierConfig| match tier.spec.open() {
        Ok(OpenTier { device, identity }) => {
            let (profile, model) = profile(tier, &identity);
            Ok(Opened { device: Arc::from(device), profile, model })
        }
        Err(cause) => Err(TierUnavailable { name: tier.name.clone(), cure: cause.cure(), cause }),
    };
    tiers.iter().map(open).collect()
}

/// What accesses to a tier cost, and how its reads and writes slow each other: as `cotenant probe` has measured, or as its model says. A
/// table of another machine is handed on: who divides by it says so.
fn profile(tier: &TierConfig, identity: &str) -> (Option<Profile>, TierModel) {
    let unknown = || TierModel::nothing(&tier.name, format!("cotenant probe {}", tier.spec));
    if let TierMedium::Emulated(emulation) = tier.spec.medium {
        return (Profile::new(&emulation.profile()).ok(), unknown().modelled(emulation));
    }
    let path = tier.spec.profile_path();
    if !path.exists() {
        return (None, unknown());
    }
    let file = match ProfileFile::read(&path, identity) {
        Ok(file) => file,
        Err(e) => {
            warn_of_costs(tier, &e);
            return (None, unknown());
        }
    };
    let profile = file.profile(&path, &machine_name()).map_err(|e| warn_of_costs(tier, &e)).ok();
    let Some(found) = &file.competition else { return (profile, unknown()) };
    let model = unknown().measured(found, machine_id(&file.machine)).unwrap_or_else(|e| {
        let (name, path) = (&tier.name, path.display());
        tracing::warn!("how reads and writes of tier '{name}' slow each other is not known: {e} in {path}");
        unknown()
    });
    (profile, model)
}

fn warn_of_costs(tier: &TierConfig, error: &ProfileFileError) {
    let cure = error.cure(&tier.spec.to_string());
    tracing::warn!("accesses to tier '{}' cost by their bytes: {}; {cure}", tier.name, told(error));
}

/// Tells a store which tier's bandwidth is divided, and what accesses cost. Returns how reads and writes of that tier slow each other.
pub(crate) fn divide(store: &Store, opened: Vec<Opened>, config: &Config) -> TierModel {
    let named = config.bandwidth_tier.as_ref();
    let at = named.and_then(|name| config.tiers.iter().position(|tier| tier.name == *name));
    if let Some(tier) = at.and_then(|at| u8::try_from(at).ok()) {
        store.divide_tier(tier);
    }
    let mut model = TierModel::nothing("", String::new());
    for (tier, opened) in (0..).zip(opened) {
        if let Some(profile) = opened.profile {
            store.set_profile(tier, profile);
        }
        if store.divided_tier() == Some(tier) {
            model = opened.model;
        }
    }
    model
}

/// The tiers' names, and where values go of tenants that do not say.
#[derive(Debug)]
pub(crate) struct Places {
    names: Box<[String]>,
    default: Mutex<PlaceIn>,
}

impl Places {
    pub(crate) fn of(config: &Config) -> Self {
        let names = config.tiers.iter().map(|tier| tier.name.clone()).collect();
        Self { names, default: Mutex::new(config.placement.clone()) }
    }

    /// The tiers' names, the fastest first.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Where a word leads; none if it names no tier.
    pub(crate) fn find(&self, place: &PlaceIn) -> Option<Placement> {
        match place {
            PlaceIn::Dram => Some(Placement::Dram),
            PlaceIn::Auto if self.names.is_empty() => Some(Placement::Dram),
            PlaceIn::Auto => Some(Placement::Auto),
            PlaceIn::Tier(name) => {
                let at = self.names.iter().position(|tier| tier == name)?;
                Some(Placement::Tier(u8::try_from(at).ok()?))
            }
        }
    }

    /// The word that leads to a placement.
    pub(crate) fn word(&self, placement: Placement) -> &str {
        match placement {
            Placement::Dram => "dram",
            Placement::Auto => "auto",
            Placement::Tier(tier) => self.names.get(usize::from(tier)).map_or("", String::as_str),
        }
    }

    /// Where values go of a tenant that says this, or nothing.
    pub(crate) fn resolve(&self, place: Option<&PlaceIn>) -> Placement {
        let default = self.default.lock().unwrap_or_else(PoisonError::into_inner);
        self.find(place.unwrap_or(&default)).unwrap_or_default()
    }

    /// Tenants that come from now on and do not say have this.
    pub(crate) fn set_default(&self, place: PlaceIn) {
        *self.default.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_called_as_its_medium_or_as_it_is_named() {
        let parsed = |text: &str| TierConfig::parse(text).map(|tier| (tier.name, tier.spec.to_string()));
        let both = |name: &str, spec: &str| Some((name.to_owned(), spec.to_owned()));
        assert_eq!(parsed("file:/a=b/c:1GiB").ok(), both("file", "file:/a=b/c:1GiB"));
        assert_eq!(parsed("ssd=file:/a:1GiB").ok(), both("ssd", "file:/a:1GiB"));
        assert_eq!(parsed("emulated:6dimm:1GiB").ok(), both("emulated", "emulated:6dimm:1GiB"));
        assert!(parsed("ssd=nothing").is_err());
    }

    #[test]
    fn words_lead_to_placements_and_back() {
        let tier = |text| TierConfig::parse(text).unwrap();
        let tiers = vec![tier("pm=emulated:1dimm:8MiB"), tier("ssd=file:/a:1GiB")];
        let places = Places::of(&Config { tiers, ..Config::default() });
        for (word, placement) in [
            ("dram", Placement::Dram),
            ("auto", Placement::Auto),
            ("pm", Placement::Tier(0)),
            ("ssd", Placement::Tier(1)),
        ] {
            assert_eq!(places.find(&PlaceIn::of_word(word)), Some(placement));
            assert_eq!(places.word(placement), word);
        }
        assert_eq!(places.find(&PlaceIn::of_word("hdd")), None);
        let without = Places::of(&Config::default());
        assert_eq!(without.resolve(None), Placement::Dram, "auto without a tier");
    }

    #[test]
    fn what_is_saved_lies_where_it_is_said_or_beside_a_file() {
        let config = |tier: &str, file: Option<&str>| Config {
            tiers: vec![TierConfig::parse(tier).unwrap()],
            memory_file: file.map(PathBuf::from),
            ..Config::default()
        };
        assert_eq!(config("file:/a/b:1GiB", None).saved_at(), Some(PathBuf::from("/a/b.saved")));
        assert_eq!(config("dax:/dev/dax0.0:1GiB", None).saved_at(), None);
        assert_eq!(config("dram:1GiB", Some("/x")).saved_at(), Some(PathBuf::from("/x")));
    }
}
