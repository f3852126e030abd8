//! Tests that every subject counts each of its ticks, and of costs per tick.

use files::report::Status;
use serde_json::Value;

#[cfg(target_os = "linux")]
use super::find_subject;
use super::{count_ticks, run};
use crate::osjitter::Osjitter;
use crate::schema;

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
        assert_eq!((s.ticks, count_ticks(s)), (60, 60), "{}", subject.id);
        assert_eq!(s.early, Some(0), "{}", subject.id);
        let histogram = files::histogram::unpack(subject.histogram.as_ref().unwrap()).unwrap();
        assert_eq!(histogram.len(), s.came(), "{}", subject.id);
        let samples: usize = subject.rounds.iter().map(|r| r.lateness_ns.len()).sum();
        assert_eq!(samples as u64, s.came(), "{}", subject.id);
        assert!(ran.stdout.contains(&subject.name), "{}", ran.stdout);
    }
    let observer = report.clock.observer_ns_per_tick.expect("they are stamped by this program");
    let markdown = Osjitter::new(["report", "--format", "markdown"]);
    let markdown = markdown.args([ran.path("report.json")]).run().exits(0).stdout;
    assert!(markdown.contains("; taking timestamps costs ") && observer > 0, "{markdown}");
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
        assert_eq!((s.ticks, count_ticks(s), s.early), (12 * instances, s.ticks, Some(0)));
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
