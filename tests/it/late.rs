//! Tests of `osjitter run --break`, `--on-late` and `--mark`.

use serde_json::{Value, json};

use crate::osjitter::{Osjitter, Ran};
#[cfg(target_os = "linux")]
use crate::process_control::increment_nice_value;
use crate::schema;

fn run(args: &[&str]) -> Osjitter {
    Osjitter::new(["run"]).args(args)
}

fn flight(ran: &Ran) -> Value {
    schema::valid(&ran.file("flight.json"), "flight.1")
}

fn report(ran: &Ran) -> Value {
    schema::valid(&ran.file("report.json"), "report.1")
}

/// Rounds of 10 ticks; in the third one the fourth tick is late, and the seventh more so.
fn script() -> Value {
    let mut third = vec![14_000; 10];
    (third[3], third[6]) = (600_000, 800_000);
    let plain = vec![14_000; 10];
    json!({ "scripted": { "lateness_ns": [plain, plain, third, plain] } })
}

const SCRIPTED: [&str; 9] = [
    "--subject", "scripted", "--ticks", "80", "--round-ticks", "10", "--warmup", "2",
    "--no-progress",
];

#[test]
fn break_records_second_before_late_tick() {
    let ran = run(&["--break", "500us"]).args(SCRIPTED).script(&script()).out("").run().exits(1);
    let report = report(&ran);
    assert_eq!(
        (&report["partial"], &report["subjects"][0]["status"]["state"]),
        (&json!(true), &json!("partial"))
    );
    assert_eq!(report["subjects"][0]["rounds"].as_array().unwrap().len(), 3);
    let broken = report["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|w| w["code"] == "break")
        .expect("a warning");
    let message = broken["message"].as_str().unwrap();
    assert!(
        message.contains(
            "--break 500us: tick 5 of scripted@500us/current-thread in round 2 was 600 us"
        ),
        "{message}"
    );
    assert!(ran.stdout.contains("--break 500us"), "{}", ran.stdout);
    assert!(ran.stdout.contains("ended at a late tick"), "{}", ran.stdout);
    let flight = flight(&ran);
    let late = json!({ "subject": "scripted@500us/current-thread", "round": 2, "instance": 0, "tick": 5,
                       "lateness_ns": 600_000 });
    assert_eq!(
        (&flight["late"], &flight["ended"], &flight["limit_ns"]),
        (&late, &json!(true), &json!(500_000))
    );
    let last = flight["rounds"].as_array().unwrap().last().unwrap();
    let tick = last["ticks"].as_array().unwrap().iter().find(|t| t["tick"] == 5).unwrap();
    assert_eq!((&tick["deadline_ns"], &tick["lateness_ns"]), (&json!(-600_000), &json!(600_000)));
    assert_eq!(
        (&last["asked"], &last["switches"], &tick["causes_ns"]),
        (&json!(false), &Value::Null, &Value::Null)
    );
    assert!(ran.stderr.contains("flight.json"), "{}", ran.stderr);
}

#[test]
fn run_without_late_tick_removes_record() {
    let directory = tempfile::tempdir().unwrap();
    let run_with = |limit: &str| {
        run(&["--break", limit, "--force", "--out"])
            .args([directory.path()])
            .args(SCRIPTED)
            .script(&script())
            .run()
    };
    run_with("500us").exits(1);
    assert!(directory.path().join("flight.json").exists());
    let ran = run_with("1ms").exits(0);
    assert!(!directory.path().join("flight.json").exists());
    assert!(ran.stderr.contains("0 ticks later than 1ms"), "{}", ran.stderr);
    // A late tick is no interrupt, which would keep the earlier result.
    run_with("500us").exits(1);
    assert!(directory.path().join("flight.json").exists());
}

#[test]
fn break_ends_every_kind_of_ticker() {
    let multi = ["--runtime", "multi-thread:2", "--instances", "3"];
    let cases: [(&str, &[&str]); 8] = [
        ("nanosleep", &[]),
        ("spin", &[]),
        ("os-interval", &[]),
        ("os-interval-group", &multi),
        ("os-interval-precise", &[]),
        ("periodic-interval", &[]),
        ("tokio-interval", &multi),
        ("busypoll-interval", &[]),
    ];
    for (name, more) in cases {
        // A nanosecond: any tick but a perfect one.
        let args = [
            "--subject", name, "--period", "1ms", "--ticks", "20000", "--round-ticks", "5000",
            "--break", "1ns",
        ];
        let ran = run(&args).args(more).out("").run().exits(1);
        let (flight, report) = (flight(&ran), report(&ran));
        assert!(flight["late"]["lateness_ns"].as_i64().unwrap() > 0, "{name}: {flight}");
        let rounds = report["subjects"][0]["rounds"].as_array().unwrap();
        assert!(rounds.iter().all(|r| r["index"] == 0), "{name}: it ended in its first round");
        let ticks = report["subjects"][0]["summary"]["ticks"].as_u64().unwrap();
        assert!(ticks < 5_000, "{name}: {ticks}");
        // Its instances ended at different ticks.
        Osjitter::new(["report"]).args([ran.path("report.json")]).run().exits(0);
    }
}

#[test]
fn unreached_limit_changes_nothing() {
    let args =
        ["--subject", "os-interval", "--subject", "nanosleep", "--ticks", "200", "--break", "1m"];
    let ran = run(&args).out("").run().exits(0);
    assert_eq!(report(&ran)["partial"], json!(false));
    assert!(!ran.path("flight.json").exists());
}

#[cfg(unix)]
mod commands {
    use super::*;

    #[test]
    fn break_command_receives_flight_record() {
        let copies = r#"sh -c 'cp "$OSJITTER_FLIGHT" copy.json; echo "$OSJITTER_SUBJECT $OSJITTER_LATENESS_NS" >> output; echo out'"#;
        let directory = tempfile::tempdir().unwrap();
        let args = ["--break", "500us", "--on-late", copies];
        let ran = run(&args)
            .args(SCRIPTED)
            .script(&script())
            .directory(directory.path())
            .out("")
            .run()
            .exits(1);
        let file = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(file("copy.json"), ran.file("flight.json"));
        assert_eq!(file("output"), "scripted@500us/current-thread 600000\n");
        assert!(ran.stderr.contains("out\n") && ran.stderr.contains("ran once"), "{}", ran.stderr);
        assert!(!ran.stdout.contains("out\n"), "the output of a command is not data");
    }

    #[test]
    fn threshold_records_latest_tick() {
        let command = r#"sh -c 'echo "$OSJITTER_LATENESS_NS ${OSJITTER_FLIGHT-none} $OSJITTER_LATE_AT" >> output'"#;
        let directory = tempfile::tempdir().unwrap();
        let args = ["--late-threshold", "500us", "--on-late", command];
        let ran = run(&args)
            .args(SCRIPTED)
            .script(&script())
            .directory(directory.path())
            .out("")
            .run()
            .exits(0);
        let output = std::fs::read_to_string(directory.path().join("output")).unwrap();
        // Both rounds with late ticks come at once, so one of them may be skipped.
        assert!((1..=2).contains(&output.lines().count()), "{output}");
        assert!(output.lines().all(|line| line.starts_with("800000 none 20")), "{output}");
        let flight = flight(&ran);
        assert_eq!((&flight["late"]["tick"], &flight["ended"]), (&json!(8), &json!(false)));
        assert!(ran.stderr.contains("4 ticks later than 500us"), "{}", ran.stderr);
        assert_eq!(report(&ran)["partial"], json!(false));
    }

    #[test]
    fn command_runs_during_measurement() {
        let directory = tempfile::tempdir().unwrap();
        let args = [
            "--subject", "os-interval", "--period", "1ms", "--ticks", "1500", "--late-threshold",
            "1ns",
        ];
        let command = ["--on-late", "sh -c 'echo x >> output'"];
        let ran = run(&args).args(command).directory(directory.path()).out("").run().exits(0);
        let output = std::fs::read_to_string(directory.path().join("output")).unwrap();
        // All ticks are late, but two commands are at least a second apart. A busy machine makes
        // the run longer.
        let seconds = report(&ran)["duration_ns"].as_u64().unwrap() / 1_000_000_000;
        let commands = output.lines().count() as u64;
        assert!((1..=seconds + 2).contains(&commands), "{output}");
        let late = ran.stderr.lines().find(|line| line.contains("later than 1ns")).unwrap();
        assert!(late.trim_start().starts_with(|c: char| c.is_ascii_digit()), "{late}");
    }

    #[test]
    fn failed_command_fails_the_run() {
        let run_with = |flag: &str| {
            run(&[flag, "500us", "--on-late", "sh -c 'exit 3'"])
                .args(SCRIPTED)
                .script(&script())
                .out("")
        };
        let ran = run_with("--late-threshold").run().exits(4);
        assert!(ran.stderr.contains("--on-late failed"), "{}", ran.stderr);
        assert!(ran.stderr.contains('3'), "{}", ran.stderr);
        assert!(!ran.file("report.json").is_empty());
        // A broken limit takes precedence over a failed command.
        let ran = run_with("--break").run().exits(1);
        assert!(ran.stderr.contains("--on-late failed"), "{}", ran.stderr);
    }

    #[test]
    fn interrupt_ends_last_command() {
        for limit in ["--late-threshold", "--break"] {
            let args = [limit, "500us", "--on-late", "sleep 300"];
            let mut running = run(&args).args(SCRIPTED).script(&script()).out("").start();
            running.says("report: ");
            running.signal(rustix::process::Signal::INT);
            // A broken limit takes precedence over a failed command.
            let ran = running.ends().exits(if limit == "--break" { 1 } else { 4 });
            let expected = "--on-late failed: ended by the interrupt";
            assert!(ran.stderr.contains(expected), "{}", ran.stderr);
            assert!(!ran.file("report.json").is_empty());
        }
    }

    /// The command runs when the interrupt ends the run, and does not end by itself.
    #[test]
    fn interrupted_run_ends_hanging_command() {
        let home = tempfile::tempdir().unwrap();
        let started = home.path().join("started");
        let command = format!("sh -c ': > {}; sleep 300'", started.display());
        let args = ["--late-threshold", "1ns", "--on-late", &command, "--duration", "10m"];
        let run = run(&args).args(["--subject", "nanosleep", "--period", "1ms"]).out("");
        let mut running = run.start();
        running.says("about");
        assert!(crate::process_control::eventually(|| started.exists()));
        running.signal(rustix::process::Signal::INT);
        let ran = running.ends().exits(4);
        assert!(ran.stderr.contains("--on-late failed: ended by the interrupt"), "{}", ran.stderr);
    }

    #[test]
    fn non_executable_command_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("plain");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let ran = run(&["--break", "500us", "--on-late"])
            .args([&file])
            .args(SCRIPTED)
            .script(&script())
            .out("run")
            .run()
            .refuses("not executable");
        assert!(!ran.path("run").exists(), "nothing was measured");
    }
}

