//! `osjitter run` from outside: what it writes, and that it adds up.

use std::path::Path;
use std::process::{Command, Output};

use jitterstat::file::File as _;
use jitterstat::report::{Report, Status};

fn osjitter(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_osjitter")).args(args).output().expect("the binary runs")
}

fn report(directory: &Path) -> (Report, serde_json::Value) {
    let text = std::fs::read_to_string(directory.join("report.json")).unwrap();
    (Report::from_json(&text).unwrap(), serde_json::from_str(&text).unwrap())
}

#[test]
fn every_subject_is_measured_and_every_tick_booked_once() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    let output = osjitter(&["run", "--subject", "all", "--period", "500us", "--ticks", "60", "--out", path]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (report, json) = report(out.path());
    let schema = Report::json_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&json).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!report.partial);
    let listed = String::from_utf8(osjitter(&["list", "--format", "json"]).stdout).unwrap();
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    assert_eq!(report.subjects.len(), listed.len());
    let table = String::from_utf8(output.stdout).unwrap();
    for subject in &report.subjects {
        assert_eq!(subject.status, Status::Measured, "{}", subject.id);
        let s = subject.summary.as_ref().unwrap();
        assert_eq!((s.ticks, s.delivered + s.coalesced + s.skipped), (60, 60), "{}", subject.id);
        assert_eq!(s.early, 0, "{}", subject.id);
        let histogram = jitterstat::histogram::unpack(subject.histogram.as_ref().unwrap()).unwrap();
        assert_eq!(histogram.len(), s.ticks - s.skipped, "{}", subject.id);
        let samples: usize = subject.rounds.iter().map(|r| r.lateness_ns.len()).sum();
        assert_eq!(samples as u64, s.ticks - s.skipped, "{}", subject.id);
        assert!(table.contains(&subject.name), "{table}");
    }
    // Each round holds every subject once.
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
fn bad_input_exits_2_says_why_and_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let plan = home.path().join("plan.toml");
    std::fs::write(&plan, "[defaults]\nsubjekt = \"spin\"\n").unwrap();
    let plan = plan.to_str().unwrap().to_owned();
    let newer = home.path().join("newer.json");
    std::fs::write(&newer, "{\"schema\": \"osjitter.report/99\"}").unwrap();
    let newer = newer.to_str().unwrap().to_owned();
    let cases: &[(&[&str], &str)] = &[
        (&["--period", "0us"], "from 1us to 1h"),
        (&["--period", "-5us"], "negative"),
        (&["--period", "500"], "no unit"),
        (&["--period", "2h"], "outside 1us to 1h"),
        (&["--ticks", "0"], "at least 1"),
        (&["--ticks", "5", "--duration", "1s"], "cannot be used with"),
        (&["--ticks", "18000000000000000000"], "fewer ticks"),
        (&["--subject", "tokio-intervall"], "tokio-interval"),
        (&["--plan", &plan], "plan.toml:2:1: unknown field `subjekt`"),
        (&["--plan", &newer], "schema \"osjitter.report/99\" is not known"),
        (&["--timer-slack", "-1us"], "negative"),
        (&["--instances", "0"], "at least 1"),
        (&["--instances", "100001"], "1 to 100000"),
        (&["--plan", "no-such-file.toml"], "cannot read the plan"),
        (&["--cpu", "100000"], "CPU 100000"),
        (&["--sched", "fifo:100"], "priority from 1 to 99"),
        (&["--runtime", "green-threads"], "current-thread"),
        (&["--out", "/proc/no-such-place"], "--out"),
    ];
    for (args, says) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_osjitter"))
            .arg("run")
            .args(*args)
            .current_dir(home.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(!home.path().join("results").exists(), "{args:?} left something behind");
    }
}

