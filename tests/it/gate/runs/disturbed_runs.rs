//! Tests of runs that something disturbs: a changed setting, or processes that outlive them.
#![cfg(target_os = "linux")]

use files::report::Warning;
use jitterstat::gate::decision::{Outcome, Reason};

use super::{COUNTED, ScriptPair, runs};

/// Binds the parent process to a CPU in one run, and to all of its CPUs in a later one.
fn bound_in_runs(first: u32, unbound: u32) -> String {
    format!(
        r#"cpus=$(taskset -cp $PPID); cpus=${{cpus##*: }}
        bind() {{ taskset -cp "$1" $PPID >/dev/null; }}
        case $n in
            {first}) echo "$cpus" >"$HOME_OF_TEST/cpus"; bind "${{cpus%%[-,]*}}";;
            {unbound}) bind "$(cat "$HOME_OF_TEST/cpus")";;
        esac
        "#
    )
}

/// The first pair consists of runs 2 and 3.
#[test]
fn pairs_with_changed_settings_are_excluded() {
    const NEVER: u32 = 1_000;
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) {
        return;
    }
    for (unbound, code, pairs, excluded) in [(10, 0, 24, "1 pair"), (NEVER, 4, 3, "6 pairs")] {
        let script = format!("{COUNTED}{}", bound_in_runs(8, unbound));
        let pair = ScriptPair::from_script(&script);
        let gate = pair.gate(&["--metric", "wall", "--tolerance", "wall=900%"]).exits(code);
        let verdict = gate.verdict();
        assert_eq!(runs(&gate).pairs, pairs, "{}", gate.ran.stdout);
        let says = format!("{excluded} of runs left out: the CPU affinity was changed from ");
        let is_warned = |warning: &Warning| {
            warning.code == "settings-changed" && warning.message.starts_with(&says)
        };
        assert!(verdict.warnings.iter().any(is_warned), "{:?}", verdict.warnings);
        let failure = verdict.failure.as_deref().unwrap_or_default();
        let says = "too many pairs ran with a changed setting: CPU affinity";
        assert_eq!(failure.contains(says), code == 4, "{failure}");
    }

    // The excluded pair follows the first look, which must not be repeated. The order of the sides
    // decides which of them gets the larger values, so its seed is fixed.
    let value = "printf 'osjitter.series/1\\nmetric work u lower\\nwork %d\\n' \
                 $((100 + n * 37 % 50)) >\"$OSJITTER_OUT\"\n";
    let script = format!("{COUNTED}{}{value}", bound_in_runs(50, 52));
    let args = ["--metric", "work", "--max-pairs", "50", "--seed", "1"];
    let gate = ScriptPair::from_script(&script).gate_pairs(&args).exits(0);
    let found = runs(&gate);
    let seen = (found.verdict, found.pairs, found.looks_taken);
    assert_eq!(seen, (Outcome::Inconclusive, 50, 2), "{}", gate.ran.stdout);
    let warnings = &gate.verdict().warnings;
    let exclusions = warnings.iter().filter(|warning| warning.code == "settings-changed");
    assert_eq!(exclusions.count(), 1, "{warnings:?}");
}

/// A candidate that leaves its work to a process in the background does less only by its metrics.
#[test]
fn work_in_the_background_is_reported() {
    let value = |value: u32| {
        format!(
            "printf 'osjitter.series/1\\nmetric work u lower\\nwork {value}\\n' >\"$OSJITTER_OUT\"\n"
        )
    };
    let waits = |work| value(work);
    let leaves = |work| format!("{}sleep 600 &", value(work));
    let doubtful = (Outcome::Inconclusive, Some(Reason::LeftOverProcesses));
    for (a, b, (left_a, left_b), expected) in [
        (waits(9), waits(9), (0, 0), (Outcome::Pass, None)),
        (waits(9), leaves(9), (0, 24), doubtful),
        (waits(9), leaves(5), (0, 24), doubtful),
        (waits(5), leaves(9), (0, 24), (Outcome::Regressed, None)),
        (leaves(9), leaves(5), (24, 24), (Outcome::Improved, None)),
        (leaves(9), waits(5), (24, 0), (Outcome::Improved, None)),
        (leaves(5), waits(9), (24, 0), doubtful),
    ] {
        let gate = ScriptPair::new(&a, &b).gate(&["--metric", "work"]);
        let verdict = gate.verdict();
        assert_eq!((verdict.verdict, verdict.reason), expected, "{}", gate.ran.stdout);
        let metric = &runs(&gate).metrics[0].judged;
        assert_eq!((metric.verdict, metric.reason), expected, "{}", gate.ran.stdout);
        let pairs = runs(&gate).pairs;
        let left = verdict.left_over.unwrap_or_default();
        let expected = [left_a, left_b].map(|count: u64| count / 24 * pairs);
        assert_eq!([left.a, left.b], expected, "{}", gate.ran.stdout);
        let is_left_over = |warning: &Warning| warning.code == "left-over-processes";
        let is_expected = left_a + left_b > 0;
        assert_eq!(verdict.warnings.iter().any(is_left_over), is_expected);
        assert_eq!(gate.ran.stdout.contains("had exited"), is_expected, "{}", gate.ran.stdout);
    }
}

#[test]
fn left_over_is_counted_by_owner() {
    let sides = ScriptPair::from_script("sleep 0.01");
    let prepare = "sh -c 'sleep 600 &'";
    let gate = sides.gate(&["--metric", "wall", "--prepare", prepare]);
    let left = gate.verdict().left_over.expect("processes of the preparation");
    assert_eq!((left.a, left.b, left.prepare), (0, 0, 2 * runs(&gate).pairs));
}
