//! `osjitter run --why` from outside: what it leaves alone, what it adds, and that causes from
//! outside are found.

use files::file::File as _;
use files::report::Report;
#[cfg(target_os = "linux")]
use files::report::why::{Class, Shares};
use files::report::why::{Tier, Why};
use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use crate::osjitter::service;
use crate::osjitter::{Osjitter, Ran};
use crate::schema;

fn run(args: &[&str]) -> Osjitter {
    Osjitter::new(["run", "--why"]).args(args)
}

fn report(ran: &Ran) -> Report {
    Report::from_json(&ran.file("report.json")).unwrap()
}

fn only(ran: &Ran) -> Why {
    report(ran).subjects.remove(0).why.expect("it was asked")
}

#[test]
fn the_figures_are_those_of_a_run_that_was_not_asked() {
    let script = json!({ "scripted": { "lateness_ns": [14_000, 15_000, 13_500, 900_000], "cpu_ns_per_tick": 9_000 } });
    let args = ["--subject", "scripted", "--ticks", "400", "--seed", "3", "--quiet"];
    let plain = Osjitter::new(["run"]).args(args).script(&script).out("").run().exits(0);
    let asked = run(&args).script(&script).out("").run().exits(0);
    assert_eq!(plain.stdout, asked.stdout);
    let subjects = |ran: &Ran| {
        let mut value: Value = serde_json::from_str(&ran.file("report.json")).unwrap();
        value["subjects"][0].as_object_mut().unwrap().remove("why");
        // Where the rounds begin is of this run.
        value["subjects"][0]["rounds"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|r| r["start_ns"] = Value::Null);
        value["subjects"].take()
    };
    assert_eq!(subjects(&plain), subjects(&asked));
    let why = only(&asked);
    assert_eq!((why.tier, why.shares_ns), (None, None), "a script has no threads");
    assert_eq!(why.rounds.len(), report(&asked).subjects[0].rounds.len());
}

#[test]
fn every_subject_is_asked_and_every_nanosecond_booked_once() {
    let args = ["--subject", "all", "--ticks", "60", "--why-threshold", "20us"];
    let ran = run(&args).out("").run().exits(0);
    schema::valid(&ran.file("report.json"), "report.1");
    for subject in report(&ran).subjects {
        let why = subject.why.expect("it was asked");
        assert_eq!(
            (why.ticks <= 60, why.rounds.len()),
            (true, subject.rounds.len()),
            "{}",
            subject.id
        );
        let plain: Vec<u64> = subject.rounds.iter().map(|r| r.index).collect();
        let asked: Vec<u64> = why.rounds.iter().map(|r| r.index).collect();
        assert_eq!(plain, asked, "{}: a round beside each", subject.id);
        let late: u64 = why.rounds.iter().map(|r| r.late_ticks).sum();
        let lateness: u64 = why.rounds.iter().map(|r| r.lateness_ns).sum();
        assert_eq!((why.late_ticks, why.lateness_ns), (late, lateness), "{}", subject.id);
        assert!(why.longest.iter().all(|t| t.lateness_ns >= 20_000), "{}", subject.id);
        assert_eq!(
            why.shares_ns.is_some(),
            why.tier.is_some() && why.late_ticks >= 20 && why.episodes >= 5
        );
        assert!(ran.stdout.contains("Why ticks of 20.0 us and more were late ("), "{}", ran.stdout);
        assert_eq!(why.kernel_chain.is_some(), why.tier == Some(Tier::B2), "{}", subject.id);
        let chain = why.kernel_chain.iter().map(|c| c.whole + c.broken).sum::<u64>();
        assert!(
            chain <= why.ticks && (subject.name != "spin" || chain == 0),
            "{}: a spinning thread is never woken",
            subject.id
        );
        for (tick, chain) in why.longest.iter().filter_map(|tick| Some((tick, tick.chain?))) {
            let links = [
                chain.timer_ns,
                chain.woken_ns,
                chain.on_cpu_ns,
                chain.runtime_ns.unwrap_or(0),
                chain.task_ns,
            ];
            assert_eq!(links.iter().sum::<i64>(), tick.lateness_ns as i64, "{}", subject.id);
        }
    }
    let again = Osjitter::new(["report", "--format", "markdown"])
        .args([ran.path("report.json")])
        .run()
        .exits(0);
    assert!(
        again.stdout.contains("#### Why ticks of 20.0 us and more were late"),
        "{}",
        again.stdout
    );
}

