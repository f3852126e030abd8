//! Tests of programs that get several rounds in one process over standard input.
#![cfg(unix)]

use std::path::{Path, PathBuf};

use files::report::{Status, Subject};

use crate::osjitter::{Osjitter, Ran};
use crate::test_programs::{has_program, write_executable};

/// The rounds of a run: 40 ticks in rounds of 10.
const ROUNDS: usize = 4;
/// Starts before the first round: one that tests the protocol, and one that measures the start.
const REHEARSALS: usize = 2;
/// Starts that read the settings of the program.
const SETTINGS_RUNS: usize = if cfg!(target_os = "linux") { 1 } else { 0 };

/// A directory with a program, which adds a line to the file `starts` when it starts.
struct Home(tempfile::TempDir);

impl Home {
    /// Creates a program that runs a round with the shell function `round TICKS`, and
    /// commands for each round over standard input.
    fn new(round_of_stdin: &str) -> Self {
        Self::with_end(round_of_stdin, "exit 0")
    }

    /// Like [`Self::new`]; `end` are commands after the last round over standard input.
    fn with_end(round_of_stdin: &str, end: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        let text = format!(
            r#"#!/bin/sh
echo >>"${{0%/*}}/starts"
series() {{
  echo "osjitter.series/1 period_ns=$OSJITTER_PERIOD_NS"
  i=0
  while [ $i -lt "$1" ]; do echo $((1000 + i)); i=$((i + 1)); done
}}
if [ "$OSJITTER_ROUNDS" = stdin ]; then
  echo "a line of its own"
  echo "osjitter.requests/1 ready"
  n=0
  while read -r line; do
    ticks=${{line#ticks=}} ticks=${{ticks%% *}} n=$((n + 1))
    {round_of_stdin}
  done
  [ $n = 0 ] || {{ {end}; }}
else
  series "$OSJITTER_TICKS" >"$OSJITTER_OUT"
fi
"#
        );
        home.write_program("loop", &text);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write_program(&self, name: &str, text: &str) {
        write_executable(&self.path(name), text);
    }

    fn starts(&self) -> usize {
        std::fs::read_to_string(self.path("starts")).unwrap().lines().count()
    }

    /// Measures the program together with a control.
    fn run(&self, program: &Path, args: &[&str]) -> Ran {
        let length = ["--period", "1ms", "--ticks", "40", "--round-ticks", "10", "--warmup", "2"];
        measure(program, &[&length, args].concat())
    }
}

fn measure(program: &Path, args: &[&str]) -> Ran {
    let command = shlex::try_join([program.to_str().unwrap()]).unwrap();
    let run = Osjitter::new(["run", "--subject", "nanosleep", "--command", &command]);
    // On a busy machine, an interpreter may take longer than the default to start.
    run.args(["--max-start-time", "60s"]).args(args).out("").run()
}

/// Runs a round and reports it.
const ROUND: &str = r#"series "$ticks" >"$OSJITTER_OUT"; echo "osjitter.requests/1 done""#;

fn program(ran: &Ran) -> Subject {
    let report = ran.report();
    report.subjects.into_iter().find(|s| s.name != "nanosleep").unwrap()
}

#[test]
fn rounds_share_a_process() {
    let home = Home::new(ROUND);
    let ran = home.run(&home.path("loop"), &[]).exits(0);
    assert_eq!(home.starts(), REHEARSALS + SETTINGS_RUNS + 1);
    let subject = program(&ran);
    assert_eq!((subject.status.clone(), subject.rounds.len()), (Status::Measured, ROUNDS));
    for round in &subject.rounds {
        assert_eq!(round.lateness_ns, (1_000..1_010).collect::<Vec<i64>>());
        if cfg!(target_os = "linux") {
            assert!(round.cpu_ns.is_some(), "the CPU time of the round is known");
        }
    }
}

/// The program is equally late in every round, on any machine.
#[test]
fn early_end_completes_the_run() {
    const ROUND_TICKS: u64 = 250;
    let home = Home::new(ROUND);
    let ran = measure(&home.path("loop"), &["--period", "100us"]).exits(0);
    let report = ran.report();
    let settled = report.settled.expect("an early end");
    assert!(settled.rounds < settled.planned_rounds);
    assert!(!report.partial);
    assert!(report.plan.scenarios.iter().all(|s| s.ticks == settled.planned_rounds * ROUND_TICKS));
    for subject in &report.subjects {
        assert_eq!(subject.status, Status::Measured, "{}", subject.id);
        let ticks = subject.summary.as_ref().unwrap().ticks;
        assert_eq!(ticks, settled.rounds * ROUND_TICKS, "{}", subject.id);
    }
}

#[test]
fn profiled_rounds_are_processes() {
    let home = Home::new(ROUND);
    let ran = home.run(&home.path("loop"), &["--why"]).exits(0);
    assert_eq!(program(&ran).rounds.len(), ROUNDS, "{}", ran.stderr);
    // A program without times is profiled once. The program of the other rounds is started before
    // or after that, or both.
    let starts = home.starts() - REHEARSALS - SETTINGS_RUNS;
    assert!((2..=3).contains(&starts), "{starts} starts");
}

/// Such a program listens on a port, or has a file to itself.
#[test]
fn profiled_programs_run_alone() {
    let home = Home::new(ROUND);
    let text = std::fs::read_to_string(home.path("loop")).unwrap();
    let alone = "#!/bin/sh\nalone=${0%/*}/alone\nmkdir \"$alone\" || exit 7\ntrap 'rmdir \"$alone\"' EXIT\n";
    home.write_program("loop", &text.replacen("#!/bin/sh\n", alone, 1));
    for seed in ["1", "2", "3"] {
        let ran = home.run(&home.path("loop"), &["--why", "--seed", seed]).exits(0);
        assert_eq!(program(&ran).rounds.len(), ROUNDS, "{}", ran.stderr);
    }
}

#[test]
fn other_programs_start_for_each_round() {
    let home = Home::new("exit 3");
    let text = std::fs::read_to_string(home.path("loop")).unwrap();
    home.write_program("loop", &text.replace("= stdin", "= other"));
    let ran = home.run(&home.path("loop"), &[]).exits(0);
    // Three measure the start, or fewer on a busy machine.
    let measured_starts = home.starts() - SETTINGS_RUNS - ROUNDS;
    assert!((1..=3).contains(&measured_starts), "{measured_starts} starts");
    assert_eq!(program(&ran).rounds.len(), ROUNDS);
}

#[test]
fn failing_rounds_are_explained() {
    for (round, expected) in [
        // It dies between two rounds, or within one.
        (&format!("{ROUND}; echo gone >&2; exit 3")[..], "with exit status: 3; stderr: gone"),
        (
            "echo gone >&2; exit 3",
            "without `osjitter.requests/1 done`, with exit status: 3; stderr: gone",
        ),
        ("echo osjitter.requests/1 soon", "replied \"soon\", expected `osjitter.requests/1 done`"),
        ("echo osjitter.requests/1 done", "wrote nothing to OSJITTER_OUT"),
        (
            "echo nonsense >\"$OSJITTER_OUT\"; echo osjitter.requests/1 done",
            "the first line must be `osjitter.series/1 period_ns=N`, not \"nonsense\"",
        ),
        (
            "series 7 >\"$OSJITTER_OUT\"; echo osjitter.requests/1 done",
            "wrote 7 ticks, expected 10",
        ),
    ] {
        let home = Home::new(round);
        let ran = home.run(&home.path("loop"), &[]).exits(4);
        let Status::Failed { reason } = program(&ran).status else { panic!("{round}: not failed") };
        assert!(reason.contains(expected), "{round}: {reason}");
        assert_eq!(ran.stderr.matches(": failed: ").count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn failures_after_last_round_count() {
    for (end, expected) in [
        ("echo lost >&2; exit 5", "ended with exit status: 5; stderr: lost"),
        ("kill -ABRT $$", "ended with signal: 6 (SIGABRT)"),
    ] {
        let home = Home::with_end(ROUND, end);
        let ran = home.run(&home.path("loop"), &[]).exits(4);
        let subject = program(&ran);
        let Status::Failed { reason } = subject.status else { panic!("{end}: not failed") };
        assert!(reason.contains(expected), "{end}: {reason}");
        assert_eq!(subject.rounds.len(), ROUNDS, "the rounds before it are kept");
    }
}

#[test]
fn left_over_processes_are_reported() {
    let home = Home::with_end(ROUND, "sleep 1000 & exit 0");
    let ran = home.run(&home.path("loop"), &[]).exits(0);
    let report = ran.report();
    assert!(report.warnings.iter().any(|warning| warning.code == "left-over-processes"));
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "takes the time limit of an exit"]
    fn programs_that_never_exit_fail() {
        let home = Home::with_end(ROUND, "sleep 1000");
        let ran = home.run(&home.path("loop"), &[]).exits(4);
        let Status::Failed { reason } = program(&ran).status else { panic!("not failed") };
        assert!(reason.contains("was still running after 10 s and was ended"), "{reason}");
    }

    /// The time limit of a round is more than 10 s.
    #[test]
    #[ignore = "takes the time limit of a round"]
    fn silent_programs_are_ended() {
        let home = Home::new("sleep 1000");
        let ran = home.run(&home.path("loop"), &[]).exits(4);
        let Status::Failed { reason } = program(&ran).status else { panic!("not failed") };
        assert!(reason.contains("wrote no `osjitter.requests/1 done` within "), "{reason}");
    }
}

/// Returns the text of the example in the book.
fn python_example() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src/measuring.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.filter(|block| block.contains("OSJITTER_ROUNDS")).collect()
}

#[test]
fn python_example_shares_a_process() {
    if !has_program("python3", "--version") {
        return;
    }
    let home = Home::new(ROUND);
    std::fs::write(home.path("loop.py"), python_example()).unwrap();
    let wrapper = "#!/bin/sh\necho >>\"${0%/*}/starts\"\nexec python3 \"${0%/*}/loop.py\"\n";
    home.write_program("python-loop", wrapper);
    let ran = home.run(&home.path("python-loop"), &[]).exits(0);
    let subject = program(&ran);
    assert_eq!((home.starts(), subject.rounds.len()), (REHEARSALS + SETTINGS_RUNS + 1, ROUNDS));
    assert!(subject.rounds.iter().all(|round| round.lateness_ns.len() == 10));
    assert!(subject.rounds.iter().flat_map(|round| &round.lateness_ns).all(|&ns| ns >= 0));
}
