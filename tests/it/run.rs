//! Tests of `osjitter run`: the files it writes, and that their counts are consistent.

use std::path::Path;

use files::file::File as _;
use files::fitness::Verdict;
use files::report::{Report, Status, Subject};
#[cfg(target_os = "linux")]
use files::report::{SettingDifference, SettingName};
use serde_json::{Value, json};

use crate::osjitter::{Osjitter, names_in};
#[cfg(target_os = "linux")]
use crate::osjitter::{Ran, gated_loop};
use crate::schema;

pub fn run(args: &[&str]) -> Osjitter {
    Osjitter::new(["run"]).args(args)
}

fn find_subject<'a>(report: &'a Report, name: &str) -> &'a Subject {
    report.subjects.iter().find(|s| s.name == name).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn spinning_threads_use_one_core() {
    const SPINNING: [&str; 6] =
        ["--subject", "busypoll-interval", "--subject", "os-interval-spin", "--subject", "spin"];
    for options in [&[][..], &["--each"], &["--instances", "4"]] {
        let periods = ["--period", "20us", "--period", "1ms", "--ticks", "100"];
        let ran = run(&SPINNING).args(periods).args(options).out("").run().exits(0);
        let report = ran.report();
        assert!(report.subjects.len() >= 6);
        for subject in &report.subjects {
            let summary = subject.summary.as_ref().unwrap();
            let share = summary.core_share.expect("a share of a core");
            // A busy machine gives them less.
            assert!(share > 0.0 && share <= 1.01, "{options:?} {}: {share}", subject.id);
            for round in &subject.rounds {
                // 10 recorded ticks have 9 periods between them. After a disturbance, other
                // instances may catch up before or after both readings.
                let ticks = round.cost_ticks.unwrap();
                assert!(ticks == 9 || round.instance > 0, "{}: {ticks}", subject.id);
                assert!(round.cost_window_ns < round.window_ns, "{}", subject.id);
            }
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn single_ticks_need_a_warmup() {
    for (warmup, is_known) in [("0", false), ("1", true)] {
        let rounds = ["--ticks", "3", "--round-ticks", "1", "--warmup", warmup];
        let ran = run(&["--subject", "nanosleep"]).args(rounds).out("").run().exits(0);
        let report = ran.report();
        let subject = find_subject(&report, "nanosleep");
        let summary = subject.summary.as_ref().unwrap();
        assert_eq!(summary.cpu_ns_per_tick.is_some(), is_known, "{warmup}");
        assert_eq!(summary.cost_ticks, is_known.then_some(3), "{warmup}");
        let warning = report.warnings.iter().find(|warning| warning.code == "single-tick");
        assert_eq!(warning.is_none(), is_known, "{warmup}");
        assert!(warning.is_none_or(|warning| warning.message.contains(&subject.id)));
    }
}

#[test]
fn every_tick_is_counted_once() {
    let ran =
        run(&["--subject", "all", "--period", "500us", "--ticks", "60"]).out("").run().exits(0);
    let report = ran.report();
    schema::valid(&ran.file("report.json"), "report.1");
    assert!(!report.partial);
    let listed = Osjitter::new(["list", "--format", "json"]).run().exits(0).stdout;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let available = listed.iter().filter(|subject| subject["available"] == true).count();
    assert_eq!(report.subjects.len(), available);
    for subject in &report.subjects {
        assert_eq!(subject.status, Status::Measured, "{}", subject.id);
        let s = subject.summary.as_ref().unwrap();
        assert_eq!(
            (s.ticks, s.delivered + s.coalesced.unwrap() + s.skipped.unwrap()),
            (60, 60),
            "{}",
            subject.id
        );
        assert_eq!(s.early, Some(0), "{}", subject.id);
        let histogram = files::histogram::unpack(subject.histogram.as_ref().unwrap()).unwrap();
        assert_eq!(histogram.len(), s.came(), "{}", subject.id);
        let samples: usize = subject.rounds.iter().map(|r| r.lateness_ns.len()).sum();
        assert_eq!(samples as u64, s.came(), "{}", subject.id);
        assert!(ran.stdout.contains(&subject.name), "{}", ran.stdout);
    }
    let observer = report.clock.observer_ns_per_tick.expect("they are stamped by this program");
    let markdown = Osjitter::new(["report", "--format", "markdown"])
        .args([ran.path("report.json")])
        .run()
        .exits(0)
        .stdout;
    assert!(
        observer > 0 && markdown.contains("; taking timestamps costs "),
        "{observer}: {markdown}"
    );
    // Each round contains every subject once.
    let rounds = report.subjects[0].rounds.len();
    for index in 0..rounds {
        let mut slots: Vec<u64> = report.subjects.iter().map(|s| s.rounds[index].slot).collect();
        slots.sort_unstable();
        assert!(slots.into_iter().eq(0..report.subjects.len() as u64));
        let phases: Vec<u64> = report.subjects.iter().map(|s| s.rounds[index].phase_ns).collect();
        assert!(phases.windows(2).all(|w| w[0] == w[1]), "one phase for all subjects of a round");
    }
}

const LATENESS_NS: [i64; 4] = [14_000, 15_000, 13_500, 16_250];

/// Three subjects: one with every kind of tick, one that is late in some rounds, and one that fails
/// in its second round.
fn script() -> Value {
    json!({
        "scripted": {
            "lateness_ns": LATENESS_NS, "skipped": [4], "coalesced": [6, 7], "until_unpark_ns": [9_000, null],
            "cpu_ns_per_tick": 9_000, "switches_per_tick": 2, "steal_ns": 5, "run_queue_ns": 7, "backend": "a script",
        },
        "scripted-b": { "lateness_ns": [[14_000], [1_200_000, 14_000]], "cpu_ns_per_tick": 4_000 },
        "scripted-c": { "lateness_ns": [5], "fail": { "round": 1, "reason": "no timer left" } },
    })
}

/// The machine is judged by the disturbances in the rounds. Only `--strict` turns that into an exit
/// code.
#[test]
fn strict_fails_on_unfit_machine() {
    // A round takes 28.5 ms, and half of that is spent waiting for the CPU.
    let on = |waited_ns: u64| json!({ "scripted": { "lateness_ns": [9_000], "run_queue_ns": waited_ns } });
    let strict = |waited_ns| {
        let ran = run(&SCRIPTED)
            .args(["scripted", "--warmup", "7", "--strict"])
            .script(&on(waited_ns))
            .out("")
            .run();
        let fitness = ran.report().fitness.expect("a verdict");
        (ran, fitness)
    };
    let (ran, fitness) = strict(14_250_000);
    assert_eq!(
        (fitness.verdict, fitness.reasons.len(), fitness.facts.waited),
        (Verdict::Unfit, 1, Some(0.5))
    );
    let ran = ran.exits(4);
    let error = ran.stderr.lines().find(|line| line.starts_with("error: ")).expect("a reason");
    for part in ["--strict", "other programs held the CPU for 50.0 % of the time"] {
        assert!(error.contains(part), "{error}");
    }
    let [answer, verdict] = [0, 1].map(|line| ran.stdout.lines().nth(line).unwrap_or_default());
    assert!(answer.starts_with("scripted was 9.00 us late at p"), "{}", ran.stdout);
    let unfit = "Unfit machine: other programs held the CPU for 50.0 % of the time";
    assert!(verdict.starts_with(unfit), "{}", ran.stdout);
    let (ran, fitness) = strict(7);
    assert_eq!(fitness.verdict, Verdict::Quiet);
    ran.exits(0);
}

const SCRIPTED: [&str; 7] = ["--seed", "1", "--ticks", "1000", "--round-ticks", "50", "--subject"];

#[test]
fn report_contains_exact_lateness() {
    let ran =
        run(&SCRIPTED).args(["scripted", "--warmup", "7"]).script(&script()).out("").run().exits(0);
    let report = ran.report();
    assert_eq!(report.clock.observer_ns_per_tick, None, "nothing is stamped");
    let subject = &report.subjects[0];
    assert_eq!(
        (subject.status.clone(), subject.backend.as_deref()),
        (Status::Measured, Some("a script"))
    );
    assert_eq!(subject.rounds.len(), 20);
    let (mut pooled, mut ticks) = (Vec::new(), Vec::new());
    for (index, round) in (0..).zip(&subject.rounds) {
        let played = |k: u64| LATENESS_NS[(index * 50 + k) as usize % 4];
        let lateness = |k: u64| match k {
            6 => played(8) + 1_000_000,
            7 => played(8) + 500_000,
            k => played(k),
        };
        let expected: Vec<i64> = (0..50).filter(|&k| k != 4).map(lateness).collect();
        assert_eq!(round.lateness_ns, expected, "round {index}");
        ticks.clear();
        ticks.extend((7..57).filter(|&tick| tick != 11));
        assert_eq!((round.first_tick, round.tick.as_ref()), (7, Some(&ticks)));
        assert_eq!(
            (round.cpu_ns, round.steal_ns, round.run_queue_ns),
            (Some(50 * 9_000), Some(5), Some(7))
        );
        pooled.extend(expected);
    }
    pooled.sort_unstable();
    let s = subject.summary.as_ref().unwrap();
    assert_eq!(
        (s.ticks, s.delivered, s.coalesced, s.skipped, s.missed, s.early),
        (1_000, 940, Some(40), Some(20), Some(60), Some(0))
    );
    assert_eq!((s.cpu_ns_per_tick, s.wakeups_per_tick), (Some(9_000.0), Some(2.0)));
    let lateness = &s.lateness_ns;
    assert_eq!((lateness.min, lateness.p50, lateness.max), (13_500, Some(pooled[489]), 1_014_000));
    assert_eq!(
        (lateness.p90, lateness.p99, lateness.p99_9),
        (Some(pooled[881]), Some(pooled[970]), None)
    );
    // A tick that shares its wake-up has no park time.
    assert_eq!(s.until_unpark_ns.as_ref().unwrap().p50, Some(9_000));
    assert_eq!(s.after_unpark_ns.as_ref().unwrap().max, 5_000);
    assert_eq!(report.warnings.iter().filter(|w| w.code == "scripted").count(), 1);
}

#[test]
fn failed_subject_does_not_affect_others() {
    let subjects = ["scripted", "--subject", "scripted-b", "--subject", "scripted-c"];
    let ran = run(&SCRIPTED).args(subjects).script(&script()).out("").run().exits(4);
    let report = ran.report();
    assert!(!report.partial);
    assert_eq!(find_subject(&report, "scripted").status, Status::Measured);
    assert_eq!(find_subject(&report, "scripted-b").status, Status::Measured);
    let failed = find_subject(&report, "scripted-c");
    assert_eq!(
        (&failed.status, failed.rounds.len()),
        (&Status::Failed { reason: "no timer left".into() }, 1)
    );
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "3 subjects × 1000 ticks: about 2s",
            "scripted-c@500us/current-thread: failed after its first rounds: no timer left"
        ]
    );
    insta::assert_snapshot!(ran.stdout.split("\n\n").nth(1).unwrap(), @r"
    Lateness and CPU time per tick; period 500us, current-thread
    subject         p50       p90      p99  p99.9      max  missed       CPU
    scripted    15.0 us  *16.3 us  1.01 ms      -  1.01 ms  6.00 %   9.00 us
    scripted-b  14.0 us   1.20 ms  1.20 ms      -  1.20 ms  25.0 %  *4.00 us
    scripted-c     5 ns      5 ns        -      -     5 ns       0         -
    * lowest p90 and lowest CPU time
    scripted-c@500us/current-thread: failed after its first rounds: no timer left
    ");
}

#[test]
fn interrupted_run_keeps_its_rounds() {
    let mut script = script();
    script["scripted"]["interrupt_at_round"] = 2.into();
    let ran = run(&SCRIPTED)
        .args(["scripted", "--subject", "scripted-b"])
        .script(&script)
        .out("")
        .run()
        .exits(4);
    let report = ran.report();
    assert!(report.partial);
    let [a, b] = ["scripted", "scripted-b"].map(|name| find_subject(&report, name));
    assert_eq!([&a.status, &b.status], [&Status::Partial; 2]);
    let s = a.summary.as_ref().unwrap();
    assert_eq!(
        (a.rounds.len(), s.ticks, s.delivered + s.coalesced.unwrap() + s.skipped.unwrap()),
        (3, 125, 125)
    );
    // The seed decides whether the other subject ran before.
    let first = a.rounds[2].slot == 1;
    assert_eq!(
        (b.rounds.len(), b.summary.as_ref().unwrap().ticks),
        if first { (3, 150) } else { (2, 100) }
    );
    insta::assert_snapshot!(ran.stdout.split("\n\n").nth(1).unwrap(), @r"
    Lateness and CPU time per tick; period 500us, current-thread
    subject         p50      p90  p99  p99.9      max  missed      CPU
    scripted    15.0 us  16.3 us    -      -  1.01 ms  7.20 %  9.00 us
    scripted-b  14.0 us  1.20 ms    -      -  1.20 ms  16.7 %  4.00 us
    interrupted: the values cover the time until then
    ");
}

/// The ticks of the round are not lost: none was due.
#[test]
fn cut_warmup_leaves_no_round() {
    let mut script = script();
    for key in ["interrupt_at_round", "no_tick_in_round"] {
        script["scripted"][key] = 2.into();
    }
    let args = ["scripted", "--format", "jsonl"];
    let ran = run(&SCRIPTED).args(args).script(&script).out("").run().exits(4);
    let subject = find_subject(&ran.report(), "scripted").clone();
    assert_eq!((&subject.status, subject.rounds.len()), (&Status::Partial, 2));
    assert_eq!(subject.summary.unwrap().ticks, 100);
    assert_eq!(ran.stdout.lines().count(), 3, "two rounds and the report: {}", ran.stdout);
}

#[test]
fn script_errors_name_their_location() {
    for (script, expected) in [
        (json!({ "scripted-b": { "lateness_ns": [1] } }), "script.json: no script for scripted"),
        (json!({ "scripted": { "lateness_ns": [] } }), "script.json: scripted: an empty list"),
        (json!({ "scripted": { "latenes_ns": [1] } }), "script.json: unknown field `latenes_ns`"),
        (json!({ "scripted": {} }), "script.json: missing field `lateness_ns`"),
    ] {
        let stderr =
            run(&["--subject", "scripted"]).script(&script).out("run").run().exits(2).stderr;
        assert!(stderr.contains(expected), "{stderr}");
    }
    let nothing = run(&["--subject", "scripted"]).out("run").run().exits(2).stderr;
    assert!(nothing.contains("OSJITTER_SCRIPT"), "{nothing}");
    let absent = run(&["--subject", "scripted"])
        .env("OSJITTER_SCRIPT", "no-such.json")
        .out("run")
        .run()
        .exits(2);
    assert!(absent.stderr.contains("no-such.json: "), "{}", absent.stderr);
    let plan = run(&["--subject", "all", "--subject", "s*", "--print-plan"])
        .script(&script())
        .run()
        .exits(0);
    let near = run(&["--subject", "scripte"]).script(&script()).run().exits(2);
    let list = Osjitter::new(["list"]).run();
    let help = run(&["--help"]).run();
    let completions = Osjitter::new(["completions", "bash"]).run();
    for text in [
        plan.stdout,
        near.stderr.replace("scripte'", "").replace("\"scripte\"", ""),
        list.stdout,
        help.stdout,
        completions.stdout,
    ] {
        assert!(!text.contains("scripte"), "{text}");
    }
}

#[test]
fn completions_list_subjects_and_formats() {
    for (shell, needs) in [
        ("bash", &["tokio-sleep-reused-boxed", "openmetrics", "--percentiles"][..]),
        ("zsh", &["tokio-sleep-reused-boxed", "openmetrics", "_files"]),
        ("fish", &["tokio-sleep-reused-boxed", "openmetrics"]),
    ] {
        let script = Osjitter::new(["completions", shell]).run().exits(0).stdout;
        for word in needs {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let fish = Osjitter::new(["completions", "fish"]).run().exits(0).stdout;
    let period_lines = fish.lines().filter(|line| line.contains(" -l period "));
    assert!(
        period_lines.clone().count() > 3
            && period_lines.clone().all(|l| l.contains(" -x") || l.contains(" -r -f")),
        "files are offered for a period"
    );
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Osjitter::new(["completions", shell]).run().exits(0).stdout;
        assert!(!script.contains("stress"), "{shell} offers the load process");
        for word in ["multi-thread", "softirq", "max-rss", "p99=100us", "max=20ms"] {
            let has_values = shell != "elvish" && shell != "powershell";
            assert!(!has_values || script.contains(word), "{shell}: {word}");
        }
    }
    let many = run(&["--ticks", "10k", "--print-plan", "--subject", "spin"]).run().exits(0).stdout;
    assert!(many.contains("ticks = 10000"), "{many}");
}

#[test]
fn invalid_arguments_write_nothing() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("plan.toml"), "[defaults]\nsubjekt = \"spin\"\n").unwrap();
    std::fs::write(home.path().join("newer.json"), "{\"schema\": \"osjitter.report/99\"}").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["--period", "0us"], "'--period <DURATION>': invalid period 0us: expected 1us to 1h"),
        (&["--period", "-5us"], "'--period <DURATION>': \"-5us\" is negative"),
        (&["--period", "500"], "no unit"),
        (&["--period", "2h"], "outside 1us to 1h"),
        (&["--ticks", "0"], "at least 1"),
        (&["--ticks", "5", "--duration", "1s"], "cannot be used with"),
        (
            &["--duration", "1ms", "--period", "2ms"],
            "--duration 1ms contains no tick of --period 2ms",
        ),
        (&["--ticks", "18000000000000000000"], "fewer --ticks"),
        (
            &["--subject", "tokio-intervall"],
            "'--subject <NAME>': unknown subject \"tokio-intervall\"; did you mean tokio-interval?",
        ),
        (&["--plan", "plan.toml"], "plan.toml:2:1: unknown field `subjekt`"),
        (&["--plan", "newer.json"], "schema \"osjitter.report/99\" is not known"),
        (&["--timer-slack", "-1us"], "'--timer-slack <DURATION>': \"-1us\" is negative"),
        #[cfg(target_os = "linux")]
        (&["--timer-slack", "0s"], "cannot set the timer slack to 0ns: the kernel made "),
        (&["--instances", "0"], "at least 1"),
        (&["--instances", "100001"], "1 to 100000"),
        (&["--plan", "no-such-file.toml"], "the plan: cannot read"),
        (&["--cpu", "100000"], "CPU 100000"),
        (
            &["--sched", "fifo:100"],
            "'--sched <CLASS>': unknown scheduling class \"fifo:100\": expected other, fifo:N or rr:N with a priority from 1 to 99",
        ),
        (
            &["--runtime", "green-threads"],
            "'--runtime <KIND>': unknown runtime \"green-threads\": expected current-thread",
        ),
        (&["--out", "/proc/no-such-place"], "--out"),
    ];
    for (args, expected) in cases {
        let ran = run(args).directory(home.path()).run().exits(2);
        assert!(ran.stderr.contains(expected), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{args:?}");
        assert!(!home.path().join("results").exists(), "{args:?} left something behind");
    }
}

#[test]
fn instances_have_evenly_spread_phases() {
    let subjects =
        ["--subject", "os-interval*", "--subject", "spin", "--instances", "20", "--period", "5ms"];
    let ran = run(&subjects).args(["--ticks", "12", "--round-ticks", "4"]).out("").run().exits(0);
    let report = ran.report();
    for subject in &report.subjects {
        // A thread has one interval.
        let is_thread = subject.name == "spin" || subject.name.contains("blocking");
        let instances = if is_thread { 1 } else { 20 };
        assert_eq!(subject.instances, instances, "{}", subject.id);
        let s = subject.summary.as_ref().unwrap();
        assert_eq!(
            (s.ticks, s.delivered + s.coalesced.unwrap() + s.skipped.unwrap(), s.early),
            (12 * instances, s.ticks, Some(0))
        );
        assert_eq!(subject.histogram.as_ref().unwrap().count, s.came());
        assert_eq!(subject.rounds.len() as u64, 3 * instances);
        for round in subject.rounds.chunks(instances as usize) {
            let starts: Vec<u64> = round.iter().map(|r| r.start_ns).collect();
            let spread = starts.windows(2).all(|w| w[1] - w[0] == 5_000_000 / instances);
            assert!(spread, "{}: {starts:?}", subject.id);
        }
    }
    // The printed plan contains the instances.
    let again =
        run(&["--print-plan", "--plan", ran.path("report.json").to_str().unwrap()]).run().exits(0);
    let many = report.subjects.iter().filter(|subject| subject.instances == 20).count();
    assert_eq!(again.stdout.matches("instances = 20").count(), many);
}

#[cfg(unix)]
#[test]
fn closed_stdout_is_not_an_error() {
    let json = ["--subject", "nanosleep", "--ticks", "20", "--format", "json", "--quiet"];
    let mut running = run(&json).out("").start();
    running.close_stdout();
    let ran = running.ends().exits(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(ran.report().subjects.len(), 1, "the report is written all the same");
}

#[cfg(target_os = "linux")]
#[test]
fn descriptor_shortage_fails_only_one_subject() {
    let subjects = ["--subject", "nanosleep", "--subject", "tokio-interval", "--ticks", "20"];
    let limited = run(&subjects).out("").in_shell(r#"ulimit -n 6; exec "$0" "$@""#);
    let ran = limited.run().exits(4);
    let (report, stderr) = (ran.report(), ran.stderr);
    assert_eq!(find_subject(&report, "nanosleep").status, Status::Measured);
    match &find_subject(&report, "tokio-interval").status {
        Status::Failed { reason } => assert!(reason.contains("ulimit -n"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(stderr.contains("not measured"), "{stderr}");
}

/// Without this check, tokio panics or blocks forever if it gets only some of its threads.
#[cfg(target_os = "linux")]
#[test]
fn thread_shortage_fails_only_one_subject() {
    let subjects = ["--subject", "tokio-interval", "--subject", "spin", "--ticks", "40"];
    let threads = run(&subjects).args(["--runtime", "multi-thread:256"]).out("");
    let script = r#"ulimit -v 300000; exec timeout -s KILL 120 "$0" "$@""#;
    let ran = threads.in_shell(script).run().exits(4);
    assert!(ran.stderr.contains("cannot start 256 threads"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    assert_eq!(find_subject(&ran.report(), "spin").status, Status::Measured);
}

#[cfg(target_os = "linux")]
#[test]
fn busy_subjects_never_wait() {
    const TICKS: u64 = 400;
    let ran = run(&[
        "--subject", "busypoll-interval", "--subject", "tokio-busy*", "--period", "1ms", "--ticks",
        "400", "--instances", "2",
    ])
    .out("")
    .run();
    let report = ran.exits(0).report();
    let facts = |name: &str| {
        let s = find_subject(&report, name);
        (s.runtime.as_deref(), s.instances)
    };
    assert_eq!(facts("busypoll-interval"), (None, 1));
    assert_eq!(facts("tokio-busy"), (Some("current-thread"), 2));
    assert_eq!(facts("tokio-busy-interval"), (Some("current-thread"), 2));
    for subject in &report.subjects {
        let s = subject.summary.as_ref().unwrap();
        assert_eq!((s.delivered, s.early), (TICKS * subject.instances, Some(0)), "{}", subject.id);
        assert!(
            s.until_unpark_ns.is_none(),
            "{}: a runtime that never parks cannot come back",
            subject.id
        );
        // A thread that sleeps for each tick has at least one voluntary switch per tick.
        let switches: u64 = subject.rounds.iter().filter_map(|r| r.switches_voluntary).sum();
        assert!(switches < TICKS / 2, "{}: {switches} waits", subject.id);
    }
}

#[test]
fn stream_contains_rounds_and_report() {
    let args = ["scripted", "--subject", "scripted-c", "--no-samples", "--format", "jsonl"];
    let ran = run(&SCRIPTED).args(args).script(&script()).out("").run().exits(4);
    let lines: Vec<Value> =
        ran.stdout.lines().map(|line| schema::valid(line, "rounds.1")).collect();
    let (summary, rounds) = lines.split_last().unwrap();
    let count = |kind: &str| rounds.iter().filter(|line| line["line"] == kind).count();
    // The second subject fails in its second round.
    assert_eq!((count("round"), count("failed"), rounds.len()), (21, 1, 22), "{}", ran.stdout);
    let failed = rounds.iter().find(|line| line["line"] == "failed").unwrap();
    assert_eq!(failed["reason"], "no timer left");
    assert_eq!(summary["line"], "summary");
    // The lines together make up the report.
    let mut report = ran.json("report.json");
    for subject in report["subjects"].as_array_mut().unwrap() {
        let streamed: Vec<&Value> = rounds
            .iter()
            .filter(|l| l["subject"] == subject["id"] && l["line"] == "round")
            .map(|l| &l["round"])
            .collect();
        assert_eq!(subject["rounds"].as_array().unwrap().iter().collect::<Vec<_>>(), streamed);
        subject["rounds"] = json!([]);
    }
    assert_eq!(summary["report"], report);
}

/// A reader ends the run by closing the stream.
#[cfg(unix)]
#[test]
fn closed_stream_ends_the_run() {
    let home = tempfile::tempdir().unwrap();
    let ticks = ["--subject", "nanosleep", "--period", "1ms", "--ticks", "1M", "--no-samples"];
    // The second run replaces the result of the first one: its reader ended it, not an interrupt.
    for _ in 0..2 {
        let stream = run(&ticks).args(["--format", "jsonl", "--force", "--out"]);
        let stream = stream.args([home.path().join("out")]);
        let text = stream.in_shell(r#""$0" "$@" | head -n 2"#).run().stdout;
        let lines: Vec<Value> = text.lines().map(|line| schema::valid(line, "rounds.1")).collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line["line"] == "round"), "{text}");
        let written = std::fs::read_to_string(home.path().join("out/report.json")).unwrap();
        assert!(Report::from_json(&written).unwrap().partial);
    }
    assert_eq!(names_in(home.path()), ["out"]);
}

#[test]
fn invalid_numbers_name_flag_and_remedy() {
    for (line, expected) in [
        ("run --cpu x", "invalid value 'x' for '--cpu <N>': \"x\" is not a number such as 0 or 3"),
        ("run --warmup few", "for '--warmup <N>': \"few\" is not a whole number, such as 0 or 20"),
        ("run --seed x", "for '--seed <N>': \"x\" is not a whole number; give one from 0 to "),
        (
            "run --period 0",
            "for '--period <DURATION>': \"0\" has no unit; write for example 500us, 500ms or 500s",
        ),
        ("gate --max-pairs 3", "for '--max-pairs <N>': 3 is outside 24 to 6400"),
        ("history --kind x", "for '--kind <N>': \"x\" is not a number such as 0 or 3"),
    ] {
        let ran = Osjitter::new(line.split(' ')).run().exits(2);
        assert!(ran.stderr.contains(expected) && ran.stdout.is_empty(), "{line}: {}", ran.stderr);
    }
}

#[test]
fn forced_run_replaces_whole_result() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out").display().to_string();
    let measure = |more: &[&str]| {
        run(&["--subject", "nanosleep", "--period", "1ms", "--ticks", "20", "--out", &out])
            .args(more)
            .run()
    };
    measure(&["--svg"]).exits(0);
    // What another command wrote there belongs to the result that is replaced.
    let verdict = "{\"schema\": \"osjitter.verdict/1\"}";
    std::fs::write(Path::new(&out).join("verdict.json"), verdict).unwrap();
    assert!(Path::new(&out).join("histogram-nanosleep_1ms.svg").exists());
    let refused = measure(&["--quiet"]).exits(2);
    assert!(refused.stderr.contains("report.json already exists"), "{}", refused.stderr);
    measure(&["--force"]).exits(0);
    let expected =
        ["over-time.svg", "percentiles.svg", "report.html", "report.json", "tradeoff.svg"];
    assert_eq!(names_in(Path::new(&out)), expected);
}

#[test]
fn simultaneous_runs_keep_every_report() {
    let home = tempfile::tempdir().unwrap();
    let start = |_| {
        run(&["--subject", "nanosleep", "--period", "1ms", "--ticks", "20"])
            .directory(home.path())
            .start()
    };
    let running: Vec<_> = (0..4).map(start).collect();
    for command in running {
        command.ends().exits(0);
    }
    let results = home.path().join("results");
    let has_report = |name: &String| results.join(name).join("report.json").is_file();
    assert_eq!(names_in(&results).iter().filter(|name| has_report(name)).count(), 4);
}

/// Runs a program with options, and returns the report with its settings. On a busy machine, they may
/// not be read during the short run of the program.
#[cfg(target_os = "linux")]
fn run_until_settings_known(options: &[&str], program: &Path) -> Ran {
    const ATTEMPTS: usize = 10;
    let mut attempts = (0..ATTEMPTS).map(|_| {
        run(&["--period", "1ms", "--ticks", "60", "--max-start-time", "60s"])
            .args(options)
            .out("")
            .args(["--"])
            .args([program])
            .run()
            .exits(0)
    });
    let has_settings = |ran: &Ran| ran.report().subjects.iter().all(|s| s.settings.is_some());
    attempts.find(has_settings).expect("settings")
}

#[test]
#[cfg(target_os = "linux")]
fn programs_have_settings_of_plan() {
    let cpu = *engine::machine::os::affinity().unwrap().last().unwrap();
    let options = ["--subject", "os-interval", "--timer-slack", "777us", "--cpu", &cpu.to_string()];
    let ran = run_until_settings_known(&options, &gated_loop());
    let report = ran.report();
    let program = report.subjects.iter().find(|s| s.name != "os-interval").unwrap();
    let settings = program.settings.as_ref().unwrap();
    assert_eq!(settings.initial_timer_slack_ns, Some(777_000));
    for thread in &settings.threads {
        assert_eq!(thread.affinity.as_deref(), Some(&[cpu][..]));
        // Reading the timer slack of another process needs a capability.
        assert!(thread.timer_slack_ns.is_none_or(|ns| ns == 777_000), "{thread:?}");
    }
    let is_affinity = |d: &SettingDifference| d.setting == SettingName::Affinity;
    assert!(!settings.differences.iter().any(is_affinity), "{settings:?}");
}
