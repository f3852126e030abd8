//! Tests of `osjitter run -- ./my-loop`: the user's program in the rounds of other subjects, and the
//! ways in which it can fail.
#![cfg(unix)]

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use crate::osjitter::processes_with_variable;
use crate::osjitter::{Osjitter, Ran, gated_loop, is_alive, read_process_id, write_executable};

/// A program that follows the contract. Every tick is late by 20 us.
const CORRECT_PROGRAM: &str = r#"{ echo "osjitter.series/1 period_ns=$OSJITTER_PERIOD_NS"; yes 20000 | head -n "$OSJITTER_TICKS"; } >"$OSJITTER_OUT""#;
/// A shell condition that holds in a round, but not in the startup run of a single tick.
const IS_ROUND: &str = r#"[ "$OSJITTER_WARMUP" != 0 ]"#;
/// Numbers of runs of a single tick before the first round: a start that takes more than a second, as
/// on a busy machine, is the last.
const STARTS: RangeInclusive<usize> = 1..=3;
/// Number of runs before the first round in which the settings of the program are read.
const SETTINGS_RUNS: usize = if cfg!(target_os = "linux") { 1 } else { 0 };
/// Three rounds of 20 ticks.
const ROUNDS: [&str; 8] =
    ["--period", "1ms", "--ticks", "60", "--round-ticks", "20", "--warmup", "3"];

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a shell script, and returns the command that runs it.
    fn script(&self, text: &str) -> String {
        let file = self.path("program");
        std::fs::write(&file, text).unwrap();
        format!("sh '{}'", file.display())
    }

    /// Runs a script together with `nanosleep`.
    fn run(&self, text: &str, extra: &[&str]) -> Ran {
        run(&self.script(text), extra).env("HOME_OF_TEST", self.0.path()).run()
    }
}

fn run(command: &str, extra: &[&str]) -> Osjitter {
    let args = ["run", "--subject", "nanosleep", "--command", command];
    Osjitter::new(args).args(ROUNDS).args(extra).out("")
}

fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.file("report.json")).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// Returns the id, the round and its slot for every round of every subject.
fn order(report: &Value) -> Vec<(String, u64, u64)> {
    let rounds = |s: &Value| {
        let entry = |r: &Value| {
            (
                s["id"].as_str().unwrap().to_owned(),
                r["index"].as_u64().unwrap(),
                r["slot"].as_u64().unwrap(),
            )
        };
        list(&s["rounds"]).iter().map(entry).collect::<Vec<_>>()
    };
    list(&report["subjects"]).iter().flat_map(rounds).collect()
}

#[test]
fn program_shares_rounds_with_subjects() {
    let program = gated_loop();
    let words = [program.to_str().unwrap(), "1ms"];
    let ran = Osjitter::new(["run", "--seed", "7"])
        .args(ROUNDS)
        .out("")
        .args(["--"])
        .args(words)
        .run()
        .exits(0);
    let first = report(&ran);
    let names: Vec<&str> =
        list(&first["subjects"]).iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gated-loop", "os-interval", "tokio-interval", "nanosleep", "spin"]);
    for index in 0..3 {
        let mut slots: Vec<u64> = order(&first)
            .iter()
            .filter(|(_, i, _)| *i == index)
            .map(|(_, _, slot)| *slot)
            .collect();
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2, 3, 4], "round {index}");
    }
    let measured = &first["subjects"][0];
    let count = |key: &str| measured["summary"][key].as_u64().unwrap();
    assert_eq!(
        (
            count("ticks"),
            count("delivered") + count("coalesced") + count("skipped"),
            count("early")
        ),
        (60, 60, 0)
    );
    assert!(measured["summary"]["wakeups_per_tick"].as_f64().unwrap() > 0.0, "{measured}");
    for key in ["backend", "runtime", "load"] {
        assert_eq!(measured[key], Value::Null, "{key}");
    }
    for key in ["no_park", "until_unpark_ns", "after_unpark_ns"] {
        assert_eq!(measured["summary"][key], Value::Null, "{key}");
    }
    for round in list(&measured["rounds"]) {
        assert_eq!((list(&round["lateness_ns"]).len(), &round["first_tick"]), (20, &json!(3)));
        assert!(
            list(&round["lateness_ns"]).iter().all(|late| late.as_i64().unwrap() >= 0),
            "{round}"
        );
        assert!(round["run_queue_ns"].is_null() && round["cpu_khz"].is_null());
        // The window covers all ticks.
        assert!(round["window_ns"].as_u64().unwrap() >= 22_000_000, "{round}");
    }
    assert_eq!(first["plan"]["scenarios"][0]["command"], json!(words));
    assert_eq!(first["plan"]["scenarios"][1].get("command"), None);
    let is = format!("gated-loop is {} 1ms", program.display());
    assert!(without_whitespace(&ran.stdout).contains(&is.replace(' ', "")), "{}", ran.stdout);
    assert!(ran.file("report.html").contains(&is), "{is}");

    let plan = Osjitter::new(["run", "--print-plan", "--plan"])
        .args([ran.path("report.json")])
        .run()
        .exits(0)
        .stdout;
    assert!(plan.contains("command = [") && !plan.contains("subject = \"gated-loop\""), "{plan}");
    let file = ran.path("plan.toml");
    std::fs::write(&file, plan).unwrap();
    for plan in [file, ran.path("report.json")] {
        let again = Osjitter::new(["run", "--format", "json", "--plan"])
            .args([&plan])
            .out("again")
            .run()
            .exits(0);
        let again: Value = serde_json::from_str(&again.stdout).unwrap();
        assert_eq!(again["plan"], first["plan"]);
        assert_eq!(order(&again), order(&first));
    }
    assert_report_is_readable(&ran);
}

