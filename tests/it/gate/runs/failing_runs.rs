//! Tests of programs and runs that fail, hang, or write too much.

use jitterstat::gate::decision::{Outcome, Reason};

use super::{ANY_LENGTH, COUNTED, PAIRS, ScriptPair, runs};
use crate::gate::Gate;
use crate::osjitter::{Osjitter, names_in, one_line, run_long_enough};

#[test]
fn unstartable_program_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data");
    std::fs::write(&file, "").unwrap();
    for (program, says) in [
        ("./nope", "cannot start ./nope: there is no such program"),
        (directory.path().to_str().unwrap(), "its first word is a directory"),
        (file.to_str().unwrap(), "the file is not executable"),
    ] {
        let args = ["--base-cmd", "true", "--candidate-cmd", program, "--metric", "wall"];
        Gate::run(&args).refuses(says);
    }
}

#[test]
fn failing_run_keeps_earlier_pairs() {
    for (lines, says) in [
        ("metric x us lower\\nx 5\\n", "x is in us"),
        ("metric x ns lower\\nx 0\\n", "above zero"),
        ("metric x ns lower\\nx NaN\\n", "above zero"),
        ("metric x ns lower\\nx -5\\n", "above zero"),
        ("metric x ns lower\\nx 5\\nx 6\\n", "it wrote 2 values of x, and 1 in the first run"),
        ("", "no metric \"x\""),
    ] {
        // The tenth run, counting both sides, is the first to go wrong.
        let script = format!(
            "{COUNTED}printf 'osjitter.series/1\\n' >\"$OSJITTER_OUT\"\n\
             if [ $n -lt 10 ]; then printf 'metric x ns lower\\nx 5\\n'; else printf '{lines}'; fi >>\"$OSJITTER_OUT\"\n"
        );
        let gate = ScriptPair::from_script(&script).gate(&["--metric", "x"]).exits(4);
        let verdict = gate.verdict();
        let failure = verdict.failure.as_deref().unwrap_or_default();
        assert!(failure.contains(says), "{says}: {failure}");
        let found = runs(&gate);
        assert_eq!(
            (verdict.partial, found.pairs, found.reason),
            (true, 4, Some(Reason::NotMeasured))
        );
        assert!(found.metrics.iter().all(|m| m.judged.is_inconclusive() && m.values.len() == 4));
        // More pairs would fail as well.
        let sentence = one_line(&gate.ran.stdout);
        let remedy = "remove the cause of the failure, and run it again";
        assert!(sentence.contains(remedy) && !sentence.contains("--max-"), "{sentence}");
    }
}

#[test]
fn hanging_run_is_killed() {
    let sides = ScriptPair::new("exit 0", "sleep 600");
    let args = ["--metric", "wall", "--max-round-time", "5s"];
    sides.refuses(&args, "still running after 5 s");
    // A run that hangs after complete pairs.
    let script = format!("{COUNTED}[ $n -lt 10 ] || sleep 600");
    let gate = ScriptPair::from_script(&script).gate(&args).exits(4);
    assert!(gate.verdict().failure.as_ref().unwrap().contains("still running after 5 s"));
}

#[test]
fn slow_runs_respect_the_time_limit() {
    let script = format!("{COUNTED}[ $n -lt 2 ] || sleep 2\n");
    let sides = ScriptPair::from_script(&script);
    let command = |time: &str| {
        let _ = std::fs::remove_file(sides.path("n"));
        let args = ["--metric", "wall", "--max-time", time];
        sides.command_line(&[&ANY_LENGTH[..], &args].concat())
    };
    let gate = Gate::from_ran(run_long_enough(4, command, |_| true)).exits(0);
    let found = runs(&gate);
    assert!((1..24).contains(&found.pairs) && found.looks_taken == 0, "{}", gate.ran.stdout);
    assert_eq!((found.verdict, found.reason), (Outcome::Inconclusive, Some(Reason::TooFewRounds)));
    assert!(!gate.verdict().partial, "{}", gate.ran.stdout);
    assert!(gate.ran.stderr.contains("not a pass"), "{}", gate.ran.stderr);
}

#[test]
fn program_output_is_bounded() {
    for (script, says) in [
        ("mkfifo \"$OSJITTER_OUT\"", "OSJITTER_OUT cannot be read: it is not a regular file"),
        ("mkdir \"$OSJITTER_OUT\"", "OSJITTER_OUT cannot be read: it is not a regular file"),
        (
            "ln -s /dev/zero \"$OSJITTER_OUT\"",
            "OSJITTER_OUT cannot be read: it is a link, not a regular file",
        ),
        (
            "dd if=/dev/zero of=\"$OSJITTER_OUT\" bs=1 count=1 seek=1T 2>/dev/null",
            "wrote more than 1024 MiB",
        ),
        // Slightly below the maximum size, in one line and in many.
        (
            "dd if=/dev/zero of=\"$OSJITTER_OUT\" bs=1 count=1 seek=1000M 2>/dev/null",
            "at most 255 bytes",
        ),
        (
            "{ echo osjitter.series/1; yes 'metric x ns lower' | head -c 100M; } >\"$OSJITTER_OUT\"",
            "declared once",
        ),
    ] {
        let pair = ScriptPair::from_script(script);
        let command = pair.command_line(&[&PAIRS[..], &ANY_LENGTH, &["--metric", "x"]].concat());
        let limited = command.in_shell(r#"ulimit -v 700000 2>/dev/null; exec "$0" "$@""#);
        let gate = Gate::from_ran(limited.run());
        assert!(gate.ran.stderr.len() < 3_000, "{script}: {}", gate.ran.stderr);
        gate.refuses(says);
    }
}

/// A system without free descriptors is no mistake of the user.
#[test]
fn scarce_descriptors_are_no_bad_usage() {
    let directory = tempfile::tempdir().unwrap();
    let mut failures = 0;
    for descriptors in [4, 6, 7, 8, 9, 16] {
        let ran = Osjitter::new(["gate", "--metric", "wall", "--max-pairs", "24"])
            .args(["--base-cmd", "sleep 0.02", "--candidate-cmd", "sleep 0.02"])
            .directory(directory.path())
            .in_shell(&format!(r#"ulimit -n {descriptors}; exec "$0" "$@""#))
            .run();
        let (code, stderr) = (ran.code, ran.stderr);
        if stderr.contains("Too many open files") {
            assert_eq!(code, 4, "{stderr}");
            failures += 1;
        } else {
            assert!(code == 0 || code == 1, "{descriptors} descriptors: {code}, {stderr}");
        }
    }
    assert!(failures > 0);
}

/// A program that takes all descriptors of osjitter, whose directories are removed nevertheless.
#[test]
fn lost_descriptors_leave_no_directories() {
    let home = tempfile::tempdir().unwrap();
    let temporary = home.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let program = "sh -c 'touch $OSJITTER_OUT.more; prlimit --pid $PPID --nofile=3:'";
    let gate = ["gate", "--metric", "wall", "--base-cmd", program, "--candidate-cmd", program];
    let ran = Osjitter::new(gate).env("TMPDIR", &temporary).run().exits(4);
    assert!(ran.stderr.contains("Too many open files"), "{}", ran.stderr);
    assert_eq!(names_in(&temporary), [""; 0]);
}
