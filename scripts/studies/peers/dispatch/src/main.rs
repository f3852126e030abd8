//! Measures the cost of polls, tasks, channels, wakes and idle turns in busypoll and in
//! nexus-async-rt.
//!
//! The code in `side.rs` measures both, alternately, with a process of its own for each side and
//! round, so that a crash of one ends only this round. A process measures twice and returns the
//! second result. The table has the median and the minimum over all rounds in nanoseconds, the
//! median of the ratios within a round, and the number of processes that crashed.
//!
//! Run it with `cargo run --release -p peer-dispatch` in scripts/studies/peers. `-- --rounds 100`
//! sets the number of rounds, `-- --out DIR` writes peers-dispatch.json and peers-dispatch.md.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measuring program prints")]

mod side;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use side::{OPERATIONS, ours, theirs};

/// Converts counts of the CPU's counter to time and back.
#[derive(Clone, Copy)]
pub struct Clock {
    hz: f64,
}

impl Clock {
    fn ns(self, counts: u64) -> f64 {
        counts as f64 / self.hz * 1e9
    }

    fn counts(self, duration: Duration) -> u64 {
        (duration.as_secs_f64() * self.hz) as u64
    }
}

/// Number of calls to `epoll_wait` of this process.
static EPOLL_WAITS: AtomicU64 = AtomicU64::new(0);

/// Replaces the function of the C library and counts its calls.
///
/// # Safety
/// The contract is that of the function of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    epoll: libc::c_int,
    events: *mut libc::epoll_event,
    max_events: libc::c_int,
    timeout: libc::c_int,
) -> libc::c_int {
    EPOLL_WAITS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the arguments are the caller's, and their contract is that of this system call.
    unsafe {
        libc::syscall(libc::SYS_epoll_wait, epoll, events, max_events, timeout) as libc::c_int
    }
}

/// Returns the number of idle turns of nexus-async-rt, which does not count its turns, but calls
/// `epoll_wait` once in each idle one.
fn their_turns(_: &nexus_async_rt::Runtime) -> u64 {
    EPOLL_WAITS.load(Ordering::Relaxed)
}

/// Runs a future in the context of a tokio runtime that lives as long as the process, as that of
/// nexus-async-rt does.
fn our_bridge<F: Future>(future: F) -> busypoll::compat::WithTokio<F> {
    static TOKIO: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().expect("a runtime of tokio")
    });
    busypoll::compat::with_tokio(TOKIO.handle(), future)
}

fn their_bridge<F: Future>(future: F) -> nexus_async_rt::tokio_compat::TokioCompat<F> {
    nexus_async_rt::tokio_compat::with_tokio(|| future)
}

fn our_round(clock: Clock) -> Vec<f64> {
    let build = |parking| busypoll::Runtime::builder().parking(parking).slab(256, 64).build();
    let mut awake = build(busypoll::Parking::Spin).expect("the kernel gives an event queue");
    let mut asleep = build(busypoll::Parking::Park).expect("the kernel gives an event queue");
    ours::round(&mut awake, Some(&mut asleep), clock)
}