#[test]
fn threads_and_instances_are_asked_too() {
    let args = [
        "--subject",
        "os-interval",
        "--runtime",
        "multi-thread:2",
        "--instances",
        "3",
        "--ticks",
        "50",
    ];
    let why = only(&run(&args).args(["--why-threshold", "1us"]).out("").run().exits(0));
    assert_eq!(why.ticks, 150);
    if why.tier.is_some() {
        assert!(why.evidence.threads >= 2, "{:?}", why.evidence);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_with_a_meter_is_asked_from_outside() {
    let args =
        ["--why-threshold", "1us", "--period", "10ms", "--ticks", "60", "--round-ticks", "30"];
    let service = service();
    let ran = run(&args)
        .args(["--subject", "nanosleep"])
        .out("")
        .args(["--"])
        .args([&service])
        .run()
        .exits(0);
    schema::valid(&ran.file("report.json"), "report.1");
    let report = report(&ran);
    assert_eq!(report.subjects[0].name, "service");
    let why = report.subjects[0].why.as_ref().expect("it was asked");
    let Some(tier) = why.tier else {
        let missing = why.missing.as_ref().expect("a reason");
        return assert!(missing.reason.contains("perf_event_open"), "{missing:?}");
    };
    assert!(tier >= Tier::A2, "{tier:?}");
    assert_eq!((why.ticks, why.rounds.len()), (60, 2));
    let parts: u64 = why.rounds.iter().map(|r| r.shares_ns.total_ns()).sum();
    assert_eq!(parts, why.lateness_ns, "every nanosecond is booked once");
    // Its meter says how long its thread has waited; nothing does before the first tick of a round.
    let unexplained: u64 = why.rounds.iter().map(|r| r.shares_ns.unexplained).sum();
    assert!(unexplained < why.lateness_ns && why.evidence.threads == 1, "{why:?}");
    let unknown = why
        .rounds
        .iter()
        .all(|r| (r.shares_ns.quota, r.shares_ns.faults, r.shares_ns.slack) == (None, None, None));
    assert!(unknown, "{why:?}");
    // What the kernel records of its timers is beside that; where the runtime came back, nobody
    // sees.
    assert_eq!(why.kernel_chain.is_some(), tier == Tier::B2, "{why:?}");
    for (tick, chain) in why.longest.iter().filter_map(|tick| Some((tick, tick.chain?))) {
        let links = [chain.timer_ns, chain.woken_ns, chain.on_cpu_ns, chain.task_ns];
        assert_eq!(
            (links.iter().sum::<i64>(), chain.runtime_ns),
            (tick.lateness_ns as i64, None),
            "{tick:?}"
        );
    }
    let without: Vec<u64> =
        report.subjects[0].rounds.iter().map(|r| r.lateness_ns.len() as u64).collect();
    assert_eq!(without, [30, 30], "what was asked is in no other figure");
}

#[test]
fn what_asks_nothing_has_nothing_to_say_about_it() {
    let ran = Osjitter::new(["run", "--subject", "spin", "--ticks", "20"]).out("").run().exits(0);
    assert!(!ran.file("report.json").contains("\"why\""));
    let refused = Osjitter::new(["run", "--why-threshold", "1ms"]).run().exits(2);
    assert!(refused.stderr.contains("--why"), "{}", refused.stderr);
}

/// In three of five tries, most of what the machine did not add by itself is of these classes; a
/// try that cannot be made ends the test.
#[cfg(target_os = "linux")]
#[track_caller]
fn is_found(injected: &[Class], mut one: impl FnMut() -> Option<Shares>) {
    /// What a busy machine, or a busy host of it, adds to any lateness.
    const MACHINES: [Class; 4] = [Class::Queue, Class::Quota, Class::Host, Class::Below];
    let good = |shares: &Shares| {
        let part: u64 = injected.iter().map(|&class| shares.ns(class)).sum();
        let machines = MACHINES
            .iter()
            .filter(|class| !injected.contains(class))
            .map(|&class| shares.ns(class))
            .sum();
        part as f64 >= 0.6 * shares.total_ns().saturating_sub(machines) as f64
    };
    let mut found = Vec::new();
    while found.len() < 5 && found.iter().filter(|shares| good(shares)).count() < 3 {
        let Some(shares) = one() else { return };
        found.push(shares);
    }
    assert!(found.iter().filter(|shares| good(shares)).count() >= 3, "{found:?}");
}

#[cfg(target_os = "linux")]
mod injected {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Ends what it runs when it goes.
    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn shell(script: &str, args: &[&str]) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).args(args).stdout(Stdio::null()).stderr(Stdio::null());
        Ended(command.spawn().expect("a shell"))
    }

    #[test]
    fn a_thread_that_has_to_share_its_cpu_waits_for_it() {
        let out = tempfile::tempdir().expect("a temporary directory");
        let hog = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_osjitter"));
            let args =
                ["run", "--subject", "spin", "--duration", "30s", "--cpu", "0", "--no-progress"];
            command.args(args).arg("--out").arg(out.path());
            Ended(
                command
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("the binary runs"),
            )
        };
        is_found(&[Class::Queue, Class::Quota], || {
            let _hog = hog();
            let args = [
                "--subject",
                "os-interval",
                "--cpu",
                "0",
                "--ticks",
                "1000",
                "--why-threshold",
                "150us",
            ];
            let ran = run(&args).out("").run();
            // CPU 0 may not be ours to use.
            let why = (ran.code == 0).then(|| only(&ran)).filter(|why| why.tier.is_some())?;
            let shares = why.shares_ns?;
            assert_eq!((shares.slack, shares.stopped), (None, 0));
            let total = shares.total_ns() as f64;
            assert!((shares.blocked as f64) < 0.02 * total, "{shares:?}");
            Some(shares)
        });
    }

    #[test]
    fn a_process_that_was_stopped_says_so() {
        is_found(&[Class::Stopped], || {
            let out = tempfile::tempdir().expect("a temporary directory");
            let args = [
                "run",
                "--why",
                "--subject",
                "os-interval",
                "--ticks",
                "1000",
                "--why-threshold",
                "1ms",
                "--quiet",
            ];
            let mut command = Command::new(env!("CARGO_BIN_EXE_osjitter"));
            command
                .args(args)
                .arg("--out")
                .arg(out.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let mut measured = command.spawn().expect("the binary runs");
            let stops = "while kill -STOP $1; do sleep 0.004; kill -CONT $1; sleep 0.02; done";
            let stopper = shell(stops, &[&measured.id().to_string()]);
            assert!(measured.wait().expect("it ends").success());
            drop(stopper);
            let text =
                std::fs::read_to_string(out.path().join("report.json")).expect("it was written");
            let why = Report::from_json(&text).unwrap().subjects.remove(0).why?;
            let one_cpu = std::thread::available_parallelism().is_ok_and(|n| n.get() == 1);
            assert!(
                one_cpu || why.tier.is_none() || why.evidence.standstill_ns.is_some(),
                "it has witnesses"
            );
            why.shares_ns
        });
    }

    #[test]
    fn timer_slack_is_told_from_what_cannot_be_known() {
        is_found(&[Class::Slack], || {
            let args = [
                "--subject",
                "tokio-sleep",
                "--period",
                "2ms",
                "--ticks",
                "300",
                "--timer-slack",
                "10ms",
            ];
            let why = only(&run(&args).args(["--why-threshold", "3ms"]).out("").run().exits(0));
            why.tier?;
            let shares = why.shares_ns?;
            assert!(shares.slack.is_some(), "tokio's sleeps have slack");
            Some(shares)
        });
    }

    #[test]
    fn a_user_without_rights_gets_the_cause_if_not_the_name() {
        use std::os::unix::fs::PermissionsExt as _;
        let out = tempfile::tempdir().expect("a temporary directory");
        std::fs::set_permissions(out.path(), std::fs::Permissions::from_mode(0o777))
            .expect("it is ours");
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
        command.arg(env!("CARGO_BIN_EXE_osjitter")).args([
            "run",
            "--why",
            "--subject",
            "os-interval",
            "--ticks",
            "300",
        ]);
        let Ok(ran) = command.arg("--out").arg(out.path()).output() else { return };
        let said = String::from_utf8_lossy(&ran.stderr);
        if said.contains("setpriv") || said.contains("Permission denied") {
            // Only root can become somebody else.
            return;
        }
        assert!(ran.status.success(), "{said}");
        let text = std::fs::read_to_string(out.path().join("report.json")).expect("it was written");
        let why = Report::from_json(&text).unwrap().subjects.remove(0).why.expect("it was asked");
        let missing = why.missing.expect("CAP_PERFMON is missing");
        assert!(why.tier.is_some_and(|tier| tier < missing.tier), "{missing:?}");
        assert!(missing.tier != Tier::B1 || missing.reason.contains("CAP_PERFMON"), "{missing:?}");
        assert_eq!(why.behind, None);
    }

    #[test]
    fn without_proc_the_run_goes_on_and_says_what_is_missing() {
        let out = tempfile::tempdir().expect("a temporary directory");
        let script = "mount -t tmpfs none /proc || exit 77; exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_osjitter")]);
        command
            .args(["run", "--why", "--subject", "os-interval", "--ticks", "200"])
            .arg("--out")
            .arg(out.path());
        let Ok(ran) = command.output() else { return };
        if !out.path().join("report.json").exists()
            && !String::from_utf8_lossy(&ran.stderr).contains("osjitter")
        {
            // It takes root to hide /proc.
            return;
        }
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let text = std::fs::read_to_string(out.path().join("report.json")).expect("it was written");
        let why = Report::from_json(&text).unwrap().subjects.remove(0).why.expect("it was asked");
        assert!(why.tier != Some(Tier::A1), "the accounts are files of /proc: {:?}", why.tier);
        assert_eq!(why.missing.map(|m| m.tier), Some(Tier::A1));
    }
}
