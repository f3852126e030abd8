//! Costs of the steps of a target that also occur in the program. Tests compare them with limits;
//! the checks of the target itself are not counted.

use std::cell::Cell;

/// The highest costs of any step so far.
#[derive(Debug, Default)]
pub struct StepCosts {
    /// Peak of the bytes allocated by a step.
    pub peak_bytes: Cell<u64>,
    /// CPU time and name of the slowest step.
    pub slowest: Cell<(u64, &'static str)>,
}

#[cfg(test)]
impl StepCosts {
    /// Runs a step and records its cost.
    pub fn measure<T>(&self, step: &'static str, work: impl FnOnce() -> T) -> T {
        let mut result = None;
        let before = engine::machine::os::thread_cpu_ns();
        let memory = allocation_counter::measure(|| result = Some(work()));
        let spent = engine::machine::os::thread_cpu_ns()
            .zip(before)
            .map_or(0, |(after, before)| after - before);
        self.peak_bytes.set(self.peak_bytes.get().max(memory.bytes_max));
        self.slowest.set(self.slowest.get().max((spent, step)));
        result.expect("the step has run")
    }
}

/// The fuzzer has separate limits, so nothing is measured.
#[cfg(not(test))]
impl StepCosts {
    /// Runs a step.
    pub fn measure<T>(&self, _: &'static str, work: impl FnOnce() -> T) -> T {
        work()
    }
}
