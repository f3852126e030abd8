//! Tests of `osjitter find`.

use serde_json::{Value, json};

use crate::osjitter::{Osjitter, Ran, one_line, run_long_enough};
#[cfg(target_os = "linux")]
use crate::process_control::increment_nice_value;
use crate::schema;

/// A subject that uses 10 us of CPU and is 150 us late at each tick of any period.
fn script() -> Value {
    json!({"scripted": {"lateness_ns": [150_000], "cpu_ns_per_tick": 10_000, "switches_per_tick": 2}})
}

fn find(args: &[&str]) -> Ran {
    find_scripted(&script(), args)
}

/// Searches for 75 s, or for longer if that is too short for an answer: the rounds of a script
/// take no time of their own, but a busy machine is slow to evaluate them.
fn find_scripted(script: &Value, args: &[&str]) -> Ran {
    let command = |time: &str| {
        let search = ["find", "--subject", "scripted", "--max-time", time];
        Osjitter::new(search).args(args).script(script).out("found")
    };
    run_long_enough(75, command, |ran| found_file(ran)["tickers"][0]["stopped"] != "time")
}

fn found_file(ran: &Ran) -> Value {
    schema::valid(&ran.file("found/find.json"), "find.1")
}

/// The longest period that was too short for a goal, and the shortest that holds it.
#[derive(Debug, PartialEq)]
struct Bracket {
    broken_ns: Option<u64>,
    kept_ns: Option<u64>,
}

fn bracket(ran: &Ran) -> Bracket {
    let ticker = &found_file(ran)["tickers"][0];
    Bracket { broken_ns: ticker["broken_ns"].as_u64(), kept_ns: ticker["kept_ns"].as_u64() }
}

#[test]
fn bracket_encloses_shortest_period() {
    // 10 % of a core are 10 us at a period of 100 us. A subject that is 150 us late misses every
    // tick of a shorter period.
    for (goal, limit_ns) in [("cpu=10%", 100_000), ("missed=1%", 150_000)] {
        let ran = find(&["--goal", goal]).exits(0);
        let Bracket { broken_ns: Some(broken), kept_ns: Some(kept) } = bracket(&ran) else {
            panic!("{goal}: {}", ran.stdout)
        };
        assert!(broken <= limit_ns, "{goal}: {broken} {kept}");
        assert!(limit_ns <= kept, "{goal}: {broken} {kept}");
        assert!(kept * 100 < broken * 106, "{goal}: {broken} {kept}");
        let name = goal.split('=').next().unwrap();
        let text = one_line(&ran.stdout);
        assert!(text.contains(&format!("{name} exceeds")), "{text}");
        assert!(text.contains("the goal holds"), "{text}");
        assert!(
            ran.stderr.contains("1 ticker, up to 10 looks each, 20us to 2ms: at most "),
            "{}",
            ran.stderr
        );
    }
    let both = find(&["--goal", "cpu=10%", "--goal", "missed=1%", "--goal", "p99=1ms"]).exits(0);
    let Bracket { broken_ns: Some(broken), kept_ns: Some(kept) } = bracket(&both) else {
        panic!("{}", both.stdout)
    };
    assert!(broken <= 150_000 && 150_000 <= kept, "all of them hold: {broken} {kept}");
    let text = one_line(&both.stdout);
    assert!(text.contains("all goals hold"), "{text}");
}

