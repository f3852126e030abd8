//! Runs `osjitter monitor`: scrapes it, breaks its limits, takes its disk away, and kills it.
#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tickmeter::ENV_DIRECTORY;

use crate::osjitter::{Osjitter, Running, poll_until};
use crate::schema;
use crate::top::MeteredProgram;

/// Returns a command for a monitor whose meters are in `home`. Its budget is so large that it never
/// lengthens the periods of its probes.
pub fn monitor(home: &Path, args: &[&str]) -> Osjitter {
    Osjitter::new(["monitor", "--budget", "400%"].iter().chain(args))
        .env(ENV_DIRECTORY, home.join("meters"))
}

/// Starts a monitor that ends after five minutes even if a test fails.
pub fn start(home: &Path, args: &[&str]) -> Running {
    monitor(home, args).args(["--duration", "5m"]).start()
}

/// Returns the files of a log with that ending, oldest first.
pub fn files(log: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for day in std::fs::read_dir(log).into_iter().flatten().flatten() {
        let entries = std::fs::read_dir(day.path()).into_iter().flatten().flatten();
        files.extend(entries.map(|entry| entry.path()));
    }
    files.retain(|file| file.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

type Row = BTreeMap<String, String>;

/// Reads the rows of a file, and checks that each is as long as the heading.
#[track_caller]
fn rows(file: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'), "{} is cut off", file.display());
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let row = |line: Vec<String>| {
        assert_eq!(line.len(), heading.len(), "{}", file.display());
        heading.iter().cloned().zip(line).collect()
    };
    lines.map(row).collect()
}

/// Reads the rows of all files of a log with that ending.
fn all_rows(log: &Path, ending: &str) -> Vec<Row> {
    files(log, ending).iter().flat_map(|file| rows(file)).collect()
}

fn number(row: &Row, column: &str) -> i64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

/// Returns the columns that identify an interval.
fn key(row: &Row) -> Vec<String> {
    ["host", "subject", "period_ns", "runtime", "labels", "start", "duration_ns", "run_id"]
        .map(|column| row[column].clone())
        .into()
}

/// Reads all intervals of a log, and checks that they agree with their bins.
#[track_caller]
fn read_intervals(log: &Path) -> Vec<Row> {
    let intervals = all_rows(log, ".intervals.csv");
    let bins = all_rows(log, ".bins.csv");
    let mut bins_by_key: BTreeMap<Vec<String>, Vec<&Row>> = BTreeMap::new();
    bins.iter().for_each(|bin| bins_by_key.entry(key(bin)).or_default().push(bin));
    for row in &intervals {
        check_interval(row, &bins_by_key.remove(&key(row)).unwrap_or_default());
    }
    assert!(bins_by_key.is_empty(), "bins without an interval: {:?}", bins_by_key.keys());
    let keys: BTreeSet<Vec<String>> = intervals.iter().map(key).collect();
    assert_eq!(keys.len(), intervals.len(), "an interval occurs twice");
    intervals
}

#[track_caller]
fn check_interval(row: &Row, bins: &[&Row]) {
    let [ticks, delivered, coalesced, skipped, early] =
        ["ticks", "delivered", "coalesced", "skipped", "early"].map(|column| number(row, column));
    let counted: i64 = bins.iter().map(|bin| number(bin, "count")).sum();
    assert_eq!(counted, ticks - skipped, "{row:?}");
    assert_eq!((delivered + coalesced + skipped, early), (ticks, 0), "{row:?}");
    if let Some(last) = bins.iter().max_by_key(|bin| number(bin, "lower_ns")) {
        let range = number(last, "lower_ns")..=number(last, "upper_ns");
        assert!(range.contains(&number(row, "max_ns")), "{row:?} {last:?}");
    }
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
fn send(address: &str, request: &str) -> String {
    let send = || send_once(address, request).ok().filter(|response| !response.is_empty());
    poll_until(send)
}

pub fn metrics_address(running: &mut Running) -> String {
    let line = running.says("metrics: http://");
    line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned()
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
fn sample(samples: &Samples, name: &str, label: &str) -> f64 {
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

#[test]
fn metered_ticks_are_exported_and_logged() {
    const TICKS: u64 = 700;
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let args = ["--interval", "1s", "--listen", "127.0.0.1:0", "--label", "rack=r7"];
    let outputs = ["--host", "a,b", "--log", log.to_str().unwrap()];
    let mut running = start(home.path(), &[&args[..], &outputs].concat());
    let address = metrics_address(&mut running);
    let program = MeteredProgram::start_with_ticks(&home.path().join("meters"), TICKS);
    std::fs::write(home.path().join("meters/1.tickmeter"), "not a meter").unwrap();
    let samples = wait_for_ticks(&address, TICKS as f64);
    running.says("1.tickmeter is not a meter's file");
    assert!(samples["osjitter_cpu_seconds_total"] > 0.0);
    assert_eq!(sample(&samples, "osjitter_info", "version"), 1.0);
    check_histograms(&samples);

    running.signal(Signal::TERM);
    let ran = running.ends().exits(0);
    assert_eq!(ran.stdout, "");
    let intervals = read_intervals(&log);
    intervals.iter().for_each(check_labels_and_cpu_time);
    let of_subject = |subject: &str| -> Vec<&Row> {
        intervals.iter().filter(|row| row["subject"] == subject).collect()
    };
    let control_loop = of_subject("control-loop");
    let logged_ticks: i64 = control_loop.iter().map(|row| number(row, "ticks")).sum();
    assert_eq!(logged_ticks, TICKS as i64);
    let is_idle = |row: &&Row| row["max_ns"].is_empty() && row["ticks"] == "0";
    assert!(of_subject("control-loop-2").iter().all(is_idle));
    let probe = of_subject("os-interval");
    assert!(probe.len() >= 3 && probe[0]["runtime"] == "current-thread");
    assert_eq!(intervals.iter().map(|row| &row["run_id"]).collect::<BTreeSet<_>>().len(), 1);
    drop(program);
}

/// Checks the histograms of two probes and two meters: ascending buckets, a count and a sum.
#[track_caller]
fn check_histograms(samples: &Samples) {
    let histograms: BTreeSet<&str> = samples
        .keys()
        .filter_map(|key| key.strip_prefix("osjitter_lateness_seconds_count{"))
        .collect();
    assert_eq!(histograms.len(), 4, "{histograms:?}");
    for labels in histograms {
        let labels = labels.trim_end_matches('}');
        let buckets = histogram_buckets(samples, labels);
        let counts_ascend = buckets.is_sorted_by(|a, b| a.1 <= b.1);
        assert!(buckets.len() > 10 && counts_ascend, "{labels}: {buckets:?}");
        let count = samples[&format!("osjitter_lateness_seconds_count{{{labels}}}")];
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{labels}");
        let sum = format!("osjitter_lateness_seconds_sum{{{labels}}}");
        assert!(samples.contains_key(&sum), "{labels}");
    }
}

/// Returns the upper ends and counts of a histogram's buckets, in ascending order.
fn histogram_buckets(samples: &Samples, labels: &str) -> Vec<(f64, f64)> {
    let prefix = format!("osjitter_lateness_seconds_bucket{{{labels},le=\"");
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (key, count) in samples {
        if let Some(end) = key.strip_prefix(&prefix) {
            buckets.push((end.trim_end_matches("\"}").parse().unwrap(), *count));
        }
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    buckets
}

#[track_caller]
fn check_labels_and_cpu_time(row: &Row) {
    assert_eq!((row["host"].as_str(), row["schema_version"].as_str()), ("a_b", "1"));
    assert!(row["start"].ends_with('Z') && row["start"].len() == 27, "{row:?}");
    let labels = row["labels"].as_str();
    if matches!(row["subject"].as_str(), "os-interval" | "nanosleep") {
        assert_eq!(labels, "rack=r7", "{row:?}");
        if cfg!(target_os = "linux") {
            // On a busy machine, a probe may not run in an interval.
            let cpu_ns = number(row, "cpu_ns");
            assert!(cpu_ns > 0 || number(row, "ticks") == 0, "{row:?}");
        }
    } else {
        assert!(labels.starts_with("program=it-"), "{row:?}");
        assert!(row["cpu_ns"].is_empty(), "the CPU time of other programs is unknown: {row:?}");
    }
}

#[test]
fn requests_get_the_expected_response() {
    let home = tempfile::tempdir().unwrap();
    let mut running = start(home.path(), &["--no-meters", "--listen", "127.0.0.1:0"]);
    let address = metrics_address(&mut running);
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
    let home = tempfile::tempdir().unwrap();
    let mut running = start(home.path(), &["--no-meters", "--listen", "127.0.0.1:0"]);
    let address = metrics_address(&mut running);
    let idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for _ in 0..3 {
        assert!(scrape(&address)["osjitter_cpu_seconds_total"] > 0.0);
    }
    drop(idle);
    running.kill();
}

#[test]
fn long_request_headers_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let mut running = start(home.path(), &["--no-meters", "--listen", "127.0.0.1:0"]);
    let mut stream = TcpStream::connect(metrics_address(&mut running)).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nA: {}", "a".repeat(20_000));
    let _ = stream.write_all(request.as_bytes());
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 431");
    running.kill();
}

#[test]
fn sigterm_writes_the_open_interval() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    // No interval of a day ends in the next two hours: a shorter one than a tenth is not begun.
    let interval = ["--interval", "24h", "--period", "1ms"];
    let args = ["--listen", "0", "--log", log.to_str().unwrap()];
    let mut running = start(home.path(), &[&interval[..], &args].concat());
    let address = metrics_address(&mut running);
    poll_until(|| {
        let samples = scrape(&address);
        let ticks = samples.iter().filter(|(key, _)| key.starts_with("osjitter_ticks_total"));
        (ticks.filter(|(_, count)| **count > 0.0).count() == 2).then_some(())
    });
    let meters = home.path().join("meters");
    assert_eq!(tickmeter::read::list(&meters).unwrap().len(), 2, "top shows the probes");
    running.signal(Signal::TERM);
    let ran = running.ends().exits(0);
    assert!(ran.stderr.contains("ended after 1 interval"), "{}", ran.stderr);
    let intervals = read_intervals(&log);
    assert_eq!(intervals.len(), 2);
    assert!(intervals.iter().all(|row| number(row, "ticks") > 0));
    assert_eq!(tickmeter::read::list(&meters).unwrap().len(), 0);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the time at which a monitor is killed")]
fn killed_monitor_leaves_complete_files() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let mut monitors: Vec<Running> = (0..6)
        .map(|n| {
            let host = format!("host-{n}");
            let args = [
                "--interval",
                "1s",
                "--no-meters",
                "--host",
                &host,
                "--log",
                log.to_str().unwrap(),
            ];
            let mut running = start(home.path(), &args);
            running.says("log: ");
            running
        })
        .collect();
    poll_until(|| (!files(&log, ".bins.csv").is_empty()).then_some(()));
    // All monitors end their intervals at the same time. They are killed around it.
    while let Some(running) = monitors.pop() {
        std::thread::sleep(Duration::from_millis(170));
        running.kill();
        files(&log, ".csv").iter().for_each(|file| drop(rows(file)));
    }
    // A monitor may have been killed between the two files of a pair.
    for file in files(&log, ".intervals.csv") {
        if !Path::new(&file.to_string_lossy().replace(".intervals.", ".bins.")).exists() {
            std::fs::remove_file(file).unwrap();
        }
    }
    assert!(!read_intervals(&log).is_empty());
}

#[test]
fn broken_limits_are_reported() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    // The first limit is always broken, the others never.
    let limits = ["--limit", "nanosleep:max=1ns", "--limit", "max=24h", "--limit", "p50=24h"];
    let args = ["--interval", "1s", "--listen", "127.0.0.1:0", "--log", log.to_str().unwrap()];
    let mut running = start(home.path(), &[&limits[..], &args[..]].concat());
    let line = running.says("limit broken");
    assert!(
        line.starts_with("limit broken: nanosleep@10ms: nanosleep:max=1ns, measured "),
        "{line}"
    );
    let address = metrics_address(&mut running);
    let key = "osjitter_limit_breaches_total{subject=\"nanosleep\",period=\"0.01\",limit=\"nanosleep:max=1ns\"}";
    assert!(poll_until(|| scrape(&address).get(key).copied()) >= 1.0);
    let file = poll_until(|| files(&log, ".breaches.json").first().cloned());
    running.signal(Signal::INT);
    let ran = running.ends().exits(0);
    assert!(!ran.stderr.contains("limit broken: os-interval@"), "{}", ran.stderr);
    let breaches = schema::valid(&std::fs::read_to_string(file).unwrap(), "breaches.1");
    let breach = &breaches["breaches"][0];
    assert_eq!((&breach["subject"], &breach["limit"]), (&"nanosleep".into(), &1.0.into()));
    let late = breach["late"].as_array().unwrap();
    assert!(!late.is_empty() && late.len() <= 128, "{breaches:#}");
    assert!(
        late.iter().any(|tick| tick["lateness_ns"].as_f64() == breach["value"].as_f64())
            || late.len() == 128
    );
}

#[test]
fn hundreds_of_meters_are_watched() {
    const WORKERS: usize = 300;
    const TICKS: u64 = 20;
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let args = ["--no-probes", "--listen", "127.0.0.1:0", "--limit", "p99=24h", "--log"];
    let meters = home.path().join("meters");
    let mut running = start(home.path(), &[&args[..], &[log.to_str().unwrap()]].concat());
    let address = metrics_address(&mut running);
    let program = MeteredProgram::start_with_workers(&meters, TICKS, WORKERS);
    let samples = poll_until(|| {
        let samples = scrape(&address);
        let ticks: f64 = samples
            .iter()
            .filter(|(key, _)| key.starts_with("osjitter_ticks_total{"))
            .map(|(_, ticks)| ticks)
            .sum();
        (ticks >= TICKS as f64 * (WORKERS + 1) as f64).then_some(samples)
    });
    assert_eq!((samples["osjitter_meters"], samples["osjitter_meters_left_out"]), (302.0, 0.0));
    running.signal(Signal::TERM);
    let ran = running.ends().exits(4);
    assert!(ran.stderr.contains("p99=24h needs 500 ticks per interval"), "{}", ran.stderr);
    assert!(ran.stderr.contains("never checked, on no loop: p99=24h"), "{}", ran.stderr);
    let intervals = read_intervals(&log);
    let logged: i64 = intervals.iter().map(|row| number(row, "ticks")).sum();
    assert_eq!(logged, TICKS as i64 * (WORKERS as i64 + 1));
    drop(program);
}

/// A limit that was not checked on every meter does not pass.
#[test]
fn unchecked_limits_do_not_pass() {
    let home = tempfile::tempdir().unwrap();
    let meters = home.path().join("meters");
    let program = MeteredProgram::start(&meters);
    std::fs::write(meters.join("1.tickmeter"), "not a meter").unwrap();
    let args = ["--no-probes", "--interval", "1s", "--listen", "127.0.0.1:0"];
    let mut running = start(home.path(), &[&args[..], &["--limit", "max=24h"]].concat());
    let address = metrics_address(&mut running);
    running.says("limits not checked on 1 meter");
    let key = "osjitter_limit_unchecked_loops{limit=\"max=24h\",reason=\"left-out\"}";
    let samples = poll_until(|| Some(scrape(&address)).filter(|samples| samples[key] == 1.0));
    assert_eq!(samples["osjitter_meters_left_out"], 1.0);
    assert!(samples["osjitter_limit_incomplete_intervals_total"] >= 1.0);
    running.signal(Signal::TERM);
    let ran = running.ends().exits(4);
    assert!(ran.stderr.contains("limits were not checked on all meters in "), "{}", ran.stderr);
    drop(program);
}

#[test]
fn limits_without_loop_do_not_pass() {
    let home = tempfile::tempdir().unwrap();
    let args = ["--no-meters", "--interval", "1s", "--listen", "127.0.0.1:0"];
    let limits = ["--limit", "mispelt:max=24h", "--limit", "max=24h"];
    let mut running = start(home.path(), &[&args[..], &limits].concat());
    let address = metrics_address(&mut running);
    running.says("limit not checked: mispelt:max=24h applies to no loop");
    let key = |limit| format!("osjitter_limit_checked_loops{{limit=\"{limit}\"}}");
    let samples = poll_until(|| Some(scrape(&address)).filter(|s| s[&key("max=24h")] == 2.0));
    assert_eq!(samples[&key("mispelt:max=24h")], 0.0);
    running.signal(Signal::TERM);
    let ran = running.ends().exits(4);
    let never = "never checked, on no loop: mispelt:max=24h\n";
    assert!(ran.stderr.contains(never), "{}", ran.stderr);
}

#[test]
fn monitor_survives_a_vanished_disk() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let args = ["--interval", "1s", "--no-meters", "--listen", "0", "--log", log.to_str().unwrap()];
    let mut running = start(home.path(), &args);
    let address = metrics_address(&mut running);
    let responds = |path: &str, status: &str| {
        let response = send(&address, &format!("GET {path} HTTP/1.1\r\n\r\n"));
        response.starts_with(&format!("HTTP/1.1 {status} ")).then_some(())
    };
    poll_until(|| files(&log, ".bins.csv").first().cloned());
    poll_until(|| responds("/-/ready", "200"));
    std::fs::rename(&log, home.path().join("gone")).unwrap();
    let line = running.says(" is lost: ");
    assert!(line.starts_with("the interval of 20"), "{line}");
    assert!(!log.exists(), "a vanished log directory is not recreated");
    poll_until(|| responds("/-/ready", "503"));
    assert!(responds("/healthz", "200").is_some(), "a new process would not help");
    // When the disk is back, further intervals are written.
    std::fs::rename(home.path().join("gone"), &log).unwrap();
    let files_before = files(&log, ".bins.csv").len();
    poll_until(|| (files(&log, ".bins.csv").len() > files_before).then_some(()));
    poll_until(|| responds("/-/ready", "200"));
    running.signal(Signal::TERM);
    let ran = running.ends().exits(4);
    assert!(ran.stderr.contains(" could not be written"), "{}", ran.stderr);
    read_intervals(&log);
}

#[test]
fn full_disk_leaves_no_partial_files() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    // No file can be written, so the probes have meters without files.
    let args = ["--interval", "1s", "--duration", "2500ms", "--log", log.to_str().unwrap()];
    let limited = monitor(home.path(), &args).in_shell(r#"ulimit -f 0; exec "$0" "$@""#);
    let stderr = limited.run().exits(4).stderr;
    assert!(stderr.contains(" is lost: ") && stderr.contains(" could not be written"), "{stderr}");
    assert_eq!(files(&log, ""), Vec::<PathBuf>::new(), "{stderr}");
}

#[test]
fn exceeded_budget_lengthens_periods() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let args = [
        "monitor", "--budget", "0.001%", "--interval", "1s", "--no-meters", "--duration", "5m",
        "--log",
    ];
    let mut running =
        Osjitter::new(args).args([&log]).env(ENV_DIRECTORY, home.path().join("meters")).start();
    let line = running.says("lengthened");
    assert!(line.starts_with("the monitor used "), "{line}");
    let expected = "lengthened the periods of its probes: os-interval 20ms, nanosleep 20ms";
    assert!(line.ends_with(expected), "{line}");
    let is_longer = |row: &Row| row["subject"] == "os-interval" && row["period_ns"] == "20000000";
    poll_until(|| all_rows(&log, ".intervals.csv").iter().any(is_longer).then_some(()));
    running.signal(Signal::TERM);
    running.ends().exits(0);
    let intervals = read_intervals(&log);
    assert!(intervals.iter().any(|row| row["period_ns"] == "10000000"));
    assert!(intervals.iter().any(is_longer));
}

/// Runs a monitor with a spinning probe for a few intervals.
#[cfg(target_os = "linux")]
fn monitor_spinning_probe() -> Vec<Row> {
    const INTERVALS: usize = 4;
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let spin = ["--subject", "spin", "--period", "10ms"];
    let args = ["--interval", "1s", "--no-meters", "--log", log.to_str().unwrap()];
    let running = start(home.path(), &[&args[..], &spin].concat());
    poll_until(|| (files(&log, ".intervals.csv").len() >= INTERVALS).then_some(()));
    running.signal(Signal::TERM);
    running.ends().exits(0);
    read_intervals(&log)
}

/// A spinning thread has a CPU, waits for one, or the hypervisor has it: together that is the length
/// of each interval after the first, in which the thread starts.
#[cfg(target_os = "linux")]
#[test]
fn probe_costs_belong_to_their_interval() {
    const ATTEMPTS: usize = 20;
    let total = |rows: &[Row], column: &str| -> i64 {
        rows.iter().map(|row| if row[column].is_empty() { 0 } else { number(row, column) }).sum()
    };
    // The kernel may not have accounted for the last milliseconds of a running thread.
    let spun = |rows: &[Row]| total(rows, "cpu_ns") + total(rows, "run_queue_ns");
    let length = |rows: &[Row]| total(rows, "duration_ns") as f64;
    let is_complete = |intervals: &[Row]| {
        let full = &intervals[1..];
        let known = spun(full) + total(full, "steal_ns");
        spun(intervals) as f64 <= length(intervals) * 1.02 && known as f64 >= length(full) * 0.98
    };
    // A machine that pauses the monitor between its readings moves time to another interval.
    let mut disturbed = Vec::new();
    while disturbed.len() < ATTEMPTS {
        let intervals = monitor_spinning_probe();
        if is_complete(&intervals) {
            return;
        }
        disturbed.push(intervals);
    }
    panic!("{disturbed:?}");
}

/// Checks that no thread has its own arena of glibc's allocator. An arena begins at a multiple of
/// 64 MB, reserves as much, and is mapped in steps.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#[test]
fn scrapes_do_not_allocate_arenas() {
    const ARENA: usize = 64 << 20;
    let home = tempfile::tempdir().unwrap();
    let mut running = start(home.path(), &["--no-meters", "--listen", "127.0.0.1:0"]);
    let address = metrics_address(&mut running);
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
    let mapped: Vec<Range<usize>> = maps.lines().filter_map(range).collect();
    let is_arena = |pair: &&[Range<usize>]| {
        let (used, reserved) = (&pair[0], &pair[1]);
        let is_adjacent = used.end == reserved.start;
        used.start % ARENA == 0 && is_adjacent && reserved.end == used.start + ARENA
    };
    let arenas = mapped.windows(2).filter(is_arena);
    assert_eq!(arenas.count(), 0, "{maps}");
    drop(silent);
    running.kill();
}

#[test]
fn keep_removes_old_intervals() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let args = [
        "--interval",
        "1s",
        "--no-meters",
        "--keep",
        "2",
        "--duration",
        "5500ms",
        "--log",
        log.to_str().unwrap(),
    ];
    monitor(home.path(), &args).run().exits(0);
    assert_eq!([".bins.csv", ".intervals.csv"].map(|ending| files(&log, ending).len()), [2, 2]);
    read_intervals(&log);
}

