//! Tests of the limits of a monitor: broken ones, and those that were not checked.

use rustix::process::Signal;
use serde_json::Value;

use super::interval_log::files;
use super::scraping::{metrics_address, scrape};
use super::{MonitorHome, start};
use crate::process_control::poll_until;
use crate::schema;
use crate::top::MeteredProgram;

#[test]
fn broken_limits_are_reported() {
    let home = MonitorHome::new();
    // The first limit is always broken, the others never.
    let limits = ["--limit", "nanosleep:max=1ns", "--limit", "max=24h", "--limit", "p50=24h"];
    let monitor = home.logging_monitor(&limits).args(["--listen", "127.0.0.1:0"]);
    let mut running = start(monitor);
    let line = running.says("limit broken");
    let broken = "limit broken: nanosleep@10ms: nanosleep:max=1ns, measured ";
    assert!(line.starts_with(broken), "{line}");
    let address = metrics_address(&mut running);
    let key = "osjitter_limit_breaches_total{subject=\"nanosleep\",period=\"0.01\",limit=\"nanosleep:max=1ns\"}";
    assert!(poll_until(|| scrape(&address).get(key).copied()) >= 1.0);
    let file = poll_until(|| files(&home.log, ".breaches.json").first().cloned());
    running.signal(Signal::INT);
    let ran = running.ends().exits(0);
    assert!(!ran.stderr.contains("limit broken: os-interval@"), "{}", ran.stderr);
    let breaches = schema::valid(&std::fs::read_to_string(file).unwrap(), "breaches.1");
    let breach = &breaches["breaches"][0];
    assert_eq!((&breach["subject"], &breach["limit"]), (&"nanosleep".into(), &1.0.into()));
    let late = breach["late"].as_array().unwrap();
    assert!(!late.is_empty() && late.len() <= 128, "{breaches:#}");
    let is_worst = |tick: &Value| tick["lateness_ns"].as_f64() == breach["value"].as_f64();
    assert!(late.iter().any(is_worst) || late.len() == 128, "{breaches:#}");
}

/// A limit that was not checked on every meter does not pass.
#[test]
fn unchecked_limits_do_not_pass() {
    let home = MonitorHome::new();
    let program = MeteredProgram::start(&home.meters);
    std::fs::write(home.meters.join("1.tickmeter"), "not a meter").unwrap();
    let args = ["--no-probes", "--interval", "1s", "--listen", "127.0.0.1:0"];
    let mut running = start(home.monitor(&args).args(["--limit", "max=24h"]));
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
fn quiet_monitor_reports_unchecked_limits() {
    let home = MonitorHome::new();
    let program = MeteredProgram::start(&home.meters);
    std::fs::write(home.meters.join("1.tickmeter"), "not a meter").unwrap();
    let args = ["--quiet", "--no-probes", "--interval", "1s", "--limit", "p99.99=24h"];
    let mut running = start(home.monitor(&args));
    running.says("1.tickmeter");
    running.says("p99.99=24h needs 50000 ticks per interval");
    running.signal(Signal::TERM);
    running.ends().exits(4);
    drop(program);
}

#[test]
fn limits_without_loop_do_not_pass() {
    let home = MonitorHome::new();
    let args = ["--no-meters", "--interval", "1s", "--listen", "127.0.0.1:0"];
    let limits = ["--limit", "mispelt:max=24h", "--limit", "max=24h"];
    let mut running = start(home.monitor(&args).args(limits));
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
