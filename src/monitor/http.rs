//! As much of HTTP/1.1 as a scrape needs: GET, one answer, end. Everything is bounded: connections,
//! their time, what they send.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cli::exit::{self, usage};

use crate::monitor::exposition::Form;

/// For a whole exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_CONNECTIONS: usize = 8;
const MAX_HEAD: usize = 8 << 10;
/// Of what comes after an answer, read all the same.
const MAX_UNREAD: usize = 64 << 10;
/// After an accept that failed, as without a descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// Where to listen: `9891` and `:9891` are of this machine alone; `0.0.0.0:9891` is of all.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let bad = |why: &str| {
        format!(
            "cannot listen on {text:?}: {why}; write a port or an address such as 127.0.0.1:9891"
        )
    };
    let found = text.to_socket_addrs().map_err(|e| bad(&e.to_string()))?.next();
    found.ok_or_else(|| bad("there is no such address"))
}

/// A listener, before it answers.
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
                usage!("cannot listen on {address}: the address is in use; give another one with --listen")
            }
            _ => usage!("cannot listen on {address}: {e}; give another address with --listen"),
        })?;
        Ok(Self { listener, address })
    }

    /// Answers until the process ends, on threads of its own.
    pub fn serve(self, page: impl Fn(Form) -> Vec<u8> + Send + Sync + 'static) -> io::Result<()> {
        let (page, open) = (Arc::new(page), Arc::new(AtomicUsize::new(0)));
        let accept = move || {
            for stream in self.listener.incoming() {
                let Ok(stream) = stream else {
                    #[allow(
                        clippy::disallowed_methods,
                        reason = "nothing reports when a descriptor is free again"
                    )]
                    std::thread::sleep(PAUSE);
                    continue;
                };
                let slot = Slot::take(&open);
                if slot.0.load(Ordering::Relaxed) > MAX_CONNECTIONS {
                    // Not waited for: whoever comes then is told by the end of the connection.
                    continue;
                }
                let page = Arc::clone(&page);
                let answer = move || {
                    let _ = exchange(stream, &*page);
                    drop(slot);
                };
                let _ = std::thread::Builder::new().name("scrape".to_owned()).spawn(answer);
            }
        };
        std::thread::Builder::new().name("listen".to_owned()).spawn(accept).map(drop)
    }
}

/// One of the connections that are open.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn exchange(mut stream: TcpStream, page: &dyn Fn(Form) -> Vec<u8>) -> io::Result<()> {
    let began = tach::Instant::now();
    // A time of zero would be none at all.
    let left = || {
        Some(EXCHANGE_TIMEOUT.saturating_sub(began.elapsed()))
            .filter(|left| !left.is_zero())
            .ok_or(ErrorKind::TimedOut)
    };
    let (mut head, mut part) = (Vec::new(), [0; 1_024]);
    let answer = loop {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut part)? {
            0 => return Ok(()),
            n => head.extend_from_slice(&part[..n]),
        }
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break answered(&head[..end], page);
        }
        if head.len() > MAX_HEAD {
            break Answer::short("431 Request Header Fields Too Large", "The head is too long.\n");
        }
    };
    let bytes = answer.to_bytes(head.starts_with(b"HEAD "));
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left()?))?;
        let n = stream.write(rest)?;
        rest = &rest[n..];
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // What is sent and not read would be answered by a reset, which can overtake the answer.
    let mut unread = MAX_UNREAD;
    while unread > 0 {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut part)? {
            0 => break,
            n => unread = unread.saturating_sub(n),
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Answer {
    fn short(status: &'static str, body: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.into() }
    }

    fn to_bytes(&self, without_body: bool) -> Vec<u8> {
        let Self { status, kind, body } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
            body.len()
        );
        if without_body { head.into_bytes() } else { [head.as_bytes(), body].concat() }
    }
}

/// What a head is answered with.
fn answered(head: &[u8], page: &dyn Fn(Form) -> Vec<u8>) -> Answer {
    let malformed = || Answer::short("400 Bad Request", "This is not HTTP/1.1.\n");
    let Ok(head) = std::str::from_utf8(head) else { return malformed() };
    let mut lines = head.split("\r\n");
    let request: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = request[..] else { return malformed() };
    if !version.starts_with("HTTP/1.") {
        return malformed();
    }
    if !matches!(method, "GET" | "HEAD") {
        return Answer::short("405 Method Not Allowed", "Only GET is answered.\n");
    }
    match target.split('?').next() {
        Some("/metrics") => {
            let headers = lines.filter_map(|line| line.split_once(':'));
            let accepted = headers
                .filter(|(name, _)| name.eq_ignore_ascii_case("accept"))
                .map(|(_, kinds)| kinds);
            let form = Form::asked(&accepted.collect::<Vec<_>>().join(","));
            Answer { status: "200 OK", kind: form.content_type(), body: page(form) }
        }
        Some("/") => Answer::short("200 OK", "osjitter monitor: the metrics are at /metrics\n"),
        _ => Answer::short("404 Not Found", "The metrics are at /metrics.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_port_alone_is_of_this_machine_alone() {
        assert_eq!(address("9891").unwrap().to_string(), "127.0.0.1:9891");
        assert_eq!(address(":0").unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(address("[::1]:9891").unwrap().to_string(), "[::1]:9891");
        for text in ["", "99999", "127.0.0.1", "127.0.0.1:"] {
            assert!(address(text).unwrap_err().contains("127.0.0.1:9891"), "{text}");
        }
    }

    #[test]
    fn what_is_asked_is_answered() {
        let page = |form: Form| format!("{form:?}\n").into_bytes();
        let status =
            |head: &str| answered(head.as_bytes(), &page).status.split(' ').next().unwrap();
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
        // Several lines of a header are one list.
        let head = b"GET /metrics HTTP/1.1\r\naccept: text/plain;q=0.1\r\nAccept: application/openmetrics-text;q=0.5";
        let asked = answered(head, &page);
        assert_eq!(
            (asked.kind, &asked.body[..]),
            (Form::OpenMetrics.content_type(), &b"OpenMetrics\n"[..])
        );
    }

    proptest! {
        #[test]
        fn no_head_is_too_strange(head in prop::collection::vec(any::<u8>(), 0..200)) {
            answered(&head, &|_| Vec::new());
        }
    }
}
