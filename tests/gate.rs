//! `osjitter gate` from outside: the verdict file, the exit codes, and every way a program under test can go wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::verdict::Verdict;

struct Gate {
    output: Output,
    verdict: Option<Verdict>,
}

impl Gate {
    fn run(args: &[&str]) -> Self {
        let out = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_osjitter"))
            .arg("gate")
            .args(args)
            .arg("--out")
            .arg(out.path())
            .output()
            .expect("the binary runs");
        let file = std::fs::read_to_string(out.path().join("verdict.json")).ok();
        Self { output, verdict: file.map(|text| Verdict::from_json(&text).unwrap()) }
    }

    /// 24 pairs of rounds of 40 ticks at 1 ms: about two seconds.
    fn quick(args: &[&str]) -> Self {
        let rounds = ["--period", "1ms", "--round-ticks", "40", "--warmup", "3", "--max-rounds", "24"];
        Self::run(&[args, &rounds].concat())
    }

    fn code(&self) -> i32 {
        self.output.status.code().expect("it was not killed")
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
}

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
    assert_eq!((verdict.pairs, verdict.looks_taken, verdict.rounds.len(), verdict.partial), (24, 1, 24, false));
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
    assert_eq!((verdict.pairs, verdict.plan.seed, verdict.plan.round_ticks), (24, 7, 40));
    assert_eq!((verdict.a.as_str(), verdict.b.as_str()), ("nanosleep@1ms", "nanosleep@1ms#2"));
    let names: Vec<&str> = verdict.metrics.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["p50", "p90"], "40 ticks carry no p99");
    let junit = gate.stdout();
    assert!(junit.contains("<testsuite") && junit.contains("tests=\"2\""), "{junit}");
}

#[test]
fn bad_usage_is_named_before_anything_runs() {
    for (args, says) in [
        (&["--a", "nanosleep"][..], "--b"),
        (&["--a", "nanosleep", "--b", "no-such"], "no subject"),
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
        assert!(verdict.failure.as_ref().is_some_and(|f| f.contains(says)), "{script}: {:?}", verdict.failure);
    }
    let gate = Gate::quick(&["--baseline-cmd", "no-such-program-here", "--candidate-cmd", "true"]);
    assert_eq!(gate.code(), 4, "{}", gate.stderr());
}

#[cfg(unix)]
#[test]
fn a_program_that_hangs_is_ended() {
    #[allow(clippy::disallowed_methods, reason = "a watchdog")]
    let started = Instant::now();
    let command = ["--baseline-cmd", "sleep 600", "--candidate-cmd", "sleep 600", "--round-time-limit", "300ms"];
    let gate = Gate::quick(&command);
    assert_eq!(gate.code(), 4, "{}", gate.stderr());
    assert!(gate.verdict.unwrap().failure.unwrap().contains("still running"));
    assert!(started.elapsed() < Duration::from_secs(120));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_partial_verdict() {
    let out = tempfile::tempdir().unwrap();
    let mut gate = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["gate", "--a", "nanosleep", "--b", "nanosleep", "--period", "1ms", "--out"])
        .arg(out.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    #[allow(clippy::disallowed_methods, reason = "let it measure for a while")]
    std::thread::sleep(Duration::from_secs(3));
    let killed = Command::new("kill").args(["-INT", &gate.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(gate.wait().unwrap().code(), Some(4));
    let text = std::fs::read_to_string(out.path().join("verdict.json")).unwrap();
    let verdict = Verdict::from_json(&text).unwrap();
    assert!(verdict.partial && verdict.verdict == Outcome::Inconclusive && verdict.failure.is_none());
}
