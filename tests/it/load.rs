//! Tests of `osjitter run --load`.

#[cfg(target_os = "linux")]
use rustix::process::Signal;
use serde_json::Value;

use crate::osjitter::{Osjitter, Ran};
#[cfg(target_os = "linux")]
use crate::process_control::{poll_until, state};

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn short_run(loads: &[&str]) -> Osjitter {
    let run = [
        "run", "--subject", "nanosleep", "--subject", "tokio-interval", "--period", "1ms",
        "--ticks", "200",
    ];
    loads.iter().fold(Osjitter::new(run), |command, load| command.args(["--load", load])).out("")
}

/// Returns whether each load of a run has used CPU time.
fn have_loads_run(ran: &Ran) -> bool {
    let report = ran.json("report.json");
    let loads = report["loads"].as_array().unwrap();
    loads.iter().all(|load| load["cpu_ns"].as_u64() > Some(0))
}

/// Runs a command until each load has used CPU time. A busy machine may give it none in a short
/// run.
fn run_with_active_loads(loads: &[&str]) -> Ran {
    let mut runs = (0..20).map(|_| short_run(loads).run().exits(0));
    runs.find(have_loads_run).expect("CPU time of each load")
}

/// The CPU time of a load is that of the rounds, without the time for which a command runs before
/// the first round.
#[cfg(target_os = "linux")]
#[test]
fn load_costs_exclude_its_start() {
    let ran = short_run(&["sh -c 'while :; do :; done'"]).run().exits(0);
    let report = ran.json("report.json");
    let load = &report["loads"][0];
    let ms = |key: &str| load[key].as_u64().unwrap() / 1_000_000;
    // A command has 500 ms to start. It may run a little longer than its rounds.
    assert!(ms("cpu_ns") <= ms("active_ns") + 250, "{load}");
}

#[test]
fn loads_share_rounds_with_unloaded_scenarios() {
    let ran = run_with_active_loads(&["none", "cpu:1", "tasks:3x50us"]);
    let report = ran.json("report.json");
    let subjects = report["subjects"].as_array().unwrap();
    let loads: Vec<(&str, Option<&str>)> =
        subjects.iter().map(|s| (s["name"].as_str().unwrap(), s["load"].as_str())).collect();
    let loads_of = |name| [(name, None), (name, Some("cpu:1")), (name, Some("tasks:3x50us"))];
    assert_eq!(
        loads,
        [&loads_of("tokio-interval")[..], &loads_of("nanosleep")[..2]].concat(),
        "a thread has no runtime for tasks"
    );
    let rounds = |s: &Value| {
        s["rounds"].as_array().unwrap().iter().map(|r| r["index"].clone()).collect::<Vec<_>>()
    };
    assert!(subjects.iter().all(|s| rounds(s) == rounds(&subjects[0])));
    for (load, name) in report["loads"].as_array().unwrap().iter().zip(["cpu:1", "tasks:3x50us"]) {
        assert_eq!(load["load"], name);
        assert!(load["active_ns"].as_u64().unwrap() > 0, "{load}");
    }
    for name in
        ["tokio-interval ", "tokio-interval+cpu:1", "tokio-interval+tasks:3x50us", "load cpu:1: "]
    {
        assert!(ran.stdout.contains(name), "{name}: {}", ran.stdout);
    }
    assert!(ran.file("report.html").contains("tokio-interval+cpu:1"));
    let plan = Osjitter::new(["run", "--print-plan", "--plan"])
        .args([ran.path("report.json")])
        .run()
        .exits(0)
        .stdout;
    assert_eq!(plan.matches("load = \"cpu:1\"").count(), 2, "{plan}");
    let file = ran.path("plan.toml");
    std::fs::write(&file, plan).unwrap();
    let again = Osjitter::new(["run", "--format", "json", "--plan"])
        .args([&file])
        .out("again")
        .run()
        .exits(0);
    assert_eq!(json(&again.stdout)["plan"], report["plan"]);
}

