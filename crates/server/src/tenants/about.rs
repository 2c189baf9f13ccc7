//! What is known of a tenant: its names, who made it, what it has of its own, and what it claims.
//!
//! Shape:      settings -> a claim; whatever a tenant is found by -> what is shown of it

use crate::config::TenantConfig;
use crate::listener::Address;
use control::{Amount, Claim, GroupId, Weight};

/// How a tenant is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) prefix: Option<Box<[u8]>>,
    pub(crate) listen: Option<Address>,
    /// Names of certificates whose connections are its.
    pub(crate) identities: Vec<String>,
    pub(crate) origin: Origin,
    pub(crate) own: Own,
}

/// What a tenant has of its own, and not as the server says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Own {
    /// Its eviction order.
    pub(crate) rank: bool,
    /// Where its values go.
    pub(crate) placement: bool,
}

/// Who made a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// It is always there.
    Default,
    /// The configuration.
    Configuration,
    /// The first key stored under its prefix.
    Delimiter,
    /// The administration.
    Administration,
    /// A user of the file of users.
    Credentials,
}

/// Why a tenant cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AddError {
    /// There is one of that name.
    NameTaken,
    /// Its prefix is that of this tenant.
    PrefixTaken(String),
    /// Certificates with this name are another tenant's.
    IdentityTaken(String),
    /// There are as many as can be.
    Full,
}

impl Origin {
    /// One word for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Configuration => "configuration",
            Self::Delimiter => "delimiter",
            Self::Administration => "administration",
            Self::Credentials => "credentials",
        }
    }
}

/// What a tenant's settings claim, as a member of a group.
pub(crate) fn claim(tenant: &TenantConfig, group: Option<GroupId>) -> Claim {
    Claim {
        weight: Weight::new(tenant.weight).unwrap_or_default(),
        floor: Amount::memory(tenant.reserved),
        credit: tenant.credit,
        group,
        ..Claim::default()
    }
}
