//! Tests of the flight records of `osjitter monitor`.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::monitor::{MonitorHome, files, metrics_address, scrape, start};
use crate::osjitter::Osjitter;
use crate::process_control::{poll_until, send_signal};
use crate::schema;
use crate::top::MeteredProgram;

/// Every tick of the control breaks this limit at once.
const BROKEN: &str = "nanosleep:max=1ns";
const FLIGHT: &str = ".flight-";
const ENDING: &str = ".flight-1.json";

/// Returns a monitor with records of a length.
fn flight_monitor(home: &MonitorHome, length: &str, args: &[&str]) -> Osjitter {
    home.logging_monitor(&["--flight", length]).args(args)
}

fn read_flight(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.len() <= 5_000_000, "{}", text.len());
    schema::valid(&text, "flight.1")
}

/// Returns the flight records of a log, oldest first.
fn flights(log: &Path) -> Vec<PathBuf> {
    let mut flights = files(log, ".json");
    flights.retain(|file| file.to_string_lossy().contains(FLIGHT));
    flights
}

/// Splits the path of a flight record into the common path of its interval and its number.
fn split_number(flight: &Path) -> (String, u64) {
    let path = flight.to_str().unwrap().strip_suffix(".json").unwrap();
    let (interval, number) = path.rsplit_once(FLIGHT).unwrap();
    (interval.to_owned(), number.parse().unwrap())
}

/// Returns the late ticks of the first loop of a record that have causes.
fn explained_ticks(flight: &Value) -> Vec<&Value> {
    let ticks = flight["rounds"][0]["ticks"].as_array();
    ticks.into_iter().flatten().filter(|tick| tick["causes_ns"].is_object()).collect()
}

/// Returns a record that explains a tick. On a busy machine, the first ticks may come before their
/// thread is recorded, and older switches may be overwritten.
fn find_explained(log: &Path) -> Option<PathBuf> {
    flights(log).into_iter().find(|flight| !explained_ticks(&read_flight(flight)).is_empty())
}

fn report(file: &Path, format: &str) -> String {
    let args = ["report", file.to_str().unwrap(), "--format", format];
    Osjitter::new(args).run().exits(0).stdout
}

#[test]
fn broken_limit_writes_a_flight_record() {
    let home = MonitorHome::new();
    let outputs = ["--no-meters", "--listen", "127.0.0.1:0", "--limit", BROKEN];
    let mut running = start(flight_monitor(&home, "500ms", &outputs));
    let scope = running.says("flight records: ");
    let address = metrics_address(&mut running);
    if scope.contains("none") {
        running.signal(Signal::TERM);
        return assert!(running.ends().exits(0).stderr.contains("limit broken"));
    }
    let path = poll_until(|| find_explained(&home.log));
    let samples = poll_until(|| {
        Some(scrape(&address)).filter(|samples| samples["osjitter_flights_total"] >= 1.0)
    });
    assert!(samples["osjitter_flight_memory_bytes"] > 0.0);
    assert!(samples.contains_key("osjitter_flight_cpu_seconds_total"));
    assert_eq!(samples["osjitter_flights_lost_total"], 0.0);
    running.signal(Signal::TERM);
    let ran = running.ends().exits(0);
    assert!(ran.stderr.contains("flight record: "), "{}", ran.stderr);
    for flight in flights(&home.log) {
        let (interval, number) = split_number(&flight);
        let breaches = std::fs::read_to_string(format!("{interval}.breaches.json"));
        let breaches: Value =
            serde_json::from_str(&breaches.expect("breaches next to a record")).unwrap();
        // Records of half a second do not follow more closely, except at the end of an interval.
        let min_ns = number.saturating_sub(2) * 500_000_000;
        assert!(breaches["duration_ns"].as_u64().unwrap() >= min_ns, "{number}: {breaches}");
    }
    check_flight(&read_flight(&path), scope.contains("all CPUs"));
    assert!(report(&path, "table").contains("nanosleep@10ms"));
    let trace: Value = serde_json::from_str(&report(&path, "perfetto")).unwrap();
    let names = trace["traceEvents"].as_array().unwrap().iter().map(|event| &event["args"]["name"]);
    let has_cpus = names.clone().any(|name| name == "CPUs");
    assert_eq!(has_cpus, scope.contains("all CPUs"));
}

