//! Waits in spin_sleep, which sleeps until shortly before a deadline and then spins, on a thread
//! without a runtime.

use std::process::ExitCode;

use peers_runtimes::{BoxError, Request, Round};
use spin_sleep::SpinSleeper;

fn main() -> ExitCode {
    peers_runtimes::measure("spin_sleep", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let sleeper = SpinSleeper::default();
    let mut round = request.start();
    while let Some(deadline) = round.next_deadline() {
        sleeper.sleep_until(deadline);
        round.record_wakeup();
    }
    Ok(round)
}
