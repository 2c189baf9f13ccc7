//! Addresses of the administration: IP literals and `localhost`, with a port.
//!
//! Non-goals: asking a name server; where a server listens must not depend on one

use crate::failure::Failure;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The administration's port where nobody says another.
const PORT: u16 = 11_280;

/// The address that `text` names.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, Failure> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Some(ip) = host(text) {
        return Err(Failure::wrong_use(
            format!("'{text}' names no port"),
            format!("write {}", SocketAddr::new(ip, PORT)),
        ));
    }
    let with_port = text.rsplit_once(':').and_then(|(name, port)| Some((host(name)?, port.parse().ok()?)));
    with_port.map(|(ip, port)| SocketAddr::new(ip, port)).ok_or_else(|| {
        Failure::wrong_use(
            format!("'{text}' is not an address"),
            format!(
                "write an IP address or localhost, and a port after a colon: 127.0.0.1:{PORT}, [::1]:{PORT}"
            ),
        )
    })
}

fn host(text: &str) -> Option<IpAddr> {
    match text {
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        // With IPv4, where the system allows both on one socket.
        "*" => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text).parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_literals_or_localhost() {
        for (text, wanted) in [
            ("127.0.0.1:2", Ok("127.0.0.1:2")),
            ("localhost:3", Ok("127.0.0.1:3")),
            ("*:4", Ok("[::]:4")),
            ("[::1]:7", Ok("[::1]:7")),
            ("::1", Err("names no port; write [::1]:11280")),
            ("10.0.0.1", Err("names no port; write 10.0.0.1:11280")),
            ("localhost", Err("names no port; write 127.0.0.1:11280")),
            ("cache.example", Err("is not an address")),
            ("127.0.0.1:70000", Err("127.0.0.1:11280, [::1]:11280")),
            ("", Err("is not an address")),
        ] {
            let got = parse(text).map(|a| a.to_string()).map_err(|f| format!("{}; {}", f.what, f.cure));
            match wanted {
                Ok(address) => assert_eq!(got.as_deref(), Ok(address), "{text}"),
                Err(part) => assert!(got.as_ref().is_err_and(|e| e.contains(part)), "{text}: {got:?}"),
            }
        }
    }
}
