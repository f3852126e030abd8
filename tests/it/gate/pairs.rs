//! Two sides, in turn: the verdict file, the exit codes, and every way a program under test can go wrong.

use std::path::{Path, PathBuf};
use std::process::Command;

use jitterstat::file::File as _;
use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::verdict::Verdict;

use serde_json::{Value, json};

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

#[test]
fn a_slowed_build_is_a_regression() {
    let program = gated_loop();
    let command = |extra: &str| format!("'{}' 1ms {extra}", program.display());
    // Far beyond what a busy machine does to a timer by itself.
    let tolerance = ["--tolerance", "p50=900%", "--tolerance", "p90=900%", "--floor", "200us"];
    let sides = ["--baseline-cmd", &command(""), "--candidate-cmd", &command("3ms"), "--format", "json"];
    let gate = Gate::quick(&[&sides[..], &tolerance].concat()).exits(1);
    let verdict = gate.verdict();
    assert_eq!(verdict.verdict, Outcome::Regressed, "{}", gate.ran.stdout);
    let [pair] = verdict.comparisons.as_slice() else { panic!("{}", gate.ran.stdout) };
    assert_eq!((pair.pairs, pair.looks_taken, pair.rounds.len(), verdict.partial), (24, 1, 24, false));
    assert_eq!(pair.plan.cpu, None, "commands are bound only where a CPU is asked for");
    assert_eq!(Verdict::from_json(&gate.ran.stdout).unwrap(), *verdict, "the file is what --format json prints");
}

/// Two scripts, each late by so much in every tick of its rounds, by turns.
fn late_by(a: &[i64], b: &[i64]) -> Value {
    let rounds = |levels: &[i64]| levels.iter().map(|&level| vec![level]).collect::<Vec<_>>();
    json!({"scripted": {"lateness_ns": rounds(a)}, "scripted-b": {"lateness_ns": rounds(b)}})
}

const SCRIPTS: [&str; 4] = ["--a", "scripted", "--b", "scripted-b"];

#[test]
fn what_is_known_exactly_is_judged_exactly() {
    use Outcome::{Improved, Inconclusive, Pass, Regressed};
    for (a, b, code, outcome, reason, says) in [
        (20_000, 21_000, 0, Pass, None, "verdict: pass"),
        // Within both tolerances, 20 % and 50 %; beyond the first; beyond both.
        (20_000, 23_999, 0, Pass, None, "+20.0 %"),
        (20_000, 25_000, 1, Regressed, None, "verdict: regressed"),
        (20_000, 31_000, 1, Regressed, None, "+55.0 %"),
        (20_000, 10_000, 0, Improved, None, "verdict: pass (improved)"),
        // Ten times as late, and by less than the floor.
        (90, 900, 0, Pass, None, "+900.0 %"),
        // Both sides lie inside what counts as a stall of the machine.
        (600_000, 600_000, 0, Inconclusive, Some(Reason::StallDominated), "machine stalls"),
    ] {
        let gate = Gate::scripted(&SCRIPTS, &late_by(&[a], &[b])).exits(code);
        let verdict = gate.verdict();
        assert_eq!((verdict.verdict, verdict.reason), (outcome, reason), "{a} {b}: {}", gate.ran.stdout);
        assert!(gate.ran.stdout.contains(says), "{a} {b}: {}", gate.ran.stdout);
        assert_eq!(gate.ran.stderr.contains("NOT A PASS"), outcome == Inconclusive, "{}", gate.ran.stderr);
        let [pair] = verdict.comparisons.as_slice() else { panic!("{}", gate.ran.stdout) };
        assert!(pair.rounds.iter().all(|r| (r.a_ns, r.b_ns) == ([a; 2], [b; 2])));
        assert_eq!((pair.pairs, pair.looks_taken, verdict.partial), (24, 1, false));
    }
}

#[test]
fn inconclusive_is_a_failure_only_where_that_is_asked_for() {
    for (asked, code) in [("fail", 3), ("pass", 0)] {
        let args = [&SCRIPTS[..], &["--on-inconclusive", asked]].concat();
        let gate = Gate::scripted(&args, &late_by(&[600_000], &[600_000])).exits(code);
        let verdict = gate.verdict();
        assert_eq!((verdict.verdict, verdict.reason), (Outcome::Inconclusive, Some(Reason::StallDominated)));
        assert!(gate.ran.stderr.contains("NOT A PASS") && !verdict.partial);
        assert!(!gate.ran.stdout.contains("verdict: pass"), "{}", gate.ran.stdout);
    }
}

