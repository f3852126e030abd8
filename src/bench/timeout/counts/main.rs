//! `osjitter-counts`: what a message asks of clocks, timers and the allocator. An allocator that
//! counts and an instruction that traps are no part of a program that measures:
//! `osjitter bench timeout` starts this one beside it, and writes a job on each line.
#![deny(unsafe_code)]
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

#[allow(unsafe_code, reason = "an allocator that counts")]
mod allocations;
#[allow(unsafe_code, reason = "a handler that steps over a trapped instruction")]
mod counter_reads;
mod tally;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use benchloops::timeouts::loops::{Job, Meter, Workload};
use benchloops::timeouts::operation_counts::OperationCounts;
use counter_reads::Counter;
use tally::Counting;

fn main() -> io::Result<()> {
    if io::stdin().is_terminal() {
        return Err(io::Error::other(
            "osjitter bench timeout starts this program, and writes a job on each line",
        ));
    }
    grow_old();
    for job in io::stdin().lines() {
        let counted = count(serde_json::from_str(&job?)?)?;
        let mut answer = serde_json::to_vec(&counted)?;
        answer.push(b'\n');
        io::stdout().write_all(&answer)?;
    }
    Ok(())
}

/// Conversions of `tach` read its anchors anew each time the process has doubled its age, which is
/// no message's doing.
#[allow(clippy::disallowed_methods, reason = "time has to pass")]
fn grow_old() {
    let born = tach::Instant::now();
    let _ = born.elapsed();
    std::thread::sleep(Duration::from_millis(100));
    let _ = born.elapsed();
}

fn count(job: Job) -> io::Result<OperationCounts> {
    const MESSAGES: u64 = 2_000;
    /// Each of these waits lasts until timeouts expire, which takes milliseconds.
    const MAX_WAITS: u64 = 5;
    let messages = match job.workload {
        Workload::Fire(messages @ 1..) => MESSAGES.min(messages * MAX_WAITS),
        Workload::Expired(timers) => MESSAGES.min(timers as u64 * MAX_WAITS),
        _ => MESSAGES,
    };
    let is_alone = job.workload.workers().is_none();
    // Before the runtime, whose threads inherit the trap; where the loop's thread is the only one,
    // it comes after the warm-up, because set-up is slow while every reading traps.
    let trap = if is_alone { None } else { Counter::start() };
    let probe = Probe {
        messages,
        is_alone,
        reads_count: trap.is_some(),
        trap: None,
        start: None,
        counted: None,
    };
    let probe = job.run::<Counting, _>(probe)?;
    drop(trap);
    probe.counted.ok_or_else(|| io::Error::other("the loop ended early"))
}

/// Counts from the end of the warm-up to the end of the one batch after it.
struct Probe {
    messages: u64,
    is_alone: bool,
    /// Whether the counter could be made to trap.
    reads_count: bool,
    trap: Option<Counter>,
    start: Option<SoFar>,
    counted: Option<OperationCounts>,
}

/// All counters at once.
#[derive(Clone, Copy)]
struct SoFar {
    timers: (u64, u64),
    allocations: (u64, i64),
    reads: u64,
}

impl SoFar {
    fn now() -> Self {
        Self {
            timers: Counting::so_far(),
            allocations: allocations::so_far(),
            reads: Counter::so_far(),
        }
    }
}

impl Meter for Probe {
    fn batches(&self) -> u64 {
        1
    }

    fn messages(&self) -> u64 {
        self.messages
    }

    fn record_batch(&mut self, _: u64, _: Duration) {
        let now = SoFar::now();
        let Some(start) = self.start else {
            if self.is_alone {
                self.trap = Counter::start();
                self.reads_count = self.trap.is_some();
            }
            self.start = Some(SoFar::now());
            return;
        };
        self.trap = None;
        self.counted = Some(OperationCounts {
            messages: self.messages,
            counter_reads: self.reads_count.then_some(now.reads - start.reads),
            timers_made: now.timers.0 - start.timers.0,
            timer_registrations: now.timers.1 - start.timers.1,
            allocations: now.allocations.0 - start.allocations.0,
            bytes_kept: now.allocations.1 - start.allocations.1,
        });
    }

    fn record_timeout(&mut self, _: Option<i64>) {}
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use clap::ValueEnum;

    use benchloops::timeouts::guard::{Guard, Visitor};
    use benchloops::timeouts::guards::visit_guard;
    use benchloops::timeouts::variant::{Clock, Variant};

    use super::*;

    fn combinations() -> impl Iterator<Item = (Variant, Clock)> {
        let clocks = |&variant| Clock::value_variants().iter().map(move |&clock| (variant, clock));
        Variant::value_variants().iter().flat_map(clocks)
    }

    #[test]
    fn a_combination_is_there_or_refused_with_a_reason() {
        struct Found;
        impl Visitor for Found {
            type Output = ();
            fn visit<G: Guard>(self) {}
        }
        for (variant, clock) in combinations() {
            let found = visit_guard::<Counting, _>(variant, clock, Found).is_some();
            assert_eq!(found, variant.rejection_reason(clock).is_none(), "{variant:?} {clock:?}");
        }
    }

    #[test]
    fn every_variant_that_fires_does_so_never_early_and_lets_a_message_through() {
        struct Fires;
        impl Visitor for Fires {
            type Output = ();
            #[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
            fn visit<G: Guard>(self) {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    let length = Duration::from_millis(3);
                    let mut guard = std::pin::pin!(G::new(length));
                    for _ in 0..3 {
                        assert_eq!(guard.as_mut().wait(async { 5 }).await, Some(5));
                        let start = std::time::Instant::now();
                        guard.as_mut().begin();
                        if G::FIRES {
                            assert_eq!(
                                guard.as_mut().wait(std::future::pending::<()>()).await,
                                None
                            );
                            assert!(start.elapsed() >= length);
                        }
                        guard.as_mut().arm();
                        let armed =
                            std::future::poll_fn(|cx| Poll::Ready(guard.as_mut().poll_armed(cx)));
                        let _ = armed.await;
                    }
                });
            }
        }
        for (variant, clock) in combinations() {
            visit_guard::<Counting, _>(variant, clock, Fires);
        }
        let (made, registered) = Counting::so_far();
        assert!(made > 0 && registered > 0);
    }
}
