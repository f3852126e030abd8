//! Waits in `std::thread::sleep`, on a thread without a runtime.

use std::process::ExitCode;
use std::thread;

use peers_runtimes::{BoxError, Request, Round};

fn main() -> ExitCode {
    peers_runtimes::measure("std", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let mut round = request.start();
    while round.next_deadline().is_some() {
        thread::sleep(round.remaining_time());
        round.record_wakeup();
    }
    Ok(round)
}
