//! Verifies the thresholds of fitness with runs that were recorded on a quiet machine and on a
//! disturbed one. `scripts/studies/fitness-runs.py` records them.

use files::fitness::{Cause, Fitness, Verdict};

#[derive(serde::Deserialize)]
struct Recorded {
    runs: Vec<Run>,
}

#[derive(serde::Deserialize)]
struct Run {
    injected: String,
    cpus: u64,
    distrust_from: Option<String>,
    facts: files::fitness::Facts,
}

#[test]
fn recorded_runs_have_expected_causes() {
    let recorded: Recorded =
        serde_json::from_str(include_str!("fixtures/fitness.json")).expect("recorded runs");
    assert!(recorded.runs.len() >= 40, "{} runs", recorded.runs.len());
    for run in recorded.runs {
        let fitness =
            Fitness::from_facts(run.facts.clone(), run.distrust_from.as_deref(), Some(run.cpus));
        let worst: Vec<Cause> = fitness
            .reasons
            .iter()
            .filter(|r| r.verdict == fitness.verdict)
            .map(|r| r.cause)
            .collect();
        let expected = match run.injected.split(':').next() {
            Some("quiet") => (Verdict::Quiet, vec![]),
            Some("busy") => (Verdict::Unfit, vec![Cause::Busy]),
            // Niced neighbours take one or two per cent of a thread without niceness, and sometimes
            // nothing.
            Some("niced") if fitness.verdict == Verdict::Quiet => (Verdict::Quiet, vec![]),
            Some("niced") => (Verdict::Noisy, vec![Cause::Busy]),
            Some("quota") => (Verdict::Unfit, vec![Cause::Quota]),
            Some("stopped") => (Verdict::Unfit, vec![Cause::Stopped]),
            _ => panic!("unknown disturbance: {}", run.injected),
        };
        assert_eq!((fitness.verdict, worst), expected, "{}: {:?}", run.injected, run.facts);
    }
}