/// Checks the record of a tick of the control.
#[track_caller]
fn check_flight(flight: &Value, has_all_cpus: bool) {
    assert_eq!(flight["late"]["subject"], "nanosleep@10ms");
    assert_eq!((&flight["limit_ns"], &flight["ended"]), (&1.into(), &false.into()));
    assert!(flight["length_ns"].as_u64().unwrap() <= 500_000_000);
    let round = &flight["rounds"][0];
    assert_eq!(round["given"].is_array(), has_all_cpus, "{round}");
    let explained = explained_ticks(flight);
    for tick in &explained {
        let causes = tick["causes_ns"].as_object().unwrap();
        let total: u64 = causes.values().filter_map(Value::as_u64).sum();
        assert_eq!(Some(total), tick["lateness_ns"].as_u64(), "{tick}");
    }
    assert!(!explained.is_empty(), "{round}");
    assert!(round["switches"].as_array().is_some_and(|switches| !switches.is_empty()), "{round}");
}

#[test]
fn kept_limits_write_no_record() {
    let home = MonitorHome::new();
    let limits = ["--limit", "max=24h", "--duration", "2500ms"];
    let ran = flight_monitor(&home, "500ms", &limits).run().exits(0);
    assert!(ran.stderr.contains("flight records: "), "{}", ran.stderr);
    assert!(!files(&home.log, ".bins.csv").is_empty());
    assert!(files(&home.log, ".json").is_empty());
}

/// With the right to record all CPUs, the loops of other programs have records, too.
#[test]
fn metered_programs_have_records() {
    check_records_of_program(|_| ());
}

/// Changes the time at which the meters are registered, as if the calendar clock had been set
/// since.
#[test]
fn clock_steps_keep_the_records() {
    const HOUR_NS: i64 = 3_600_000_000_000;
    for step_ns in [HOUR_NS, -HOUR_NS] {
        check_records_of_program(|home| {
            let meters = files(home, ".tickmeter");
            assert!(!meters.is_empty());
            for meter in meters {
                change_registration(&meter, -step_ns);
            }
        });
    }
}

