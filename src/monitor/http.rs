//! The part of HTTP/1.1 that a scrape needs: one GET and one response per connection. The number
//! of connections, their time and their data are bounded.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cli::exit::{self, usage};

use crate::monitor::exposition::ExpositionFormat;

/// Maximum time for a whole exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_CONNECTIONS: usize = 8;
const MAX_HEAD_BYTES: usize = 8 << 10;
/// Maximum number of bytes to read and discard after a response.
const MAX_DISCARDED_BYTES: usize = 64 << 10;
/// Pause after a failed accept, for example if the process is out of file descriptors.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Parses an address to listen on. `9891` and `:9891` accept connections from this machine only,
/// `0.0.0.0:9891` from all.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let invalid = |why: &str| {
        format!("cannot listen on {text:?}: {why}; use a port or an address such as 127.0.0.1:9891")
    };
    let mut addresses = text.to_socket_addrs().map_err(|e| invalid(&e.to_string()))?;
    addresses.next().ok_or_else(|| invalid("no such address"))
}

/// A bound listener that does not respond yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Server {
    pub fn bind(address: SocketAddr) -> exit::Result<Self> {
        let bound =
            TcpListener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|e| match e.kind() {
            ErrorKind::AddrInUse => {
                usage!("cannot listen on {address}: the address is in use; choose another one with --listen")
            }
            _ => usage!("cannot listen on {address}: {e}; choose another address with --listen"),
        })?;
        Ok(Self { listener, address })
    }

    /// Serves requests on background threads until the process ends.
    pub fn serve(
        self,
        page: impl Fn(ExpositionFormat) -> Vec<u8> + Send + Sync + 'static,
    ) -> io::Result<()> {
        let accept = move || accept_connections(&self.listener, &Arc::new(page));
        std::thread::Builder::new().name("listen".to_owned()).spawn(accept).map(drop)
    }
}

fn accept_connections<P>(listener: &TcpListener, page: &Arc<P>)
where
    P: Fn(ExpositionFormat) -> Vec<u8> + Send + Sync + 'static,
{
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            #[allow(
                clippy::disallowed_methods,
                reason = "nothing reports when a descriptor is free again"
            )]
            std::thread::sleep(ACCEPT_RETRY_INTERVAL);
            continue;
        };
        let connection = ConnectionGuard::new(&open);
        if open.load(Ordering::Relaxed) > MAX_CONNECTIONS {
            // Closes the connection at once; a scraper retries.
            continue;
        }
        let page = Arc::clone(page);
        let respond = move || {
            let _ = exchange(stream, &*page);
            drop(connection);
        };
        let _ = std::thread::Builder::new().name("scrape".to_owned()).spawn(respond);
    }
}

/// Counts an open connection until it is dropped.
struct ConnectionGuard(Arc<AtomicUsize>);

impl ConnectionGuard {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Time limit of an exchange.
struct Deadline {
    started: tach::Instant,
}

impl Deadline {
    /// Returns the remaining time as a socket timeout, which must not be zero.
    fn remaining(&self) -> io::Result<Option<Duration>> {
        let remaining = EXCHANGE_TIMEOUT.saturating_sub(self.started.elapsed());
        if remaining.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(remaining)) }
    }
}

fn exchange(mut stream: TcpStream, page: &dyn Fn(ExpositionFormat) -> Vec<u8>) -> io::Result<()> {
    let deadline = Deadline { started: tach::Instant::now() };
    let mut request = Vec::new();
    let Some(response) = read_request(&mut stream, &deadline, &mut request, page)? else {
        return Ok(());
    };
    let bytes = response.to_bytes(request.starts_with(b"HEAD "));
    write_all(&mut stream, &deadline, &bytes)?;
    stream.shutdown(Shutdown::Write)?;
    discard_rest(&mut stream, &deadline)
}

/// Reads a request and returns its response, or `None` if the connection ends before.
fn read_request(
    stream: &mut TcpStream,
    deadline: &Deadline,
    request: &mut Vec<u8>,
    page: &dyn Fn(ExpositionFormat) -> Vec<u8>,
) -> io::Result<Option<Response>> {
    let mut part = [0; 1_024];
    loop {
        stream.set_read_timeout(deadline.remaining()?)?;
        match stream.read(&mut part)? {
            0 => return Ok(None),
            n => request.extend_from_slice(&part[..n]),
        }
        if let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            return Ok(Some(respond(&request[..end], page)));
        }
        if request.len() > MAX_HEAD_BYTES {
            let status = "431 Request Header Fields Too Large";
            return Ok(Some(Response::text(status, "The request header is too long.\n")));
        }
    }
}