#[test]
fn a_printed_plan_runs_again() {
    let out = tempfile::tempdir().unwrap();
    let printed = osjitter(&["run", "--subject", "*sleep*", "--period", "1ms", "--ticks", "10", "--print-plan"]);
    let plan = out.path().join("plan.toml");
    std::fs::write(&plan, &printed.stdout).unwrap();
    let again = osjitter(&["run", "--plan", plan.to_str().unwrap(), "--print-plan"]);
    assert_eq!(printed.stdout, again.stdout);
    let path = out.path().join("run");
    let output = osjitter(&["run", "--plan", plan.to_str().unwrap(), "--out", path.to_str().unwrap(), "--quiet"]);
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "quiet is quiet");
    let (first, _) = report(&path);
    assert_eq!(first.subjects.len(), 4);
    // A report is a plan too.
    let again = out.path().join("again");
    let from = path.join("report.json");
    let arguments = ["run", "--quiet", "--plan", from.to_str().unwrap(), "--out", again.to_str().unwrap()];
    assert!(osjitter(&arguments).status.success());
    assert_eq!(report(&again).0.plan, first.plan);
}

#[test]
fn many_instances_are_all_recorded_with_phases_of_their_own() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    let arguments = ["run", "--subject", "os-interval*", "--subject", "spin", "--instances", "20", "--period", "5ms"];
    let output = osjitter(&[&arguments[..], &["--ticks", "12", "--round-ticks", "4", "--out", path]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (report, _) = report(out.path());
    for subject in &report.subjects {
        let instances = if subject.name == "spin" { 1 } else { 20 };
        assert_eq!(subject.instances, instances, "{}", subject.id);
        let s = subject.summary.as_ref().unwrap();
        assert_eq!((s.ticks, s.delivered + s.coalesced + s.skipped, s.early), (12 * instances, s.ticks, 0));
        assert_eq!(subject.histogram.as_ref().unwrap().count, s.ticks - s.skipped);
        assert_eq!(subject.rounds.len() as u64, 3 * instances);
        for round in subject.rounds.chunks(instances as usize) {
            let starts: Vec<u64> = round.iter().map(|r| r.start_ns).collect();
            let spread = starts.windows(2).all(|w| w[1] - w[0] == 5_000_000 / instances);
            assert!(spread, "{}: {starts:?}", subject.id);
        }
    }
    // The plan says so too, and runs again.
    let again = osjitter(&["run", "--plan", &format!("{path}/report.json"), "--print-plan"]);
    assert_eq!(String::from_utf8(again.stdout).unwrap().matches("instances = 20").count(), report.subjects.len() - 1);
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_partial_report() {
    let out = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["run", "--subject", "nanosleep", "--period", "1ms", "--duration", "60s", "--quiet", "--out"])
        .arg(out.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    #[allow(clippy::disallowed_methods, reason = "some rounds should be over before the interrupt")]
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let (report, _) = report(out.path());
    assert!(report.partial);
    let subject = &report.subjects[0];
    assert_eq!(subject.status, Status::Partial);
    let s = subject.summary.as_ref().unwrap();
    assert!(s.ticks < 60_000);
    assert_eq!(s.ticks, s.delivered + s.coalesced + s.skipped);
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let out = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["run", "--subject", "nanosleep", "--ticks", "20", "--format", "json", "--quiet", "--out"])
        .arg(out.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(report(out.path()).0.subjects.len(), 1, "the report is written all the same");
}

#[cfg(target_os = "linux")]
#[test]
fn without_descriptors_a_subject_is_not_measured_and_the_others_are() {
    let out = tempfile::tempdir().unwrap();
    let command = format!(
        "ulimit -n 5; exec '{}' run --subject nanosleep --subject tokio-interval --ticks 20 --out '{}'",
        env!("CARGO_BIN_EXE_osjitter"),
        out.path().display()
    );
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    let (report, _) = report(out.path());
    let of = |name: &str| report.subjects.iter().find(|s| s.name == name).unwrap();
    assert_eq!(of("nanosleep").status, Status::Measured);
    match &of("tokio-interval").status {
        Status::Failed { reason } => assert!(reason.contains("ulimit -n"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(stderr.contains("not measured"), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn busy_subjects_never_wait_and_run_where_they_say() {
    const TICKS: u64 = 400;
    let out = tempfile::tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    let arguments = ["run", "--subject", "*busy*", "--period", "1ms", "--ticks", "400", "--quiet", "--out", path];
    let output = osjitter(&[&arguments[..], &["--instances", "2"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (report, _) = report(out.path());
    let facts = |name: &str| {
        let s = report.subjects.iter().find(|s| s.name == name).unwrap();
        (s.runtime.as_deref(), s.instances)
    };
    assert_eq!(facts("busypoll-interval"), (None, 1));
    assert_eq!(facts("tokio-busy"), (Some("current-thread"), 2));
    assert_eq!(facts("tokio-busy-interval"), (Some("current-thread"), 2));
    for subject in &report.subjects {
        let s = subject.summary.as_ref().unwrap();
        assert_eq!((s.delivered, s.early), (TICKS * subject.instances, 0), "{}", subject.id);
        assert!(s.until_unpark_ns.is_none(), "{}: a runtime that never parks cannot come back", subject.id);
        // A thread that slept for each tick would have given up its CPU as often.
        let switches: u64 = subject.rounds.iter().filter_map(|r| r.switches_voluntary).sum();
        assert!(switches < TICKS / 2, "{}: {switches} waits", subject.id);
    }
}

/// The lateness of every tick of one round of 2,000 ticks at 500 us, during which the whole process was stopped for a
/// while, and how long that was at least.
#[cfg(unix)]
fn stalled_round(subject: &str) -> (Vec<i64>, i64) {
    use std::time::{Duration, Instant};
    let out = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["run", "--subject", subject, "--period", "500us", "--ticks", "2000", "--round-ticks", "2000"])
        .args(["--quiet", "--out"])
        .arg(out.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
    };
    #[allow(clippy::disallowed_methods, reason = "the length of the stall is what is tested")]
    let stalled = {
        std::thread::sleep(Duration::from_millis(400));
        signal("-STOP");
        let stopped = Instant::now();
        std::thread::sleep(Duration::from_millis(200));
        let stalled = stopped.elapsed();
        signal("-CONT");
        stalled
    };
    assert!(child.wait().unwrap().success());
    let (report, _) = report(out.path());
    assert_eq!(report.subjects[0].rounds.len(), 1);
    (report.subjects[0].rounds[0].lateness_ns.clone(), i64::try_from(stalled.as_nanos()).unwrap())
}

#[cfg(unix)]
#[test]
fn a_stall_makes_every_tick_in_it_late_by_its_own_amount() {
    const PERIOD_NS: i64 = 500_000;
    // A tick this much earlier than the end of the stall must be late by at least as much.
    const MARGIN_NS: i64 = 10_000_000;
    for subject in ["os-interval", "nanosleep", "tokio-interval", "busypoll-interval", "tokio-busy", "spin"] {
        // On a busy machine the stall may miss the round: it is repeated, but not for ever.
        let found = (0..5).any(|_| {
            let (lateness, stalled) = stalled_round(subject);
            assert_eq!(lateness.len(), 2_000);
            let (worst, &max) = lateness.iter().enumerate().max_by_key(|(_, l)| **l).unwrap();
            let whole = max >= stalled && worst + 500 < lateness.len();
            if whole {
                // Tick by tick, the lateness falls by no more than a period: none is hidden, and none is left out.
                let backlog = usize::try_from((stalled - MARGIN_NS) / PERIOD_NS).unwrap();
                for (k, late) in lateness[worst..].iter().take(backlog).enumerate() {
                    let least = stalled - i64::try_from(k).unwrap() * PERIOD_NS;
                    assert!(*late >= least, "{subject}: tick {k} of the stall is late by {late} ns, not {least}");
                }
            }
            whole
        });
        assert!(found, "{subject}: no stall of five hit the round");
    }
}
