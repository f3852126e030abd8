use super::*;

const FIXTURE: &str = include_str!("../../../../../tests/fixtures/report.json");
const REASON: &str = "exit status: 3";

/// A stored report, as if its rounds had begun `shift_ns` later, which makes it another run.
fn run(shift_ns: u64) -> Report {
    let mut report = Report::from_json(FIXTURE).unwrap();
    for round in report.subjects.iter_mut().flat_map(|subject| &mut subject.rounds) {
        round.phase_ns += shift_ns;
    }
    report
}

/// A run whose first subject failed before its first round.
fn failed_run(shift_ns: u64, reason: &str) -> Report {
    let mut report = run(shift_ns);
    let subject = &mut report.subjects[0];
    subject.status = Status::Failed { reason: reason.to_owned() };
    (subject.summary, subject.histogram, subject.backend) = (None, None, None);
    subject.rounds = Vec::new();
    report
}

fn find_warnings<'a>(report: &'a Report, code: &str) -> Vec<&'a str> {
    let found = report.warnings.iter().filter(|warning| warning.code == code);
    found.map(|warning| warning.message.as_str()).collect()
}

/// A run whose first subject has one round of two instances, which ended at different ticks.
fn stopped_run(shift_ns: u64, lengths: [usize; 2]) -> Report {
    let mut report = run(shift_ns);
    let subject = &mut report.subjects[0];
    let first = subject.rounds.swap_remove(0);
    subject.rounds = (0..)
        .zip(lengths)
        .map(|(instance, length)| {
            let mut entry = Round { instance, ..first.clone() };
            entry.lateness_ns.truncate(length);
            entry.until_unpark_ns = None;
            entry
        })
        .collect();
    let ticks = lengths.iter().sum::<usize>() as u64;
    subject.rounds[1].summary = None;
    for summary in [&mut subject.rounds[0].summary, &mut subject.summary] {
        let summary = summary.as_mut().unwrap();
        (summary.ticks, summary.delivered) = (ticks, ticks);
    }
    (subject.instances, subject.histogram) = (2, None);
    report
}

#[test]
fn stopped_instances_are_read_and_merged() {
    for lengths in [[50, 49], [49, 50]] {
        let runs = [0, 1].map(|shift_ns| stopped_run(shift_ns, lengths));
        for run in &runs {
            assert_eq!(Report::from_json(&run.to_json()).unwrap(), *run, "{lengths:?}");
        }
        let merged = merge(&runs, false).unwrap();
        let summary = merged.subjects[0].summary.as_ref().unwrap();
        assert_eq!((summary.ticks, summary.delivered, summary.skipped), (198, 198, Some(0)));
    }
    let mut impossible = stopped_run(0, [50, 49]);
    let summary = impossible.subjects[0].rounds[0].summary.as_mut().unwrap();
    (summary.ticks, summary.delivered) = (98, 98);
    let error = Report::from_json(&impossible.to_json()).unwrap_err().to_string();
    assert!(error.contains("rounds[0]: it holds 99 ticks, and 98 came"), "{error}");
}

#[test]
fn failure_and_measurement_are_partial() {
    let (failed, measured) = (failed_run(1, REASON), run(0));
    let runs = [[failed.clone(), measured.clone()], [measured.clone(), failed]];
    for runs in runs {
        let merged = merge(&runs, false).unwrap();
        let subject = &merged.subjects[0];
        assert_eq!(subject.status, Status::Partial);
        assert_eq!(subject.rounds.len(), measured.subjects[0].rounds.len());
        assert_eq!(subject.backend, measured.subjects[0].backend);
        let expected = format!(
            "{} failed in 1 of 2 reports: {REASON}. Its numbers are those of the rounds that were \
             measured.",
            subject.id
        );
        let reason = partial_failure(&merged, subject).unwrap();
        assert_eq!(format!("{} {reason}", subject.id), expected);
        assert_eq!(find_warnings(&merged, FAILURES), [expected]);
        assert_eq!(partial_failure(&merged, &merged.subjects[1]), None);
        assert_eq!(merged.subjects[1].status, Status::Measured);
    }
}

#[test]
fn failure_in_all_reports_stays() {
    let merged = merge(&[failed_run(0, REASON), failed_run(1, "no timer")], false).unwrap();
    let reason = format!("{REASON}; no timer");
    assert_eq!(merged.subjects[0].status, Status::Failed { reason });
    assert_eq!(find_warnings(&merged, FAILURES), [] as [&str; 0]);
}

