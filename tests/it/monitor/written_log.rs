//! Tests of the log of a monitor that is stopped or killed, or whose disk is full or gone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::interval_log::{files, number, read_intervals, rows};
use super::scraping::{metrics_address, scrape, send};
use super::{MonitorHome, start};
use crate::osjitter::Running;
use crate::process_control::poll_until;

#[test]
fn sigterm_writes_the_open_interval() {
    let home = MonitorHome::new();
    // No interval of a day ends in the next two hours: a shorter one than a tenth is not begun.
    let args = ["--interval", "24h", "--period", "1ms", "--listen", "0", "--log"];
    let mut running = start(home.monitor(&args).args([&home.log]));
    let address = metrics_address(&mut running);
    poll_until(|| {
        let samples = scrape(&address);
        let ticks = samples.iter().filter(|(key, _)| key.starts_with("osjitter_ticks_total"));
        (ticks.filter(|(_, count)| **count > 0.0).count() == 2).then_some(())
    });
    assert_eq!(tickmeter::read::list(&home.meters).unwrap().len(), 2, "top shows the probes");
    running.signal(Signal::TERM);
    let ran = running.ends().exits(0);
    assert!(ran.stderr.contains("ended after 1 interval"), "{}", ran.stderr);
    let intervals = read_intervals(&home.log);
    assert_eq!(intervals.len(), 2);
    assert!(intervals.iter().all(|row| number(row, "ticks") > 0));
    assert_eq!(tickmeter::read::list(&home.meters).unwrap().len(), 0);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the time at which a monitor is killed")]
fn killed_monitor_leaves_complete_files() {
    let home = MonitorHome::new();
    let log = &home.log;
    let start_host = |n: usize| {
        let host = format!("host-{n}");
        let mut running = start(home.logging_monitor(&["--no-meters", "--host", &host]));
        running.says("log: ");
        running
    };
    let mut monitors: Vec<Running> = (0..6).map(start_host).collect();
    poll_until(|| (!files(log, ".bins.csv").is_empty()).then_some(()));
    // All monitors end their intervals at the same time. They are killed around it.
    while let Some(running) = monitors.pop() {
        std::thread::sleep(Duration::from_millis(170));
        running.kill();
        files(log, ".csv").iter().for_each(|file| drop(rows(file)));
    }
    // A monitor may have been killed between the two files of a pair.
    for file in files(log, ".intervals.csv") {
        if !Path::new(&file.to_string_lossy().replace(".intervals.", ".bins.")).exists() {
            std::fs::remove_file(file).unwrap();
        }
    }
    assert!(!read_intervals(log).is_empty());
}

#[test]
fn monitor_survives_a_vanished_disk() {
    let home = MonitorHome::new();
    let (log, gone) = (&home.log, home.path().join("gone"));
    let mut running = start(home.logging_monitor(&["--no-meters", "--listen", "0"]));
    let address = metrics_address(&mut running);
    let responds = |path: &str, status: &str| {
        let response = send(&address, &format!("GET {path} HTTP/1.1\r\n\r\n"));
        response.starts_with(&format!("HTTP/1.1 {status} ")).then_some(())
    };
    poll_until(|| files(log, ".bins.csv").first().cloned());
    poll_until(|| responds("/-/ready", "200"));
    std::fs::rename(log, &gone).unwrap();
    let line = running.says(" is lost: ");
    assert!(line.starts_with("the interval of 20"), "{line}");
    assert!(!log.exists(), "a vanished log directory is not recreated");
    poll_until(|| responds("/-/ready", "503"));
    assert!(responds("/healthz", "200").is_some(), "a new process would not help");
    // When the disk is back, further intervals are written.
    std::fs::rename(&gone, log).unwrap();
    let files_before = files(log, ".bins.csv").len();
    poll_until(|| (files(log, ".bins.csv").len() > files_before).then_some(()));
    poll_until(|| responds("/-/ready", "200"));
    running.signal(Signal::TERM);
    let ran = running.ends().exits(4);
    assert!(ran.stderr.contains(" could not be written"), "{}", ran.stderr);
    read_intervals(log);
}

#[test]
fn full_disk_leaves_no_partial_files() {
    let home = MonitorHome::new();
    // No file can be written, so the probes have meters without files.
    let monitor = home.logging_monitor(&["--duration", "2500ms"]);
    let limited = monitor.in_shell(r#"ulimit -f 0; exec "$0" "$@""#);
    let stderr = limited.run().exits(4).stderr;
    assert!(stderr.contains(" is lost: ") && stderr.contains(" could not be written"), "{stderr}");
    assert_eq!(files(&home.log, ""), Vec::<PathBuf>::new(), "{stderr}");
}

#[test]
fn keep_removes_old_intervals() {
    let home = MonitorHome::new();
    // A monitor writes at least one interval, and on a busy machine not more.
    for args in [&[][..], &[], &[], &["--keep", "2"]] {
        let monitor = home.logging_monitor(&["--no-meters", "--duration", "1s"]);
        monitor.args(args).run().exits(0);
    }
    let counts = [".bins.csv", ".intervals.csv"].map(|ending| files(&home.log, ending).len());
    assert_eq!(counts, [2, 2]);
    read_intervals(&home.log);
}
