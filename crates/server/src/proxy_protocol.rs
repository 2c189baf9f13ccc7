//! The PROXY header, version 2: who the client behind a load balancer is.
//!
//! Shape:  the first bytes of a connection -> `Header` and its length, or too few, or none
//! Source: HAProxy, "The PROXY protocol", versions 1 and 2, section 2.2
//!
//! ```text
//! 0            12      13      14        16
//! | signature  | ver 4 | fam 4 | length  | addresses, then type-length-values |
//! |            | cmd 4 | pro 4 | big end.| length bytes                       |
//! ```

use crate::cuts::{Front, read_at_every_cut};
use crate::limits::PROXY_HEADER_MAX;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What a header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// The client, where the header names one that has an IP address.
    pub(crate) client: Option<SocketAddr>,
    /// Bytes of the header.
    pub(crate) len: usize,
}

/// What the first bytes of a connection are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed {
    /// A whole header.
    Header(Header),
    /// The beginning of one.
    Incomplete,
    /// Something else.
    None,
}

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and protocol, length.
const FIXED: usize = 16;
const VERSION_2: u8 = 2;
const LOCAL: u8 = 0;
const PROXY: u8 = 1;
const INET: u8 = 1;
const INET6: u8 = 2;
const UNIX: u8 = 3;

/// Reads a header off the front of `data`.
pub(crate) fn parse(data: &[u8]) -> Parsed {
    let known = data.len().min(SIGNATURE.len());
    if data[..known] != SIGNATURE[..known] {
        return Parsed::None;
    }
    let Some(fixed) = data.get(..FIXED) else { return Parsed::Incomplete };
    let (version, command, family) = (fixed[12] >> 4, fixed[12] & 0xf, fixed[13] >> 4);
    let len = FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if version != VERSION_2 || PROXY < command || UNIX < family || PROXY_HEADER_MAX < len {
        return Parsed::None;
    }
    let Some(body) = data.get(FIXED..len) else { return Parsed::Incomplete };
    // A balancer's own connection, for example a health check, speaks for nobody.
    if command == LOCAL {
        return Parsed::Header(Header { client: None, len });
    }
    let client = match family {
        INET => client::<4>(body).map(|(ip, port)| (IpAddr::from(Ipv4Addr::from(ip)), port)),
        INET6 => client::<16>(body).map(|(ip, port)| (IpAddr::from(Ipv6Addr::from(ip)), port)),
        _ => return Parsed::Header(Header { client: None, len }),
    };
    match client {
        Some((ip, port)) => Parsed::Header(Header { client: Some(SocketAddr::new(ip, port)), len }),
        None => Parsed::None,
    }
}

/// The source of source, destination, source port, destination port.
fn client<const N: usize>(body: &[u8]) -> Option<([u8; N], u16)> {
    let addresses = body.get(..2 * N + 4)?;
    let source = addresses[..N].try_into().ok()?;
    Some((source, u16::from_be_bytes([addresses[2 * N], addresses[2 * N + 1]])))
}

/// What must hold of a header whatever comes, for fuzzers and tests.
pub(crate) fn fuzzed(stream: &[u8]) {
    read_at_every_cut(stream, |rest| match parse(rest) {
        Parsed::Header(header) => {
            assert!(FIXED <= header.len && header.len <= rest.len().min(PROXY_HEADER_MAX));
            Front::Means(header, header.len as u64)
        }
        Parsed::Incomplete => Front::Incomplete(rest.len() + 1),
        Parsed::None => Front::Hopeless,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damaged::{damaged, streams};
    use proptest::prelude::*;

    fn header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut header = SIGNATURE.to_vec();
        header.extend([command, family]);
        header.extend(u16::try_from(body.len()).unwrap_or(u16::MAX).to_be_bytes());
        header.extend(body);
        header
    }

    const BODY: &[u8] = &[10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0x2b, 0xcb];

    fn check(data: &[u8], wanted: Option<&str>) {
        let mut with_rest = data.to_vec();
        with_rest.extend(b"get a\r\n");
        let client = wanted.map(|text| text.parse().expect("an address"));
        assert_eq!(parse(&with_rest), Parsed::Header(Header { client, len: data.len() }));
        for cut in 0..data.len() {
            assert_eq!(parse(&data[..cut]), Parsed::Incomplete, "cut at {cut}");
        }
    }

    #[test]
    fn headers_name_the_client() {
        check(&header(0x21, 0x11, BODY), Some("10.0.0.1:12345"));
        // With a type-length-value behind the addresses.
        check(&header(0x21, 0x11, &[BODY, &[4, 0, 1, 0]].concat()), Some("10.0.0.1:12345"));
        let mut six = [0_u8; 36];
        six[15] = 1;
        six[33] = 7;
        check(&header(0x21, 0x21, &six), Some("[::1]:7"));
        check(&header(0x20, 0x00, &[]), None);
        check(&header(0x20, 0x11, BODY), None);
        check(&header(0x21, 0x31, &[0; 216]), None);
        check(&header(0x21, 0x00, &[]), None);
    }

    #[test]
    fn anything_else_is_none() {
        for data in [
            b"get a\r\n".to_vec(),
            b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n".to_vec(),
            header(0x11, 0x11, BODY),
            header(0x22, 0x11, BODY),
            header(0x21, 0x41, BODY),
            header(0x21, 0x11, &BODY[..11]),
            header(0x21, 0x11, &vec![0; PROXY_HEADER_MAX]),
        ] {
            assert_eq!(parse(&data), Parsed::None, "{data:?}");
        }
    }

    fn whole() -> Vec<Vec<u8>> {
        vec![
            header(0x21, 0x11, BODY),
            header(0x21, 0x11, &[BODY, &[4, 0, 1, 0]].concat()),
            header(0x21, 0x21, &[1; 36]),
            header(0x20, 0x00, &[]),
            header(0x21, 0x31, &[b'/'; 216]),
        ]
    }

    proptest! {
        #![proptest_config(streams())]

        /// One header only is read of a connection, whatever is behind it.
        #[test]
        fn damaged_headers_mean_the_same_at_every_cut(stream in damaged(whole())) {
            fuzzed(&stream);
        }
    }
}
