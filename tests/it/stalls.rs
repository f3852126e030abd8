//! Tests that a stop of the whole process delays every tick in it.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use files::file::File as _;
use files::report::Report;
use rustix::process::Signal;

use crate::osjitter::send_signal;

const PERIOD_NS: i64 = 500_000;

/// Runs a round of 1,200 ticks at 500 us, and stops the whole process for a while, `pause_ms` after
/// the run's first line. Returns the lateness of every tick and the minimum duration of the stop.
fn stalled_round(subject: &str, pause_ms: u64) -> (Vec<i64>, i64) {
    let out = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["run", "--subject", subject, "--period", "500us"])
        .args(["--ticks", "1200", "--round-ticks", "1200"])
        .arg("--out")
        .arg(out.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(stderr.next().unwrap().unwrap().starts_with("1 subject"), "it begins");
    #[allow(clippy::disallowed_methods, reason = "the length of the stall is what is tested")]
    let stalled = {
        std::thread::sleep(Duration::from_millis(pause_ms));
        send_signal(child.id(), Signal::STOP);
        let stopped = Instant::now();
        std::thread::sleep(Duration::from_millis(200));
        let stalled = stopped.elapsed();
        send_signal(child.id(), Signal::CONT);
        stalled
    };
    stderr.for_each(drop);
    assert!(child.wait().unwrap().success());
    let report =
        Report::from_json(&std::fs::read_to_string(out.path().join("report.json")).unwrap())
            .unwrap();
    assert_eq!(report.subjects[0].rounds.len(), 1);
    (report.subjects[0].rounds[0].lateness_ns.clone(), i64::try_from(stalled.as_nanos()).unwrap())
}

#[test]
fn stall_delays_every_tick_in_it() {
    // A tick this much earlier than the end of the stall must be late by at least as much.
    const MARGIN_NS: i64 = 10_000_000;
    const ATTEMPTS: u32 = 32;
    for subject in
        ["os-interval", "nanosleep", "tokio-interval", "busypoll-interval", "tokio-busy", "spin"]
    {
        // On a busy machine the round may begin after the stall, or end before it.
        let found = (0..ATTEMPTS).any(|attempt| {
            let pause_ms = 100 << (attempt % 4);
            let (lateness, stalled) = stalled_round(subject, pause_ms);
            assert_eq!(lateness.len(), 1_200);
            let (worst, &max) = lateness.iter().enumerate().max_by_key(|(_, l)| **l).unwrap();
            // The first tick of a stall is due within a period after its start.
            let first_late = stalled - PERIOD_NS;
            let whole = max >= first_late && worst + 500 < lateness.len();
            if whole {
                // The lateness falls by at most a period per tick, so no late tick is hidden.
                let backlog = usize::try_from((stalled - MARGIN_NS) / PERIOD_NS).unwrap();
                for (k, late) in lateness[worst..].iter().take(backlog).enumerate() {
                    let least = first_late - i64::try_from(k).unwrap() * PERIOD_NS;
                    assert!(
                        *late >= least,
                        "{subject}: tick {k} of the stall is late by {late} ns, not {least}"
                    );
                }
            }
            whole
        });
        assert!(found, "{subject}: no stall hit the round");
    }
}
