//! Instructions of whole programs, by the CPU's own counter through `perf_event_open`, on Linux.

use std::fs::File;
use std::io::{self, Read};

use crate::machine::os::perf::{self, Attributes};
use crate::machine::os::types::NotAvailable;

const HARDWARE: u32 = 0;
const INSTRUCTIONS: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;
/// A reading is the count, the time it was asked for, and the time the CPU had a counter for it,
/// all of all threads.
const TIMES: u64 = 1 | 2;

const NEEDS: &str = "a CPU that shows its counter of instructions, which virtual machines seldom do, a \
                     kernel.perf_event_paranoid of at most 2, and a sandbox that allows the call";

/// Counts the instructions in user mode of the next program that this thread starts, from its
/// `exec` to its end, with all its threads and all that it starts itself. One counter a program:
/// where the kernel switches from this thread to that program, it may hand it the counter itself
/// instead of the copy, and the next program's copy is then one that no `exec` enables.
#[derive(Debug)]
pub struct Instructions(File);

impl Instructions {
    /// # Errors
    /// There is no such counter for this process.
    pub fn for_next_program() -> Result<Self, NotAvailable> {
        let refused = |e: io::Error| NotAvailable {
            what: "perf_event_open",
            error: e.to_string(),
            needs: NEEDS,
        };
        Self::open(HARDWARE, INSTRUCTIONS).map_err(refused)
    }

    fn open(kind: u32, config: u64) -> io::Result<Self> {
        let flags = perf::DISABLED | INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | ENABLE_ON_EXEC;
        perf::open(
            Attributes { kind, config, read_format: TIMES, flags, ..Attributes::default() },
            0,
            -1,
        )
        .map(Self)
    }

    /// The count of what has ended.
    ///
    /// # Errors
    /// Others took the counter away for some of the time, so that there is an estimate at best.
    pub fn count(&self) -> io::Result<u64> {
        let mut reading = [0; 24];
        (&self.0).read_exact(&mut reading)?;
        let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|byte| reading[i * 8 + byte]));
        let [count, asked_ns, counted_ns] = [word(0), word(1), word(2)];
        if counted_ns < asked_ns {
            let share = 100.0 * counted_ns as f64 / asked_ns as f64;
            let what = "another program, or the kernel's own watchdog (kernel.nmi_watchdog), uses the counters too";
            return Err(io::Error::other(format!(
                "only {share:.1} % of the time was counted: {what}"
            )));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's clock of a task, in nanoseconds: counted in the same way, and on every machine.
    const TASK_CLOCK: u64 = 1;

    fn shell(script: &str) {
        assert!(
            std::process::Command::new("sh")
                .args(["-c", script])
                .status()
                .expect("a shell")
                .success()
        );
    }

    #[test]
    fn what_is_started_is_counted_with_its_children_and_this_thread_is_not() {
        let of = |script: &str| {
            let counter = Instructions::open(perf::SOFTWARE, TASK_CLOCK)?;
            let spun: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
            assert_eq!(
                (counter.count()?, spun > 0),
                (0, true),
                "of this thread nothing is counted"
            );
            shell(script);
            counter.count()
        };
        let counts = (0..20).map(|_| of(":")).collect::<io::Result<Vec<u64>>>();
        let Ok(counts) = counts else {
            // Where the call is not allowed at all.
            return assert!(counts.is_err_and(|e| e.raw_os_error().is_some()));
        };
        assert!(counts.iter().all(|&ns| ns > 0), "{counts:?}");
        // All of the work is its child's; the last command would be executed in its own process.
        let work = "sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); done'; :";
        let (none, one) = (counts.iter().min().expect("twenty"), of(work).expect("a count"));
        let four = of(&format!("{work}; {work}; {work}; {work}")).expect("a count");
        assert!(one > 2 * none && four > 2 * one, "{none}, {one}, {four} ns");
    }

    #[test]
    fn instructions_are_counted_or_it_is_said_what_they_need() {
        let counter = match Instructions::for_next_program() {
            Ok(counter) => counter,
            Err(why) => {
                let why = why.to_string();
                return assert!(
                    why.contains("perf_event_open") && why.contains("perf_event_paranoid"),
                    "{why}"
                );
            }
        };
        shell(":");
        // What it takes to start a shell at least; elsewhere the counter may be shared.
        assert!(
            counter
                .count()
                .map_or_else(|e| e.to_string().contains("% of the time"), |n| n > 10_000)
        );
    }
}
