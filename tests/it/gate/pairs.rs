//! Two sides, in turn: the verdict file, the exit codes, and every way a program under test can go wrong.

use std::path::{Path, PathBuf};
use std::process::Command;

use jitterstat::file::File as _;
use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::verdict::Verdict;

use super::Gate;

/// The example beside the binary; cargo builds examples with the tests unless one target alone is asked for.
fn gated_loop() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_osjitter"));
    let example = binary.with_file_name("examples").join("gated-loop").with_extension(std::env::consts::EXE_EXTENSION);
    if !example.exists() {
        let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
        let built = Command::new(env!("CARGO")).args(["build", "--example", "gated-loop"]).args(profile).status();
        assert!(built.unwrap().success());
    }
    example
}

fn with_loop(extra: &str) -> Gate {
    let program = gated_loop();
    let command = |extra: &str| format!("'{}' 1ms {extra}", program.display());
    // Far beyond what a busy machine does to a timer by itself.
    let tolerance = ["--tolerance", "p50=900%", "--tolerance", "p90=900%", "--floor", "200us"];
    let (a, b) = (command(""), command(extra));
    Gate::quick(&[&["--baseline-cmd", &a, "--candidate-cmd", &b, "--format", "json"][..], &tolerance].concat())
}

#[test]
fn a_slowed_build_is_a_regression() {
    let gate = with_loop("3ms");
    let verdict = gate.verdict.as_ref().unwrap_or_else(|| panic!("{}", gate.stderr()));
    assert_eq!((gate.code(), verdict.verdict), (1, Outcome::Regressed), "{}", gate.stdout());
    let [comparison] = verdict.comparisons.as_slice() else { panic!("{}", gate.stdout()) };
    assert_eq!(
        (comparison.pairs, comparison.looks_taken, comparison.rounds.len(), verdict.partial),
        (24, 1, 24, false)
    );
    assert_eq!(comparison.plan.cpu, None, "commands are bound only where a CPU is asked for");
    assert_eq!(Verdict::from_json(&gate.stdout()).unwrap(), *verdict, "the file is what --format json prints");
}

#[test]
fn the_same_build_is_none() {
    let gate = with_loop("");
    let verdict = gate.verdict.as_ref().unwrap_or_else(|| panic!("{}", gate.stderr()));
    assert_eq!(gate.code(), 0, "{}", gate.stdout());
    // A machine with nothing but stalls has no answer; it must then say so, and aloud.
    let noisy = matches!(verdict.reason, Some(Reason::StallDominated | Reason::TooNoisy));
    let passed = matches!(verdict.verdict, Outcome::Pass | Outcome::Improved);
    assert!(passed || (noisy && gate.stderr().contains("NOT A PASS")), "{}", gate.stdout());
}

#[test]
fn two_subjects_are_paired_and_every_format_says_the_same() {
    let subjects = ["--a", "nanosleep", "--b", "nanosleep", "--tolerance", "p50=900%", "--tolerance", "p90=900%"];
    let gate = Gate::quick(&[&subjects[..], &["--format", "junit", "--seed", "7"]].concat());
    let verdict = gate.verdict.as_ref().unwrap_or_else(|| panic!("{}", gate.stderr()));
    let [comparison] = verdict.comparisons.as_slice() else { panic!("{}", gate.stdout()) };
    assert_eq!((comparison.pairs, comparison.plan.seed, comparison.plan.round_ticks), (24, 7, 40));
    assert_eq!((comparison.a.as_str(), comparison.b.as_str()), ("nanosleep@1ms", "nanosleep@1ms#2"));
    assert_eq!(metrics(&gate), ["p50", "p90"], "40 ticks carry no p99");
    assert!(gate.stderr().contains("judged by p90 instead of p99"), "{}", gate.stderr());
    if cfg!(target_os = "linux") {
        assert!(comparison.plan.cpu.is_some(), "subjects are bound to one CPU");
        assert_eq!(verdict.host.affinity.as_ref().map(Vec::len), Some(1));
    }
    let junit = gate.stdout();
    assert!(junit.contains("<testsuite") && junit.contains("tests=\"2\""), "{junit}");
}

fn metrics(gate: &Gate) -> Vec<String> {
    let comparisons = &gate.verdict.as_ref().expect("a verdict").comparisons;
    comparisons.iter().flat_map(|c| c.metrics.iter().map(|m| m.name.clone())).collect()
}

