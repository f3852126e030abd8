//! The output of Xenomai's latency, with and without a histogram.

use crate::osjitter::Osjitter;

use super::{Figures, fixture, import, subject, warnings};

#[test]
fn figures_of_the_run_are_read() {
    let report = import(&fixture("xenomai-3-latency.txt"), &[]);
    let latency = subject(&report, "xenomai-latency");
    let expected =
        Figures { count: 0, min: 363, mean: Some(2_232), p50: None, p99: None, max: 4_036 };
    assert_eq!(Figures::new(latency), expected);
    let missed = &latency["summary"]["missed"];
    assert_eq!((&latency["period_ns"], missed), (&1_000_000.into(), &0.into()));
    assert_eq!(report["duration_ns"], 2_000_000_000_u64);
    assert_eq!(warnings(&report, "import-no-count").len(), 1);
}

#[test]
fn histogram_states_the_count() {
    let report = import(&fixture("xenomai-3-latency-histogram.txt"), &[]);
    let found = Figures::new(subject(&report, "xenomai-latency"));
    let bins = [(1_000, 100), (3_000, 1_890), (4_036, 10)];
    let expected = Figures { min: 363, ..Figures::from_bins(&bins, 2_232) };
    assert_eq!(found, expected);
}

#[test]
fn results_of_xenomai_can_be_judged() {
    let file = fixture("xenomai-3-latency.txt");
    let file = file.to_str().unwrap();
    for (limit, status) in [("max=5us", 0), ("max=4us", 1)] {
        Osjitter::new(["gate", "--report", file, "--limit", limit]).out("").run().exits(status);
    }
    let doctor = ["doctor", "--import", file, "--format", "json"];
    let checkup = Osjitter::new(doctor).run().exits(0).stdout;
    assert!(checkup.contains("up to 4.04 us late (xenomai-latency)"), "{checkup}");
}
