//! Tests of gated programs: how they are started, limited and killed, and that they leave nothing
//! behind.
#![cfg(unix)]

use std::path::PathBuf;

use jitterstat::gate::decision::{Outcome, Reason};
use rustix::process::Signal;

use super::Gate;
use crate::osjitter::{Osjitter, names_in};
#[cfg(target_os = "linux")]
use crate::process_control::processes_with_variable;
use crate::process_control::{is_alive, read_process_id, send_signal};
use crate::test_programs::write_executable;

/// 24 pairs of rounds of 20 ticks at 100 us.
const ROUNDS: [&str; 6] = ["--period", "100us", "--round-ticks", "20", "--warmup", "0"];
const PAIRS: [&str; 2] = ["--max-pairs", "24"];

fn programs(a: &str, b: &str, extra: &[&str]) -> Gate {
    Gate::run(&[&["--base-cmd", a, "--candidate-cmd", b], &ROUNDS[..], &PAIRS, extra].concat())
}

/// Makes a script follow the contract in the run of a single tick before the first pair.
fn only_in_pairs(script: &str) -> String {
    format!("if [ \"$OSJITTER_TICKS\" = 1 ]; then {CORRECT_PROGRAM}exit 0; fi\n{script}\n")
}

/// Runs a gate of a shell script against itself.
fn gate_script(script: &str, extra: &[&str]) -> Gate {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("program");
    std::fs::write(&file, script).unwrap();
    let command = format!("sh '{}'", file.display());
    programs(&command, &command, extra)
}

#[test]
fn broken_contract_is_refused() {
    let header = "osjitter.series/1 period_ns=100000";
    for (script, says) in [
        ("exit 7".to_owned(), "exit status: 7"),
        ("echo oh dear >&2; exit 1".to_owned(), "oh dear"),
        ("true".to_owned(), "wrote nothing to OSJITTER_OUT"),
        ("echo no period >&2".to_owned(), "stderr: no period"),
        ("echo garbage > $OSJITTER_OUT".to_owned(), "first line"),
        (format!("echo {header} > $OSJITTER_OUT; echo x >> $OSJITTER_OUT"), "line 2"),
        // Times of a clock instead of lateness.
        (CORRECT_PROGRAM.replace("20000", "1234567890123456"), "wrote a lateness of"),
    ] {
        let refused = gate_script(&script, &[]).exits(2);
        let stderr = &refused.ran.stderr;
        for part in [says, "OSJITTER_TICKS", "osjitter trace", "--metric wall"] {
            assert!(stderr.contains(part), "{script}: no {part:?} in {stderr}");
        }
        assert!(refused.verdict.is_none() && refused.ran.stdout.is_empty(), "{script}");
        // The program is not run again if it fails later.
        let gate = gate_script(&only_in_pairs(&script), &[]).exits(4);
        let verdict = gate.verdict();
        assert!(verdict.partial && verdict.verdict == Outcome::Inconclusive);
        assert_eq!(verdict.reason, Some(Reason::NotMeasured));
        assert!(
            verdict.failure.as_ref().is_some_and(|f| f.contains(says)),
            "{script}: {:?}",
            verdict.failure
        );
        assert!(gate.ran.stderr.contains(says), "the reason is on stderr: {}", gate.ran.stderr);
    }
    let other_period = "echo osjitter.series/1 period_ns=7 > $OSJITTER_OUT";
    gate_script(other_period, &[]).refuses("7ns");
    let one_tick = format!("echo {header} > $OSJITTER_OUT; echo 5 >> $OSJITTER_OUT");
    let gate = gate_script(&one_tick, &[]).exits(4);
    assert!(gate.verdict().failure.as_ref().unwrap().contains("1 tick, expected 20"));
}

#[test]
fn hanging_program_is_killed() {
    #[allow(clippy::disallowed_methods, reason = "a watchdog")]
    let started = std::time::Instant::now();
    let limit = ["--max-round-time", "5s"];
    gate_script("sleep 600", &limit).refuses("still running after 5 s");
    let gate = gate_script(&only_in_pairs("sleep 600"), &limit).exits(4);
    assert!(gate.verdict().failure.as_ref().unwrap().contains("still running after 5 s"));
    assert!(started.elapsed().as_secs() < 120);
}

#[test]
fn interrupt_kills_the_program() {
    let scratch = tempfile::tempdir().unwrap();
    let id = scratch.path().join("id");
    // The program interrupts the gate as soon as it runs.
    let command = format!("sh -c 'echo $$ > {}; kill -INT $PPID; exec sleep 600'", id.display());
    let gate = programs(&command, &command, &[]).exits(4);
    let verdict = gate.verdict();
    assert_eq!(
        (verdict.partial, verdict.reason, verdict.failure.as_ref()),
        (true, Some(Reason::Interrupted), None)
    );
    assert!(!is_alive(read_process_id(&id)), "the program still runs");
}

/// A gate of one program against itself, checked for files and processes that it leaves behind.
struct WatchedGate {
    home: tempfile::TempDir,
}