/// Removes all white space, so that wrapping does not matter.
fn without_whitespace(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Checks that every command that reads reports accepts it.
fn assert_report_is_readable(ran: &Ran) {
    let file = ran.path("report.json");
    for format in ["table", "json", "markdown", "html", "csv", "openmetrics", "hlog"] {
        let shown =
            Osjitter::new(["report", "--format", format]).args([&file]).run().exits(0).stdout;
        assert!(shown.contains("gated-loop"), "{format}: {shown}");
    }
    let svg = ran.path("pictures");
    let _ =
        Osjitter::new(["report", "--format", "svg", "--out"]).args([&svg, &file]).run().exits(0);
    assert!(svg.read_dir().unwrap().count() > 0);
    let side = |id: &str| format!("{}#{id}", file.display());
    let compared = Osjitter::new(["compare"])
        .args([side("nanosleep@1ms"), side("gated-loop@1ms")])
        .run()
        .exits(0)
        .stdout;
    assert!(compared.contains("gated-loop"), "{compared}");
    // Programs of the same name may differ.
    let mut other = report(ran);
    other["plan"]["scenarios"][0]["command"] = json!(["./other/gated-loop"]);
    for subject in other["subjects"].as_array_mut().unwrap() {
        subject["rounds"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|round| round["phase_ns"] = json!(1));
    }
    std::fs::write(ran.path("other.json"), other.to_string()).unwrap();
    let merged = Osjitter::new(["merge"]).args([&file, &ran.path("other.json")]).run().exits(2);
    assert!(merged.stderr.contains("gated-loop@1ms has another command"), "{}", merged.stderr);
    let limit = ["gate", "--limit", "p50=10s", "--subject", "gated-loop", "--report"];
    let gated = Osjitter::new(limit).args([&file]).out("gate").run();
    assert!(
        gated.code != 2 && gated.stdout.contains("gated-loop"),
        "{} {}",
        gated.stderr,
        gated.stdout
    );
    let history =
        Osjitter::new(["history"]).args([ran.directory().parent().unwrap()]).run().exits(0);
    assert!(
        history.stderr.is_empty() || history.stdout.contains("gated-loop"),
        "{}",
        history.stdout
    );
}

#[test]
fn program_cost_excludes_startup() {
    const WORK: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let home = Home::new();
    let program = format!("if {IS_ROUND}; then {WORK}; fi\n{CORRECT_PROGRAM}");
    let busy = report(&home.run(&program, &[]).exits(0));
    let measured = &busy["subjects"][0];
    // Three rounds of 22 ticks in addition to the one of the startup run. 20 of them are recorded.
    let cpu_ns = |round: &Value| round["cpu_ns"].as_u64().unwrap_or_else(|| panic!("{measured}"));
    let total: u64 = list(&measured["rounds"]).iter().map(|round| cpu_ns(round) * 20 / 22).sum();
    let per_tick = measured["summary"]["cpu_ns_per_tick"].as_f64().unwrap();
    assert!((per_tick - total as f64 / 60.0).abs() < 1.0 && per_tick > 10_000.0, "{measured}");
    assert!(list(&busy["warnings"]).iter().all(|w| w["code"] != "command-start"));

    let ran = home.run(&format!("{WORK}\n{CORRECT_PROGRAM}"), &[]).exits(0);
    let slow = report(&ran);
    assert_eq!(slow["subjects"][0]["summary"]["cpu_ns_per_tick"], Value::Null);
    assert!(slow["subjects"][1]["summary"]["cpu_ns_per_tick"].is_f64());
    assert!(ran.stdout.contains("command-start: starting program@1ms takes "), "{}", ran.stdout);
}

#[test]
fn misplaced_programs_get_a_tip() {
    let sides = "tip: programs are given as '--base-cmd OLD --candidate-cmd NEW'";
    for (args, tip) in [
        ("gate ./x", sides),
        ("gate -- ./x --y", sides),
        ("gate --cmd ./x", sides),
        ("gate --metric wall -- ./x", sides),
        ("run ./x", "tip: programs are given as '-- PROGRAM'"),
        ("trace --program ./x", "tip: programs are given as '-- PROGRAM'"),
    ] {
        let stderr = Osjitter::new(args.split(' ')).run().exits(2).stderr;
        assert!(stderr.contains(tip), "{args}: {stderr}");
    }
    for args in ["gate baselin", "gate --nonsense", "list ./x", "gate --a spin --b spin baseline"] {
        let stderr = Osjitter::new(args.split(' ')).run().exits(2).stderr;
        assert!(!stderr.contains("programs are given"), "{args}: {stderr}");
    }
}

#[test]
fn equally_named_programs_are_distinguished() {
    let home = Home::new();
    let command = home.script(CORRECT_PROGRAM);
    let spin = home.path("spin");
    write_executable(&spin, std::fs::read("/bin/sh").unwrap());
    let spin = format!("'{}' '{}'", spin.display(), home.path("program").display());
    let ran = run(
        &command,
        &["--command", &format!("{command} x"), "--command", &spin, "--command", &command],
    )
    .run()
    .exits(0);
    let report = report(&ran);
    let ids: Vec<&str> =
        list(&report["subjects"]).iter().map(|s| s["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["program@1ms", "program-x@1ms", "spin-command@1ms", "nanosleep@1ms"]);
    assert!(ran.stdout.contains("program-x is sh "), "{}", ran.stdout);
    assert_eq!(report["subjects"][0]["summary"]["lateness_ns"]["p50"], 20_000);
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
        assert_eq!(
            (&measured["summary"], &control["summary"]["ticks"]),
            (&Value::Null, &json!(60)),
            "{script}"
        );
        assert!(
            without_whitespace(&ran.stdout).contains("program@1ms:notmeasured:sh"),
            "{}",
            ran.stdout
        );
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
    let ran = run("/bin/true", &[]).run().exits(2);
    assert!(ran.stderr.contains("error: /bin/true: wrote nothing"), "{}", ran.stderr);
}

#[test]
fn programs_can_be_named() {
    let home = Home::new();
    let command = home.script(CORRECT_PROGRAM);
    let other = format!("{command} x");
    let args = ["--command", &other, "--name", "mine", "--meter", "control"];
    let ran = run(&command, &args).run().exits(0);
    let first = report(&ran);
    let ids: Vec<&str> =
        list(&first["subjects"]).iter().map(|s| s["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["mine@1ms", "program-x@1ms", "nanosleep@1ms"]);
    assert!(ran.stdout.contains("mine is sh "), "{}", ran.stdout);
    // The names and the meter are part of the plan, in both of its forms.
    let print = |plan: &Path| {
        let args = ["run", "--print-plan", "--plan"];
        Osjitter::new(args).args([plan]).run().exits(0).stdout
    };
    let plan = print(&ran.path("report.json"));
    for line in ["name = \"mine\"", "name = \"program-x\"", "meter = \"control\""] {
        assert!(plan.contains(line), "{line}: {plan}");
    }
    std::fs::write(home.path("plan.toml"), &plan).unwrap();
    assert_eq!(print(&home.path("plan.toml")), plan);
    let args = ["run", "--print-plan", "--meter", "other", "--plan"];
    let changed = Osjitter::new(args).args([ran.path("report.json")]).run().exits(0).stdout;
    assert_eq!(changed, plan.replace("meter = \"control\"", "meter = \"other\""));
    for (args, expected) in [
        (&["--name", "a b"][..], "invalid name \"a b\""),
        (&["--name", "a", "--name", "b"], "2 values of --name"),
    ] {
        let ran = run(&command, args).run().exits(2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    let ran = Osjitter::new(["run", "--subject", "spin", "--meter", "x"]).out("").run().exits(2);
    assert!(ran.stderr.contains("--meter"), "{}", ran.stderr);
}

/// The first sentence below the table is about the program, whether it is the most punctual or not.
#[test]
fn summary_answers_for_the_program() {
    for lateness_ns in ["1", "900000"] {
        let home = Home::new();
        let command = home.script(&CORRECT_PROGRAM.replace("20000", lateness_ns));
        let ran = run(&command, &["--subject", "os-interval"]).run().exits(0);
        let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let at = text.find("program was").unwrap_or_else(|| panic!("{text}"));
        let other = text.find("os-interval was").unwrap_or(text.len());
        assert!(at < other, "{lateness_ns}: {text}");
    }
}

#[test]
fn hanging_program_is_killed() {
    let home = Home::new();
    let ran = home.run(&format!("{IS_ROUND} && sleep 600\n{CORRECT_PROGRAM}"), &[]).exits(4);
    let report = report(&ran);
    assert!(
        report["subjects"][0]["status"]["reason"].as_str().unwrap().contains("still running after")
    );
    assert_eq!(report["subjects"][1]["summary"]["ticks"], 60);
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
        let ran = run(&touches, &["--command", command]).run().exits(2);
        assert!(ran.stderr.contains(expected), "{command}: {}", ran.stderr);
        assert_nothing_written(&ran);
        assert!(!started.exists(), "{command}: another program was started");
    }
    // The file exists, but is not executable.
    let ran = run(text.to_str().unwrap(), &[]).run().exits(2);
    assert!(ran.stderr.contains("error: cannot start "), "{}", ran.stderr);
    assert_nothing_written(&ran);
    let ran = Osjitter::new(["run", "./my-loop"]).out("").run().exits(2);
    assert!(ran.stderr.contains("[-- <PROGRAM>...]"), "{}", ran.stderr);
    let plan = home.path("plan.toml");
    std::fs::write(&plan, "[[scenario]]\nsubject = \"spin\"\n").unwrap();
    let ran = Osjitter::new(["run", "--plan"])
        .args([&plan])
        .out("")
        .args(["--", "sh", "x"])
        .run()
        .exits(2);
    assert!(ran.stderr.contains("sh x is not in it"), "{}", ran.stderr);
}

#[track_caller]
fn assert_nothing_written(ran: &Ran) {
    assert_eq!((ran.directory().read_dir().unwrap().count(), ran.stdout.as_str()), (0, ""));
}

#[test]
fn plan_file_contains_commands() {
    let home = Home::new();
    home.script(CORRECT_PROGRAM);
    let file = home.path("program").display().to_string();
    let text = format!(
        "[defaults]\nsubject = \"spin\"\nperiod = \"1ms\"\nticks = 20\nround-ticks = 10\n[[scenario]]\ncommand = [\"sh\", {file:?}]\n\
         [[scenario]]\n[[scenario]]\nsubject = \"nanosleep\"\ncommand = [\"sh\", {file:?}, \"x\"]\n"
    );
    std::fs::write(home.path("plan.toml"), text).unwrap();
    let ran =
        Osjitter::new(["run", "--plan"]).args([home.path("plan.toml")]).out("").run().exits(0);
    let report = report(&ran);
    let ids: Vec<&str> =
        list(&report["subjects"]).iter().map(|s| s["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["program@1ms", "spin@1ms", "program-x@1ms", "nanosleep@1ms"]);
}

#[test]
fn program_processes_end_with_round() {
    let home = Home::new();
    // A child that stays, one that is forked twice, and on Linux one in its measured session.
    let away = if cfg!(target_os = "linux") { "setsid sleep 600 &" } else { "" };
    let script = format!(
        "for id in $(cat \"$HOME_OF_TEST/ids\" 2>/dev/null); do kill -0 \"$id\" 2>/dev/null && echo \"$id\" >>\"$HOME_OF_TEST/alive\"; done\n\
         exec 2>&-\nsleep 600 & echo $! >>\"$HOME_OF_TEST/ids\"\n( sleep 600 & echo $! >>\"$HOME_OF_TEST/ids\" )\n{away}\n{CORRECT_PROGRAM}"
    );
    let ran = home.run(&script, &[]).exits(0);
    assert_eq!(report(&ran)["subjects"][0]["summary"]["ticks"], 60);
    assert!(!home.path("alive").exists(), "processes ran on into the next round");
    let warnings = report(&ran)["warnings"].clone();
    let is_left_over = |warning: &Value| warning["code"] == "left-over-processes";
    assert!(warnings.as_array().unwrap().iter().any(is_left_over), "{warnings}");
    let ids = std::fs::read_to_string(home.path("ids")).unwrap();
    let runs = ids.lines().count() / 2;
    let starts = runs - 3 - SETTINGS_RUNS;
    assert!(STARTS.contains(&starts) && ids.lines().count() == 2 * runs, "{ids}");
    assert!(ids.lines().all(|id| !is_alive(id.parse().unwrap())), "{ids}");
    #[cfg(target_os = "linux")]
    assert!(processes_with_variable("HOME_OF_TEST", home.0.path()).is_empty());
}

/// A start takes a second, so three rounds take at least three.
#[test]
fn estimates_include_starts() {
    let home = Home::new();
    let command = home.script(&format!("sleep 1\n{CORRECT_PROGRAM}"));
    let ran = run(&command, &[]).run().exits(0);
    let line = ran.stderr.lines().find(|line| line.contains("subjects ×")).expect("an estimate");
    assert!(seconds_after(line, "about ") >= 3, "{line}");
    let gate = ["gate", "--base-cmd", &command, "--candidate-cmd", &command, "--max-pairs", "24"];
    let mut gate =
        Osjitter::new(gate).args(["--period", "1ms", "--round-ticks", "5"]).out("").start();
    let line = gate.says("to the first look");
    gate.signal(Signal::INT);
    let _ = gate.ends().exits(4);
    assert!(seconds_after(&line, "gate: ") >= 48, "{line}");
}

/// Returns the seconds of an estimate such as `about 3s` or `about 2 min`.
fn seconds_after(line: &str, before: &str) -> u64 {
    let (_, time) = line.split_once(before).unwrap_or_else(|| panic!("{line}"));
    let digits: String = time.chars().take_while(char::is_ascii_digit).collect();
    let number: u64 = digits.parse().unwrap_or_else(|_| panic!("{line}"));
    if time[digits.len()..].starts_with(" min") { number * 60 } else { number }
}

#[test]
fn interrupt_ends_program_and_keeps_rounds() {
    let home = Home::new();
    let script = format!(
        "{IS_ROUND} && [ -e \"$HOME_OF_TEST/first\" ] && {{ echo $$ >\"$HOME_OF_TEST/id\"; kill -INT $PPID; exec sleep 600; }}\n\
         {IS_ROUND} && : >\"$HOME_OF_TEST/first\"\n{CORRECT_PROGRAM}"
    );
    let ran = home.run(&script, &[]).exits(4);
    let report = report(&ran);
    let measured = &report["subjects"][0];
    assert_eq!(
        (&report["partial"], &measured["status"]["state"], &measured["summary"]["ticks"]),
        (&json!(true), &json!("partial"), &json!(20))
    );
    assert!(!is_alive(read_process_id(&home.path("id"))));
}

#[cfg(target_os = "linux")]
#[test]
fn program_inherits_cpu_and_class() {
    let field = |text: &str, name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        line.trim_start_matches(':').trim().to_owned()
    };
    let measured = std::fs::read_to_string("/proc/self/status").unwrap();
    let cpu = field(&measured, "Cpus_allowed_list").split(['-', ',']).next().unwrap().to_owned();
    let slack = std::fs::read_to_string("/proc/self/timerslack_ns").unwrap();
    let script = format!(
        "{IS_ROUND} && {{ grep Cpus_allowed_list /proc/$$/status; cut -d' ' -f41 /proc/$$/stat; cat /proc/$$/timerslack_ns; }} \
         >>\"$HOME_OF_TEST/seen\"\n{CORRECT_PROGRAM}"
    );
    let home = Home::new();
    let ran = home.run(&script, &["--cpu", &cpu]).exits(0);
    let seen = std::fs::read_to_string(home.path("seen")).unwrap();
    assert_eq!(seen, format!("Cpus_allowed_list:\t{cpu}\n0\n{slack}").repeat(3));
    assert_eq!(report(&ran)["plan"]["cpu"], cpu.parse::<u64>().unwrap());
    // Only if this process has the privilege.
    let home = Home::new();
    let ran = home.run(&script, &["--sched", "rr:1"]);
    if ran.code == 0 {
        let seen = std::fs::read_to_string(home.path("seen")).unwrap();
        assert!(seen.lines().skip(1).step_by(3).all(|policy| policy == "2"), "{seen}");
    } else {
        assert!(ran.code == 2 && ran.stderr.contains("cannot run as rr:1"), "{}", ran.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn unlocked_program_is_stated() {
    let warns = |ran: &Ran| {
        list(&report(ran)["warnings"]).iter().any(|warning| warning["code"] == "mlock-program")
    };
    assert!(!warns(&Home::new().run(CORRECT_PROGRAM, &[]).exits(0)));
    let ran = Home::new().run(CORRECT_PROGRAM, &["--mlock"]);
    // Only if this process may lock its memory.
    match ran.code {
        0 => assert!(warns(&ran), "{}", ran.stdout),
        _ => assert!(ran.code == 2 && ran.stderr.contains("cannot lock"), "{}", ran.stderr),
    }
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

#[test]
fn program_without_times_is_profiled_once() {
    let home = Home::new();
    let script = format!("echo \"$OSJITTER_TIMES\" >>\"$HOME_OF_TEST/times\"\n{CORRECT_PROGRAM}");
    let ran = home.run(&script, &["--why", "--load", "none", "--load", "cpu:1"]).exits(0);
    let report = report(&ran);
    let profiled: Vec<(&str, usize)> = list(&report["subjects"])
        .iter()
        .map(|s| (s["id"].as_str().unwrap(), list(&s["why"]["rounds"]).len()))
        .collect();
    assert_eq!(
        profiled,
        [
            ("program@1ms", 1),
            ("program@1ms+cpu:1", 1),
            ("nanosleep@1ms", 3),
            ("nanosleep@1ms+cpu:1", 3)
        ]
    );
    let reason = report["subjects"][0]["why"]["missing"]["reason"].as_str().unwrap();
    if cfg!(target_os = "linux") {
        assert!(
            reason.contains("OSJITTER_TIMES=monotonic") || reason.contains("perf_event_open"),
            "{reason}"
        );
    }
    // The program has its startup runs, one that reads its settings, and in each of two scenarios three
    // rounds and a profiled one.
    let times = std::fs::read_to_string(home.path("times")).unwrap();
    let monotonic = times.lines().filter(|line| *line == "monotonic").count();
    let starts = times.lines().count() - SETTINGS_RUNS - 2 * (3 + 1);
    assert!(STARTS.contains(&starts) && monotonic == 2, "{times}");
    assert!(list(&report["subjects"]).iter().all(|s| s["summary"]["ticks"] == 60), "{report}");
}

#[test]
fn environment_matches_contract() {
    let home = Home::new();
    let script = format!(
        "echo \"$OSJITTER_SERIES $OSJITTER_PERIOD_NS $OSJITTER_TICKS $OSJITTER_WARMUP $OSJITTER_METER\" >>\"$HOME_OF_TEST/environments\"\n{CORRECT_PROGRAM}"
    );
    let _ = home.run(&script, &["--meter", "control loop"]).exits(0);
    let environments = std::fs::read_to_string(home.path("environments")).unwrap();
    let startup = "ticks 1000000 1 0 control loop";
    let settings = "ticks 1000000 60 0 control loop";
    let round = "ticks 1000000 20 3 control loop";
    let starts = environments.lines().take_while(|line| *line == startup).count();
    assert!(STARTS.contains(&starts), "{environments}");
    assert_eq!(
        environments.lines().skip(starts).collect::<Vec<_>>(),
        [vec![settings; SETTINGS_RUNS], vec![round; 3]].concat()
    );
}
