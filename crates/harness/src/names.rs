//! What a tenant of a trace is called.
//!
//! Shape:      bytes of a trace -> a name that can be written; nothing is `default`, as to a server
//! Invariants: tenants that differ have names that differ

/// The tenant of requests that name none.
const DEFAULT: &[u8] = b"default";

/// Whose a request is.
pub(crate) fn whose(tenant: &[u8]) -> &[u8] {
    if tenant.is_empty() { DEFAULT } else { tenant }
}

/// What that tenant is called. Bytes that are no UTF-8 are `\xNN`; where that, or what looks like it, is in a name its backslashes are
/// doubled.
pub(crate) fn name_of(tenant: &[u8]) -> String {
    use std::fmt::Write as _;
    let tenant = whose(tenant);
    if let Ok(plain) = std::str::from_utf8(tenant)
        && !plain.contains("\\x")
    {
        return plain.to_owned();
    }
    let mut name = String::new();
    for chunk in tenant.utf8_chunks() {
        name.push_str(&chunk.valid().replace('\\', r"\\"));
        for byte in chunk.invalid() {
            // A string takes every write.
            let _ = write!(name, "\\x{byte:02x}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn tenants_that_differ_have_names_that_differ() {
        let names: [(&[u8], &str); 8] = [
            (b"", "default"),
            (b"feeds", "feeds"),
            ("\u{e4} b".as_bytes(), "\u{e4} b"),
            (br"a\b", r"a\b"),
            (b"\xff", r"\xff"),
            (b"\xfe", r"\xfe"),
            (br"\xff", r"\\xff"),
            (b"\\\xff", r"\\\xff"),
        ];
        for (tenant, name) in names {
            assert_eq!(name_of(tenant), name, "{tenant:?}");
        }
        assert_eq!(
            names.iter().map(|(tenant, _)| name_of(tenant)).collect::<BTreeSet<_>>().len(),
            names.len()
        );
        assert_eq!(whose(b""), whose(b"default"));
    }
}
