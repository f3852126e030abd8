//! Two subjects at once on one CPU.

use files::gate::verdict::Mode;
use jitterstat::gate::decision::{Outcome, Reason};

use super::Gate;

#[test]
fn two_at_once_are_paired_and_bound_to_one_cpu() {
    // Two that differ, on a machine that may be busy: no change that could happen here is refused.
    let wide = ["--tolerance", "p50=100000%", "--tolerance", "p90=100000%", "--floor", "1ms"];
    let gate =
        Gate::quick(&[&["--a", "nanosleep", "--b", "os-interval", "--duet"][..], &wide].concat());
    let verdict = gate.verdict();
    let [pair] = verdict.comparisons.as_slice() else { panic!("{}", gate.ran.stdout) };
    assert_eq!((pair.mode, pair.pairs, pair.rounds.len()), (Mode::Duet, 24, 24));
    assert!(
        pair.plan.cpu.is_some() && gate.ran.stdout.contains("pairs of rounds at once"),
        "{}",
        gate.ran.stdout
    );
    let noisy = matches!(verdict.reason, Some(Reason::StallDominated | Reason::TooNoisy));
    let passed = matches!(verdict.verdict, Outcome::Pass | Outcome::Improved);
    assert!(passed || noisy, "{}", gate.ran.stdout);
}

#[test]
fn a_subject_that_keeps_the_cpu_to_itself_refuses() {
    Gate::quick(&["--a", "nanosleep", "--b", "spin", "--duet"]).refuses("keeps the CPU busy");
}