#[test]
fn rate_of_misses_is_bracketed() {
    // A subject that is 150 us late misses every tick of a shorter period.
    let ran = find(&["--goal", "missed<5e-3", "--max-stall", "2ms"]).exits(0);
    let Bracket { broken_ns: Some(broken), kept_ns: Some(kept) } = bracket(&ran) else {
        panic!("{}", ran.stdout)
    };
    assert!(broken <= 150_000 && 150_000 <= kept && kept * 100 < broken * 106, "{broken} {kept}");
    let found = found_file(&ran);
    let goal = &found["goals"][0];
    assert_eq!((&goal["limit"], &goal["rate"]), (&json!(0.5), &json!(true)));
    assert_eq!(found["max_stall_ns"], 2_000_000);
    let text = one_line(&ran.stdout);
    for part in ["missed < 1 in 200", "missed exceeds 1 in 200", "no stall is longer than 2 ms and"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A look at a kept period has an upper bound just below the limit.
    let looks = found["tickers"][0]["looks"].as_array().unwrap();
    for look in looks.iter().filter(|look| look["finding"] == "kept") {
        let upper = look["checks"][0]["interval"][1].as_f64().unwrap();
        assert!(upper > 0.0 && upper <= 0.5, "{look}");
    }
    let promise = find(&["--period", "500us", "--max-stall", "2ms"]).exits(0);
    let checks = &found_file(&promise)["tickers"][0]["looks"][0]["checks"];
    // Bursts of four ticks, one-sided, for six numbers: 4 * ln(120) / 20,000.
    let upper = checks[4]["interval"][1].as_f64().unwrap();
    assert!((upper - 0.0957).abs() < 1e-3, "{upper}");
}

#[test]
fn unbracketed_goals_name_the_range() {
    let everywhere = find(&["--goal", "p99=200us", "--from", "50us", "--to", "1ms"]).exits(0);
    assert_eq!(bracket(&everywhere), Bracket { broken_ns: None, kept_ns: Some(50_000) });
    assert!(
        everywhere.stdout.contains("holds at every period tried, 50us to 1ms"),
        "{}",
        everywhere.stdout
    );
    let nowhere = find(&["--goal", "p99=100us"]).exits(0);
    assert_eq!(bracket(&nowhere), Bracket { broken_ns: Some(2_000_000), kept_ns: None });
    let text = one_line(&nowhere.stdout);
    assert!(
        text.contains(
            "holds at none of the periods tried, 20us to 2ms: at 2ms p99 exceeds 100 us (150 us)"
        ),
        "{text}"
    );
}

#[test]
fn late_control_is_the_answer() {
    // No thread that sleeps wakes up within 10 ns.
    let args = ["find", "--subject", "scripted", "--subject", "nanosleep", "--goal", "p50=10ns"];
    let search = Osjitter::new(args).args(["--from", "1ms", "--max-time", "20s"]);
    let ran = search.script(&script()).out("found").run().exits(4);
    assert!(ran.stdout.starts_with("No answer: the machine was too late"), "{}", ran.stdout);
    assert!(ran.stderr.contains("The control, nanosleep,"), "{}", ran.stderr);
    let found = found_file(&ran);
    assert_eq!(found["control"]["subject"], "spin");
    assert!(!found["control"]["looks"].as_array().unwrap().is_empty());
    let shown = Osjitter::new(["report"]).args([ran.path("found")]).run().exits(0);
    assert_eq!(shown.stdout, ran.stdout);
}

#[test]
fn undecided_periods_get_more_ticks() {
    // One tick of 50 is late by more than any of the periods, which is exactly the 2 % of the goal:
    // no number of ticks decides that.
    let lateness_ns: Vec<u64> =
        (0..50).map(|tick| if tick == 7 { 5_000_000 } else { 1_000 }).collect();
    let script = json!({"scripted": {"lateness_ns": lateness_ns}});
    let ran = find_scripted(&script, &["--goal", "missed=2%", "--from", "500us"]).exits(0);
    assert_eq!(bracket(&ran), Bracket { broken_ns: None, kept_ns: None });
    let looks = &found_file(&ran)["tickers"][0]["looks"];
    let ticks_at = |period_ns: u64| -> Vec<u64> {
        let looks = looks.as_array().unwrap().iter();
        let repeated = looks.filter(|look| look["period_ns"] == period_ns);
        repeated.map(|look| look["ticks"].as_u64().unwrap()).collect()
    };
    let [first, again, ..] = ticks_at(2_000_000)[..] else { panic!("{looks}") };
    assert!(again >= 2 * first && again <= 4 * first, "{first} {again}");
    assert!(ran.stdout.contains("undecided at every period tried, 500us to 2ms"), "{}", ran.stdout);
}

#[test]
fn promises_are_upper_interval_ends() {
    let ran = find(&["--period", "500us"]).exits(0);
    let found = found_file(&ran);
    let names: Vec<&str> = found["goals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|goal| goal["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["p50", "p90", "p99", "p99.9", "missed", "cpu"]);
    let checks = found["tickers"][0]["looks"][0]["checks"].as_array().unwrap();
    assert_eq!(checks[2]["interval"], json!([150_000.0, 150_000.0]));
    // None of 20,000 ticks was missed, but the interval still ends above 0.
    assert!(
        checks[4]["interval"][1].as_f64().is_some_and(|percent| percent > 0.02 && percent < 0.03),
        "{}",
        checks[4]
    );
    let line = ran.stdout.lines().find(|line| line.starts_with("scripted ")).unwrap();
    for cell in ["150 us", "0.02 %", "2.00 %", "20000"] {
        assert!(line.contains(cell), "{cell}: {line}");
    }
}

#[test]
fn only_goals_have_wide_lines() {
    for (args, goals, caption) in [
        (&["--goal", "cpu=10%"][..], 1, "Wide grey line: the goal."),
        (&["--goal", "cpu=10%", "--goal", "p50=1ms"], 2, "Wide grey line: the goal."),
        (&["--period", "500us"], 0, "Lateness and cost over the period."),
    ] {
        let picture = find(args).file("found/find.svg");
        let document = roxmltree::Document::parse(&picture).unwrap();
        let width = |node: roxmltree::Node<'_, '_>| node.attribute("stroke-width")?.parse().ok();
        let widths: Vec<u32> = document.descendants().filter_map(width).collect();
        let wide = widths.iter().filter(|&&width| width > 2).count();
        assert_eq!((wide, widths.contains(&2)), (goals, true), "{args:?}");
        assert!(picture.contains(caption), "{args:?}");
        assert_eq!(picture.contains("the goal"), goals > 0, "{args:?}");
        assert!(!picture.contains("stroke-dasharray"), "dashes are signs of no ticker here");
    }
}

#[test]
fn report_shows_stored_search() {
    let ran = find(&["--goal", "cpu=10%", "--quiet"]).exits(0);
    let report = |format: &str, out: &str| {
        let command = Osjitter::new(["report", "--format", format]).args([ran.path("found")]);
        if out.is_empty() { command.run() } else { command.out(out).run() }.exits(0)
    };
    assert_eq!(report("table", "").stdout, ran.stdout);
    assert_eq!(report("json", "").stdout, ran.file("found/find.json"));
    assert!(report("markdown", "").stdout.contains("| scripted |"));
    assert_eq!(report("svg", "picture.svg").file("picture.svg"), ran.file("found/find.svg"));
    let broken = ran.path("broken.json");
    std::fs::write(
        &broken,
        ran.file("found/find.json").replace("\"checks\":[{", "\"checks\":[{},{"),
    )
    .unwrap();
    Osjitter::new(["report"])
        .args([&broken])
        .run()
        .refuses("broken.json: not a valid osjitter.find/1");
}

#[test]
fn search_under_load_has_unloaded_control() {
    let search = [
        "find", "--subject", "os-interval", "--goal", "p50=1s", "--from", "1ms", "--to", "2ms",
        "--max-time", "20s",
    ];
    let ran = Osjitter::new(search).args(["--load", "cpu:1"]).out("found").run().exits(0);
    let found = found_file(&ran);
    assert_eq!(found["load"]["load"], "cpu:1");
    assert!(found["load"]["cpu_ns"].as_u64() > Some(0), "{}", found["load"]);
    assert!(found["fitness"]["facts"]["spin_gaps"].is_f64(), "{}", found["fitness"]);
    assert_eq!(found["tickers"].as_array().map(Vec::len), Some(1), "the control is not listed");
    assert!(
        ran.stdout.contains("The shortest period with p50 <= 1.00 s under load cpu:1, "),
        "{}",
        ran.stdout
    );
    let absent = Osjitter::new(search)
        .args(["--load", "no-such-program"])
        .out("found")
        .run()
        .refuses("nothing was measured");
    assert!(!absent.path("found").exists(), "{}", absent.stderr);
}

#[test]
fn impossible_searches_are_rejected() {
    for (args, expected) in [
        (&[][..], "--goal"),
        (&["--goal", "p99=0us"], "more than 0"),
        (&["--goal", "max=1ms"], "expected p50, p90"),
        (&["--goal", "p99=1ms", "--goal", "p99=2ms"], "p99 is given twice"),
        (
            &["--goal", "p50=2ms", "--goal", "p99=1ms"],
            "p99 <= 1.00 ms implies p50 <= 2.00 ms; remove one",
        ),
        (&["--goal", "p99=1ms", "--period", "1ms"], "cannot be used with"),
        (&["--goal", "p99=1ms", "--from", "2ms"], "--from 2ms must be shorter than --to 2ms"),
        (&["--goal", "p99.99=1ms"], "100000 ticks each, as p99.99 requires"),
        (&["--goal", "missed=0.001%"], "as missed requires"),
        (&["--goal", "missed<1e-4"], "as the rate of misses requires without --max-stall"),
        (&["--goal", "p99<1ms"], "only missed has a rate"),
        (&["--goal", "missed=1%", "--max-stall", "1ms"], "--max-stall is for a goal"),
    ] {
        let ran = find(args).refuses(expected);
        assert!(!ran.path("found").exists());
    }
}

#[test]
fn failed_search_keeps_its_results() {
    let run = |script: Value| {
        let find =
            ["find", "--subject", "scripted", "--subject", "scripted-b", "--goal", "cpu=10%"];
        Osjitter::new(find).script(&script).out("found").run().exits(4)
    };
    let working = json!({"lateness_ns": [1_000], "cpu_ns_per_tick": 10_000});
    let failed = run(
        json!({"scripted": working, "scripted-b": {"lateness_ns": [1], "fail": {"round": 3, "reason": "no timer left"}}}),
    );
    assert!(
        failed.stdout.contains("scripted-b: not measured: no timer left."),
        "{}",
        failed.stdout
    );
    assert!(failed.stderr.contains("error: scripted-b: no timer left"), "{}", failed.stderr);
    assert!(
        found_file(&failed)["tickers"][0]["kept_ns"].as_u64().is_some(),
        "the other ticker is searched to the end"
    );
    let stopped = run(
        json!({"scripted": working, "scripted-b": {"lateness_ns": [1], "interrupt_at_round": 3}}),
    );
    assert!(stopped.stdout.contains("no measurement was complete"), "{}", stopped.stdout);
    assert!(stopped.stdout.contains("Interrupted"), "{}", stopped.stdout);
    assert_eq!(found_file(&stopped)["partial"], true);
}

/// A lasting change excludes the rounds of all later looks.
#[cfg(target_os = "linux")]
#[test]
fn lasting_change_ends_the_search() {
    let args = ["find", "--subject", "nanosleep", "--goal", "p99=50ms", "--max-time", "30s"];
    // A busy machine needs longer for its first look.
    for pause_ms in [2_500, 5_000, 10_000, 20_000] {
        let mut running = Osjitter::new(args).out("found").start();
        running.says(" looks each");
        #[allow(clippy::disallowed_methods, reason = "the command measures during the pause")]
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        increment_nice_value(running.id());
        let ran = running.ends();
        let found = found_file(&ran);
        let ticker = &found["tickers"][0];
        let Some(failure) = ticker["failure"].as_str() else { continue };
        if ticker["looks"].as_array().unwrap().is_empty() {
            continue;
        }
        let change = "excluded: the nice value was changed from ";
        assert!(failure.starts_with(&format!("every round is {change}")), "{failure}");
        let warnings = found["warnings"].as_array().unwrap();
        for name in ["nanosleep", "spin"] {
            let says = format!("of {name} {change}");
            let message = |warning: &Value| warning["message"].as_str().unwrap().to_owned();
            let about = warnings.iter().map(message).filter(|text| text.contains(&says));
            assert_eq!(about.count(), 1, "{name}: {warnings:?}");
        }
        let answer = "The search of nanosleep is incomplete.";
        assert!(one_line(&ran.stdout).contains(answer), "{}", ran.stdout);
        ran.exits(4);
        return;
    }
    panic!("no look was excluded after the first one");
}

#[test]
fn search_respects_time_limit() {
    let subjects = [
        "find", "--subject", "nanosleep", "--subject", "tokio-interval", "--goal", "cpu=20%",
        "--from", "50us",
    ];
    let command = |time: &str| Osjitter::new(subjects).args(["--max-time", time]).out("found");
    let ran = run_long_enough(4, command, |_| true).exits(0);
    let found = found_file(&ran);
    // The last round of a busy machine may take seconds.
    let [duration_ns, max_ns] = ["duration_ns", "max_time_ns"].map(|key| found[key].as_u64());
    assert!(duration_ns.unwrap() < max_ns.unwrap() + 60_000_000_000, "{duration_ns:?}, {max_ns:?}");
    for ticker in found["tickers"].as_array().unwrap() {
        assert!(
            ticker["looks"]
                .as_array()
                .unwrap()
                .iter()
                .all(|look| look["cpu_percent"].as_f64() > Some(0.0))
        );
    }
}
