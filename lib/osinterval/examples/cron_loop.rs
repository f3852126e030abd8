//! Shows the effect of each missed-tick behaviour on a loop that works every 500 ms and takes far
//! too long once.
//!
//! Run it with `cargo run --release --example cron_loop`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use osinterval::{MissedTickBehavior, OsInterval};

const PERIOD: Duration = Duration::from_millis(500);

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip]
    {
        println!("{behavior:?}");
        let mut interval = OsInterval::builder(PERIOD).missed_tick_behavior(behavior).build()?;
        let start = interval.deadline();
        for job in 0..6 {
            let deadline = interval.tick().await;
            println!(
                "  job {job}: due at {:>5} ms, {:>5} ms late",
                (deadline - start).as_millis(),
                deadline.elapsed().as_millis()
            );
            // The second job takes longer than two periods.
            let work = if job == 1 { PERIOD * 12 / 5 } else { PERIOD / 50 };
            tokio::time::sleep(work).await;
        }
        println!("  missed: {}", interval.missed());
    }
    Ok(())
}
