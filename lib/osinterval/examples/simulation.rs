//! Simulates a client and a server, each on a runtime of its own with a paused clock, as turmoil
//! does. A seed determines the delays of the network and the order in which the hosts run.
//!
//! Run it with `cargo run --example simulation -- 7` for the seed 7. The same seed gives the same
//! events on every machine.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tokio::time::Instant;

/// The time by which every host advances before another one runs.
const STEP: Duration = Duration::from_millis(1);
const LENGTH: Duration = Duration::from_secs(60);
const REQUEST_TIMEOUT: Duration = Duration::from_millis(80);

/// Pseudorandom numbers, by the algorithm SplitMix64.
#[derive(Clone)]
struct Random(Rc<RefCell<u64>>);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(seed)))
    }

    fn below(&self, end: u64) -> u64 {
        let mut state = self.0.borrow_mut();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    time: Duration,
    host: &'static str,
    text: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12} {:6} {}", format!("{:?}", self.time), self.host, self.text)
    }
}

type Log = Rc<RefCell<Vec<Event>>>;

/// A host with its runtime. Its clock is paused, and it needs no I/O driver.
struct Host {
    runtime: Runtime,
    tasks: LocalSet,
}

impl Host {
    fn new(software: impl Future<Output = ()> + 'static) -> Self {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
        let tasks = LocalSet::new();
        tasks.spawn_local(software);
        Self { runtime, tasks }
    }

    /// Runs the tasks of the host until its clock has advanced by a step.
    fn run_step(&self) {
        self.runtime.block_on(self.tasks.run_until(async { tokio::time::sleep(STEP).await }));
    }
}

/// The environment of a host's software: the network and the log.
struct Context {
    host: &'static str,
    random: Random,
    log: Log,
}

impl Context {
    fn record(&self, start: Instant, text: String) {
        self.log.borrow_mut().push(Event { time: start.elapsed(), host: self.host, text });
    }

    /// Waits for as long as the network needs for a message.
    async fn delay(&self) {
        osinterval::sleep(Duration::from_millis(5 + self.random.below(50))).await;
    }
}

/// Sends a request each second, and gives up if no answer comes in time.
async fn run_client(
    context: Context,
    requests: UnboundedSender<u64>,
    mut answers: UnboundedReceiver<u64>,
) {
    let start = Instant::now();
    let mut seconds = osinterval::interval(Duration::from_secs(1));
    for number in 0.. {
        seconds.tick().await;
        context.delay().await;
        let _ = requests.send(number);
        let answer =
            async { while answers.recv().await.is_some_and(|answered| answered != number) {} };
        let text = match osinterval::timeout(REQUEST_TIMEOUT, answer).await {
            Ok(()) => format!("has the answer {number}"),
            Err(_) => format!("gives up {number}"),
        };
        context.record(start, text);
    }
}

async fn run_server(
    context: Context,
    mut requests: UnboundedReceiver<u64>,
    answers: UnboundedSender<u64>,
) {
    let start = Instant::now();
    while let Some(number) = requests.recv().await {
        context.record(start, format!("works on {number}"));
        osinterval::sleep(Duration::from_millis(20)).await;
        context.delay().await;
        let _ = answers.send(number);
    }
}

/// Simulates a minute and returns the events.
fn simulate(seed: u64) -> Vec<Event> {
    let (random, log) = (Random::new(seed), Log::default());
    let context = |host| Context { host, random: random.clone(), log: Rc::clone(&log) };
    let (requests, received_requests) = unbounded_channel();
    let (answers, received_answers) = unbounded_channel();
    let mut hosts = [
        Host::new(run_client(context("client"), requests, received_answers)),
        Host::new(run_server(context("server"), received_requests, answers)),
    ];
    let steps = LENGTH.as_millis() / STEP.as_millis();
    for _ in 0..steps {
        if random.below(2) == 1 {
            hosts.swap(0, 1);
        }
        hosts.iter().for_each(Host::run_step);
    }
    drop(hosts);
    log.take()
}

fn main() {
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let events = simulate(seed);
    for event in &events[..10] {
        println!("{event}");
    }
    let given_up = events.iter().filter(|event| event.text.starts_with("gives up")).count();
    println!("{} events in {LENGTH:?}; {given_up} requests were given up", events.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_determine_the_events() {
        let events = simulate(7);
        assert!(events.len() > 100, "{events:?}");
        assert_eq!(simulate(7), events);
        assert_ne!(simulate(8), events);
    }
}