/// A program that keeps the contract: each tick is late by 20 us.
const CORRECT_PROGRAM: &str = r#"
{ echo "osjitter.series/1 period_ns=100000"; yes 20000 | head -n "$OSJITTER_TICKS"; } >"$OSJITTER_OUT"
"#;

impl WatchedGate {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("tmp")).unwrap();
        Self { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Gates a shell script. osjitter is started by a shell that runs `launcher`, which ends in
    /// `exec`.
    fn gate(&self, launcher: &str, script: &str, args: &[&str]) -> Gate {
        let file = self.path("program");
        std::fs::write(&file, script).unwrap();
        let command = format!("sh '{}'", file.display());
        let sides = ["--base-cmd", &command, "--candidate-cmd", &command, "--floor", "100ms"];
        let osjitter = super::gate(&[&sides[..], &ROUNDS, args].concat())
            .env("TMPDIR", self.path("tmp"))
            .env("HOME_OF_TEST", self.home.path());
        Gate::from_ran(osjitter.in_shell(&format!("{launcher} \"$0\" \"$@\"")).run())
    }

    /// Checks that no process of this test and no temporary file remain.
    #[track_caller]
    fn assert_nothing_remains(&self) {
        assert_eq!(names_in(&self.path("tmp")), [""; 0]);
        #[cfg(target_os = "linux")]
        assert_eq!(processes_with_variable("HOME_OF_TEST", self.home.path()), Vec::<u32>::new());
    }
}

/// Checks that a gate could not measure, for this reason.
#[track_caller]
fn assert_fails(gate: Gate, says: &str) {
    let gate = gate.exits(4);
    let failure = gate.verdict().failure.as_deref().expect("a failure");
    assert!(failure.contains(says) && failure.len() < 2_000, "{says}: {failure}");
}

/// Checks that a gate was refused before anything was measured, for this reason.
#[track_caller]
fn assert_refused(gate: Gate, says: &str) {
    assert!(gate.ran.stderr.len() < 4_000, "{}", gate.ran.stderr);
    gate.refuses(says);
}

/// Returns a script whose children try to outlive it: in its process group, forked twice, ignoring
/// signals, and, if osjitter can find those, in other sessions, with a chain of processes that each
/// start the next one in a new session and exit.
fn hostile() -> String {
    let in_group = r#"
exec 2>"$HOME_OF_TEST/said"
trap '' TERM HUP INT
alive() { for id in $(cat "$HOME_OF_TEST/ids" 2>/dev/null); do kill -0 "$id" && echo "$id" >>"$HOME_OF_TEST/alive"; done; }
alive
: >"$HOME_OF_TEST/ids"
noted() { "$@" & echo $! >>"$HOME_OF_TEST/ids"; }
noted sleep 600
noted sh -c 'trap "" TERM; while :; do sleep 600; done'
( ( sleep 600 & echo $! >>"$HOME_OF_TEST/ids" ) & )
"#;
    let in_sessions = r#"
setsid sh -c 'trap "" TERM HUP; sleep 600 & setsid sleep 600 & setsid setsid sleep 600 & sleep 600' &
printf 'sleep 0.01; setsid sh "$0" &' >"$HOME_OF_TEST/chain"
setsid sh "$HOME_OF_TEST/chain" &
"#;
    let in_sessions = if cfg!(target_os = "linux") { in_sessions } else { "" };
    format!("{in_group}{in_sessions}exec >&- 2>&-{CORRECT_PROGRAM}")
}

/// `OSJITTER_TEST_GATES=5` runs 240 rounds.
#[test]
fn round_leaves_no_processes() {
    let gates =
        std::env::var("OSJITTER_TEST_GATES").map_or(1, |n| n.parse().expect("a number of gates"));
    let watched = WatchedGate::new();
    for _ in 0..gates {
        let gate = watched.gate("exec", &hostile(), &PAIRS).exits(0);
        assert_eq!(gate.verdict().comparisons[0].pairs, 24);
        let alive = std::fs::read_to_string(watched.path("alive")).unwrap_or_default();
        assert_eq!(alive, "", "processes survived into the next round");
        watched.assert_nothing_remains();
    }
}

