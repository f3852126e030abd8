//! Tests of plans: printed, written, changed by flags, and read from a file or a report.

use std::path::Path;

use crate::osjitter::Osjitter;
use crate::run::run;

#[test]
fn plan_notes_overridden_and_missing_values() {
    let home = tempfile::tempdir().unwrap();
    let plan = |text: &str| {
        std::fs::write(home.path().join("plan.toml"), text).unwrap();
        home.path().join("plan.toml").display().to_string()
    };
    let noted = |plan: &str, more: &[&str]| {
        let args = ["--plan", plan, "--print-plan"];
        run(&args).args(more).run().exits(0).stderr
    };
    let states = plan(
        "[[scenario]]\nsubject = \"spin\"\n[[scenario]]\nsubject = \"nanosleep\"\nticks = 20\n",
    );
    let stderr = noted(&states, &["--subject", "os-interval", "--ticks", "50"]);
    assert_eq!(
        stderr,
        format!("--subject has no effect: each scenario of {states} sets its own value\n")
    );
    assert_eq!(noted(&states, &["--period", "2ms"]), "");
    let empty = plan("[defaults]\nperiod = \"2ms\"\n");
    assert_eq!(
        noted(&empty, &[]),
        format!("{empty} names no subject: measuring the default ones\n")
    );
    assert_eq!(noted(&empty, &["--subject", "spin"]), "");
}

#[test]
fn keys_of_profiles_are_merged() {
    let home = tempfile::tempdir().unwrap();
    let plan = home.path().join("plan.toml");
    let printed = |settings: &str, keys: &str, flags: &[&str]| {
        std::fs::write(home.path().join("osjitter.toml"), settings).unwrap();
        std::fs::write(&plan, format!("[run]\n{keys}[defaults]\nsubject = \"spin\"\n")).unwrap();
        let ran = run(&["--plan", "plan.toml", "--print-plan"]).args(flags).directory(home.path());
        ran.run().exits(0).stdout
    };
    let limited = printed("", "why-threshold = \"300us\"\n", &["--why"]);
    assert!(limited.contains("why-threshold = \"300us\""), "{limited}");
    let stricter =
        printed("", "why-threshold = \"300us\"\n", &["--why", "--why-threshold", "200us"]);
    assert!(stricter.contains("why-threshold = \"200us\""), "{stricter}");
    // A file of settings changes no plan.
    let plain = printed("[run]\nwhy = true\nwhy-threshold = \"1ms\"\n", "", &[]);
    assert!(!plain.contains("why"), "{plain}");
}

#[test]
fn printed_plan_runs_again() {
    let printed =
        run(&["--subject", "*sleep*", "--period", "1ms", "--ticks", "10", "--print-plan"])
            .run()
            .exits(0);
    let plan = printed.path("plan.toml");
    std::fs::write(&plan, &printed.stdout).unwrap();
    let again = |from: &Path| run(&["--quiet", "--plan", from.to_str().unwrap()]);
    assert_eq!(again(&plan).args(["--print-plan"]).run().exits(0).stdout, printed.stdout);
    let first = again(&plan).out("").run().exits(0);
    assert!(first.stderr.is_empty(), "quiet is quiet");
    assert_eq!(first.report().subjects.len(), 5);
    // A report can be used as a plan.
    let second = again(&first.path("report.json")).out("").run().exits(0);
    assert_eq!(second.report().plan, first.report().plan);
}

#[test]
fn flags_override_a_report_plan() {
    let subjects = ["--subject", "os-interval", "--subject", "spin", "--ticks", "40"];
    let ran = run(&subjects).args(["--round-ticks", "8", "--seed", "5"]).out("").run().exits(0);
    let file = ran.path("report.json");
    let plan = |flags: &[&str]| {
        let printed = run(&["--print-plan", "--plan", file.to_str().unwrap()]).args(flags);
        let printed = printed.run().exits(0);
        assert!(printed.stderr.is_empty(), "{}", printed.stderr);
        printed.stdout
    };
    let stored = plan(&[]);
    for (flags, line) in [
        (&["--ticks", "70"][..], "ticks = 70"),
        (&["--period", "3ms"], "period = \"3ms\""),
        (&["--round-ticks", "4"], "round-ticks = 4"),
        (&["--warmup", "2"], "warmup = 2"),
        (&["--load", "cpu:1"], "load = \"cpu:1\""),
        (&["--subject", "nanosleep"], "subject = \"nanosleep\""),
        (&["--runtime", "multi-thread:3"], "runtime = \"multi-thread:3\""),
        (&["--instances", "4"], "instances = 4"),
        (&["--seed", "6"], "seed = 6"),
    ] {
        assert!(!stored.lines().any(|l| l == line), "{line}: {stored}");
        let changed = plan(flags);
        assert!(changed.lines().any(|l| l == line), "{flags:?}: {changed}");
    }
    let one = plan(&["--subject", "nanosleep"]);
    assert_eq!(one.matches("[[scenario]]").count(), 1, "{one}");
    assert!(one.lines().any(|line| line == "ticks = 40"), "{one}");
}

#[test]
fn new_plan_runs_and_overwrites_nothing() {
    let home = tempfile::tempdir().unwrap();
    let new = || Osjitter::new(["new-plan", "plan.toml"]).directory(home.path()).run();
    let first = new().exits(0);
    assert_eq!(
        (first.stdout.as_str(), first.stderr.as_str()),
        ("", "written: plan.toml; osjitter run --plan plan.toml\n")
    );
    new().refuses("plan.toml already exists");
    let printed = Osjitter::new(["new-plan"]).run().exits(0).stdout;
    assert_eq!(std::fs::read_to_string(home.path().join("plan.toml")).unwrap(), printed);
    let ran = run(&["--ticks", "20", "--plan", "plan.toml"])
        .directory(home.path())
        .out("")
        .run()
        .exits(0);
    let names: Vec<String> = ran.report().subjects.iter().map(|s| s.name.clone()).collect();
    assert_eq!(names, ["os-interval", "tokio-interval", "nanosleep", "spin"]);
    let nowhere =
        Osjitter::new(["new-plan", "none/plan.toml"]).directory(home.path()).run().exits(2);
    assert_eq!(
        nowhere.stderr,
        "error: cannot write none/plan.toml: No such file or directory (os error 2); choose another path; nothing was run\n"
    );
}