#[test]
fn invalid_arguments_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let used_address = listener.local_addr().unwrap().to_string();
    let [log_name, file] = [&log, &file].map(|path| path.to_str().unwrap());
    for (args, message) in [
        (vec![], "--listen ADDR"),
        (vec!["--log", file], "--log"),
        (vec!["--listen", &used_address], "address is in use"),
        (vec!["--listen", "nonsense"], "127.0.0.1:9891"),
        (vec!["--log", log_name, "--interval", "10ms"], "outside 1s to"),
        (vec!["--log", log_name, "--limit", "p98=1ms"], "expected p50"),
        (vec!["--log", log_name, "--interval", "1s", "--limit", "p99=1ms"], "needs 500 ticks"),
        (vec!["--log", log_name, "--budget", "0%"], "0.5%"),
        (vec!["--log", log_name, "--budget", "50%", "--subject", "spin"], "--budget 110%"),
        (vec!["--log", log_name, "--subject", "tokio-interval-delay"], "moves its grid"),
        (vec!["--log", log_name, "--label", "a=b", "--label", "a=c"], "given twice"),
        (vec!["--log", log_name, "--label", "a"], "rack=r7"),
        (vec!["--log", log_name, "--limit", "max=1s", "--limit", "max=1000ms"], "given twice"),
        (vec!["--log", log_name, "--no-probes", "--no-meters"], "cannot be used with"),
        (vec!["--log", log_name, "--no-probes", "--subject", "spin"], "cannot be used with"),
        (vec!["--listen", "0", "--keep", "3"], "--log <DIR>"),
        (vec!["--log", log_name, "--keep", "0"], "at least 1"),
        (vec!["--log", log_name, "--host", ""], "invalid host name"),
        (vec!["--log", log_name, "--subject", "wibble"], "unknown subject"),
    ] {
        let ran = Osjitter::new(["monitor"])
            .args(&args)
            .env(ENV_DIRECTORY, home.path().join("meters"))
            .run()
            .exits(2);
        assert!(ran.stderr.contains(message) && ran.stdout.is_empty(), "{args:?}: {}", ran.stderr);
    }
    assert!(!log.exists());
}
