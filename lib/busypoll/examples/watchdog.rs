//! A control loop at 1 kHz with a watchdog in another task, and their orderly end.
//!
//! A plant drifts. The loop reads its last measurement and steers it back, on a grid that does not
//! slip. The token of the watchdog is a child of the loop's token. The example first cancels the
//! watchdog, which leaves the loop running, and then the loop. It prints how late the ticks were,
//! which depends on the current state of the machine.
#![allow(clippy::print_stdout, reason = "an example prints its results")]
#![allow(clippy::disallowed_methods, reason = "the loop reads the clock to see how late it is")]

use std::time::{Duration, Instant};

use busypoll::time::{self, MissedTickBehavior};
use busypoll::{CancellationToken, Resources, Runtime, spawn_boxed, spawn_slab};

const PERIOD: Duration = Duration::from_millis(1);
const TICKS: usize = 500;
const TARGET: f64 = 20.0;

/// The controlled system, for example an oven: its temperature and its heating power.
struct Plant {
    value: f64,
    input: f64,
}

impl Plant {
    /// Cools towards zero and is heated.
    fn step(&mut self) {
        self.value += 0.05 * (self.input - self.value);
    }
}

/// Ticks until cancelled. Returns the lateness of each tick in nanoseconds.
async fn control(
    token: CancellationToken,
    ticked: busypoll::channel::local::Sender<usize>,
) -> Vec<u128> {
    let mut lateness_ns = Vec::with_capacity(TICKS * 2);
    let mut integral = 0.0;
    let mut interval = time::interval(PERIOD);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while let Some(due) = token.run_until_cancelled(interval.tick()).await {
        lateness_ns.push(due.elapsed().as_nanos());
        Resources::current().with_mut(|plant: &mut Plant| {
            let error = TARGET - plant.value;
            integral += 0.02 * error;
            plant.input = 2.0 * error + integral;
            plant.step();
        });
        // The loop continues even if the receiver has been dropped.
        let _ = ticked.try_send(lateness_ns.len());
    }
    lateness_ns
}

/// Counts until cancelled.
async fn watch(token: CancellationToken) -> u32 {
    let mut checks = 0;
    while token.run_until_cancelled(time::sleep(Duration::from_micros(700))).await.is_some() {
        checks += 1;
    }
    checks
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let mut runtime = Runtime::builder().slab(1024, 8).build()?;
    runtime.resources().insert(Plant { value: 0.0, input: 0.0 });
    let mut lateness_ns = runtime.block_on(async {
        let token = CancellationToken::new();
        let watched = token.child_token();
        let (ticked, mut ticks) = busypoll::channel::local::channel(1024);
        let control = spawn_slab(control(token.clone(), ticked));
        let watchdog = spawn_boxed(watch(watched.clone()));

        while ticks.recv().await.ok_or("the loop ended early")? < TICKS / 2 {}
        watched.cancel();
        let checks = watchdog.await?;
        assert!(
            checks > 0 && !token.is_cancelled(),
            "cancelling a child must not cancel its parent"
        );
        println!("the watchdog checked {checks} times and was cancelled; the loop continues");

        while ticks.recv().await.ok_or("the loop ended early")? < TICKS {}
        token.cancel();
        let lateness_ns = control.await?;
        Ok::<_, Box<dyn std::error::Error>>(lateness_ns)
    })?;
    assert_eq!(runtime.live_tasks(), 0);
    assert!(lateness_ns.len() >= TICKS);
    assert!(started.elapsed() >= PERIOD * (TICKS as u32 - 1), "ticks came early");
    let value = runtime.resources().with(|plant: &Plant| plant.value);
    assert!((value - TARGET).abs() < 0.5, "the loop did not steer to {TARGET}: {value}");

    lateness_ns.sort_unstable();
    let (median, last) = (lateness_ns[lateness_ns.len() / 2], lateness_ns[lateness_ns.len() - 1]);
    println!(
        "{} ticks, plant at {value:.2}; lateness: median {median} ns, max {last} ns",
        lateness_ns.len()
    );
    Ok(())
}
