//! Tests of runs of scripted subjects, whose numbers are known.

use files::fitness::Verdict;
use files::report::Status;
use serde_json::{Value, json};

use super::{count_ticks, find_subject, run};
use crate::osjitter::Osjitter;
use crate::schema;

const SCRIPTED: [&str; 7] = ["--seed", "1", "--ticks", "1000", "--round-ticks", "50", "--subject"];

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
            "scripted-c@500us/current-thread: failed: no timer left"
        ]
    );
    insta::assert_snapshot!(ran.stdout.split("\n\n").nth(1).unwrap(), @r"
    Lateness and CPU time per tick; period 500us, current-thread
    subject         p50      p90       p99  p99.9      max  missed       CPU
    scripted    15.0 us  16.3 us  *1.01 ms      -  1.01 ms  6.00 %   9.00 us
    scripted-b  14.0 us  1.20 ms   1.20 ms      -  1.20 ms  25.0 %  *4.00 us
    scripted-c     5 ns     5 ns         -      -     5 ns       0         -
    * lowest p99 and lowest CPU time
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
    assert_eq!((a.rounds.len(), s.ticks, count_ticks(s)), (3, 125, 125));
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

/// The machine is judged by the disturbances in the rounds. Only `--strict` turns that into an exit
/// code.
#[test]
fn strict_fails_on_unfit_machine() {
    // A round takes 28.5 ms, and half of that is spent waiting for the CPU.
    let script = |waited_ns: u64| json!({ "scripted": { "lateness_ns": [9_000], "run_queue_ns": waited_ns } });
    let run_strictly = |waited_ns| {
        let strict = run(&SCRIPTED).args(["scripted", "--warmup", "7", "--strict"]);
        let ran = strict.script(&script(waited_ns)).out("").run();
        let fitness = ran.report().fitness.expect("a verdict");
        (ran, fitness)
    };
    let (ran, fitness) = run_strictly(14_250_000);
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
    let (ran, fitness) = run_strictly(7);
    assert_eq!(fitness.verdict, Verdict::Quiet);
    ran.exits(0);
}

#[test]
fn script_errors_name_their_location() {
    for (script, expected) in [
        (json!({ "scripted-b": { "lateness_ns": [1] } }), "script.json: no script for scripted"),
        (json!({ "scripted": { "lateness_ns": [] } }), "script.json: scripted: an empty list"),
        (json!({ "scripted": { "latenes_ns": [1] } }), "script.json: unknown field `latenes_ns`"),
        (json!({ "scripted": {} }), "script.json: missing field `lateness_ns`"),
    ] {
        run(&["--subject", "scripted"]).script(&script).out("run").run().refuses(expected);
    }
    run(&["--subject", "scripted"]).out("run").run().refuses("OSJITTER_SCRIPT");
    run(&["--subject", "scripted"])
        .env("OSJITTER_SCRIPT", "no-such.json")
        .out("run")
        .run()
        .refuses("no-such.json: ");
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
