//! Tests of screens, which look once and only report what is clear.

use jitterstat::gate::decision::{Outcome, Reason};
use serde_json::json;

#[cfg(unix)]
use super::runs::{COUNTED, ScriptPair, runs};
use super::{Gate, gate};
#[cfg(unix)]
use crate::osjitter::Osjitter;

/// Number of pairs below which a screen decides nothing.
const MIN_PAIRS: u64 = 24;

/// Gates scripted subjects, whose rounds take no time, with --screen. Rounds cycle through the
/// levels of a side.
fn screen(a: &[i64], b: &[i64], extra: &[&str]) -> Gate {
    let rounds = |levels: &[i64]| levels.iter().map(|&level| vec![level]).collect::<Vec<_>>();
    let scripts =
        json!({"scripted": {"lateness_ns": rounds(a)}, "scripted-b": {"lateness_ns": rounds(b)}});
    let sides = ["--a", "scripted", "--b", "scripted-b", "--period", "1ms", "--round-ticks", "40"];
    let args = [&sides[..], &["--warmup", "3", "--screen"], extra].concat();
    Gate::from_ran(gate(&args).script(&scripts).run())
}

/// A rise by about 20 %, the tolerance. A gate calls it regressed; a screen does not, with any
/// number of pairs from 24 to 155.
const NEAR_TOLERANCE: [i64; 7] = [21_000, 22_000, 23_000, 24_000, 25_000, 26_000, 27_000];

#[test]
fn screens_have_three_verdicts() {
    use Outcome::{Inconclusive, Pass, Regressed};
    let look_closer = "verdict: look closer: p50";
    for (b, code, outcome, reason, title, says) in [
        (&[20_000][..], 0, Pass, None, "Jitter screen: pass", "verdict: pass: p50"),
        // An improvement is a pass.
        (&[10_000], 0, Pass, None, "Jitter screen: pass", "verdict: pass: p50"),
        (&[25_000], 1, Regressed, None, "Jitter screen: clearly worse", "verdict: clearly worse"),
        (
            &NEAR_TOLERANCE,
            0,
            Inconclusive,
            Some(Reason::NotClear),
            "Jitter screen: look closer",
            look_closer,
        ),
    ] {
        let gate = screen(&[20_000], b, &["--format", "markdown"]).exits(code);
        let verdict = gate.verdict();
        assert!(verdict.verdict == outcome && verdict.screen, "{}", gate.ran.stdout);
        assert!(gate.ran.stdout.contains(title), "{}", gate.ran.stdout);
        assert!(gate.ran.stdout.contains(says), "{}", gate.ran.stdout);
        let is_open = outcome == Inconclusive;
        assert_eq!(gate.ran.stderr.contains("LOOK CLOSER: this is not a pass"), is_open);
        assert_eq!(gate.ran.stdout.contains("gate without --screen to decide it"), is_open);
        let [pair] = verdict.comparisons.as_slice() else { panic!("{}", gate.ran.stdout) };
        // As many pairs of rounds of 43 ms as fit into 15 s. A busy machine has fewer, which
        // suffice for the same verdict.
        assert!((MIN_PAIRS..=155).contains(&pair.pairs), "{}", pair.pairs);
        assert_eq!(verdict.reason, reason, "{}", gate.ran.stdout);
        assert_eq!((pair.looks_taken, pair.plan.looks.as_slice()), (1, &[pair.pairs][..]));
    }
}

#[test]
fn look_closer_fails_only_on_request() {
    let gate = screen(&[20_000], &NEAR_TOLERANCE, &["--on-inconclusive", "fail"]).exits(3);
    assert!(gate.ran.stderr.contains("LOOK CLOSER: this is not a pass"), "{}", gate.ran.stderr);
    let full = ["--a", "scripted", "--b", "scripted-b"];
    let rounds = NEAR_TOLERANCE.map(|level| vec![level]);
    let scripts =
        json!({"scripted": {"lateness_ns": [[20_000]]}, "scripted-b": {"lateness_ns": rounds}});
    let full = Gate::scripted(&full, &scripts).exits(1);
    assert!(!full.verdict().screen, "a gate is not a screen");
}

#[test]
fn screens_shorten_rounds() {
    let sides = ["--a", "scripted", "--b", "scripted-b", "--screen"];
    let scripts =
        json!({"scripted": {"lateness_ns": [[20_000]]}, "scripted-b": {"lateness_ns": [[20_000]]}});
    for (periods, round_ticks) in [(&["500us"][..], 250), (&["2ms"], 82), (&["2ms", "5ms"], 37)] {
        let periods: Vec<&str> = periods.iter().flat_map(|period| ["--period", period]).collect();
        let args = [&sides[..], &periods].concat();
        let gate = Gate::from_ran(gate(&args).script(&scripts).run()).exits(0);
        let plan = &gate.verdict().comparisons[0].plan;
        assert_eq!(plan.round_ticks, round_ticks, "{periods:?}");
    }
}

#[test]
fn impossible_screens_are_refused() {
    let sides = ["--a", "tokio-interval", "--b", "os-interval", "--screen"];
    let refused =
        |extra: &[&str], says: &str| Gate::run(&[&sides[..], extra].concat()).refuses(says);
    refused(
        &["--period", "20ms", "--round-ticks", "100"],
        "a screen has 15s for 1 test, and the 24 pairs of one take about",
    );
    refused(&["--period", "1s"], "or gate without --screen");
    refused(&["--max-pairs", "50"], "--screen");
    refused(&["--max-time", "50s"], "--screen");
    refused(&["--limit", "p99=1ms"], "--screen");
}

