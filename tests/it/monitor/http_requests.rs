//! Tests of the HTTP endpoint of a monitor.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::scraping::{metrics_address, scrape, send};
use super::{MonitorHome, start};
use crate::osjitter::Running;

/// Starts a monitor of its probes, and returns its address.
fn start_listening(home: &MonitorHome) -> (Running, String) {
    let args = ["--no-meters", "--listen", "127.0.0.1:0"];
    let mut running = start(home.monitor(&args));
    let address = metrics_address(&mut running);
    (running, address)
}

#[test]
fn requests_get_the_expected_response() {
    let home = MonitorHome::new();
    let (running, address) = start_listening(&home);
    // A client that sends nothing must not delay the others.
    let silent = TcpStream::connect(&address).unwrap();
    for (request, status) in [
        ("GET /metrics HTTP/1.1\r\n\r\n", "200"),
        ("GET /metrics HTTP/1.1\r\nAccept: application/unheard-of; a=\"b, */*;q\r\n\r\n", "200"),
        ("GET /healthz HTTP/1.1\r\n\r\n", "200"),
        ("GET /-/ready HTTP/1.1\r\n\r\n", "200"),
        ("GET /other HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("hello\r\n\r\n", "400"),
    ] {
        let response = send(&address, request);
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {response}");
    }
    let protobuf = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
    let request = format!("HEAD /metrics HTTP/1.1\r\nAccept: text/plain;q=0.5, {protobuf}\r\n\r\n");
    assert!(send(&address, &request).contains(&format!("Content-Type: {protobuf}\r\n")));
    drop(silent);
    running.kill();
}

#[test]
fn idle_connections_give_way_to_scrapes() {
    let home = MonitorHome::new();
    let (running, address) = start_listening(&home);
    let idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for _ in 0..3 {
        assert!(scrape(&address)["osjitter_cpu_seconds_total"] > 0.0);
    }
    drop(idle);
    running.kill();
}

#[test]
fn long_request_headers_are_rejected() {
    let home = MonitorHome::new();
    let (running, address) = start_listening(&home);
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nA: {}", "a".repeat(20_000));
    let _ = stream.write_all(request.as_bytes());
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 431");
    running.kill();
}

/// Checks that no thread has its own arena of glibc's allocator. An arena begins at a multiple of
/// 64 MB, reserves as much, and is mapped in steps.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#[test]
fn scrapes_do_not_allocate_arenas() {
    const ARENA: usize = 64 << 20;
    let home = MonitorHome::new();
    let (running, address) = start_listening(&home);
    let silent: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for _ in 0..20 {
        scrape(&address);
    }
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", running.id())).unwrap();
    let parse_hex = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let range = |line: &str| {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        Some(parse_hex(from)..parse_hex(to))
    };
    let mapped: Vec<std::ops::Range<usize>> = maps.lines().filter_map(range).collect();
    let is_arena = |pair: &&[std::ops::Range<usize>]| {
        let (used, reserved) = (&pair[0], &pair[1]);
        let is_adjacent = used.end == reserved.start;
        used.start % ARENA == 0 && is_adjacent && reserved.end == used.start + ARENA
    };
    let arenas = mapped.windows(2).filter(is_arena);
    assert_eq!(arenas.count(), 0, "{maps}");
    drop(silent);
    running.kill();
}
