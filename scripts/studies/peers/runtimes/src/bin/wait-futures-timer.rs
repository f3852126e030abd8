//! Waits in the `Delay` of futures-timer, whose helper thread sleeps, for one deadline after the
//! other. It works with any executor; this one parks its thread.

use std::process::ExitCode;

use futures_lite::future;
use futures_timer::Delay;
use peers_runtimes::{BoxError, Request, Round};

fn main() -> ExitCode {
    peers_runtimes::measure("futures-timer", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    Ok(future::block_on(run_ticks(request)))
}

async fn run_ticks(request: Request) -> Round {
    let mut round = request.start();
    let mut delay = Delay::new(round.remaining_time());
    while round.next_deadline().is_some() {
        (&mut delay).await;
        round.record_wakeup();
        delay.reset(round.remaining_time());
    }
    round
}