#[test]
fn an_open_gate_says_what_would_decide_it() {
    // Two levels, each side by turns of its own: a spread that 24 pairs say nothing about.
    let gate = Gate::scripted(&SCRIPTS, &late_by(&[10_000, 90_000], &[10_000, 10_000, 90_000, 90_000])).exits(0);
    let verdict = gate.verdict();
    assert_eq!((verdict.verdict, verdict.reason), (Outcome::Inconclusive, Some(Reason::TooNoisy)));
    let pairs = verdict.comparisons[0].metrics.iter().filter_map(|m| m.pairs_to_decide).max();
    let says = format!("--max-pairs {}", pairs.expect("a number of pairs that would decide it"));
    let stdout = &gate.ran.stdout;
    assert!(stdout.contains(&says) && stdout.contains("s) would probably decide"), "{stdout}");
}

#[test]
fn what_is_cut_short_is_partial_and_never_passes() {
    let mut interrupted = late_by(&[20_000], &[20_000]);
    interrupted["scripted-b"]["interrupt_at_round"] = 5.into();
    let mut failing = late_by(&[20_000], &[20_000]);
    failing["scripted-b"]["fail"] = json!({"round": 5, "reason": "no timer left"});
    for (scripts, reason, failure) in [
        (interrupted, Reason::Interrupted, None),
        (failing, Reason::NotMeasured, Some("scripted-b@1ms/current-thread: no timer left")),
    ] {
        let gate = Gate::scripted(&[&SCRIPTS[..], &["--period", "2ms"]].concat(), &scripts).exits(4);
        let verdict = gate.verdict();
        assert_eq!((verdict.partial, verdict.verdict), (true, Outcome::Inconclusive));
        assert_eq!(
            (verdict.reason, verdict.failure.as_deref().map(|f| f.replace("2ms", "1ms"))),
            (Some(reason), failure.map(str::to_owned))
        );
        let [pair] = verdict.comparisons.as_slice() else { panic!("what was not begun is not there") };
        assert_eq!((pair.pairs, pair.reason), (5, Some(reason)));
        assert!(pair.metrics.iter().all(|m| (m.verdict, m.reason) == (Outcome::Inconclusive, Some(reason))));
        assert_eq!(pair.metrics.len(), 2, "what there was is shown");
    }
}

/// Two programs, in 24 pairs of rounds of 20 ticks at 100 us.
#[cfg(unix)]
fn programs(a: &str, b: &str, extra: &[&str]) -> Gate {
    let rounds = ["--period", "100us", "--round-ticks", "20", "--warmup", "0", "--max-pairs", "24"];
    Gate::run(&[&["--baseline-cmd", a, "--candidate-cmd", b], &rounds[..], extra].concat())
}

#[test]
fn two_subjects_are_paired_and_every_format_says_the_same() {
    let subjects = ["--a", "nanosleep", "--b", "nanosleep", "--tolerance", "p50=900%", "--tolerance", "p90=900%"];
    let gate = Gate::quick(&[&subjects[..], &["--format", "junit", "--seed", "7"]].concat());
    let verdict = gate.verdict();
    let [pair] = verdict.comparisons.as_slice() else { panic!("{}", gate.ran.stdout) };
    assert_eq!((pair.pairs, pair.plan.seed, pair.plan.round_ticks), (24, 7, 40));
    assert_eq!((pair.a.as_str(), pair.b.as_str()), ("nanosleep@1ms", "nanosleep@1ms#2"));
    assert_eq!(metrics(verdict), ["p50", "p90"], "40 ticks carry no p99");
    assert!(gate.ran.stderr.contains("judged by p90 instead of p99"), "{}", gate.ran.stderr);
    if cfg!(target_os = "linux") {
        assert!(pair.plan.cpu.is_some(), "subjects are bound to one CPU");
        assert_eq!(verdict.host.affinity.as_ref().map(Vec::len), Some(1));
    }
    let junit = &gate.ran.stdout;
    assert!(junit.contains("<testsuite") && junit.contains("tests=\"2\""), "{junit}");
}

fn metrics(verdict: &Verdict) -> Vec<&str> {
    verdict.comparisons.iter().flat_map(|c| c.metrics.iter().map(|m| m.name.as_str())).collect()
}

#[test]
fn several_comparisons_share_alpha() {
    let two = ["--a", "nanosleep", "--b", "nanosleep", "--period", "1ms", "--period", "500us"];
    let short = ["--round-ticks", "110", "--warmup", "3", "--max-rounds", "24", "--tolerance", "p95=900%"];
    let gate = Gate::run(&[two, short].concat());
    let verdict = gate.verdict();
    let plans: Vec<(u64, f64)> = verdict.comparisons.iter().map(|c| (c.plan.period_ns, c.plan.alpha)).collect();
    assert_eq!(plans, [(1_000_000, 0.0025), (500_000, 0.0025)]);
    assert_eq!(verdict.comparisons[0].plan.seed, verdict.comparisons[1].plan.seed, "--seed repeats the whole gate");
    assert_eq!(metrics(verdict), ["p50", "p95", "p50", "p95"], "110 ticks carry a p95");
}

