//! A server of the classic text protocol for tests, which reads on only once its reply is taken.
//!
//! Shape: the first line of a request -> what the test answers, on a thread per connection until the client leaves

use lab::{Op, Request};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use units::Instant;

/// A value that the sockets of both sides do not hold together (Linux: 4 MiB to be sent and 6 MiB received, unless told).
pub(crate) const LARGE: usize = 16 << 20;
/// The answer to a store that finds no room.
pub(crate) const FULL: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";

/// Serves whoever comes.
pub(crate) fn serve(answer: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            // Who leaves in the middle is done with.
            thread::spawn(move || drop(converse(stream, answer)));
        }
    });
    address
}

fn converse(mut stream: TcpStream, answer: impl Fn(&str) -> Vec<u8>) -> io::Result<()> {
    let (mut input, mut line) = (BufReader::new(stream.try_clone()?), Vec::new());
    while 0 < input.read_until(b'\n', &mut line)? {
        // A character for each byte, whatever a key is made of.
        let request: String = line.iter().map(|byte| char::from(*byte)).collect();
        let request = request.trim_end();
        if request.starts_with("set ") {
            let value: u64 = request.rsplit(' ').next().and_then(|len| len.parse().ok()).unwrap_or(0);
            io::copy(&mut input.by_ref().take(value + 2), &mut io::sink())?;
        }
        stream.write_all(&answer(request))?;
        line.clear();
    }
    Ok(())
}

/// The answer to a look-up that finds so many bytes.
pub(crate) fn hit(len: usize) -> Vec<u8> {
    let mut reply = format!("VALUE k 0 {len}\r\n").into_bytes();
    reply.resize(reply.len() + len, b'v');
    reply.extend_from_slice(b"\r\nEND\r\n");
    reply
}

/// A request of a trace about a value of so many bytes.
pub(crate) fn request(key: &str, op: Op, len: usize) -> Request<'_> {
    let value_bytes = u32::try_from(len).unwrap();
    Request { at: Instant(0), tenant: b"t", key: key.as_bytes(), value_bytes, op, ttl_secs: 0 }
}
