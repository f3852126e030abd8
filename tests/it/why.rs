//! Tests `osjitter run --why`: it leaves figures unchanged, adds a diagnosis, and finds injected
//! causes.

#[cfg(target_os = "linux")]
use files::report::why::{Class, Shares};
use files::report::why::{Tier, Why};
use serde_json::{Value, json};

use crate::osjitter::{Osjitter, Ran};
use crate::schema;
#[cfg(target_os = "linux")]
use crate::test_programs::{late_service, service};

fn run(args: &[&str]) -> Osjitter {
    Osjitter::new(["run", "--why"]).args(args)
}

fn single_diagnosis(ran: &Ran) -> Why {
    ran.report().subjects.remove(0).why.expect("the subject was profiled")
}

#[test]
fn profiling_leaves_figures_unchanged() {
    let script = json!({ "scripted": { "lateness_ns": [14_000, 15_000, 13_500, 900_000], "cpu_ns_per_tick": 9_000 } });
    let args = ["--subject", "scripted", "--ticks", "400", "--seed", "3", "--quiet"];
    let plain = Osjitter::new(["run"]).args(args).script(&script).out("").run().exits(0);
    let profiled = run(&args).script(&script).out("").run().exits(0);
    // Quiet output contains the diagnosis, which was requested.
    let diagnosis = profiled.stdout.strip_prefix(&plain.stdout).expect("the same table");
    assert!(diagnosis.contains("scripted"), "{}", profiled.stdout);
    let subjects = |ran: &Ran| {
        let mut value = ran.json("report.json");
        value["subjects"][0].as_object_mut().unwrap().remove("why");
        // The start of the rounds differs between runs.
        value["subjects"][0]["rounds"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|r| r["start_ns"] = Value::Null);
        value["subjects"].take()
    };
    assert_eq!(subjects(&plain), subjects(&profiled));
    let why = single_diagnosis(&profiled);
    assert_eq!((why.tier, why.shares_ns), (None, None), "a script has no threads");
    assert_eq!(why.rounds.len(), profiled.report().subjects[0].rounds.len());
}

#[test]
fn every_subject_is_profiled() {
    let args = ["--subject", "all", "--ticks", "60", "--why-threshold", "20us"];
    let ran = run(&args).out("").run().exits(0);
    schema::valid(&ran.file("report.json"), "report.1");
    for subject in ran.report().subjects {
        let why = subject.why.expect("the subject was profiled");
        assert_eq!(
            (why.ticks <= 60, why.rounds.len()),
            (true, subject.rounds.len()),
            "{}",
            subject.id
        );
        let plain: Vec<u64> = subject.rounds.iter().map(|r| r.index).collect();
        let profiled: Vec<u64> = why.rounds.iter().map(|r| r.index).collect();
        assert_eq!(plain, profiled, "{}: one profiled round per round", subject.id);
        let late: u64 = why.rounds.iter().map(|r| r.late_ticks).sum();
        let lateness: u64 = why.rounds.iter().map(|r| r.lateness_ns).sum();
        assert_eq!((why.late_ticks, why.lateness_ns), (late, lateness), "{}", subject.id);
        assert!(why.longest.iter().all(|t| t.lateness_ns >= 20_000), "{}", subject.id);
        assert_eq!(
            why.shares_ns.is_some(),
            why.tier.is_some() && why.late_ticks >= 20 && why.episodes >= 5
        );
        assert!(ran.stdout.contains("Why ticks of 20.0 us or more were late ("), "{}", ran.stdout);
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
        again.stdout.contains("#### Why ticks of 20.0 us or more were late"),
        "{}",
        again.stdout
    );
}

