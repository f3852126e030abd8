//! Sends numbered messages between two threads through the channels of busypoll and of
//! nexus-async-rt, and reports the runs in which both threads wait forever.
//!
//!     lost-wakes [--rounds N] [--messages N] > lost-wakes.json
//!     lost-wakes --run RUNTIME CHANNEL CAPACITY MESSAGES
//!
//! Each thread has a spinning runtime. The root future of one calls `send().await` in a loop, the
//! root future of the other `recv().await`. A run hangs if no message has arrived for 5 s. Then the
//! program wakes first the sender and then the receiver by hand. If messages arrive again, only the
//! wake of that side was lost. Each run has a process of its own, since a hung one cannot be ended.
//! `--run` makes a single run. The program also measures the cost of a locked instruction.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measuring program prints")]
#![allow(clippy::disallowed_methods, reason = "a measuring program reads the clock")]

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const HANG_TIMEOUT: Duration = Duration::from_secs(5);
const RUNTIMES: [&str; 2] = ["busypoll", "nexus-async-rt"];
const CHANNELS: [&str; 2] = ["spsc", "mpsc"];
const CAPACITIES: [usize; 2] = [1, 64];

/// One of the two threads of a run, in a pair of cache lines of its own.
#[repr(align(128))]
struct Side {
    messages: AtomicU64,
    waker: OnceLock<Waker>,
}

static SENDER: Side = Side::new();
static RECEIVER: Side = Side::new();

impl Side {
    const fn new() -> Self {
        Self { messages: AtomicU64::new(0), waker: OnceLock::new() }
    }

    /// Stores the waker of the calling future, which is a root and so keeps the same one.
    async fn store_waker(&self) {
        std::future::poll_fn(|cx| {
            self.waker.get_or_init(|| cx.waker().clone());
            Poll::Ready(())
        })
        .await;
    }
}

fn block_on_busypoll(root: impl Future<Output = ()> + 'static) {
    let runtime = busypoll::Runtime::builder().parking(busypoll::Parking::Spin).build();
    runtime.expect("the kernel gives an event queue").block_on(root);
}

fn block_on_nexus(root: impl Future<Output = ()> + 'static) {
    let mut world = nexus_rt::WorldBuilder::new().build();
    nexus_async_rt::Runtime::new(&mut world).block_on_busy(root);
}

/// Sends all messages through a channel of either runtime. The two share no trait.
macro_rules! exchange {
    ($block_on:ident, $channel:path, $capacity:ident, $messages:ident) => {
        $block_on(async move {
            #[allow(unused_mut, reason = "one of the two needs it")]
            let (mut sender, mut receiver) = $channel($capacity);
            let sending = thread::spawn(move || {
                $block_on(async move {
                    SENDER.store_waker().await;
                    for number in 0..$messages {
                        sender.send(number).await.expect("the receiver exists");
                        SENDER.messages.store(number + 1, Ordering::Relaxed);
                    }
                });
            });
            RECEIVER.store_waker().await;
            for number in 0..$messages {
                let received = receiver.recv().await.into_iter().next();
                assert_eq!(received, Some(number), "the messages arrive once and in order");
                RECEIVER.messages.store(number + 1, Ordering::Relaxed);
            }
            sending.join().expect("the sender does not panic");
        })
    };
}

fn exchange(runtime: &str, channel: &str, capacity: usize, messages: u64) {
    use {busypoll::channel as ours, nexus_async_rt::channel as theirs};
    match (runtime, channel) {
        ("busypoll", "spsc") => {
            exchange!(block_on_busypoll, ours::spsc::channel::<u64>, capacity, messages)
        }
        ("busypoll", "mpsc") => {
            exchange!(block_on_busypoll, ours::mpsc::channel::<u64>, capacity, messages)
        }
        ("nexus-async-rt", "spsc") => {
            exchange!(block_on_nexus, theirs::spsc::channel::<u64>, capacity, messages)
        }
        ("nexus-async-rt", "mpsc") => {
            exchange!(block_on_nexus, theirs::mpsc::channel::<u64>, capacity, messages)
        }
        _ => panic!("unknown runtime or channel"),
    }
}

