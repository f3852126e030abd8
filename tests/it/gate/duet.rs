//! Tests of two subjects that run concurrently on one CPU.

use files::gate::verdict::Mode;
use jitterstat::gate::decision::{Outcome, Reason};

use super::Gate;

#[test]
fn duet_pairs_subjects_on_one_cpu() {
    // The tolerance is so wide that the subjects cannot regress, even on a busy machine.
    let wide = ["--tolerance", "p50=100000%", "--tolerance", "p90=100000%", "--floor", "1ms"];
    let gate =
        Gate::quick(&[&["--a", "nanosleep", "--b", "os-interval", "--duet"][..], &wide].concat());
    let verdict = gate.verdict();
    let [pair] = verdict.comparisons.as_slice() else { panic!("{}", gate.ran.stdout) };
    assert_eq!((pair.mode, pair.pairs, pair.rounds.len()), (Mode::Duet, 24, 24));
    assert!(pair.plan.cpu.is_some(), "{}", gate.ran.stdout);
    assert!(gate.ran.stdout.contains("pairs of rounds at once"), "{}", gate.ran.stdout);
    let noisy = matches!(
        verdict.reason,
        Some(Reason::StallDominated | Reason::TooNoisy | Reason::UnequalStalls | Reason::LostTicks)
    );
    let passed = matches!(verdict.verdict, Outcome::Pass | Outcome::Improved);
    assert!(passed || noisy, "{}", gate.ran.stdout);
}

#[test]
fn busy_subject_is_rejected() {
    Gate::quick(&["--a", "nanosleep", "--b", "spin", "--duet"]).refuses("keeps the CPU busy");
}
