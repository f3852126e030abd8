//! Waits in spin_sleep_util's `Interval`, which sleeps until shortly before a deadline and then
//! spins, on a thread without a runtime.

use std::process::ExitCode;

use peers_runtimes::{BoxError, Request, Round};
use spin_sleep_util::{MissedTickBehavior, interval_at};

fn main() -> ExitCode {
    peers_runtimes::measure("spin_sleep_util", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let mut round = request.start();
    // Unless set, missed ticks are not delivered.
    let mut interval = interval_at(round.first_deadline(), round.period())
        .with_missed_tick_behavior(MissedTickBehavior::Burst);
    while round.next_deadline().is_some() {
        interval.tick();
        round.record_wakeup();
    }
    Ok(round)
}