fn their_round(clock: Clock) -> Vec<f64> {
    let mut world = nexus_rt::WorldBuilder::new().build();
    // SAFETY: the slab goes straight into the one runtime of this thread, as its constructor asks.
    let slab = unsafe { nexus_slab::byte::unbounded::Slab::<256>::with_chunk_capacity(64) };
    let mut runtime = nexus_async_rt::Runtime::builder(&mut world).slab_unbounded(slab).build();
    theirs::round(&mut runtime, None, clock)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A side of the comparison.
#[derive(Clone, Copy)]
struct Side {
    name: &'static str,
    round: fn(Clock) -> Vec<f64>,
}

const SIDES: [Side; 2] = [
    Side { name: "busypoll", round: our_round },
    Side { name: "nexus-async-rt", round: their_round },
];

/// Measured rounds of a side. A round is an error if its process crashed.
type Rounds = Vec<Result<Vec<f64>, String>>;

/// Measures a round of a side in a process of its own.
fn run_process(side: Side) -> Result<Vec<f64>, String> {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args(["--side", side.name])
        .output()
        .expect("the program can be started");
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    Ok(serde_json::from_slice(&output.stdout).expect("a process prints its costs as JSON"))
}

/// Costs of an operation on one side.
struct Cost {
    median: f64,
    minimum: f64,
}

impl Cost {
    /// Returns the cost over the rounds that were completed; `None` if all of them crashed.
    fn over_rounds(rounds: &Rounds, operation: usize) -> Option<Self> {
        let costs: Vec<f64> = rounds.iter().flatten().map(|round| round[operation]).collect();
        let minimum = costs.iter().copied().reduce(f64::min)?;
        Some(Self { median: median(costs), minimum })
    }
}

/// Returns the median ratio of the rounds that both sides completed.
fn median_ratio(ours: &Rounds, theirs: &Rounds, operation: usize) -> Option<f64> {
    let pairs = ours.iter().zip(theirs);
    let ratios: Vec<f64> = pairs
        .filter_map(|(a, b)| Some(a.as_ref().ok()?[operation] / b.as_ref().ok()?[operation]))
        .collect();
    (!ratios.is_empty()).then(|| median(ratios))
}

/// Returns how many of a side's processes crashed, and how they ended.
fn format_crashes(rounds: &Rounds) -> String {
    let crashes: Vec<&String> = rounds.iter().filter_map(|round| round.as_ref().err()).collect();
    let ways: BTreeSet<&str> = crashes.iter().map(|way| way.as_str()).collect();
    let ways: Vec<&str> = ways.into_iter().collect();
    let count = format!("{} of {}", crashes.len(), rounds.len());
    if ways.is_empty() { count } else { format!("{count}: {}", ways.join(", ")) }
}

fn format_ns(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1}"))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option =
        |name: &str| arguments.iter().position(|a| a == name).and_then(|i| arguments.get(i + 1));
    if let Some(name) = option("--side") {
        let side = SIDES.into_iter().find(|side| side.name == *name).expect("a name of a side");
        let clock = Clock { hz: tach::info().rate_hz };
        (side.round)(clock);
        println!("{}", json!((side.round)(clock)));
        return;
    }
    let rounds: usize =
        option("--rounds").map_or(25, |n| n.parse().expect("--rounds takes a number"));
    let mut sides: [Rounds; 2] = Default::default();
    for round in 0..rounds.max(1) {
        for i in [round % 2, 1 - round % 2] {
            sides[i].push(run_process(SIDES[i]));
        }
    }
    let [ours, theirs] = &sides;
    let table = table(ours, theirs);
    println!("{table}");
    if let Some(directory) = option("--out") {
        let write = |name: &str, text: &str| {
            std::fs::write(std::path::Path::new(directory).join(name), text)
                .expect("the directory can be written to");
        };
        let costs = |rounds: &Rounds, i: usize| -> Vec<Option<f64>> {
            rounds.iter().map(|round| round.as_ref().ok().map(|costs| costs[i])).collect()
        };
        let rows = OPERATIONS.iter().enumerate().map(|(i, (name, about))| {
            json!({ "name": name, "about": about, "ratio_median": median_ratio(ours, theirs, i),
                    "busypoll_ns": costs(ours, i), "nexus_async_rt_ns": costs(theirs, i) })
        });
        let crashes = |rounds: &Rounds| -> Vec<Option<String>> {
            rounds.iter().map(|round| round.as_ref().err().cloned()).collect()
        };
        let report = json!({ "machine": machine(), "rounds": rounds, "nexus_async_rt": "0.7.0 with nexus-timer 1.4.2",
                             "operations": rows.collect::<Vec<_>>(), "busypoll_crashes": crashes(ours),
                             "nexus_async_rt_crashes": crashes(theirs) });
        write("peers-dispatch.json", &format!("{report:#}\n"));
        write("peers-dispatch.md", &markdown(&table, rounds));
    }
}

/// Returns a Markdown table with a row for each operation, and one for the crashes.
fn table(ours: &Rounds, theirs: &Rounds) -> String {
    let mut text = "| | busypoll | least | nexus-async-rt | least | ratio, median of rounds | |\n\
                    |---|---:|---:|---:|---:|---:|---|\n"
        .to_owned();
    for (i, (name, about)) in OPERATIONS.iter().enumerate() {
        let mut cells = String::new();
        for rounds in [ours, theirs] {
            let cost = Cost::over_rounds(rounds, i);
            let median = format_ns(cost.as_ref().map(|cost| cost.median));
            let minimum = format_ns(cost.as_ref().map(|cost| cost.minimum));
            let _ = write!(cells, " {median} | {minimum} |");
        }
        let ratio = median_ratio(ours, theirs, i);
        let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let _ = writeln!(text, "| {name} |{cells} {ratio} | {about} |");
    }
    let [ours, theirs] = [ours, theirs].map(format_crashes);
    let _ = write!(text, "| crashed | {ours} | | {theirs} | | | processes that did not complete their round |");
    text
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown CPU", |l| l.1);
    format!("{}, kernel {}", cpu.trim(), read("/proc/sys/kernel/osrelease").trim())
}

fn markdown(table: &str, rounds: usize) -> String {
    format!(
        "# busypoll and nexus-async-rt\n\nOn {}, one run of {rounds} rounds, each side in a process of its own, alternately; nanoseconds, \
         median of the rounds and least of them. The ratios are those of this machine; they differ on others. nexus-async-rt 0.7.0 with \
         nexus-timer 1.4.2; made by `scripts/results/publish.py dispatch`.\n\n{table}\n",
        machine()
    )
}