#[test]
fn invalid_late_arguments_are_rejected() {
    for (args, expected) in [
        (&["--break", "0us"][..], "a limit of 0us is outside 1ns to 1h"),
        (&["--late-threshold", "0ns", "--mark"], "a limit of 0ns is outside 1ns to 1h"),
        (&["--break", "500"], "no unit"),
        (&["--break", "-1us"], "negative"),
        (&["--break", "1ms", "--late-threshold", "1ms"], "cannot be used with"),
        (&["--late-threshold", "1ms"], "--on-late or --mark"),
        (&["--mark"], "--mark needs a limit"),
        (&["--on-late", "true"], "--on-late needs a limit"),
        (&["--break", "1ms", "--on-late", ""], "empty command"),
        (&["--break", "1ms", "--on-late", "a 'b"], "open quote"),
    ] {
        let ran = run(args).args(SCRIPTED).script(&script()).out("run").run().refuses(expected);
        assert!(!ran.path("run").exists(), "{args:?}: nothing was measured");
    }
    if cfg!(unix) {
        let args = ["--break", "1ms", "--on-late", "no-such-program-anywhere"];
        let ran = run(&args).args(SCRIPTED).script(&script()).out("run").run();
        assert!(ran.code == 2 && ran.stderr.contains("there is no such program"), "{}", ran.stderr);
        assert!(!ran.path("run").exists());
    }
}

