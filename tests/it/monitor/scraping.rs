//! Sends requests to a monitor, and reads its samples.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use crate::osjitter::Running;
use crate::process_control::poll_until;

pub fn metrics_address(running: &mut Running) -> String {
    let line = running.says("metrics: http://");
    line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned()
}

/// Sends a request and returns the response.
fn send_once(address: &str, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Sends a request until there is a response: a busy monitor closes connections that wait for long.
pub fn send(address: &str, request: &str) -> String {
    let send = || send_once(address, request).ok().filter(|response| !response.is_empty());
    poll_until(send)
}

/// Samples of a scrape, by name and labels.
pub type Samples = BTreeMap<String, f64>;

pub fn scrape(address: &str) -> Samples {
    let accept = "Accept: application/openmetrics-text; version=1.0.0";
    let request = format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{accept}\r\n\r\n");
    let response = send(address, &request);
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("openmetrics-text"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    let samples = body.lines().filter(|line| !line.starts_with('#'));
    let pairs = samples.map(|line| line.rsplit_once(' ').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// Returns the first sample with that name and label, or 0 if there is none.
pub fn sample(samples: &Samples, name: &str, label: &str) -> f64 {
    let matches = |key: &String| key.starts_with(name) && key.contains(label);
    samples.iter().find(|(key, _)| matches(key)).map_or(0.0, |(_, value)| *value)
}

/// Waits until the monitor has exported a number of ticks of the metered program and closed two
/// intervals.
pub fn wait_for_ticks(address: &str, ticks: f64) -> Samples {
    poll_until(|| {
        let samples = scrape(address);
        let exported = sample(&samples, "osjitter_ticks_total", "meter=\"control-loop\"");
        let closed = sample(&samples, "osjitter_intervals_closed_total", "");
        (exported == ticks && closed >= 2.0).then_some(samples)
    })
}
