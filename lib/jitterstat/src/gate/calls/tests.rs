use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::gate::Sides;
use crate::gate::decision::Outcome;
use crate::stats::random::SplitMix64;

/// A machine without a clock of its own: time passes only during calls and reads of the clock.
struct VirtualMachine {
    now_ns: Cell<f64>,
    /// Resolution of the clock.
    step_ns: f64,
    /// Time that passes during a read of the clock.
    read_ns: f64,
}

impl VirtualMachine {
    fn new() -> Self {
        Self { now_ns: Cell::new(0.0), step_ns: 1.0, read_ns: 20.0 }
    }

    fn clock(&self) -> Duration {
        self.pass(self.read_ns);
        let steps = (self.now_ns.get() / self.step_ns).floor();
        Duration::from_nanos((steps * self.step_ns) as u64)
    }

    fn pass(&self, ns: f64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }

    /// A function whose calls take `ns` on a CPU whose frequency drifts by a third, with an
    /// interruption of 50 us in one call of 100.
    fn function(&self, seed: u64, ns: f64) -> impl FnMut() + '_ {
        let mut random = SplitMix64::new(seed);
        move || {
            let drift = 1.0 + (self.now_ns.get() / 1e9).sin() / 3.0;
            let interruption = if random.below(100) == 0 { 5e4 } else { 0.0 };
            self.pass(ns * drift * (1.0 + 0.2 * random.unit()) + interruption);
        }
    }

    fn compare(&self, comparison: &CallComparison, b_ns: f64) -> JudgedInTurn {
        let (a, b) = (self.function(1, 4e3), self.function(2, b_ns));
        comparison.run(|| self.clock(), a, b)
    }

    fn seconds(&self) -> f64 {
        self.now_ns.get() / 1e9
    }
}

#[test]
fn one_per_cent_is_found() {
    let comparison = CallComparison::new(0.005);
    for (ns, outcome) in
        [(4_000.0, Outcome::Pass), (4_040.0, Outcome::Regressed), (3_960.0, Outcome::Improved)]
    {
        let machine = VirtualMachine::new();
        let judged = machine.compare(&comparison, ns);
        assert_eq!(judged.outcome, outcome, "{judged}");
        assert!((judged.ratio.unwrap() - ns / 4e3).abs() < 0.003, "{judged}");
        assert!((4_000.0..6_000.0).contains(&judged.sides.base), "{judged:?}");
        assert!(machine.seconds() < 10.1, "{}", machine.seconds());
    }
}

#[test]
fn times_of_constant_calls_are_exact() {
    let machine = VirtualMachine::new();
    let mut pairs =
        CallPairs::new(1, || machine.clock(), || machine.pass(400.0), || machine.pass(404.0));
    // 256 calls are the first power of two that takes 100 us.
    assert_eq!(pairs.batch_calls(), 256);
    // A batch contains one read of the clock: 20 ns in 256 calls.
    let expected = Sides { base: 400.0 + 20.0 / 256.0, candidate: 404.0 + 20.0 / 256.0 };
    assert_eq!(pairs.measure(Duration::from_millis(5)), expected);
    assert_eq!(pairs.measure(Duration::ZERO), expected);
}

#[test]
fn change_of_constant_calls_is_exact() {
    let machine = VirtualMachine::new();
    let comparison = CallComparison::new(0.005);
    let judged = comparison.run(|| machine.clock(), || machine.pass(400.0), || machine.pass(404.0));
    assert_eq!((judged.outcome, judged.pairs), (Outcome::Regressed, 50), "{judged}");
    let error = |value: f64, expected: f64| (value / expected - 1.0).abs();
    assert!(error(judged.sides.base, 400.078_125) < 1e-12, "{judged:?}");
    assert!(error(judged.sides.candidate, 404.078_125) < 1e-12, "{judged:?}");
    assert!(error(judged.ratio.unwrap(), 404.078_125 / 400.078_125) < 1e-12, "{judged:?}");
    // 50 of 400 pairs in an eighth of 10 s, give or take a batch.
    assert!((machine.seconds() - 1.25).abs() < 0.01, "{}", machine.seconds());
}