#[test]
fn killed_round_leaves_no_processes() {
    for (end, says, code) in [
        ("sleep 600", "still running", 2),
        // The program waits for another one that does not end.
        ("sh -c 'while :; do :; done' | cat", "still running", 2),
        ("kill -INT $PPID; sleep 600", "", 4),
        // Repeated until a second interrupt arrives before the first is handled.
        ("while :; do kill -INT $PPID; done", "", 4),
    ] {
        let script = hostile().replace("exec >&- 2>&-", end);
        for (script, code) in [(only_in_pairs(&script), 4), (script, code)] {
            let watched = WatchedGate::new();
            let gate = watched.gate("exec", &script, &["--max-round-time", "5s"]).exits(code);
            assert!(gate.ran.stderr.contains(says), "{end}: {}", gate.ran.stderr);
            watched.assert_nothing_remains();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ignored_sigchld_is_harmless() {
    let watched = WatchedGate::new();
    let gate = watched.gate("exec env --ignore-signal=CHLD", CORRECT_PROGRAM, &PAIRS).exits(0);
    assert_eq!(gate.verdict().comparisons[0].pairs, 24);
}

/// A round is excluded after which the nice value of osjitter is another one.
#[cfg(target_os = "linux")]
#[test]
fn excluded_rounds_count_left_over_processes() {
    let in_rounds =
        "[ $OSJITTER_TICKS != 20 ] || { renice -n 19 -p $PPID >/dev/null; sleep 600 & }";
    let gate = gate_script(&format!("{in_rounds}\n{CORRECT_PROGRAM}"), &[]).exits(4);
    let verdict = gate.verdict();
    let failure = verdict.failure.as_deref().unwrap_or_default();
    assert!(failure.contains("nice value"), "{}", gate.ran.stderr);
    let left_over = verdict.left_over.expect("processes of both sides");
    // The gate ends with the sixth pair that is left out.
    assert_eq!((left_over.a, left_over.b, left_over.prepare), (6, 6, 0));
}

/// A shell that executes osjitter can have other children.
#[test]
fn unrelated_processes_survive() {
    let watched = WatchedGate::new();
    let id = watched.path("id");
    let launcher = format!("sleep 600 >/dev/null 2>&1 & echo $! >'{}'; exec", id.display());
    let _ = watched.gate(&launcher, CORRECT_PROGRAM, &PAIRS).exits(0);
    let other = read_process_id(&id);
    assert!(is_alive(other), "the other process was killed");
    send_signal(other, Signal::TERM);
}

#[test]
fn program_output_is_bounded() {
    for (script, says) in [
        ("mkfifo \"$OSJITTER_OUT\"", "not a regular file"),
        ("ln -s /dev/zero \"$OSJITTER_OUT\"", "is a link"),
        ("mkdir \"$OSJITTER_OUT\"", "not a regular file"),
        ("dd if=/dev/zero of=\"$OSJITTER_OUT\" bs=1 count=1 seek=1T 2>/dev/null", "more than"),
        ("yes 5 | head -c 100M >\"$OSJITTER_OUT\"", "more than"),
        ("printf '{' >\"$OSJITTER_OUT\"; head -c 100M /dev/zero >>\"$OSJITTER_OUT\"", "more than"),
        // Several times the memory limit.
        ("yes 'oh dear' | head -c 1G >&2; echo the end >&2; exit 3", "the end"),
    ] {
        let watched = WatchedGate::new();
        let gate = |script: &str| {
            watched.gate("ulimit -v 700000 2>/dev/null; exec", script, &["--max-round-time", "60s"])
        };
        assert_refused(gate(script), says);
        assert_fails(gate(&only_in_pairs(script)), says);
        watched.assert_nothing_remains();
    }
}

/// A report written by a program is validated like any other.
#[test]
fn contradictory_report_is_rejected() {
    for (report, says) in crate::hostile::contradictions() {
        let watched = WatchedGate::new();
        let file = watched.path("report.json");
        std::fs::write(&file, report).unwrap();
        let script = format!("cp '{}' \"$OSJITTER_OUT\"", file.display());
        let says = format!("OSJITTER_OUT: not a valid osjitter.report/1: {says}");
        assert_refused(watched.gate("exec", &script, &PAIRS), &says);
        assert_fails(watched.gate("exec", &only_in_pairs(&script), &PAIRS), &says);
        watched.assert_nothing_remains();
        let command = format!("sh -c 'cp {} \"$OSJITTER_OUT\"'", file.display());
        let args = ["run", "--command", &command, "--ticks", "9"];
        let ran = Osjitter::new(args).out("out").run().refuses(&says);
        assert!(!ran.path("out/report.json").exists(), "{}", ran.stderr);
    }
}

#[test]
fn unstartable_program_is_bad_usage() {
    let home = tempfile::tempdir().unwrap();
    // The first file is not executable; the interpreter of the second does not exist.
    let (text, script) = (home.path().join("text"), home.path().join("script"));
    std::fs::write(&text, "").unwrap();
    write_executable(&script, "#!/no/such/interpreter\n");
    let started = home.path().join("started");
    let contract = format!("sh -c 'touch {};{}'", started.display(), CORRECT_PROGRAM.trim());
    for (nope, early) in [
        ("./nope", true),
        ("no-such-program-here", true),
        (text.to_str().unwrap(), false),
        (script.to_str().unwrap(), false),
    ] {
        for sides in [[nope, &contract], [&contract, nope]] {
            let home = tempfile::tempdir().unwrap();
            let args =
                [&["--base-cmd", sides[0], "--candidate-cmd", sides[1]][..], &ROUNDS, &PAIRS]
                    .concat();
            let gate = Osjitter::new(["gate"]).args(args).directory(home.path());
            let ran = gate.run().refuses(&format!("error: cannot start {nope}: "));
            let results = home.path().join("results");
            assert!(names_in(home.path()).iter().all(|name| name == "results"));
            assert!(!results.exists() || names_in(&results).is_empty());
            assert!(
                !early || (!started.exists() && ran.stderr.lines().count() == 1),
                "{}",
                ran.stderr
            );
        }
    }
}
