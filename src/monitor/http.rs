//! The part of HTTP/1.1 that a scrape needs: one GET and one response per connection. The number
//! of connections, their time and their data are bounded.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cli::exit::{self, usage};

use crate::monitor::exposition::ExpositionFormat;

/// Maximum time for a whole exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time until the header of a request is complete.
const HEAD_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_CONNECTIONS: usize = 8;
const MAX_HEAD_BYTES: usize = 8 << 10;
/// Maximum number of bytes to read and discard after a response.
const MAX_DISCARDED_BYTES: usize = 64 << 10;
/// Pause after a failed accept, for example if the process is out of file descriptors.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The content of the pages of a monitor.
pub trait Pages: Send + Sync + 'static {
    /// Returns the body of `/metrics`.
    fn metrics(&self, format: ExpositionFormat) -> Vec<u8>;

    /// Returns an error with the reason if the monitor should be restarted: `/healthz`.
    fn check_health(&self) -> Result<(), String>;

    /// Returns an error with the reason if the monitor does not do all that it was started for:
    /// `/-/ready`.
    fn check_readiness(&self) -> Result<(), String>;
}

/// Parses an address to listen on. `9891` and `:9891` accept connections from this machine only,
/// `0.0.0.0:9891` from all.
pub fn parse_address(text: &str) -> Result<SocketAddr, AddressError> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    match text.to_socket_addrs() {
        Ok(mut addresses) => {
            addresses.next().ok_or_else(|| AddressError::NoAddress { text: text.to_owned() })
        }
        Err(source) => Err(AddressError::Unresolved { text: text.to_owned(), source }),
    }
}

/// Reason why a text is no address to listen on.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("cannot listen on {text:?}: {source}; use a port or an address such as 127.0.0.1:9891")]
    Unresolved { text: String, source: io::Error },
    /// The name exists and has no address.
    #[error(
        "cannot listen on {text:?}: no such address; use a port or an address such as 127.0.0.1:9891"
    )]
    NoAddress { text: String },
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
    pub fn serve(self, pages: impl Pages) -> io::Result<()> {
        let accept = move || accept_connections(&self.listener, &Arc::new(pages));
        std::thread::Builder::new().name("listen".to_owned()).spawn(accept).map(drop)
    }
}

fn accept_connections(listener: &TcpListener, pages: &Arc<impl Pages>) {
    let open = OpenConnections::default();
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            #[allow(
                clippy::disallowed_methods,
                reason = "nothing reports when a descriptor is free again"
            )]
            std::thread::sleep(ACCEPT_RETRY_INTERVAL);
            continue;
        };
        // Without room, the connection is closed; a scraper retries.
        let Some(connection) = open.add(stream) else { continue };
        let pages = Arc::clone(pages);
        let respond = move || drop(exchange(&connection.0, &*pages));
        let _ = std::thread::Builder::new().name("scrape".to_owned()).spawn(respond);
    }
}

/// A connection, shared by the thread that serves it and the list of open connections.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// Whether it waits for the client: before the request, or after the response.
    is_idle: AtomicBool,
}

/// The open connections, oldest first.
#[derive(Clone, Debug, Default)]
struct OpenConnections(Arc<Mutex<Vec<Arc<Connection>>>>);

impl OpenConnections {
    /// Adds a connection. If there are too many, the oldest idle one is closed; returns `None` if
    /// none is idle.
    fn add(&self, stream: TcpStream) -> Option<ConnectionGuard> {
        let mut open = self.lock();
        if open.len() >= MAX_CONNECTIONS {
            let is_idle = |connection: &Arc<Connection>| connection.is_idle.load(Ordering::Relaxed);
            let oldest = open.iter().position(is_idle)?;
            let idle = open.remove(oldest);
            // Its thread then reads the end of the stream.
            let _ = idle.stream.shutdown(Shutdown::Both);
        }
        let connection = Arc::new(Connection { stream, is_idle: AtomicBool::new(true) });
        open.push(Arc::clone(&connection));
        drop(open);
        Some(ConnectionGuard(connection, self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a connection from the open ones when it is dropped.
struct ConnectionGuard(Arc<Connection>, OpenConnections);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.1.lock().retain(|connection| !Arc::ptr_eq(connection, &self.0));
    }
}

/// A stream whose reads and writes end within a time since its creation.
struct TimedStream<'a> {
    stream: &'a TcpStream,
    created: tach::Instant,
    timeout: Duration,
}

impl TimedStream<'_> {
    /// Returns the remaining time as a socket timeout, which must not be zero.
    fn remaining(&self) -> io::Result<Option<Duration>> {
        let remaining = self.timeout.saturating_sub(self.created.elapsed());
        if remaining.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(remaining)) }
    }
}

