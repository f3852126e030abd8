//! Waits in the interval of tokio-hrtime, in a task on tokio's current-thread runtime.

use std::process::ExitCode;

use peers_runtimes::{BoxError, Request, Round};
use tokio::runtime::Builder;

fn main() -> ExitCode {
    peers_runtimes::measure("tokio-hrtime", measure_round)
}

fn measure_round(request: Request) -> Result<Round, BoxError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async move { tokio::spawn(run_ticks(request)).await })?)
}

async fn run_ticks(request: Request) -> Round {
    let mut round = request.start();
    let mut interval = tokio_hrtime::interval_at(round.first_deadline(), round.period());
    while round.next_deadline().is_some() {
        interval.tick().await;
        round.record_wakeup();
    }
    round
}
