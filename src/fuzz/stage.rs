//! What a target does in the program's stead, a step at a time: what it costs is held against the
//! limits. What the target does to check the result is not counted.

use std::cell::Cell;

/// The dearest steps so far.
#[derive(Debug, Default)]
pub struct Stages {
    /// Most bytes that a step had allocated at one time.
    pub peak_bytes: Cell<u64>,
    /// CPU time of the slowest step, and its name.
    pub slowest: Cell<(u64, &'static str)>,
}

#[cfg(test)]
impl Stages {
    pub fn of<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let mut done = None;
        let before = engine::machine::os::thread_cpu_ns();
        let memory = allocation_counter::measure(|| done = Some(work()));
        let spent = engine::machine::os::thread_cpu_ns()
            .zip(before)
            .map_or(0, |(after, before)| after - before);
        self.peak_bytes.set(self.peak_bytes.get().max(memory.bytes_max));
        self.slowest.set(self.slowest.get().max((spent, what)));
        done.expect("it has run")
    }
}

/// The fuzzer has limits of its own.
#[cfg(not(test))]
impl Stages {
    pub fn of<T>(&self, _: &'static str, work: impl FnOnce() -> T) -> T {
        work()
    }
}
