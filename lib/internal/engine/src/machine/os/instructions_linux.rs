//! Count of the instructions of a whole program on Linux, by the CPU's counter with
//! `perf_event_open`.

use std::fs::File;
use std::io::{self, Read};

use crate::machine::os::not_available::NotAvailable;
use crate::machine::os::perf::{self, Attributes};
use crate::machine::os::ring::{ENABLE_ON_EXEC, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, INHERIT};

const HARDWARE: u32 = 0;
const INSTRUCTIONS: u64 = 1;
/// Format of a reading: the count, the time enabled, and the time during which the CPU had a
/// counter, summed over all threads.
const COUNT_AND_TIMES: u64 = 1 | 2;

const NEEDS: &str = "a CPU that shows its counter of instructions, which virtual machines seldom do, a \
                     kernel.perf_event_paranoid <= 2, and a sandbox that allows the call";

/// Counter of the instructions in user mode of the next program that this thread starts.
///
/// The counter covers the time from the `exec` to the end of the program, with all its threads and
/// child processes. It can be used for one program only: when switching from this thread to the
/// program, the kernel may pass on the counter itself instead of a copy, and an `exec` would not
/// enable the copy of a second program.
#[derive(Debug)]
pub struct Instructions(File);

impl Instructions {
    /// Opens the counter.
    ///
    /// # Errors
    ///
    /// Returns an error if this process cannot use such a counter.
    pub fn for_next_program() -> Result<Self, NotAvailable> {
        Self::open(HARDWARE, INSTRUCTIONS)
            .map_err(|error| NotAvailable::new("perf_event_open", error, NEEDS))
    }

    fn open(kind: u32, config: u64) -> io::Result<Self> {
        let flags = perf::DISABLED | INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | ENABLE_ON_EXEC;
        perf::open(
            Attributes {
                kind,
                config,
                read_format: COUNT_AND_TIMES,
                flags,
                ..Attributes::default()
            },
            0,
            -1,
        )
        .map(Self)
    }

    /// Returns the count of the processes that have ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the counter was used by others for some of the time.
    pub fn count(&self) -> io::Result<u64> {
        let mut reading = [0; 24];
        (&self.0).read_exact(&mut reading)?;
        let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|byte| reading[i * 8 + byte]));
        let [count, enabled_ns, running_ns] = [word(0), word(1), word(2)];
        if running_ns < enabled_ns {
            let share = 100.0 * running_ns as f64 / enabled_ns as f64;
            let cause = "another program, or the kernel's own watchdog (kernel.nmi_watchdog), uses the counters too";
            return Err(io::Error::other(format!(
                "only {share:.1} % of the time was counted: {cause}"
            )));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clock of a task in nanoseconds, which is counted in the same way and exists on every
    /// machine.
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
    fn programs_are_counted_with_children() {
        let count = |script: &str| {
            let counter = Instructions::open(perf::SOFTWARE, TASK_CLOCK)?;
            let spun: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
            assert_eq!((counter.count()?, spun > 0), (0, true), "this thread is not counted");
            shell(script);
            counter.count()
        };
        let counts = (0..20).map(|_| count(":")).collect::<io::Result<Vec<u64>>>();
        let Ok(counts) = counts else {
            // The call is not permitted here.
            return assert!(counts.is_err_and(|e| e.raw_os_error().is_some()));
        };
        assert!(counts.iter().all(|&ns| ns > 0), "{counts:?}");
        // The child does all of the work. The `:` keeps the shell from replacing itself with it.
        let work = "sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); done'; :";
        // A hypervisor may charge the time that it took.
        let singles = (0..5).map(|_| count(work).expect("a count"));
        let (empty, single) = (*counts.iter().min().expect("twenty"), singles.min().expect("five"));
        let four = count(&format!("{work}; {work}; {work}; {work}")).expect("a count");
        assert!(single > 2 * empty && four > 2 * single, "{empty}, {single}, {four} ns");
    }

    #[test]
    fn instructions_are_counted() {
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
        // Starting a shell takes more than this. The counter may also be shared.
        assert!(
            counter
                .count()
                .map_or_else(|e| e.to_string().contains("% of the time"), |n| n > 10_000)
        );
    }
}