#[test]
fn stalls_do_not_extend_the_comparison() {
    let machine = VirtualMachine::new();
    let calls = Cell::new(0_u64);
    let stalling = || {
        calls.set(calls.get() + 1);
        machine.pass(if calls.get().is_multiple_of(100_000) { 5e7 } else { 400.0 });
    };
    let comparison = CallComparison::new(0.005).max_time(Duration::from_secs(4));
    let judged = comparison.run(|| machine.clock(), || machine.pass(400.0), stalling);
    assert_eq!((judged.outcome, judged.pairs), (Outcome::Pass, 50), "{judged}");
    assert!((machine.seconds() - 0.5).abs() < 0.1, "{}", machine.seconds());
}

#[test]
fn sides_are_called_equally_often() {
    let machine = VirtualMachine::new();
    let (calls_a, calls_b) = (Cell::new(0_u64), Cell::new(0_u64));
    let count = |calls: &Cell<u64>| {
        calls.set(calls.get() + 1);
        machine.pass(400.0);
    };
    let comparison = CallComparison::new(0.01).max_time(Duration::from_millis(40));
    let judged = comparison.run(|| machine.clock(), || count(&calls_a), || count(&calls_b));
    assert_eq!((judged.outcome, judged.ratio), (Outcome::Pass, Some(1.0)), "{judged}");
    assert_eq!(judged.sides.base, judged.sides.candidate);
    assert_eq!(calls_a, calls_b);
}

#[test]
fn order_of_batches_is_drawn() {
    let machine = VirtualMachine::new();
    let order = std::cell::RefCell::new(Vec::new());
    let record = |side: char| {
        machine.pass(2e5);
        order.borrow_mut().push(side);
    };
    let mut pairs = CallPairs::new(7, || machine.clock(), || record('A'), || record('B'));
    assert_eq!(pairs.batch_calls(), 1);
    pairs.measure(Duration::from_millis(40));
    let order: String = order.borrow()[2..].iter().collect();
    assert_eq!(order.len(), 200);
    let firsts = order.as_bytes().chunks(2).filter(|pair| pair == b"AB").count();
    assert!((30..=70).contains(&firsts), "{order}");
    assert_eq!(order.matches('A').count(), 100);
}

#[test]
fn batches_are_long_on_coarse_clock() {
    let fine = VirtualMachine::new();
    let function = fine.function(1, 400.0);
    let calls = CallPairs::new(1, || fine.clock(), function, fine.function(2, 400.0)).batch_calls();
    assert!((64..=256).contains(&calls), "{calls}");
    let coarse = VirtualMachine { step_ns: 1e6, ..VirtualMachine::new() };
    let (a, b) = (coarse.function(1, 4e5), coarse.function(2, 4e5));
    let calls = CallPairs::new(1, || coarse.clock(), a, b).batch_calls();
    assert!(calls >= 2_048, "{calls}");
}

#[test]
fn slow_functions_get_fewer_pairs() {
    let machine = VirtualMachine::new();
    let comparison = CallComparison::new(0.05).max_time(Duration::from_secs(3));
    let judged = comparison.run(|| machine.clock(), || machine.pass(2e7), || machine.pass(2e7));
    assert_eq!((judged.outcome, judged.pairs), (Outcome::Pass, 50), "{judged}");
    let machine = VirtualMachine::new();
    let judged = comparison.run(|| machine.clock(), || machine.pass(1e9), || machine.pass(1e9));
    assert_eq!((judged.outcome, judged.pairs), (Outcome::Pass, 24), "{judged}");
}

#[test]
fn clock_that_stops_is_rejected() {
    let comparison = CallComparison::new(0.05);
    let run = || comparison.run(|| Duration::ZERO, || 1, || 2);
    let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    let text = panic.downcast::<String>().unwrap();
    assert!(text.contains("the clock does not advance"), "{text}");
}

#[test]
fn longest_max_time_is_accepted() {
    let now = Cell::new(Duration::from_secs(1));
    let call = || now.set(now.get() + Duration::MAX / 100_000);
    let comparison = CallComparison::new(0.05).max_time(Duration::MAX);
    let judged = comparison.run(|| now.get(), call, call);
    assert_eq!((judged.outcome, judged.pairs), (Outcome::Pass, 50), "{judged}");
}