#[test]
fn several_comparisons_share_alpha() {
    let two = ["--a", "nanosleep", "--b", "nanosleep", "--period", "1ms", "--period", "500us"];
    let short = ["--round-ticks", "110", "--warmup", "3", "--max-rounds", "24", "--tolerance", "p95=900%"];
    let gate = Gate::run(&[two, short].concat());
    let verdict = gate.verdict.as_ref().unwrap_or_else(|| panic!("{}", gate.stderr()));
    let plans: Vec<(u64, f64)> = verdict.comparisons.iter().map(|c| (c.plan.period_ns, c.plan.alpha)).collect();
    assert_eq!(plans, [(1_000_000, 0.0025), (500_000, 0.0025)]);
    assert_eq!(metrics(&gate), ["p50", "p95", "p50", "p95"], "110 ticks carry a p95");
}

/// A program that writes so many lines of the same lateness without waiting for any of them.
#[cfg(unix)]
fn always_late_by(ns: u64) -> String {
    let header = "osjitter.series/1 period_ns=1000000";
    format!("sh -c '{{ echo {header}; yes {ns} | head -n $OSJITTER_TICKS; }} > $OSJITTER_OUT'")
}

#[cfg(unix)]
#[test]
fn inconclusive_is_a_failure_only_where_that_is_asked_for() {
    // Both sides lie inside what counts as a stall of the machine.
    let command = always_late_by(600_000);
    for (extra, code) in [(&[][..], 0), (&["--on-inconclusive", "fail"], 3), (&["--on-inconclusive", "pass"], 0)] {
        let gate = Gate::quick(&[&["--baseline-cmd", &command, "--candidate-cmd", &command], extra].concat());
        assert_eq!(gate.code(), code, "{extra:?}: {}", gate.stderr());
        let verdict = gate.verdict.as_ref().expect("a verdict is written in every case");
        assert_eq!((verdict.verdict, verdict.reason), (Outcome::Inconclusive, Some(Reason::StallDominated)));
        assert!(gate.stderr().contains("NOT A PASS") && !verdict.partial);
        assert!(!gate.stdout().contains("verdict: pass"), "{}", gate.stdout());
    }
}

#[cfg(unix)]
#[test]
fn an_open_gate_says_what_would_decide_it() {
    // Each program counts its rounds in a file, and has one of two levels by turns of its own: a spread that 24 pairs
    // say nothing about.
    let scratch = tempfile::tempdir().unwrap();
    let command = |turns: u32| {
        let count = scratch.path().join(turns.to_string());
        std::fs::write(&count, "0\n").unwrap();
        let count = count.display();
        let level = format!("read n < {count}; echo $((n + 1)) > {count}; l=$((10000 + n / {turns} % 2 * 80000))");
        let write = "{ echo osjitter.series/1 period_ns=1000000; yes $l | head -n $OSJITTER_TICKS; } > $OSJITTER_OUT";
        format!("sh -c '{level}; {write}'")
    };
    let gate = Gate::quick(&["--baseline-cmd", &command(1), "--candidate-cmd", &command(2)]);
    let verdict = gate.verdict.as_ref().unwrap_or_else(|| panic!("{}", gate.stderr()));
    assert_eq!((verdict.verdict, verdict.reason), (Outcome::Inconclusive, Some(Reason::TooNoisy)), "{}", gate.stdout());
    let pairs = verdict.comparisons[0].metrics.iter().filter_map(|m| m.pairs_to_decide).max();
    let says = format!("--max-rounds {}", pairs.expect("a number of pairs that would decide it"));
    assert!(gate.stdout().contains(&says) && gate.stdout().contains("s) would probably decide"), "{}", gate.stdout());
}

#[test]
fn bad_usage_is_named_before_anything_runs() {
    for (args, says) in [
        (&["--a", "nanosleep"][..], "--b"),
        (&["--a", "nanosleep", "--b", "no-such"], "no subject"),
        (&["--a", "nanosleep", "--b", "spin", "--b", "nanosleep"], "as many of each"),
        (&["--a", "nanosleep", "--b", "spin", "--tolerance", "p90=50%"], "not by p90"),
        (&["--baseline-cmd", "true", "--candidate-cmd", "true", "--period", "1ms", "--period", "2ms"], "once"),
        (&[], "--a and --b"),
        (&["--duet"], "--a"),
        (&["--duet", "--baseline-cmd", "true", "--candidate-cmd", "true"], "--a"),
        (&["--a", "tokio-*", "--b", "nanosleep"], "several subjects"),
        (&["--baseline-cmd", "true"], "--candidate-cmd"),
        (&["--baseline-cmd", "'open", "--candidate-cmd", "true"], "open quote"),
        (&["--a", "nanosleep", "--b", "spin", "--tolerance", "p50=20"], "no tolerance"),
        (&["--a", "nanosleep", "--b", "spin", "--max-time", "1s"], "first look"),
        (&["--a", "nanosleep", "--b", "spin", "--max-rounds", "5"], "24"),
        (&["--a", "nanosleep", "--b", "spin", "--period", "500"], "no unit"),
        (&["--a", "nanosleep", "--b", "spin", "--cpu", "99999"], "CPU 99999"),
    ] {
        let gate = Gate::run(args);
        assert_eq!(gate.code(), 2, "{args:?}: {}", gate.stderr());
        assert!(gate.stderr().contains(says), "{args:?}: {}", gate.stderr());
        assert!(gate.verdict.is_none());
    }
}

