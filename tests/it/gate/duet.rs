//! Two subjects at once on one CPU.

use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::verdict::Mode;

use super::Gate;

#[test]
fn two_at_once_are_paired_and_bound_to_one_cpu() {
    let wide = ["--tolerance", "p50=900%", "--tolerance", "p90=900%", "--floor", "200us"];
    let gate = Gate::quick(&[&["--a", "nanosleep", "--b", "os-interval", "--duet"][..], &wide].concat());
    let verdict = gate.verdict.as_ref().unwrap_or_else(|| panic!("{}", gate.stderr()));
    let [comparison] = verdict.comparisons.as_slice() else { panic!("{}", gate.stdout()) };
    assert_eq!((comparison.mode, comparison.pairs, comparison.rounds.len()), (Mode::Duet, 24, 24));
    assert!(comparison.plan.cpu.is_some() && gate.stdout().contains("pairs of rounds at once"), "{}", gate.stdout());
    let noisy = matches!(verdict.reason, Some(Reason::StallDominated | Reason::TooNoisy));
    let passed = matches!(verdict.verdict, Outcome::Pass | Outcome::Improved);
    assert!(passed || noisy, "{}", gate.stdout());
}

#[test]
fn a_subject_that_keeps_the_cpu_to_itself_is_refused() {
    let gate = Gate::quick(&["--a", "nanosleep", "--b", "spin", "--duet"]);
    assert_eq!(gate.code(), 2, "{}", gate.stderr());
    assert!(gate.stderr().contains("keeps the CPU busy") && gate.verdict.is_none(), "{}", gate.stderr());
}