/// Makes one run. Its threads still exist afterwards if it hangs.
fn run(runtime: String, channel: String, capacity: usize, messages: u64) -> Value {
    let exchange = thread::spawn(move || exchange(&runtime, &channel, capacity, messages));
    let (mut delivered, mut last_progress) = (0, Instant::now());
    while !exchange.is_finished() {
        thread::sleep(Duration::from_millis(10));
        let now_delivered = RECEIVER.messages.load(Ordering::Relaxed);
        if now_delivered != delivered {
            (delivered, last_progress) = (now_delivered, Instant::now());
        } else if last_progress.elapsed() > HANG_TIMEOUT {
            let sent = SENDER.messages.load(Ordering::Relaxed);
            let lost_wake_of = find_lost_wake(delivered);
            return json!({ "outcome": "hung", "sent": sent, "delivered": delivered,
                           "lost_wake_of": lost_wake_of });
        }
    }
    let outcome = if exchange.join().is_ok() { "complete" } else { "panicked" };
    json!({ "outcome": outcome, "delivered": RECEIVER.messages.load(Ordering::Relaxed) })
}

/// Wakes one side, then the other. Returns the first one whose wake lets messages arrive again.
fn find_lost_wake(delivered: u64) -> Option<&'static str> {
    for (name, side) in [("sender", &SENDER), ("receiver", &RECEIVER)] {
        side.waker.get()?.wake_by_ref();
        thread::sleep(Duration::from_millis(100));
        if RECEIVER.messages.load(Ordering::Relaxed) > delivered {
            return Some(name);
        }
    }
    None
}

fn run_in_process(runtime: &str, channel: &str, capacity: usize, messages: u64) -> Value {
    let program = std::env::current_exe().expect("the path of this program");
    let numbers = [capacity.to_string(), messages.to_string()];
    let output = Command::new(program)
        .args(["--run", runtime, channel])
        .args(numbers)
        .stderr(Stdio::inherit())
        .output()
        .expect("the program runs");
    let mut outcome = serde_json::from_slice(&output.stdout).unwrap_or_else(
        |_| json!({ "outcome": "crashed", "signal": output.status.signal(), "delivered": null }),
    );
    outcome["runtime"] = runtime.into();
    outcome["channel"] = channel.into();
    outcome["capacity"] = capacity.into();
    eprintln!("{outcome}");
    outcome
}

/// Returns the median cost of an operation on a word that no other thread accesses.
fn cost_ns(operation: impl Fn(&AtomicU64, u64)) -> f64 {
    const OPERATIONS: u64 = 10_000;
    let word = AtomicU64::new(0);
    let block = |_| {
        let start = Instant::now();
        (0..OPERATIONS).for_each(|value| operation(black_box(&word), value));
        start.elapsed().as_nanos() as f64 / OPERATIONS as f64
    };
    let mut blocks: Vec<f64> = (0..101).map(block).collect();
    blocks.sort_by(f64::total_cmp);
    blocks[blocks.len() / 2]
}

fn run_all(rounds: u64, messages: u64) {
    let swap_ns = cost_ns(|word, value| {
        black_box(word.swap(value, Ordering::SeqCst));
    });
    let store_ns = cost_ns(|word, value| word.store(value, Ordering::Release));
    eprintln!("uncontended: swap {swap_ns:.2} ns, store {store_ns:.2} ns");
    let mut runs = Vec::new();
    for _ in 0..rounds {
        for (channel, capacity) in CHANNELS.into_iter().flat_map(|c| CAPACITIES.map(|n| (c, n))) {
            for runtime in RUNTIMES {
                runs.push(run_in_process(runtime, channel, capacity, messages));
            }
        }
    }
    let report = json!({ "nexus_async_rt": "0.7.0", "messages": messages, "rounds": rounds,
                         "hang_timeout_s": HANG_TIMEOUT.as_secs(),
                         "uncontended_ns": { "swap": swap_ns, "store": store_ns }, "runs": runs });
    println!("{report:#}");
}

fn exit_with_usage() -> ! {
    eprintln!("usage: lost-wakes [--rounds N] [--messages N]");
    std::process::exit(2);
}

fn parse<T: std::str::FromStr>(argument: Option<String>) -> T {
    argument.and_then(|a| a.parse().ok()).unwrap_or_else(|| exit_with_usage())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut rounds, mut messages) = (5, 1_000_000);
    while let Some(name) = arguments.next() {
        let mut next = || arguments.next();
        match name.as_str() {
            "--run" => {
                let (runtime, channel) = (parse(next()), parse(next()));
                println!("{}", run(runtime, channel, parse(next()), parse(next())));
                // Ends the threads of a hung run.
                std::process::exit(0);
            }
            "--rounds" => rounds = parse(next()),
            "--messages" => messages = parse(next()),
            _ => exit_with_usage(),
        }
    }
    run_all(rounds, messages);
}
