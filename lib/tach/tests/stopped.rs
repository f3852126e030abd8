//! Checks that every clock counts the time for which its process is stopped.
#![cfg(all(unix, not(miri)))]
#![allow(clippy::disallowed_methods, reason = "compares with std's clock, and time must pass")]
#![allow(clippy::print_stdout, reason = "the child reports to its parent")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tach::{Anchor, Conversion, MonotonicInstant, OrderedInstant};

/// The environment variable that makes this program the process that is stopped.
const CHILD: &str = "TACH_STOPPED_CHILD";
const TEST: &str = "stopped_process_counts_the_time";
const STOP: Duration = Duration::from_millis(200);

/// Prints a line, waits for one, and prints the nanoseconds in between by each clock.
fn run_child() {
    let first = Anchor::take();
    let instant = tach::Instant::now();
    let ordered = OrderedInstant::now();
    let monotonic = MonotonicInstant::now();
    let count = tach::count();
    println!("started");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let last = Anchor::take();
    let conversion = Conversion::between(&first, &last).unwrap();
    let end_count = tach::count();
    let spans_ns = [
        instant.elapsed().as_nanos() as i64,
        ordered.elapsed().as_nanos() as i64,
        monotonic.elapsed().as_nanos() as i64,
        (MonotonicInstant::now() - monotonic).as_nanos() as i64,
        conversion.ns_since(end_count, first.os_instant())
            - conversion.ns_since(count, first.os_instant()),
        (last.os_instant() - first.os_instant()).as_nanos() as i64,
    ];
    let error_ns = tach::error_bound_ns().max(conversion.error_bound_ns());
    println!("spans {error_ns} {}", spans_ns.map(|ns| ns.to_string()).join(" "));
}

fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
}

/// Waits until the kernel reports the process as stopped. Other systems than Linux are believed.
fn wait_until_stopped(child: &Child) {
    while cfg!(target_os = "linux") {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let (_, state) = stat.rsplit_once(") ").unwrap();
        if state.starts_with('T') {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the rest of the line that starts with `word`. The test harness prints other lines, and
/// the beginning of the first one.
fn read_line(output: &mut BufReader<ChildStdout>, word: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "the child ended without {word:?}");
        if let Some((_, rest)) = line.split_once(word) {
            return rest.trim().to_owned();
        }
    }
}

#[test]
fn stopped_process_counts_the_time() {
    if std::env::var_os(CHILD).is_some() {
        return run_child();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([TEST, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    read_line(&mut output, "started");

    signal(&child, "STOP");
    wait_until_stopped(&child);
    let stopped = Instant::now();
    std::thread::sleep(STOP);
    let stop_ns = stopped.elapsed().as_nanos() as i64;
    signal(&child, "CONT");

    writeln!(child.stdin.take().unwrap()).unwrap();
    let numbers = read_line(&mut output, "spans");
    assert!(child.wait().unwrap().success());
    let numbers: Vec<i64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
    let [error_ns, spans_ns @ ..] = &numbers[..] else { panic!("no numbers") };
    assert_eq!(spans_ns.len(), 6);
    for span_ns in spans_ns {
        assert!(span_ns + error_ns >= stop_ns, "{numbers:?} after a stop of {stop_ns} ns");
    }
}