fn change_registration(meter: &Path, by_ns: i64) {
    use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
    const REGISTERED: u64 = 12 * 8;
    std::fs::set_permissions(meter, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(meter).unwrap();
    let mut word = [0; 8];
    file.read_exact_at(&mut word, REGISTERED).unwrap();
    let changed = u64::from_ne_bytes(word).checked_add_signed(by_ns).unwrap();
    file.write_all_at(&changed.to_ne_bytes(), REGISTERED).unwrap();
}

/// Checks that the late ticks of a program with meters have records. `prepare` is called before the
/// monitor starts, with the directory that contains that of the meters.
fn check_records_of_program(prepare: impl FnOnce(&Path)) {
    let home = MonitorHome::new();
    let program = MeteredProgram::start(&home.meters);
    prepare(home.path());
    let outputs = ["--no-probes", "--limit", "max=1us"];
    let mut running = start(flight_monitor(&home, "500ms", &outputs));
    let scope = running.says("flight records: ");
    if !scope.contains("all CPUs") {
        assert!(scope.contains("continues without"), "{scope}");
        running.signal(Signal::TERM);
        return drop(running.ends().exits(0));
    }
    // The meter records only ticks that are late by at least half a period, which a stop causes.
    let path = poll_until(|| {
        signal(&program, Signal::STOP);
        signal(&program, Signal::CONT);
        files(&home.log, ENDING).first().cloned()
    });
    running.signal(Signal::TERM);
    running.ends().exits(0);
    let flight = read_flight(&path);
    let subject = flight["late"]["subject"].as_str().unwrap();
    assert!(subject.starts_with("control-loop@2ms of it-"), "{subject}");
    assert!(flight["late"]["lateness_ns"].as_i64().unwrap() >= 1_000_000, "{}", flight["late"]);
}

/// Sends a signal to a program, and waits for a few periods of its loop.
#[allow(clippy::disallowed_methods, reason = "the program has to be late")]
fn signal(program: &MeteredProgram, signal: Signal) {
    send_signal(program.id(), signal);
    std::thread::sleep(std::time::Duration::from_millis(20));
}

#[test]
fn missing_rights_shorten_the_record() {
    use std::os::unix::fs::PermissionsExt as _;
    let script =
        r#"exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs "$0" "$@""#;
    let limit = ["--limit", BROKEN, "--duration", "2500ms"];
    // On a busy machine, no record of so short a time may explain a tick.
    for _ in 0..5 {
        let home = MonitorHome::new();
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let ran = flight_monitor(&home, "500ms", &limit).in_shell(script).run();
        let (code, stderr) = (ran.code, ran.stderr);
        if stderr.contains("setpriv") || stderr.contains("Permission denied (os error 13)\n") {
            // Only root can change the user.
            return;
        }
        assert!(code == 0 && stderr.contains("limit broken"), "{stderr}");
        if stderr.contains("flight records: none") {
            return;
        }
        assert!(stderr.contains("only the switches of the probes"), "{stderr}");
        assert!(stderr.contains("CAP_PERFMON"), "{stderr}");
        if let Some(path) = find_explained(&home.log) {
            return check_flight(&read_flight(&path), false);
        }
    }
    panic!("no record explains a tick");
}

#[test]
fn full_disk_keeps_the_interval() {
    // On a busy machine, the records may be so incomplete that they fit.
    assert!(
        (0..8).any(|_| is_interval_kept_without_records()),
        "the records fit, or no interval did"
    );
}

/// Runs a monitor whose files have room for an interval, but not for its flight records. Returns
/// false if there was room for the records, or if no interval was short enough.
fn is_interval_kept_without_records() -> bool {
    // A file has at most 240 blocks of 512 bytes. An interval has at most a row of 110 bytes per
    // tick, so it fits up to this number of ticks. A record has 350 bytes for the causes of a tick
    // and its switches, so 400 ticks do not fit.
    const FITTING_TICKS: u64 = 1_000;
    let home = MonitorHome::new();
    let script = r#"ulimit -f 240; exec "$0" "$@""#;
    let probes = ["--subject", "nanosleep", "--subject", "os-interval", "--period", "20ms"];
    let limit = ["--no-meters", "--limit", "max=1ns", "--duration", "6s"];
    let ran = flight_monitor(&home, "5s", &probes).args(limit).in_shell(script).run();
    let stderr = &ran.stderr;
    let broken = broken_intervals(stderr);
    assert!(!broken.is_empty(), "{stderr}");
    // On a busy machine, an interval may be many times as long, and too large.
    let is_lost = |start: &str| stderr.contains(&format!("{start} is lost: File too large"));
    let (lost, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
        broken.into_iter().partition(|(start, _)| is_lost(start));
    assert!(lost.values().all(|ticks| *ticks > FITTING_TICKS), "{stderr}");
    assert_eq!(files(&home.log, ".breaches.json").len(), kept.len(), "{stderr}");
    // The first intervals are too short for a record that is too large.
    for path in files(&home.log, ENDING) {
        read_flight(&path);
    }
    let expected = ["flight records: none", "flight records could not be written"];
    let is_without_records = expected.iter().any(|expected| stderr.contains(expected));
    ran.exits(if lost.is_empty() { 0 } else { 4 });
    is_without_records && !kept.is_empty()
}

/// Returns the ticks of the intervals in which a probe broke its limit, by their starts.
fn broken_intervals(stderr: &str) -> BTreeMap<String, u64> {
    let mut intervals = BTreeMap::new();
    for line in stderr.lines().filter(|line| line.starts_with("limit broken: ")) {
        let (start, rest) = line.split_once(" from ").unwrap().1.split_once(" (").unwrap();
        let ticks: u64 = rest.split(' ').next().unwrap().parse().unwrap();
        *intervals.entry(start.to_owned()).or_default() += ticks;
    }
    intervals
}

#[test]
fn invalid_flight_arguments_are_rejected() {
    let home = MonitorHome::new();
    let log = home.log.to_str().unwrap();
    for (args, message) in [
        (&["--flight", "2s", "--log", log][..], "--limit"),
        (&["--flight", "2s", "--limit", "max=1ms"], "--log"),
        (&["--flight", "2", "--log", log, "--limit", "max=1ms"], "no unit"),
        (&["--flight", "10ms", "--log", log, "--limit", "max=1ms"], "outside 500ms to"),
        (&["--flight", "1m", "--log", log, "--limit", "max=1ms"], "outside 500ms to"),
    ] {
        Osjitter::new(["monitor"]).args(args).run().refuses(message);
    }
    assert!(!home.log.exists());
}
