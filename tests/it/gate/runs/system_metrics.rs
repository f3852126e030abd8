//! Tests of metrics of the system: time, memory and instructions.

use jitterstat::gate::decision::Outcome;

use super::{ScriptPair, runs};

/// The work of a script's children.
struct ChildWork {
    sleep_ms: u32,
    loops: u32,
    megabytes: u32,
}

impl ChildWork {
    fn script(&self) -> String {
        let Self { sleep_ms, loops, megabytes } = self;
        format!(
            "sleep 0.{sleep_ms:03}\nsh -c 'i=0; while [ $i -lt {loops} ]; do i=$((i + 1)); done'\n\
             head -c {megabytes}M /dev/zero | tail -c {megabytes}M >/dev/null\n"
        )
    }

    /// Returns the minimum of a metric in a run, in its unit.
    fn min_value(&self, metric: &str) -> f64 {
        match metric {
            "wall" => f64::from(self.sleep_ms) * 1e6,
            "max-rss" => f64::from(self.megabytes << 20),
            _ => 0.0,
        }
    }
}

/// Checks that a gate detects that the candidate's children use more time and memory than those of
/// the base.
#[track_caller]
fn assert_children_are_measured(base: &ChildWork, candidate: &ChildWork) {
    let sides = ScriptPair::new(&base.script(), &candidate.script());
    let gate = sides.gate(&["--metric", "wall", "--metric", "cpu", "--metric", "max-rss"]).exits(1);
    let found = runs(&gate);
    let seen: Vec<_> = found.metrics.iter().map(|m| (m.name.as_str(), m.unit.as_str())).collect();
    assert_eq!(seen, [("wall", "ns"), ("cpu", "ns"), ("max-rss", "bytes")]);
    for metric in &found.metrics {
        let verdict = metric.judged.verdict;
        // The delays of a busy machine can hide that the candidate sleeps longer.
        let is_hidden = metric.name == "wall" && verdict == Outcome::Inconclusive;
        assert!(is_hidden || verdict == Outcome::Regressed, "{}", gate.ran.stdout);
        let (min_base, min_candidate) =
            (base.min_value(&metric.name), candidate.min_value(&metric.name));
        for pair in &metric.values {
            assert!(pair[0] >= min_base && pair[1] >= min_candidate, "{}: {pair:?}", metric.name);
        }
    }
}

#[test]
fn children_count_in_every_metric() {
    let base = ChildWork { sleep_ms: 10, loops: 2_000, megabytes: 50 };
    let candidate = ChildWork { sleep_ms: 400, loops: 50_000, megabytes: 80 };
    assert_children_are_measured(&base, &candidate);
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: 50 runs of up to half a second"]
    fn children_count_in_every_metric() {
        let base = ChildWork { sleep_ms: 50, loops: 2_000, megabytes: 90 };
        let candidate = ChildWork { sleep_ms: 200, loops: 50_000, megabytes: 140 };
        assert_children_are_measured(&base, &candidate);
    }
}

#[test]
fn instructions_are_judged_if_counted() {
    let work = |rounds: u32| format!("i=0; while [ $i -lt {rounds} ]; do i=$((i + 1)); done");
    // At least 50 ms, so that the start of the shell is a small part.
    let sides = ScriptPair::new(&work(100_000), &work(200_000));
    let gate = sides.gate(&["--metric", "instructions"]);
    if gate.ran.code == 2 {
        gate.refuses("instructions cannot be counted");
    } else {
        let gate = gate.exits(1);
        let found = runs(&gate);
        let seen = &found.metrics[0];
        assert_eq!((seen.name.as_str(), seen.unit.as_str()), ("instructions", "instructions"));
        assert_eq!(seen.judged.verdict, Outcome::Regressed);
        assert!(
            seen.values.iter().all(|pair| pair[0] > 1e6 && pair[1] > 1.5 * pair[0]),
            "{:?}",
            seen.values
        );
    }
}

#[test]
fn meter_does_not_end_a_run() {
    let sides = ScriptPair::from_script("exit ${OSJITTER_SERIES:+7}");
    let gate = sides.gate(&["--metric", "wall", "--tolerance", "wall=9000%"]).exits(0);
    assert_eq!(runs(&gate).pairs, 24, "{}", gate.ran.stdout);
}

#[test]
fn prepare_runs_before_each_run() {
    let sides =
        ScriptPair::new("echo a >>\"$HOME_OF_TEST/order\"", "echo b >>\"$HOME_OF_TEST/order\"");
    std::fs::write(sides.path("prepare"), "sleep 0.1; echo p >>\"$HOME_OF_TEST/order\"").unwrap();
    let prepare = sides.command("prepare");
    let args = [
        "--metric", "wall", "--tolerance", "wall=2000%", "--warmup-runs", "3", "--prepare",
        &prepare, "--seed", "1",
    ];
    let gate = sides.gate(&args).exits(0);
    let found = runs(&gate);
    assert_eq!(
        (found.pairs, found.plan.warmup_runs, found.plan.prepare.as_deref()),
        (24, 3, Some(prepare.as_str()))
    );
    let order: String = sides.text("order").split_whitespace().collect();
    assert!(order.starts_with("papbpapbpapb") && order.len() == 4 * (3 + 24), "{order}");
    assert!(
        order.contains("pbpapapb") || order.contains("papbpbpa"),
        "the order of each pair is random: {order}"
    );
    let fastest = found.metrics[0].values.iter().flatten().copied().fold(f64::MAX, f64::min);
    assert!(fastest < 1e8, "a run does not include its preparation: {fastest}");

    std::fs::write(sides.path("prepare"), "exit 9").unwrap();
    sides.refuses(&args, "exit status: 9");
}