/// Returns whether the time of a screen was too short for its runs, as on a busy machine. Such a
/// screen decides nothing.
#[cfg(unix)]
#[track_caller]
fn is_too_short(gate: &Gate) -> bool {
    let (verdict, is_short) = (gate.verdict(), runs(gate).pairs < MIN_PAIRS);
    if is_short {
        let found = (gate.ran.code, verdict.verdict, verdict.reason);
        let expected = (0, Outcome::Inconclusive, Some(Reason::TooFewRounds));
        assert_eq!(found, expected, "{}", gate.ran.stdout);
    }
    is_short
}

#[cfg(unix)]
#[test]
fn whole_runs_are_screened() {
    let lines = |rate: u32| format!(r"metric rate req/s higher\nrate {rate}\n");
    for (candidate, code, outcome) in [(100, 0, Outcome::Pass), (80, 1, Outcome::Regressed)] {
        let pair = ScriptPair::from_lines(&lines(100), &lines(candidate));
        let gate = pair.screen(&["--metric", "rate"]);
        if is_too_short(&gate) {
            continue;
        }
        let gate = gate.exits(code);
        let found = runs(&gate);
        assert_eq!((found.verdict, found.looks_taken), (outcome, 1), "{}", gate.ran.stdout);
        assert!(found.pairs <= 400, "{}", found.pairs);
    }
}

/// A screen whose programs block after their first runs ends at its deadline.
#[cfg(unix)]
#[test]
fn blocked_runs_end_with_the_screen() {
    let pair = ScriptPair::new("", &format!("{COUNTED}[ $n -lt 1 ] || sleep 600; sleep 0.5"));
    let gate = pair.screen(&["--metric", "wall"]).exits(0);
    let (verdict, found) = (gate.verdict(), runs(&gate));
    assert_eq!((found.pairs, found.looks_taken, verdict.partial), (0, 1, false));
    assert_eq!(
        (verdict.verdict, verdict.reason),
        (Outcome::Inconclusive, Some(Reason::TooFewRounds))
    );
    let [warning] = &verdict.warnings[..] else { panic!("{:?}", verdict.warnings) };
    assert_eq!(warning.code, "screen-too-short");
    let file = gate.ran.path("verdict.json");
    let reason = "there are too few rounds for an interval";
    for (format, expected) in [
        ("junit", "tests=\"1\" failures=\"0\" skipped=\"1\" errors=\"0\"".to_owned()),
        ("junit", format!("name=\"verdict\"><skipped message=\"{reason}\"/></testcase>")),
        ("sarif", format!("verdict: {reason}")),
    ] {
        let text = Osjitter::new(["report", "--format", format]).args([&file]).run().exits(0);
        assert!(text.stdout.contains(&expected), "{format}: {}", text.stdout);
    }
}

#[cfg(unix)]
#[test]
fn benches_of_a_screen_run_briefly() {
    let line = r"BenchmarkSum-2 \t 100\t 400 ns/op";
    let script =
        format!(r#"echo "$@" >>"$HOME_OF_TEST/arguments"; printf 'pkg: x\n{line}\nPASS\n'"#);
    let pair = ScriptPair::from_script(&script);
    let gate = pair.screen(&["--metric", "go"]).exits(0);
    assert!(is_too_short(&gate) || runs(&gate).verdict == Outcome::Pass, "{}", gate.ran.stdout);
    let arguments = pair.text("arguments");
    let flags = "-test.run=^$ -test.benchtime=5ms -test.count=3 -test.bench=.";
    assert!(arguments.lines().all(|line| line == flags), "{arguments}");
}

#[cfg(unix)]
mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: takes the 15 seconds of a screen"]
    fn long_first_runs_are_refused() {
        let pair = ScriptPair::new("sleep 600", "");
        pair.screen(&["--metric", "wall"])
            .refuses("the first runs take longer than the 15s of a screen");
    }

    /// A screen whose candidate hangs after enough pairs does not pass by these.
    #[test]
    #[ignore = "nightly: takes the 15 seconds of a screen"]
    fn hanging_run_prevents_passing() {
        let hangs = format!("{COUNTED}[ $n -lt 26 ] || sleep 600");
        let pair = ScriptPair::new("", &hangs);
        // The time of the screen ends before the time limit of a run.
        let limits = ["--tolerance", "9000%", "--max-round-time", "1m"];
        let gate = pair.screen(&[&["--metric", "wall"][..], &limits].concat()).exits(0);
        let (verdict, found) = (gate.verdict(), runs(&gate));
        assert_eq!(
            (verdict.verdict, verdict.reason, found.pairs, found.looks_taken),
            (Outcome::Inconclusive, Some(Reason::NotMeasured), 25, 1),
            "{}",
            gate.ran.stdout
        );
        assert!(verdict.warnings.iter().any(|warning| warning.code == "hanging-run"));
        assert!(gate.ran.stderr.contains("LOOK CLOSER: this is not a pass"), "{}", gate.ran.stderr);
    }

    #[test]
    #[ignore = "nightly: takes the 15 seconds of a screen"]
    fn long_preparation_is_no_hang() {
        let pair = ScriptPair::from_script("");
        let script = format!("{COUNTED}[ $n -lt 52 ] || sleep 600");
        std::fs::write(pair.path("prepare"), script).unwrap();
        let prepare = pair.command("prepare");
        let limits = ["--tolerance", "9000%", "--max-round-time", "1m"];
        let args = ["--metric", "wall", "--prepare", &prepare];
        let gate = pair.screen(&[&args[..], &limits].concat()).exits(0);
        let warnings = &gate.verdict().warnings;
        assert!(warnings.iter().all(|warning| warning.code != "hanging-run"), "{warnings:?}");
    }
}