#[test]
fn equal_failures_are_counted() {
    let runs = [failed_run(0, REASON), run(1), failed_run(2, REASON), failed_run(3, "no timer")];
    let merged = merge(&runs, false).unwrap();
    let messages = find_warnings(&merged, FAILURES);
    let [first, second] = messages[..] else { panic!("{messages:?}") };
    assert!(first.contains("failed in 2 of 4 reports: exit status: 3."), "{first}");
    assert!(second.contains("failed in 1 of 4 reports: no timer."), "{second}");
}

#[test]
fn settings_of_failures_are_ignored() {
    let settings = SubjectSettings {
        threads: Vec::new(),
        initial_timer_slack_ns: Some(50_000),
        differences: Vec::new(),
    };
    let mut measured = run(0);
    measured.subjects[0].settings = Some(settings.clone());
    for runs in
        [[failed_run(1, REASON), measured.clone()], [measured.clone(), failed_run(1, REASON)]]
    {
        let merged = merge(&runs, false).unwrap();
        assert_eq!(find_warnings(&merged, SETTINGS_DIFFER), [] as [&str; 0]);
        let found = merged.subjects[0].settings.as_ref().map(without_differences);
        assert_eq!(found, Some(settings.clone()));
    }
}

fn load(name: &str, cpu_ns: Option<u64>, active_ns: u64) -> Load {
    Load { load: name.to_owned(), cpu_ns, active_ns }
}

#[test]
fn loads_are_added_by_name() {
    let (mut one, mut other) = (run(0), run(1));
    one.loads = vec![load("cpu:1", Some(5), 10), load("cpu:2", Some(1), 20)];
    other.loads =
        vec![load("sh", Some(7), 40), load("cpu:2", None, 30), load("cpu:1", Some(6), 50)];
    let merged = merge(&[one, other], false).unwrap();
    let expected = [load("cpu:1", Some(11), 60), load("cpu:2", None, 50), load("sh", Some(7), 40)];
    assert_eq!(merged.loads, expected);
}

#[test]
fn clock_has_largest_errors() {
    let (mut one, mut other) = (run(0), run(1));
    let errors = |report: &Report| {
        let clock = &report.clock;
        (clock.error_bound_ns, clock.rate_error_ppb, clock.observer_ns_per_tick)
    };
    one.clock.error_bound_ns = 5;
    (one.clock.rate_error_ppb, one.clock.observer_ns_per_tick) = (Some(9.0), None);
    other.clock.error_bound_ns = 7;
    (other.clock.rate_error_ppb, other.clock.observer_ns_per_tick) = (Some(2.0), Some(40));
    let merged = merge(&[one.clone(), other.clone()], false).unwrap();
    assert_eq!(errors(&merged), (7, Some(9.0), Some(40)));
    assert_eq!(find_warnings(&merged, HOSTS_DIFFER).len(), 0);
    other.clock.source = "sundial".to_owned();
    let merged = merge(&[one, other], false).unwrap();
    assert_eq!(find_warnings(&merged, HOSTS_DIFFER).len(), 1);
}

#[test]
fn differing_facts_are_not_stated() {
    let (mut one, mut other) = (run(0), run(1));
    (one.plan.cpu, other.plan.cpu) = (Some(3), Some(3));
    let merged = merge(&[one.clone(), other.clone()], false).unwrap();
    assert_eq!(merged.plan.cpu, Some(3));
    assert_eq!(find_warnings(&merged, TOOLS_DIFFER).len(), 0);
    other.plan.cpu = None;
    other.tool.version = "9.0.0".to_owned();
    let reports = [one, run(2), other];
    for order in [[0, 1, 2], [2, 1, 0]] {
        let merged = merge(&order.map(|n| reports[n].clone()), false).unwrap();
        assert_eq!(merged.plan.cpu, None);
        assert_eq!(find_warnings(&merged, TOOLS_DIFFER).len(), 1);
    }
}

fn trace(process: u32, cpu_ns: Option<u64>, count: u64) -> Trace {
    Trace {
        command: None,
        process,
        thread: None,
        window_ns: count,
        cpu_ns,
        apart: true,
        records: count,
        bytes: count,
        lost: count,
        unrecorded: count,
        undated: count,
        unseen: count,
        dropped: count,
    }
}

#[test]
fn lost_records_are_added_up() {
    let (mut one, mut other) = (run(0), run(1));
    (one.trace, other.trace) = (Some(trace(8, Some(2), 3)), Some(trace(9, Some(5), 4)));
    let merged = merge(&[one, other], false).unwrap();
    assert_eq!(merged.trace, Some(trace(8, Some(7), 7)));
}
