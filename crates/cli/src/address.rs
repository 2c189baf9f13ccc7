//! Addresses of the administration: IP literals and `localhost`, with or without a port.
//!
//! Non-goals: asking a name server; where a server listens must not depend on one

use crate::failure::Failure;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address that `text` names; `port` is for one that names no port of its own.
pub(crate) fn parse(text: &str, port: Option<u16>) -> Result<SocketAddr, Failure> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Some(ip) = host(text) {
        let port = port.ok_or_else(|| {
            Failure::wrong_use(
                format!("'{text}' names no port"),
                format!("write {}", SocketAddr::new(ip, 11_311)),
            )
        })?;
        return Ok(SocketAddr::new(ip, port));
    }
    let with_port = text.rsplit_once(':').and_then(|(name, port)| Some((host(name)?, port.parse().ok()?)));
    with_port.map(|(ip, port)| SocketAddr::new(ip, port)).ok_or_else(|| {
        Failure::wrong_use(
            format!("'{text}' is not an address"),
            "write an IP address or localhost, and a port after a colon: 127.0.0.1:11211, [::1]:11211",
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
        for (text, port, wanted) in [
            ("127.0.0.1", Some(1), Ok("127.0.0.1:1")),
            ("127.0.0.1:2", Some(1), Ok("127.0.0.1:2")),
            ("localhost:3", None, Ok("127.0.0.1:3")),
            ("*", Some(4), Ok("[::]:4")),
            ("::1", Some(5), Ok("[::1]:5")),
            ("[::1]", Some(6), Ok("[::1]:6")),
            ("[::1]:7", None, Ok("[::1]:7")),
            ("10.0.0.1", None, Err("names no port")),
            ("cache.example", Some(1), Err("is not an address")),
            ("127.0.0.1:70000", None, Err("is not an address")),
            ("", Some(1), Err("is not an address")),
        ] {
            let got = parse(text, port).map(|a| a.to_string()).map_err(|f| f.what);
            match wanted {
                Ok(address) => assert_eq!(got.as_deref(), Ok(address), "{text}"),
                Err(part) => assert!(got.as_ref().is_err_and(|e| e.contains(part)), "{text}: {got:?}"),
            }
        }
    }
}
