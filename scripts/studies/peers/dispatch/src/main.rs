//! Measures the cost of polls, tasks, channels, wakes and idle turns in busypoll and in
//! nexus-async-rt.
//!
//! The code in `side.rs` measures both, alternately in one process, with a new runtime for each
//! round. The table has the median and the minimum over all rounds in nanoseconds, and the median
//! of the ratios within a round.
//!
//! Run it with `cargo run --release -p peer-dispatch` in scripts/studies/peers. `-- --rounds 100`
//! sets the number of rounds, `-- --out DIR` writes peers-dispatch.json and peers-dispatch.md.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measuring program prints")]

mod side;

use std::fmt::Write as _;
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

struct Line {
    name: &'static str,
    about: &'static str,
    ours: [f64; 2],
    theirs: [f64; 2],
    ratio: f64,
}

fn lines(ours: &[Vec<f64>], theirs: &[Vec<f64>]) -> Vec<Line> {
    let column = |rounds: &[Vec<f64>], i: usize| rounds.iter().map(|r| r[i]).collect::<Vec<_>>();
    let both = |values: Vec<f64>| {
        [median(values.clone()), values.into_iter().fold(f64::INFINITY, f64::min)]
    };
    let line = |(i, &(name, about)): (usize, &(&'static str, &'static str))| {
        let (a, b) = (column(ours, i), column(theirs, i));
        let ratio = median(a.iter().zip(&b).map(|(a, b)| a / b).collect());
        Line { name, about, ours: both(a), theirs: both(b), ratio }
    };
    OPERATIONS.iter().enumerate().map(line).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option =
        |name: &str| arguments.iter().position(|a| a == name).and_then(|i| arguments.get(i + 1));
    let rounds: usize =
        option("--rounds").map_or(25, |n| n.parse().expect("--rounds takes a number"));
    let clock = Clock { hz: tach::info().rate_hz };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds.max(1) {
        if round % 2 == 0 {
            ours.push(our_round(clock));
            theirs.push(their_round(clock));
        } else {
            theirs.push(their_round(clock));
            ours.push(our_round(clock));
        }
    }
    let lines = lines(&ours, &theirs);
    println!(
        "{:<18}{:>10}{:>10}{:>16}{:>10}{:>8}",
        "ns", "busypoll", "least", "nexus-async-rt", "least", "ratio"
    );
    for Line { name, ours, theirs, ratio, .. } in &lines {
        println!(
            "{name:<18}{:>10.1}{:>10.1}{:>16.1}{:>10.1}{ratio:>8.2}",
            ours[0], ours[1], theirs[0], theirs[1]
        );
    }
    if let Some(directory) = option("--out") {
        let write = |name: &str, text: &str| {
            std::fs::write(std::path::Path::new(directory).join(name), text)
                .expect("the directory can be written to");
        };
        let rows = lines.iter().enumerate().map(|(i, l)| {
            json!({ "name": l.name, "about": l.about, "ratio_median": l.ratio,
                    "busypoll_ns": ours.iter().map(|r| r[i]).collect::<Vec<_>>(),
                    "nexus_async_rt_ns": theirs.iter().map(|r| r[i]).collect::<Vec<_>>() })
        });
        let report = json!({ "machine": machine(), "rounds": rounds, "nexus_async_rt": "0.7.0 with nexus-timer 1.4.2",
                             "operations": rows.collect::<Vec<_>>() });
        write("peers-dispatch.json", &format!("{report:#}\n"));
        write("peers-dispatch.md", &markdown(&lines, rounds));
    }
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

fn markdown(lines: &[Line], rounds: usize) -> String {
    let mut text = format!(
        "# busypoll and nexus-async-rt\n\nOn {}, one run of {rounds} rounds, interleaved; nanoseconds, median of the rounds and least of them; \
         nexus-async-rt 0.7.0 with nexus-timer 1.4.2; made by `scripts/results/publish.py dispatch`.\n\n\
         | | busypoll | least | nexus-async-rt | least | ratio, median of rounds | |\n|---|---:|---:|---:|---:|---:|---|\n",
        machine()
    );
    for Line { name, about, ours, theirs, ratio } in lines {
        let _ = writeln!(
            text,
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {ratio:.2} | {about} |",
            ours[0], ours[1], theirs[0], theirs[1]
        );
    }
    text
}
