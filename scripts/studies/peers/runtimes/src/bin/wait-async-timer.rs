//! Waits in a timer of async-timer on tokio's current-thread runtime. Its interval has no absolute
//! deadlines and leaves out ticks, so the timer is set again for each deadline.

use std::process::ExitCode;
use std::time::Duration;

use async_timer::Timer;
use peers_runtimes::{BoxError, Request, Round};
use tokio::runtime::Builder;

/// Time of a timer whose deadline is over. A timer of zero would be disarmed.
const MIN_TIME: Duration = Duration::from_nanos(1);

fn main() -> ExitCode {
    peers_runtimes::measure("async-timer", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async move { tokio::spawn(run_ticks(request)).await })?)
}

async fn run_ticks(request: Request) -> Round {
    let mut round = request.start();
    let mut timer = async_timer::new_timer(round.remaining_time().max(MIN_TIME));
    while round.next_deadline().is_some() {
        (&mut timer).await;
        round.record_wakeup();
        timer.restart(round.remaining_time().max(MIN_TIME));
    }
    round
}