impl Read for TimedStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.remaining()?)?;
        self.stream.read(buffer)
    }
}

impl Write for TimedStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.remaining()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn exchange(connection: &Connection, pages: &dyn Pages) -> io::Result<()> {
    let stream = &connection.stream;
    let mut timed = TimedStream { stream, created: tach::Instant::now(), timeout: HEAD_TIMEOUT };
    let Some(request) = read_request(&mut timed)? else { return Ok(()) };
    connection.is_idle.store(false, Ordering::Relaxed);
    let response = match &request {
        Request::Head(head) => respond(head, pages).to_bytes(head.starts_with(b"HEAD ")),
        Request::TooLong => {
            let status = "431 Request Header Fields Too Large";
            Response::text(status, "The request header is too long.\n").to_bytes(false)
        }
    };
    timed.timeout = EXCHANGE_TIMEOUT;
    timed.write_all(&response)?;
    connection.is_idle.store(true, Ordering::Relaxed);
    stream.shutdown(Shutdown::Write)?;
    discard_rest(&mut timed)
}

/// A request as far as it matters.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Header without the empty line at its end.
    Head(Vec<u8>),
    TooLong,
}

/// Reads the header of a request. Returns `None` if the connection ends before.
pub fn read_request(stream: &mut impl Read) -> io::Result<Option<Request>> {
    let (mut request, mut part) = (Vec::new(), [0; 1_024]);
    loop {
        match read_part(stream, &mut part)? {
            0 => return Ok(None),
            n => request.extend_from_slice(&part[..n]),
        }
        if let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            request.truncate(end);
            return Ok(Some(Request::Head(request)));
        }
        if request.len() > MAX_HEAD_BYTES {
            return Ok(Some(Request::TooLong));
        }
    }
}

/// Reads and discards further data. If it stayed unread, the system would reset the connection on
/// close, and the reset could overtake the response.
fn discard_rest(stream: &mut impl Read) -> io::Result<()> {
    let (mut budget, mut part) = (MAX_DISCARDED_BYTES, [0; 1_024]);
    while budget > 0 {
        match read_part(stream, &mut part)? {
            0 => break,
            n => budget = budget.saturating_sub(n),
        }
    }
    Ok(())
}