#[cfg(unix)]
#[test]
fn a_program_that_does_not_keep_the_contract_is_named_and_reaped() {
    let header = "osjitter.series/1 period_ns=1000000";
    for (script, says) in [
        ("exit 7".to_owned(), "exit status: 7"),
        ("echo oh dear >&2; exit 1".to_owned(), "oh dear"),
        ("true".to_owned(), "wrote nothing"),
        ("echo garbage > $OSJITTER_OUT".to_owned(), "first line"),
        (format!("echo {header} > $OSJITTER_OUT; echo x >> $OSJITTER_OUT"), "line 2"),
        (format!("echo {header} > $OSJITTER_OUT; echo 5 >> $OSJITTER_OUT"), "1 ticks where 40"),
        ("echo osjitter.series/1 period_ns=7 > $OSJITTER_OUT".to_owned(), "7 ns"),
    ] {
        let command = format!("sh -c '{script}'");
        let gate = Gate::quick(&["--baseline-cmd", &command, "--candidate-cmd", &command]);
        assert_eq!(gate.code(), 4, "{script}: {}", gate.stderr());
        let verdict = gate.verdict.expect("a verdict is written in every case");
        assert!(verdict.partial && verdict.verdict == Outcome::Inconclusive);
        assert_eq!(verdict.reason, Some(Reason::NotMeasured));
        assert!(verdict.failure.as_ref().is_some_and(|f| f.contains(says)), "{script}: {:?}", verdict.failure);
    }
    let gate = Gate::quick(&["--baseline-cmd", "no-such-program-here", "--candidate-cmd", "true"]);
    assert_eq!(gate.code(), 4, "{}", gate.stderr());
}

#[cfg(unix)]
#[test]
fn a_program_that_hangs_is_ended() {
    #[allow(clippy::disallowed_methods, reason = "a watchdog")]
    let started = std::time::Instant::now();
    let command = ["--baseline-cmd", "sleep 600", "--candidate-cmd", "sleep 600", "--round-time-limit", "300ms"];
    let gate = Gate::quick(&command);
    assert_eq!(gate.code(), 4, "{}", gate.stderr());
    assert!(gate.verdict.unwrap().failure.unwrap().contains("still running"));
    assert!(started.elapsed().as_secs() < 120);
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_partial_verdict() {
    let gate = Gate::interrupted(&["--a", "nanosleep", "--b", "nanosleep", "--period", "1ms", "--period", "2ms"]);
    assert_eq!(gate.code(), 4, "{}", gate.stderr());
    let verdict = gate.verdict.as_ref().expect("a verdict is written in every case");
    assert!(verdict.partial && verdict.verdict == Outcome::Inconclusive && verdict.failure.is_none());
    assert_eq!((verdict.reason, verdict.comparisons[0].reason), (Some(Reason::Interrupted), Some(Reason::Interrupted)));
    assert_eq!(verdict.comparisons.len(), 1, "what was not begun is not there");
    assert!(verdict.comparisons[0].metrics.iter().all(|m| m.verdict == Outcome::Inconclusive));
}

#[cfg(unix)]
#[test]
fn an_interrupt_takes_the_program_along() {
    let scratch = tempfile::tempdir().unwrap();
    let id = scratch.path().join("id");
    let command = format!("sh -c 'echo $$ > {}; exec sleep 600'", id.display());
    let gate = Gate::interrupted(&["--baseline-cmd", &command, "--candidate-cmd", &command]);
    assert_eq!(gate.code(), 4, "{}", gate.stderr());
    let verdict = gate.verdict.as_ref().expect("a verdict is written in every case");
    assert_eq!((verdict.partial, verdict.reason, verdict.failure.as_ref()), (true, Some(Reason::Interrupted), None));
    let id = std::fs::read_to_string(id).expect("the program was started");
    assert!(!Command::new("kill").args(["-0", id.trim()]).output().unwrap().status.success(), "it is still there");
}