#[test]
fn bad_usage_is_named_before_anything_runs() {
    let both = |extra: &[&'static str]| [&["--a", "nanosleep", "--b", "spin"], extra].concat();
    for (args, says) in [
        (vec!["--a", "nanosleep"], "--b"),
        (vec!["--a", "nanosleep", "--b", "no-such"], "'--b <SUBJECT>': no subject"),
        (both(&["--b", "nanosleep"]), "as many of each"),
        (both(&["--tolerance", "p90=50%"]), "not by p90"),
        (vec!["--baseline-cmd", "true", "--candidate-cmd", "true", "--period", "1ms", "--period", "2ms"], "once"),
        (vec![], "--a and --b"),
        (vec!["--duet"], "--a"),
        (vec!["--duet", "--baseline-cmd", "true", "--candidate-cmd", "true"], "--a"),
        (vec!["--a", "tokio-*", "--b", "nanosleep"], "several subjects"),
        (vec!["--baseline-cmd", "true"], "--candidate-cmd"),
        (vec!["--baseline-cmd", "'open", "--candidate-cmd", "true"], "'--baseline-cmd <COMMAND>': the command"),
        (vec!["--baseline-cmd", "'open", "--candidate-cmd", "true"], "open quote"),
        (both(&["--tolerance", "p50=20"]), "'--tolerance <PERCENTILE=PERCENT>': no tolerance"),
        (both(&["--floor", "1"]), "'--floor <DURATION>'"),
        (both(&["--max-time", "1s"]), "first look"),
        (both(&["--max-time", "1"]), "'--max-time <DURATION>'"),
        (both(&["--round-time-limit", "1"]), "'--max-round-time <DURATION>'"),
        (both(&["--max-pairs", "5"]), "24"),
        (both(&["--period", "500"]), "no unit"),
        (both(&["--runtime", "async-std"]), "'--runtime <KIND>': no runtime"),
        (both(&["--cpu", "99999"]), "CPU 99999"),
    ] {
        Gate::run(&args).refuses(says);
    }
}

#[cfg(unix)]
#[test]
fn a_program_that_does_not_keep_the_contract_is_named_and_reaped() {
    let header = "osjitter.series/1 period_ns=100000";
    for (script, says) in [
        ("exit 7".to_owned(), "exit status: 7"),
        ("echo oh dear >&2; exit 1".to_owned(), "oh dear"),
        ("true".to_owned(), "wrote nothing"),
        ("echo garbage > $OSJITTER_OUT".to_owned(), "first line"),
        (format!("echo {header} > $OSJITTER_OUT; echo x >> $OSJITTER_OUT"), "line 2"),
        (format!("echo {header} > $OSJITTER_OUT; echo 5 >> $OSJITTER_OUT"), "1 ticks where 20"),
        ("echo osjitter.series/1 period_ns=7 > $OSJITTER_OUT".to_owned(), "7 ns"),
    ] {
        let command = format!("sh -c '{script}'");
        let gate = programs(&command, &command, &[]).exits(4);
        let verdict = gate.verdict();
        assert!(verdict.partial && verdict.verdict == Outcome::Inconclusive);
        assert_eq!(verdict.reason, Some(Reason::NotMeasured));
        assert!(verdict.failure.as_ref().is_some_and(|f| f.contains(says)), "{script}: {:?}", verdict.failure);
    }
    let _ = programs("no-such-program-here", "true", &[]).exits(4);
}

#[cfg(unix)]
#[test]
fn a_program_that_hangs_is_ended() {
    #[allow(clippy::disallowed_methods, reason = "a watchdog")]
    let started = std::time::Instant::now();
    let gate = programs("sleep 600", "sleep 600", &["--max-round-time", "300ms"]).exits(4);
    assert!(gate.verdict().failure.as_ref().unwrap().contains("still running"));
    assert!(started.elapsed().as_secs() < 120);
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_partial_verdict() {
    let args = ["--a", "nanosleep", "--b", "nanosleep", "--period", "1ms", "--period", "2ms"];
    let pause = std::time::Duration::from_secs(2);
    let gate = Gate::of(super::gate(&args).interrupt_after("gate: ", pause)).exits(4);
    let verdict = gate.verdict();
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
    // It interrupts the gate itself, once it runs.
    let command = format!("sh -c 'echo $$ > {}; kill -INT $PPID; exec sleep 600'", id.display());
    let gate = programs(&command, &command, &[]).exits(4);
    let verdict = gate.verdict();
    assert_eq!((verdict.partial, verdict.reason, verdict.failure.as_ref()), (true, Some(Reason::Interrupted), None));
    let id = std::fs::read_to_string(id).expect("the program was started");
    assert!(!Command::new("kill").args(["-0", id.trim()]).output().unwrap().status.success(), "it is still there");
}