/// Reads some bytes. A read with a timeout is interrupted when the process is stopped and
/// continued.
fn read_part(stream: &mut impl Read, part: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(part) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    status: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Response {
    fn text(status: &'static str, body: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    pub fn to_bytes(&self, without_body: bool) -> Vec<u8> {
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
pub fn respond(head: &[u8], pages: &dyn Pages) -> Response {
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
            Response { status: "200 OK", content_type, body: pages.metrics(format) }
        }
        Some("/healthz") => check_response(pages.check_health()),
        Some("/-/ready") => check_response(pages.check_readiness()),
        Some("/") => Response::text(
            "200 OK",
            "osjitter monitor: the metrics are at /metrics, its state at /healthz and /-/ready\n",
        ),
        _ => Response::text("404 Not Found", "The metrics are at /metrics.\n"),
    }
}

fn check_response(state: Result<(), String>) -> Response {
    match state {
        Ok(()) => Response::text("200 OK", "ok\n"),
        Err(reason) => Response::text("503 Service Unavailable", &format!("{reason}\n")),
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
            assert!(
                parse_address(text).unwrap_err().to_string().contains("127.0.0.1:9891"),
                "{text}"
            );
        }
    }

    /// Pages of a monitor that is alive and cannot write its log.
    struct TestPages;

    impl Pages for TestPages {
        fn metrics(&self, format: ExpositionFormat) -> Vec<u8> {
            format!("{format:?}\n").into_bytes()
        }

        fn check_health(&self) -> Result<(), String> {
            Ok(())
        }

        fn check_readiness(&self) -> Result<(), String> {
            Err("the disk is full".to_owned())
        }
    }

    #[test]
    fn requests_get_the_expected_status() {
        let status =
            |head: &str| respond(head.as_bytes(), &TestPages).status.split(' ').next().unwrap();
        for (head, expected) in [
            ("GET /metrics HTTP/1.1", "200"),
            ("GET /metrics?x=1 HTTP/1.0\r\nHost: a", "200"),
            ("GET / HTTP/1.1", "200"),
            ("GET /healthz HTTP/1.1\r\nHost: a", "200"),
            ("HEAD /healthz HTTP/1.1", "200"),
            ("GET /-/ready HTTP/1.1", "503"),
            ("POST /-/ready HTTP/1.1", "405"),
            ("GET /other HTTP/1.1", "404"),
            ("POST /metrics HTTP/1.1", "405"),
            ("GET /metrics", "400"),
            ("GET /metrics HTTP/2", "400"),
            ("", "400"),
        ] {
            assert_eq!(status(head), expected, "{head}");
        }
        let response = respond(b"GET /-/ready HTTP/1.1", &TestPages);
        assert_eq!(response.body, b"the disk is full\n");
    }

    /// A reader that is interrupted before each part.
    struct InterruptedReader<'a> {
        parts: &'a [&'a [u8]],
        is_interrupted: bool,
    }

    impl Read for InterruptedReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.is_interrupted = !self.is_interrupted;
            if self.is_interrupted {
                return Err(ErrorKind::Interrupted.into());
            }
            let Some((part, rest)) = self.parts.split_first() else { return Ok(0) };
            self.parts = rest;
            buffer[..part.len()].copy_from_slice(part);
            Ok(part.len())
        }
    }

    #[test]
    fn interrupted_reads_are_repeated() {
        let parts: [&[u8]; 2] = [b"GET / HTTP/1.1\r\nA: b\r", b"\n\r\nrest"];
        let mut reader = InterruptedReader { parts: &parts, is_interrupted: false };
        let head = Request::Head(b"GET / HTTP/1.1\r\nA: b".to_vec());
        assert_eq!(read_request(&mut reader).unwrap(), Some(head));
        assert_eq!(read_request(&mut reader).unwrap(), None, "the end of the stream");
    }

    #[test]
    fn oldest_idle_connection_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let open = OpenConnections::default();
        let mut pairs: Vec<(TcpStream, ConnectionGuard)> = Vec::new();
        for _ in 0..=MAX_CONNECTIONS {
            let (client, stream) = connect();
            let connection = open.add(stream).unwrap();
            // The first one is being served, so the second one gives way.
            connection.0.is_idle.store(!pairs.is_empty(), Ordering::Relaxed);
            pairs.push((client, connection));
        }
        assert_eq!(pairs[1].0.read(&mut [0]).unwrap(), 0, "it is closed");
        assert_eq!(open.lock().len(), MAX_CONNECTIONS);
        for (_, pair) in &pairs {
            pair.0.is_idle.store(false, Ordering::Relaxed);
        }
        assert!(open.add(connect().1).is_none(), "all are being served");
        drop(pairs);
        assert_eq!(open.lock().len(), 0);
    }

    #[test]
    fn repeated_accept_headers_are_joined() {
        let head = b"GET /metrics HTTP/1.1\r\naccept: text/plain;q=0.1\r\nAccept: application/openmetrics-text;q=0.5";
        let response = respond(head, &TestPages);
        assert_eq!(
            (response.content_type, &response.body[..]),
            (ExpositionFormat::OpenMetrics.content_type(), &b"OpenMetrics\n"[..])
        );
    }

    proptest! {
        #[test]
        fn arbitrary_requests_do_not_panic(head in prop::collection::vec(any::<u8>(), 0..200)) {
            respond(&head, &TestPages);
        }
    }
}