fn write_all(stream: &mut TcpStream, deadline: &Deadline, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        stream.set_write_timeout(deadline.remaining()?)?;
        let n = stream.write(rest)?;
        rest = &rest[n..];
    }
    Ok(())
}

/// Reads and discards further data. If it stayed unread, the system would reset the connection on
/// close, and the reset could overtake the response.
fn discard_rest(stream: &mut TcpStream, deadline: &Deadline) -> io::Result<()> {
    let (mut budget, mut part) = (MAX_DISCARDED_BYTES, [0; 1_024]);
    while budget > 0 {
        stream.set_read_timeout(deadline.remaining()?)?;
        match stream.read(&mut part)? {
            0 => break,
            n => budget = budget.saturating_sub(n),
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Response {
    status: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Response {
    fn text(status: &'static str, body: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    fn to_bytes(&self, without_body: bool) -> Vec<u8> {
        let Self { status, content_type, body } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
            body.len()
        );
        if without_body { head.into_bytes() } else { [head.as_bytes(), body].concat() }
    }
}

/// Returns the response to a request, given its header.
fn respond(head: &[u8], page: &dyn Fn(ExpositionFormat) -> Vec<u8>) -> Response {
    let malformed = || Response::text("400 Bad Request", "Expected HTTP/1.1.\n");
    let Ok(head) = std::str::from_utf8(head) else { return malformed() };
    let mut lines = head.split("\r\n");
    let request: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = request[..] else { return malformed() };
    if !version.starts_with("HTTP/1.") {
        return malformed();
    }
    if !matches!(method, "GET" | "HEAD") {
        return Response::text("405 Method Not Allowed", "Only GET and HEAD are supported.\n");
    }
    match target.split('?').next() {
        Some("/metrics") => {
            let headers = lines.filter_map(|line| line.split_once(':'));
            let accept = headers.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
            let ranges: Vec<&str> = accept.map(|(_, ranges)| ranges).collect();
            let format = ExpositionFormat::negotiate(&ranges.join(","));
            let content_type = format.content_type();
            Response { status: "200 OK", content_type, body: page(format) }
        }
        Some("/") => Response::text("200 OK", "osjitter monitor: the metrics are at /metrics\n"),
        _ => Response::text("404 Not Found", "The metrics are at /metrics.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bare_port_listens_on_localhost() {
        assert_eq!(parse_address("9891").unwrap().to_string(), "127.0.0.1:9891");
        assert_eq!(parse_address(":0").unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(parse_address("[::1]:9891").unwrap().to_string(), "[::1]:9891");
        for text in ["", "99999", "127.0.0.1", "127.0.0.1:"] {
            assert!(parse_address(text).unwrap_err().contains("127.0.0.1:9891"), "{text}");
        }
    }

    #[test]
    fn requests_get_the_expected_status() {
        let page = |format: ExpositionFormat| format!("{format:?}\n").into_bytes();
        let status = |head: &str| respond(head.as_bytes(), &page).status.split(' ').next().unwrap();
        for (head, expected) in [
            ("GET /metrics HTTP/1.1", "200"),
            ("GET /metrics?x=1 HTTP/1.0\r\nHost: a", "200"),
            ("GET / HTTP/1.1", "200"),
            ("GET /other HTTP/1.1", "404"),
            ("POST /metrics HTTP/1.1", "405"),
            ("GET /metrics", "400"),
            ("GET /metrics HTTP/2", "400"),
            ("", "400"),
        ] {
            assert_eq!(status(head), expected, "{head}");
        }
    }

    #[test]
    fn repeated_accept_headers_are_joined() {
        let page = |format: ExpositionFormat| format!("{format:?}\n").into_bytes();
        let head = b"GET /metrics HTTP/1.1\r\naccept: text/plain;q=0.1\r\nAccept: application/openmetrics-text;q=0.5";
        let response = respond(head, &page);
        assert_eq!(
            (response.content_type, &response.body[..]),
            (ExpositionFormat::OpenMetrics.content_type(), &b"OpenMetrics\n"[..])
        );
    }

    proptest! {
        #[test]
        fn arbitrary_requests_do_not_panic(head in prop::collection::vec(any::<u8>(), 0..200)) {
            respond(&head, &|_| Vec::new());
        }
    }
}