#[test]
fn threads_and_instances_are_profiled() {
    let args = [
        "--subject", "os-interval", "--runtime", "multi-thread:2", "--instances", "3", "--ticks",
        "50",
    ];
    let why = single_diagnosis(&run(&args).args(["--why-threshold", "1us"]).out("").run().exits(0));
    assert_eq!(why.ticks, 150);
    if why.tier.is_some() {
        assert!(why.evidence.threads >= 2, "{:?}", why.evidence);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn metered_program_is_profiled_externally() {
    let args =
        ["--why-threshold", "1us", "--period", "10ms", "--ticks", "60", "--round-ticks", "30"];
    let service = service();
    let ran = run(&args)
        .args(["--max-start-time", "60s"])
        .args(["--subject", "nanosleep"])
        .out("")
        .args(["--"])
        .args([&service])
        .run()
        .exits(0);
    schema::valid(&ran.file("report.json"), "report.1");
    let report = ran.report();
    assert_eq!(report.subjects[0].name, "service");
    let why = report.subjects[0].why.as_ref().expect("the subject was profiled");
    let Some(tier) = why.tier else {
        let missing = why.missing.as_ref().expect("a reason");
        return assert!(missing.reason.contains("perf_event_open"), "{missing:?}");
    };
    assert!(tier >= Tier::A2, "{tier:?}");
    assert_eq!((why.ticks, why.rounds.len()), (60, 2));
    let parts: u64 = why.rounds.iter().map(|r| r.shares_ns.total_ns()).sum();
    assert_eq!(parts, why.lateness_ns, "every nanosecond is attributed once");
    // The meter records how long its thread waited, but not before the first tick of a round.
    let unexplained: u64 = why.rounds.iter().map(|r| r.shares_ns.unexplained).sum();
    assert!(unexplained < why.lateness_ns && why.evidence.threads == 1, "{why:?}");
    let unknown = why
        .rounds
        .iter()
        .all(|r| (r.shares_ns.quota, r.shares_ns.faults, r.shares_ns.slack) == (None, None, None));
    assert!(unknown, "{why:?}");
    // Kernel records of timers are separate; the wake-up of the runtime is not observed.
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
    assert_eq!(without, [30, 30], "profiled rounds are in no other figure");
}

#[cfg(target_os = "linux")]
#[test]
fn late_ticks_name_their_function() {
    // Next to many other programs, a long round may take longer than a program is given.
    const LENGTHS: [(&str, &str); 3] = [("240", "120"), ("120", "60"), ("60", "30")];
    const ATTEMPTS: usize = 12;
    let is_named = LENGTHS.into_iter().cycle().take(ATTEMPTS).any(is_late_function_named);
    assert!(is_named, "no function is named");
}

/// Measures a service that is late in a function, with this number of ticks and of those in a
/// round. Returns false if the machine was too busy to name a function.
#[cfg(target_os = "linux")]
fn is_late_function_named((ticks, round_ticks): (&str, &str)) -> bool {
    let ran = run(&["--why-threshold", "10ms", "--period", "10ms", "--ticks", ticks])
        .args(["--round-ticks", round_ticks, "--subject", "nanosleep", "--max-start-time", "60s"])
        .out("")
        .args(["--"])
        .args([late_service()])
        .run();
    if ran.stderr.contains("was still running after") {
        return false;
    }
    let ran = ran.exits(0);
    schema::valid(&ran.file("report.json"), "report.1");
    let report = ran.report();
    let why = report.subjects[0].why.as_ref().expect("the subject was profiled");
    let Some(code) = &why.code else {
        assert!(why.tier.is_none(), "{:?}", why.missing);
        return true;
    };
    if let Some(reason) = &code.missing {
        assert!(reason.contains("perf_event_open"), "{reason}");
        return true;
    }
    // Without a free CPU, ticks are late because the program waits for one, and few have samples.
    if code.coverage < 0.5 {
        let most_common = code.stacks.iter().max_by_key(|stack| stack.samples);
        return most_common
            .is_some_and(|stack| stack.frames.iter().any(|frame| frame == "orders::parse_orders"));
    }
    let function = code.functions.first().expect("a function");
    assert_eq!(function.function, "orders::parse_orders", "{code:?}");
    assert!(function.callers.iter().any(|caller| caller.contains("orders::")), "{function:?}");
    assert!(code.stacks.iter().any(|stack| stack.frames.contains(&function.function)));
    assert!(code.coverage > 0.0 && code.coverage <= 1.0, "{code:?}");
    assert!(ran.stdout.contains("orders::parse_orders"), "{}", ran.stdout);
    let page = ran.file("report.html");
    assert!(page.contains("stacks while ticks were late"), "the picture is on the page");
    assert!(report.subjects[1].why.as_ref().is_some_and(|why| why.code.is_none()));
    true
}

#[test]
fn unprofiled_runs_have_no_diagnosis() {
    let ran = Osjitter::new(["run", "--subject", "spin", "--ticks", "20"]).out("").run().exits(0);
    assert!(!ran.file("report.json").contains("\"why\""));
    Osjitter::new(["run", "--why-threshold", "1ms"]).run().refuses("--why");
}

/// Runs up to five tries and checks that in three of them most of the lateness that the machine did
/// not cause belongs to the injected classes. A try that is not possible ends the test.
#[cfg(target_os = "linux")]
#[track_caller]
fn assert_found(injected: &[Class], mut measure: impl FnMut() -> Option<Shares>) {
    /// Causes that a busy machine or host adds to any lateness.
    const MACHINE_CAUSES: [Class; 4] = [Class::Queue, Class::Quota, Class::Host, Class::Below];
    let is_attributed = |shares: &Shares| {
        let part: u64 = injected.iter().map(|&class| shares.ns(class)).sum();
        let machines = MACHINE_CAUSES
            .iter()
            .filter(|class| !injected.contains(class))
            .map(|&class| shares.ns(class))
            .sum();
        part as f64 >= 0.6 * shares.total_ns().saturating_sub(machines) as f64
    };
    let mut found = Vec::new();
    while found.len() < 5 && found.iter().filter(|shares| is_attributed(shares)).count() < 3 {
        let Some(shares) = measure() else { return };
        found.push(shares);
    }
    assert!(found.iter().filter(|shares| is_attributed(shares)).count() >= 3, "{found:?}");
}

#[cfg(target_os = "linux")]
mod injected {
    use std::process::{Command, Stdio};

    use files::file::File as _;
    use files::report::Report;

    use super::*;
    use crate::process_control::KilledOnDrop;

    fn shell(script: &str, args: &[&str]) -> KilledOnDrop {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).args(args).stdout(Stdio::null()).stderr(Stdio::null());
        KilledOnDrop(command.spawn().expect("a shell"))
    }

    #[test]
    fn shared_cpu_is_found_as_queueing() {
        let out = tempfile::tempdir().expect("a temporary directory");
        let hog = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_osjitter"));
            let args =
                ["run", "--subject", "spin", "--duration", "30s", "--cpu", "0", "--no-progress"];
            command.args(args).arg("--out").arg(out.path());
            KilledOnDrop(
                command
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("the binary runs"),
            )
        };
        let mut blocked_shares = Vec::new();
        assert_found(&[Class::Queue, Class::Quota], || {
            let _hog = hog();
            let args = [
                "--subject", "os-interval", "--cpu", "0", "--ticks", "1000", "--why-threshold",
                "150us",
            ];
            let ran = run(&args).out("").run();
            // CPU 0 may not be available.
            let why =
                (ran.code == 0).then(|| single_diagnosis(&ran)).filter(|why| why.tier.is_some())?;
            let shares = why.shares_ns?;
            assert_eq!((shares.slack, shares.stopped), (None, 0));
            blocked_shares.push(shares.blocked as f64 / shares.total_ns() as f64);
            Some(shares)
        });
        // Without free memory, a thread is also blocked, but not in each try.
        let is_low = |share: &f64| *share < 0.02;
        let is_plausible = blocked_shares.is_empty() || blocked_shares.iter().any(is_low);
        assert!(is_plausible, "{blocked_shares:?}");
    }

    #[test]
    fn stopped_process_assert_found() {
        assert_found(&[Class::Stopped], || {
            let args = [
                "--subject", "os-interval", "--ticks", "1000", "--why-threshold", "1ms", "--quiet",
            ];
            let measured = run(&args).out("").start();
            let stops = "while kill -STOP $1; do sleep 0.004; kill -CONT $1; sleep 0.02; done";
            let stopper = shell(stops, &[&measured.id().to_string()]);
            let ran = measured.ends().exits(0);
            drop(stopper);
            let why = ran.report().subjects.remove(0).why?;
            let one_cpu = std::thread::available_parallelism().is_ok_and(|n| n.get() == 1);
            assert!(
                one_cpu || why.tier.is_none() || why.evidence.standstill_ns.is_some(),
                "it has witnesses"
            );
            why.shares_ns
        });
    }

    #[test]
    fn timer_slack_assert_found() {
        assert_found(&[Class::Slack], || {
            let args = [
                "--subject", "tokio-sleep", "--period", "2ms", "--ticks", "300", "--timer-slack",
                "10ms",
            ];
            let why = single_diagnosis(
                &run(&args).args(["--why-threshold", "3ms"]).out("").run().exits(0),
            );
            why.tier?;
            let shares = why.shares_ns?;
            assert!(shares.slack.is_some(), "tokio's sleeps have slack");
            Some(shares)
        });
    }

    #[test]
    fn unprivileged_user_gets_the_cause() {
        use std::os::unix::fs::PermissionsExt as _;
        let out = tempfile::tempdir().expect("a temporary directory");
        std::fs::set_permissions(out.path(), std::fs::Permissions::from_mode(0o777))
            .expect("it is ours");
        let script =
            r#"exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs "$0" "$@""#;
        let osjitter = run(&["--subject", "os-interval", "--ticks", "300", "--out"]);
        let ran = osjitter.args([out.path()]).in_shell(script).run();
        if ran.stderr.contains("setpriv") || ran.stderr.contains("Permission denied") {
            // Only root can change the user.
            return;
        }
        ran.exits(0);
        let text = std::fs::read_to_string(out.path().join("report.json")).expect("it was written");
        let mut subjects = Report::from_json(&text).unwrap().subjects;
        let why = subjects.remove(0).why.expect("the subject was profiled");
        let missing = why.missing.expect("CAP_PERFMON is missing");
        assert!(why.tier.is_some_and(|tier| tier < missing.tier), "{missing:?}");
        assert!(missing.tier != Tier::B1 || missing.reason.contains("CAP_PERFMON"), "{missing:?}");
        assert_eq!(why.behind, None);
    }

    #[test]
    fn missing_proc_is_reported() {
        const SCRIPT: &str = r#"exec unshare --mount sh -c 'mount -t tmpfs none /proc || exit 77; exec "$0" "$@"' "$0" "$@""#;
        let osjitter = run(&["--subject", "os-interval", "--ticks", "200"]).out("");
        let ran = osjitter.in_shell(SCRIPT).run();
        if !ran.path("report.json").exists() && [1, 77, 127].contains(&ran.code) {
            // Hiding /proc requires root, unshare and mount.
            return;
        }
        let why = single_diagnosis(&ran.exits(0));
        assert!(why.tier != Some(Tier::A1), "the accounts are files of /proc: {:?}", why.tier);
        assert_eq!(why.missing.map(|m| m.tier), Some(Tier::A1));
    }
}
