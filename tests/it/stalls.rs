//! Tests that a stop of the whole process delays every tick in it.
#![cfg(unix)]

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::osjitter::Osjitter;

const PERIOD_NS: i64 = 500_000;

/// Runs a round of 1,200 ticks at 500 us, and stops the whole process for a while, `pause_ms` after
/// the run's first line. Returns the lateness of every tick and the minimum duration of the stop.
#[allow(clippy::disallowed_methods, reason = "the length of the stall is what is tested")]
fn stalled_round(subject: &str, pause_ms: u64) -> (Vec<i64>, i64) {
    let run = ["run", "--subject", subject, "--period", "500us"];
    let round = ["--ticks", "1200", "--round-ticks", "1200"];
    let mut running = Osjitter::new(run).args(round).out("").start();
    running.says("1 subject");
    std::thread::sleep(Duration::from_millis(pause_ms));
    running.signal(Signal::STOP);
    let stopped = Instant::now();
    std::thread::sleep(Duration::from_millis(200));
    let stalled = stopped.elapsed();
    running.signal(Signal::CONT);
    let mut rounds = running.ends().exits(0).report().subjects.remove(0).rounds;
    assert_eq!(rounds.len(), 1);
    (rounds.remove(0).lateness_ns, i64::try_from(stalled.as_nanos()).unwrap())
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
