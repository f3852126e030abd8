//! Tests of programs that fail, hang, break the contract, or cannot be started.

use serde_json::Value;

use super::{
    CORRECT_PROGRAM, Home, IS_ROUND, assert_nothing_written, list, report, run, without_whitespace,
};
use crate::osjitter::Osjitter;
use crate::process_control::is_alive;
use crate::test_programs::gated_loop;

#[test]
fn invalid_programs_are_rejected() {
    let home = Home::new();
    let started = home.path("started");
    let touches = home.script(&format!("touch '{}'; {CORRECT_PROGRAM}", started.display()));
    let text = home.path("text");
    std::fs::write(&text, "").unwrap();
    for (command, expected) in [
        ("./nope", "cannot start ./nope: there is no such program"),
        (
            "no-such-program-here -x",
            "cannot start no-such-program-here -x: there is no such program",
        ),
        ("", "empty command"),
        ("'' x", "has no program"),
        ("sh -c 'x", "open quote"),
    ] {
        let ran = run(&touches, &["--command", command]).run().refuses(expected);
        assert_nothing_written(&ran);
        assert!(!started.exists(), "{command}: another program was started");
    }
    // The file exists, but is not executable.
    let ran = run(text.to_str().unwrap(), &[]).run().refuses("error: cannot start ");
    assert_nothing_written(&ran);
    Osjitter::new(["run", "./my-loop"]).out("").run().refuses("[-- <PROGRAM>...]");
    let plan = home.path("plan.toml");
    std::fs::write(&plan, "[[scenario]]\nsubject = \"spin\"\n").unwrap();
    let planned = Osjitter::new(["run", "--plan"]).args([&plan]).out("");
    planned.args(["--", "sh", "x"]).run().refuses("sh x is not in it");
}

/// A program that does not follow the contract is refused before another subject is measured.
#[test]
fn broken_contract_is_refused() {
    let header = "osjitter.series/1 period_ns=1000000";
    let quick = ["--max-start-time", "200ms"];
    for (script, args, expected) in [
        ("true", &[][..], "wrote nothing to OSJITTER_OUT"),
        ("echo oh dear >&2", &[], "stderr: oh dear"),
        ("exit 7", &[], "exit status: 7"),
        ("echo garbage >\"$OSJITTER_OUT\"", &[], "first line"),
        ("ln -s /dev/zero \"$OSJITTER_OUT\"", &[], "is a link"),
        ("sleep 600", &[], "still running after 5 s"),
        ("while :; do sleep 0.01; done", &quick, "still running after 203 ms"),
        (&format!("echo {header} >\"$OSJITTER_OUT\"; sleep 600"), &quick, "still running"),
    ] {
        let home = Home::new();
        let ran = home.run(&format!("echo $$ >\"$HOME_OF_TEST/id\"\n{script}"), args).exits(2);
        let lines = [expected, "OSJITTER_TICKS", header, "  3. exit with 0", "osjitter trace --"];
        for part in lines.into_iter().chain(["osjitter gate --metric wall"]) {
            assert!(ran.stderr.contains(part), "{script}: no {part:?} in {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("subjects ×"), "nothing is measured: {}", ran.stderr);
        assert_nothing_written(&ran);
        // On a busy machine, the time limit may come before the id is written.
        let id = std::fs::read_to_string(home.path("id")).unwrap_or_default();
        assert!(!id.trim().parse().is_ok_and(is_alive), "{script}");
    }
    run("/bin/true", &[]).run().refuses("error: /bin/true: wrote nothing");
}

#[test]
fn other_period_is_rejected() {
    let program = gated_loop();
    let command = format!("'{}' 2ms", program.display());
    let ran = run(&command, &[]).run().exits(2);
    for expected in ["expected 1ms", "--period 2ms", "OSJITTER_PERIOD_NS"] {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
    assert_nothing_written(&ran);
    // A program that follows OSJITTER_PERIOD_NS can be measured at several periods.
    let home = Home::new();
    let ran = home.run(CORRECT_PROGRAM, &["--period", "2ms"]).exits(0);
    assert_eq!(list(&report(&ran)["subjects"]).len(), 4);
}

#[test]
fn failed_program_does_not_affect_others() {
    let header = "osjitter.series/1 period_ns=1000000";
    let series = |lines: &str| format!("printf '{header}\\n{lines}' >\"$OSJITTER_OUT\"");
    for (script, expected) in [
        ("exit 7".to_owned(), "exit status: 7"),
        ("echo oh dear >&2; exit 1".to_owned(), "oh dear"),
        ("kill -SEGV $$".to_owned(), "signal: 11"),
        ("true".to_owned(), "wrote nothing"),
        ("echo garbage >\"$OSJITTER_OUT\"".to_owned(), "first line"),
        (series("x\\n"), "line 2"),
        (series("5\\n"), "1 tick, expected"),
        ("yes 5 | head -c 100M >\"$OSJITTER_OUT\"".to_owned(), "more than"),
        ("ln -s /dev/zero \"$OSJITTER_OUT\"".to_owned(), "is a link"),
        (CORRECT_PROGRAM.replace("20000", "9223372036854775807"), "wrote a lateness of"),
        (series(&"-9223372036854775808\\n".repeat(20)), "wrote a lateness of"),
    ] {
        let script = format!("{IS_ROUND} || {{ {CORRECT_PROGRAM}; exit 0; }}\n{script}");
        let ran = Home::new().run(&script, &[]).exits(4);
        let report = report(&ran);
        let [measured, control] = list(&report["subjects"]) else { panic!("{report}") };
        let reason =
            measured["status"]["reason"].as_str().unwrap_or_else(|| panic!("{script}: {measured}"));
        assert!(reason.contains(expected) && reason.len() < 2_000, "{script}: {reason}");
        assert_eq!(measured["summary"], Value::Null, "{script}");
        assert_eq!(control["summary"]["ticks"], 60, "{script}");
        let is_stated = without_whitespace(&ran.stdout).contains("program@1ms:notmeasured:sh");
        assert!(is_stated, "{}", ran.stdout);
    }
    // A failure in the second round keeps the first one.
    let home = Home::new();
    let second = format!(
        "{IS_ROUND} && {{ [ -e \"$HOME_OF_TEST/x\" ] && exit 3; : >\"$HOME_OF_TEST/x\"; }}\n{CORRECT_PROGRAM}"
    );
    let found = report(&home.run(&second, &[]).exits(4));
    assert_eq!(found["subjects"][0]["summary"]["ticks"], 20);
    assert!(found["subjects"][0]["status"]["reason"].as_str().unwrap().contains("exit status: 3"));
}

#[test]
fn hanging_program_is_killed() {
    let home = Home::new();
    let ran = home.run(&format!("{IS_ROUND} && sleep 600\n{CORRECT_PROGRAM}"), &[]).exits(4);
    let report = report(&ran);
    let reason = report["subjects"][0]["status"]["reason"].as_str().unwrap();
    assert!(reason.contains("still running after"), "{reason}");
    assert_eq!(report["subjects"][1]["summary"]["ticks"], 60);
}

#[test]
fn failure_in_profiled_round_is_reported() {
    let script =
        format!("[ -n \"$OSJITTER_TIMES\" ] && {{ echo burnt >&2; exit 5; }}\n{CORRECT_PROGRAM}");
    let ran = Home::new().run(&script, &["--why"]).exits(4);
    let status = &report(&ran)["subjects"][0]["status"];
    let reason = status["reason"].as_str().unwrap_or_default();
    assert_eq!(status["state"], "failed");
    assert!(reason.contains("exit status: 5") && reason.contains("burnt"), "{reason}");
}