#[test]
fn common_load_is_in_title() {
    let ran = short_run(&["memory"]).run().exits(0);
    assert!(ran.stdout.contains(", load memory:1"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("+memory"), "{}", ran.stdout);
    assert_eq!(
        ran.json("report.json")["fitness"],
        Value::Null,
        "a machine is judged without a load"
    );
}

#[test]
fn builtin_loads_run() {
    run_with_active_loads(&["io", "softirq"]);
}

#[test]
fn invalid_loads_are_rejected() {
    for (load, expected) in [
        ("cpuu:2", "there is no such program; expected none, cpu, memory"),
        ("no-such-program --now", "cannot start no-such-program --now"),
        ("tasks:100", "tasks:100x50us"),
        ("cpu:0", "e.g. cpu:2"),
    ] {
        let ran = short_run(&[load]).run().refuses(expected);
        assert!(!ran.path("report.json").exists());
    }
    Osjitter::new(["run", "--subject", "spin", "--load", "tasks:1x50us"])
        .run()
        .refuses("none of these subjects has one");
}

#[cfg(unix)]
#[test]
fn exited_load_fails_its_scenario() {
    // On a busy machine, the shell may need longer to exit than a load is given to start.
    let mut attempts = (0..16).map(|_| short_run(&["sh -c 'echo no licence >&2; exit 3'"]).run());
    let ran = attempts.find(|ran| ran.code == 2).expect("an exit while it starts");
    let ran = ran.refuses("nothing was measured: --load sh -c");
    assert!(ran.stderr.contains("exit status: 3; stderr: no licence"), "{}", ran.stderr);
    assert!(!ran.path("report.json").exists());

    // On a busy machine, a load may end before its first round.
    let has_ticks = [1, 4, 16].into_iter().any(ended_load_keeps_ticks);
    assert!(has_ticks, "what was measured is there");
}

/// Measures with a load that exits after some seconds. Returns whether something was measured with
/// it.
#[cfg(unix)]
fn ended_load_keeps_ticks(seconds: u64) -> bool {
    let ticks = 1_500 * seconds;
    let dies = format!("sh -c 'sleep {seconds}; echo out of licences >&2; exit 3'");
    let run = ["run", "--subject", "nanosleep", "--period", "1ms", "--round-ticks", "50"];
    let loads = ["--ticks", &ticks.to_string(), "--load", "none", "--load", &dies];
    let ran = Osjitter::new(run).args(loads).out("").run();
    if ran.code == 2 {
        return false;
    }
    let ran = ran.exits(4);
    let expected =
        format!("its load {dies} ended by itself, with exit status: 3; stderr: out of licences");
    assert!(ran.stdout.replace('\n', " ").contains(&expected), "{}", ran.stdout);
    let report = ran.json("report.json");
    let [without, with] = &report["subjects"].as_array().unwrap()[..] else {
        panic!("two subjects")
    };
    assert_eq!(
        (&without["status"]["state"], &without["summary"]["ticks"]),
        (&"measured".into(), &ticks.into())
    );
    assert_eq!(with["status"]["state"], "failed");
    let measured = with["summary"]["ticks"].as_u64();
    assert!(measured.is_none_or(|measured| measured < ticks), "{with}");
    measured.is_some_and(|measured| measured > 0)
}

/// Whether a process exists and is not a zombie.
#[cfg(target_os = "linux")]
fn is_running(id: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[cfg(target_os = "linux")]
#[test]
fn loads_are_stopped_with_the_run() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("id");
    let load = format!("sh -c 'echo $$ > {}; while :; do :; done'", file.display());
    let run = "run --subject nanosleep --period 1ms --duration 60s --round-ticks 40 --load";
    let running = Osjitter::new(run.split(' ')).args([&load]).out("").in_own_group().start();
    let id: u32 = poll_until(|| std::fs::read_to_string(&file).ok()?.trim().parse().ok());
    running.signal(Signal::TSTP);
    poll_until(|| (state(running.id()) == Some('T')).then_some(()));
    // It stops when it is scheduled again.
    poll_until(|| (state(id) == Some('T')).then_some(()));
    running.signal(Signal::INT);
    poll_until(|| {
        running.signal(Signal::CONT);
        (state(running.id()) == Some('Z')).then_some(())
    });
    let _ = running.ends().exits(4);
}

#[cfg(target_os = "linux")]
#[test]
fn loads_end_with_the_run() {
    let ids = tempfile::tempdir().unwrap();
    let command = |name: &str| {
        let file = ids.path().join(name);
        format!(
            "sh -c 'setsid sleep 1000 & sleep 1000 & echo $$ $! > {}; while :; do :; done'",
            file.display()
        )
    };
    let started = |name: &str| -> Option<Vec<String>> {
        let text = std::fs::read_to_string(ids.path().join(name)).ok()?;
        let ids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        (ids.len() == 2).then_some(ids)
    };
    let assert_ended = || {
        for id in ["one", "two"].map(|name| started(name).expect("two processes")).concat() {
            assert!(!is_running(&id), "{id} is still running");
        }
    };
    let [one, two] = ["one", "two"].map(command);
    let (two_of_them, short_run) =
        (["--load", &one, "--load", &two], ["run", "--subject", "nanosleep", "--period", "1ms"]);
    let remove_ids = || {
        for name in ["one", "two"] {
            let _ = std::fs::remove_file(ids.path().join(name));
        }
    };
    let measure = || {
        remove_ids();
        let run = Osjitter::new(short_run).args(["--ticks", "100"]).args(two_of_them);
        let ran = run.out("").run().exits(0);
        if started("one").and(started("two")).is_none() {
            return false;
        }
        assert_ended();
        have_loads_run(&ran)
    };
    // A busy machine may give a load no CPU in so short a run, so that it starts nothing.
    assert!((0..20).any(|_| measure()), "each load has its own CPU time");

    remove_ids();
    let run = Osjitter::new(short_run).args(["--duration", "10m"]).args(two_of_them);
    let mut running = run.out("").start();
    running.says("about");
    poll_until(|| started("one").and(started("two")));
    running.signal(Signal::INT);
    let _ = running.ends().exits(4);
    assert_ended();
}