/// A change of a setting, such as the move to another CPU, can make a tick late.
#[cfg(target_os = "linux")]
#[test]
fn break_in_excluded_round_is_recorded() {
    use rustix::process::Signal;
    use std::time::Duration;

    let args = ["--subject", "nanosleep", "--period", "1ms", "--duration", "20s"];
    let length = ["--round-ticks", "20000", "--warmup", "0", "--break", "500ms"];
    let command = ["--on-late", r#"sh -c 'cp "$OSJITTER_FLIGHT" copy.json'"#];
    #[allow(clippy::disallowed_methods, reason = "the command measures during the pause")]
    let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
    // A busy machine needs longer to start the round.
    for start_ms in [300, 2_000, 10_000] {
        let directory = tempfile::tempdir().unwrap();
        let mut running =
            run(&args).args(length).args(command).directory(directory.path()).out("").start();
        running.says(" ticks: about ");
        pause(start_ms);
        increment_nice_value(running.id());
        running.signal(Signal::STOP);
        pause(700);
        running.signal(Signal::CONT);
        let ran = running.ends();
        let report = report(&ran);
        let excluded = report["subjects"][0]["excluded"].as_array().unwrap();
        if ran.code != 1 || excluded.is_empty() {
            continue;
        }
        let warnings = report["warnings"].as_array().unwrap();
        let broken = warnings.iter().find(|w| w["code"] == "break").expect("a warning");
        let message = broken["message"].as_str().unwrap();
        assert!(message.starts_with("ended by --break 500ms: tick "), "{message}");
        let excluded = "the round is excluded: the nice value was changed from ";
        assert!(message.contains(excluded), "{message}");
        let flight = flight(&ran);
        assert_eq!((&flight["late"]["round"], &flight["ended"]), (&json!(0), &json!(true)));
        let copy = std::fs::read_to_string(directory.path().join("copy.json")).unwrap();
        assert_eq!(copy, ran.file("flight.json"));
        assert!(ran.stdout.contains("ended at a late tick"), "{}", ran.stdout);
        return;
    }
    panic!("no tick was late in an excluded round");
}

/// The mark is in the trace if tracefs is writable, and otherwise rejected with a remedy.
#[test]
fn late_tick_is_marked_or_rejected() {
    let args =
        ["--subject", "nanosleep", "--period", "1ms", "--ticks", "50", "--break", "1ns", "--mark"];
    let ran = run(&args).out("run").run();
    if ran.code == 2 {
        assert!(ran.stderr.contains("--mark: ") && !ran.path("run").exists(), "{}", ran.stderr);
        return;
    }
    let ran = ran.exits(1);
    let trace = std::fs::read_to_string("/sys/kernel/tracing/trace").expect("a readable trace");
    let late: Value = serde_json::from_str(&ran.file("run/flight.json")).unwrap();
    let tick = late["late"]["tick"].as_u64().unwrap();
    assert!(trace.contains(&format!("osjitter: nanosleep@1ms: tick {tick} was ")), "{trace}");
}

#[test]
fn profiled_rounds_record_causes() {
    let args = [
        "--subject", "os-interval", "--period", "1ms", "--ticks", "60", "--why",
        "--late-threshold", "1ns",
    ];
    let late_ticks = |round: &Value| {
        let mut ticks = round["ticks"].as_array().unwrap().clone();
        ticks.retain(|tick| tick["lateness_ns"].as_i64().unwrap() > 1);
        ticks
    };
    // On a busy machine, records of a round may be lost.
    let is_complete = |round: &Value| {
        round["asked"] == true && late_ticks(round).iter().all(|tick| !tick["causes_ns"].is_null())
    };
    // The latest tick may be in the very first round, before any profiled one.
    let profiled = (0..20).find_map(|_| {
        let ran = run(&args).args(["--on-late", "true"]).out("").run().exits(0);
        let tier = report(&ran)["subjects"][0]["why"]["tier"].clone();
        let rounds = flight(&ran)["rounds"].as_array().unwrap().clone();
        rounds.into_iter().find(is_complete).map(|round| (tier, round))
    });
    let (tier, round) = profiled.expect("a complete profiled round in 20 runs");
    for tick in late_ticks(&round) {
        let causes = tick["causes_ns"].as_object().expect("a late tick of such a round has causes");
        // Page faults are a part of the thread's own time.
        let parts = causes.iter().filter_map(|(_, ns)| ns.as_i64()).sum::<i64>();
        assert_eq!(parts, tick["lateness_ns"].as_i64().unwrap(), "{tick}");
    }
    if tier != "a1" {
        let switches = round["switches"].as_array().expect("switches were recorded");
        let at: Vec<i64> = switches.iter().map(|s| s["at_ns"].as_i64().unwrap()).collect();
        assert!(!at.is_empty() && at.is_sorted(), "{at:?}");
    }
    // The run has the lowest tier of its rounds; this one may have a higher tier.
    if tier == "b1" || tier == "b2" {
        assert!(!round["given"].is_null(), "{tier}");
    }
}
