//! A control loop at 1 kHz beside a sensor that another task reads, and its end.
//!
//! A plant drifts; the loop reads its last measurement and steers it back, on a grid that does not
//! slip. A watchdog's token is a child of the loop's: it is cancelled first, which leaves the loop
//! alone; then the loop is. Prints how late the ticks were: figures of this machine as it is now,
//! not of the runtime.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_methods, reason = "the loop reads the clock to see how late it is")]

use std::time::{Duration, Instant};

use busypoll::time::{self, MissedTickBehavior};
use busypoll::{CancellationToken, Resources, Runtime, spawn_boxed, spawn_slab};

const PERIOD: Duration = Duration::from_millis(1);
const TICKS: usize = 500;
const TARGET: f64 = 20.0;

/// What is controlled: for example a temperature, and how much it is heated.
struct Plant {
    value: f64,
    input: f64,
}

impl Plant {
    /// It cools towards zero, and is heated.
    fn step(&mut self) {
        self.value += 0.05 * (self.input - self.value);
    }
}

/// Ticks until cancelled; returns the lateness of each tick in nanoseconds.
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
        // Nobody may listen any more; the loop goes on.
        let _ = ticked.try_send(lateness_ns.len());
    }
    lateness_ns
}

/// Counts until it is cancelled.
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

        while ticks.recv().await.ok_or("the loop ended by itself")? < TICKS / 2 {}
        watched.cancel();
        let checks = watchdog.await?;
        assert!(checks > 0 && !token.is_cancelled(), "a child's end must not be its parent's");
        println!("the watchdog looked {checks} times and was cancelled; the loop runs on");

        while ticks.recv().await.ok_or("the loop ended by itself")? < TICKS {}
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
