//! `osjitter doctor`: checkups, proofs and imported results.

use std::path::Path;

use serde_json::{Value, json};

use crate::fixtures::fixture_text;
use crate::osjitter::{Osjitter, Ran, one_line, run_long_enough};
use crate::schema;

/// Returns the checkup in `checkup.json`, validated against its published schema.
fn checkup(ran: &Ran) -> Value {
    schema::valid(&ran.file("checkup.json"), "doctor.1")
}

fn doctor<'a>(args: impl IntoIterator<Item = &'a str>) -> Osjitter {
    Osjitter::new(["doctor"]).args(args)
}

fn row<'a>(checkup: &'a Value, key: &str) -> &'a Value {
    let rows = checkup["proof"]["subjects"][0]["rows"].as_array().unwrap();
    &rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("no {key} in {rows:?}"))["outcome"]
}

#[test]
fn report_shows_checkup_again() {
    let ran = doctor(["--format", "json"]).out("checkup.json").run().exits(0);
    assert!(ran.stdout.is_empty() && ran.stderr.is_empty(), "{}{}", ran.stdout, ran.stderr);
    let checkup = checkup(&ran);
    for item in checkup["items"].as_array().unwrap() {
        assert!(item["value"].is_null() != item["not_readable"].is_null(), "{item}");
    }
    let again =
        Osjitter::new([Path::new("report"), &ran.path("checkup.json")]).run().exits(0).stdout;
    assert!(again.starts_with("This machine, checked for CPU "), "{again}");
    let markdown = Osjitter::new([Path::new("report"), &ran.path("checkup.json")])
        .args(["--format", "markdown"]);
    assert!(markdown.run().exits(0).stdout.starts_with("### This machine"));
    Osjitter::new([Path::new("report"), &ran.path("checkup.json")])
        .args(["--format", "svg"])
        .run()
        .exits(2);
}

#[test]
fn empty_root_gives_unknown_items() {
    let empty = tempfile::tempdir().unwrap();
    let ran = doctor(["--format", "json", "--root", empty.path().to_str().unwrap()])
        .out("checkup.json")
        .run()
        .exits(0);
    let checkup = checkup(&ran);
    if cfg!(target_os = "linux") {
        let unread = |item: &&Value| item["weight"] == "unknown" && item["value"].is_null();
        assert!(checkup["items"].as_array().unwrap().iter().filter(unread).count() > 20);
    }
}

/// Returns the lateness of the ticks of each round, which varies between rounds as on a machine.
fn rounds(late_ns: u64) -> Vec<Vec<u64>> {
    (0..40).map(|i| vec![late_ns + 37 * ((i * 7) % 11), late_ns + 50 * ((i * 5) % 7)]).collect()
}

#[test]
fn proof_finds_only_effective_settings() {
    let script = json!({
        "scripted": { "lateness_ns": rounds(30_000), "cpu_ns_per_tick": 9_000 },
        "scripted@100us/current-thread+slack": { "lateness_ns": rounds(12_000), "cpu_ns_per_tick": 9_000 },
        "scripted@100us/current-thread+mlock": { "lateness_ns": rounds(30_000), "cpu_ns_per_tick": 12_000 },
    });
    let proof = [
        "--prove", "--subject", "scripted", "--period", "100us", "--seed", "7", "--format", "json",
    ];
    let command =
        |time: &str| doctor(proof).args(["--max-time", time]).script(&script).out("checkup.json");
    let ran = run_long_enough(12, command, |_| true).completes_proof();
    assert!(ran.stderr.contains(" settings × ") && ran.stderr.contains("about "), "{}", ran.stderr);
    let checkup = checkup(&ran);
    let again = &row(&checkup, "again")["differences"];
    for number in ["p50", "p99", "cpu"] {
        assert_eq!(again[number]["shown"], "no-difference", "{again}");
    }
    if cfg!(target_os = "linux") {
        let slack = &row(&checkup, "slack")["differences"];
        let [p50, cpu] = ["p50", "cpu"].map(|number| &slack[number]);
        assert_eq!((&p50["shown"], &cpu["shown"]), (&json!("less"), &json!("no-difference")));
        assert!((p50["ratio"].as_f64().unwrap() - 0.4).abs() < 0.02, "{p50}");
        // The system may not permit it to the user of this test.
        let mlock = row(&checkup, "mlock");
        match mlock["state"].as_str().unwrap() {
            "measured" => assert_eq!(mlock["differences"]["cpu"]["shown"], "more"),
            state => assert!(
                state == "not-permitted" && mlock["needs"].as_str().unwrap().contains("ulimit -l")
            ),
        }
        let table =
            Osjitter::new([Path::new("report"), &ran.path("checkup.json")]).run().exits(0).stdout;
        let has_advice = table.contains("timer slack 1 ns makes ticks less late: p50 -60 %");
        assert!(has_advice != table.contains("Unfit machine"), "{table}");
    }
}

#[test]
fn invalid_arguments_exit_with_2() {
    for (args, says) in [
        (&["--prove", "--max-time", "1ms"][..], "give --max-time "),
        (&["--prove", "--subject", "spin"], "spin is a control"),
        (&["--prove", "--period", "2h"], "period"),
        (&["--subject", "os-interval"], "--prove"),
        (&["--import", "no-such-file"], "no-such-file"),
        (&["--prove", "--out", "/no/such/place"], "/no/such/place"),
    ] {
        doctor(args.iter().copied()).run().refuses(says);
    }
    if cfg!(target_os = "linux") {
        doctor(["--cpu", "70000"]).run().refuses("CPU 70000 does not exist");
    }
}

/// A control that shows a change is the answer, whatever the other settings show.
#[test]
fn failed_control_is_the_answer() {
    let script = json!({
        "scripted": { "lateness_ns": rounds(30_000), "cpu_ns_per_tick": 9_000 },
        "scripted@100us/current-thread+again": { "lateness_ns": rounds(18_000), "cpu_ns_per_tick": 9_000 },
        "scripted@100us/current-thread+slack": { "lateness_ns": rounds(12_000), "cpu_ns_per_tick": 9_000 },
    });
    let proof = ["--prove", "--subject", "scripted", "--period", "100us", "--format", "json"];
    let command =
        |time: &str| doctor(proof).args(["--max-time", time]).script(&script).out("checkup.json");
    let ran = run_long_enough(12, command, |_| true).exits(4);
    let says = "error: No answer: the control shows a change. ";
    assert!(ran.stderr.contains(says), "{}", ran.stderr);
    let table =
        Osjitter::new([Path::new("report"), &ran.path("checkup.json")]).run().exits(0).stdout;
    let answer = table.lines().nth(1).unwrap();
    assert!(answer.starts_with("No answer: the control shows a change. "), "{table}");
    assert!(table.contains("scripted p50 -40 %"), "{table}");
    assert!(!table.contains("makes ticks less late"), "{table}");
}

/// A proof whose load has ended says nothing about the settings.
#[cfg(unix)]
#[test]
fn unmeasured_settings_are_an_error() {
    let home = tempfile::tempdir().unwrap();
    let end = home.path().join("end");
    let load = format!("sh -c 'while [ ! -e {} ]; do sleep 0.1; done'", end.display());
    let proof = ["--prove", "--subject", "os-interval", "--period", "1ms", "--max-time", "120s"];
    let settings = ["--try", "x=true", "--undo", "true", "--load", &load];
    let mut running = doctor(proof).args(settings).start();
    running.says(" settings × ");
    std::fs::write(&end, "").unwrap();
    let ran = running.ends().exits(4);
    assert!(ran.stdout.contains("not measured: its load sh -c"), "{}", ran.stdout);
    let error = "error: cannot measure os-interval with ";
    assert!(ran.stderr.contains(error), "{}", ran.stderr);
    assert!(ran.stderr.contains("ended by itself"), "{}", ran.stderr);
}

#[cfg(unix)]
#[test]
fn interrupted_proof_shows_no_verdict() {
    let ran = doctor(["--prove", "--format", "json"])
        .args(["--import", "tests/fixtures/rtla-timerlat.txt"])
        .out("checkup.json")
        .interrupt_at(" settings × ")
        .exits(4);
    let checkup = checkup(&ran);
    assert_eq!(checkup["proof"]["partial"], true);
    let table =
        Osjitter::new([Path::new("report"), &ran.path("checkup.json")]).run().exits(0).stdout;
    assert!(table.contains("Interrupted") && !table.contains("no difference shown"), "{table}");
    assert!(
        table.contains("rtla timerlat in tests/fixtures/rtla-timerlat.txt: up to 330 us late"),
        "{table}"
    );
}

/// A proof is not lost with the directory of its file.
#[cfg(unix)]
#[test]
fn unwritten_proof_is_printed() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("directory");
    std::fs::create_dir(&directory).unwrap();
    let mut running = doctor(["--prove", "--out"]).args([directory.join("checkup.txt")]).start();
    running.says(" settings × ");
    std::fs::remove_dir(&directory).unwrap();
    running.signal(rustix::process::Signal::INT);
    let ran = running.ends().exits(4);
    assert!(ran.stdout.contains("Interrupted"), "{}", ran.stdout);
    assert!(ran.stderr.contains("cannot write"), "{}", ran.stderr);
}

#[test]
fn other_tools_results_are_imported() {
    let files = ["hwlatdetect.txt", "oslat.json", "cyclictest.json", "rtla-timerlat.txt"]
        .map(|name| format!("tests/fixtures/{name}"));
    let import = files.iter().flat_map(|file| ["--import", file]);
    let ran = doctor(import.chain(["--format", "json"])).out("checkup.json").run().exits(0);
    let checkup = checkup(&ran);
    let item = |key: &str| {
        checkup["items"].as_array().unwrap().iter().find(|item| item["key"] == key).unwrap().clone()
    };
    let gaps = item("imported-hwlatdetect");
    assert_eq!(
        (gaps["value"].as_str(), gaps["weight"].as_str()),
        (Some("3 gaps, up to 345 us"), Some("costs"))
    );
    assert!(item("imported-oslat")["value"].as_str().unwrap().starts_with("gaps up to "));
    assert!(item("imported-cyclictest")["value"].as_str().unwrap().contains(" late (cyclictest"));
    assert_eq!(item("imported-rtla-timerlat")["value"], "up to 330 us late (timerlat-user/cpu-0)");
    let unknown = doctor(["--import", "tests/fixtures/formats/cyclictest-hist.txt"]).run().exits(0);
    let words = one_line(&unknown.stdout);
    assert!(words.contains("values are taken as microseconds. With -N they are"), "{words}");
    doctor(["--import", "tests/fixtures/report.json"])
        .run()
        .refuses("show it with osjitter report");
}

#[test]
fn incomplete_results_are_not_rated() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("result");
    let rtla = fixture_text("rtla-timerlat.txt");
    let failed =
        fixture_text("cyclictest.json").replace("\"return_code\": 0", "\"return_code\": 1");
    for text in [failed.as_str(), &rtla[..rtla.find("max:").unwrap()]] {
        std::fs::write(&file, text).unwrap();
        let ran = doctor(["--import", file.to_str().unwrap()]).run().exits(2);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{}", ran.stdout);
    }
    // An interrupted run without a sample.
    let text = fixture_text("hwlatdetect.txt");
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("ts:")).collect();
    let without = without.join("\n").replace("recorded: 3", "recorded: 0") + "\n";
    let without = without.replace("exceeding threshold: 3", "exceeding threshold: 0");
    let without = without.replace("Max Latency: 345us", "Max Latency: Below threshold");
    let import = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let args = ["--import", file.to_str().unwrap(), "--format", "json"];
        let ran = doctor(args).out("checkup.json").run().exits(0);
        let items = checkup(&ran)["items"].as_array().unwrap().clone();
        items.into_iter().find(|item| item["key"] == "imported-hwlatdetect").unwrap()
    };
    let whole = import(&without);
    assert_eq!(
        (&whole["value"], &whole["weight"]),
        (&"no gap above 10 us in 120 s".into(), &"fine".into())
    );
    let cut = import(&without.replace("test finished", "interrupted"));
    assert_eq!(
        (&cut["value"], &cut["weight"]),
        (&"no gap above 10 us in an unknown time".into(), &"unknown".into())
    );
}

/// The fixture was written by hand from the source of hwlatdetect (rt-tests 2.4), because no kernel
/// with a hwlat tracer was available.
#[test]
fn hwlatdetect_output_becomes_a_report() {
    let text = fixture_text("hwlatdetect.txt");
    let directory = tempfile::tempdir().unwrap();
    let show = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        Osjitter::new([Path::new("report"), &file]).args(["--format", "json"]).run()
    };
    let report: Value = serde_json::from_str(&show("all", &text).exits(0).stdout).unwrap();
    let summary = &report["subjects"][0]["summary"];
    assert_eq!((&summary["ticks"], &summary["lateness_ns"]["max"]), (&json!(3), &json!(345_000)));
    assert_eq!(
        (&summary["lateness_ns"]["min"], &summary["lateness_ns"]["mean"]),
        (&json!(16_000), &json!(127_666))
    );
    let none = text.lines().filter(|line| !line.starts_with("ts:")).collect::<Vec<_>>().join("\n");
    let none = none.replace("recorded: 3", "recorded: 0").replace("345us", "Below threshold");
    let quiet: Value = serde_json::from_str(&show("none", &none).exits(0).stdout).unwrap();
    assert_eq!(quiet["subjects"][0]["status"]["reason"], "no gap above 10 us in 120 s");
    for (broken, says) in [
        (text.replace("Samples recorded: 3", ""), "cut off"),
        (text.replace("inner:16", "inner:x"), "invalid sample in line 18"),
        (text.replace("recorded: 3", "recorded: 4"), "recorded 4 samples, but lists 3"),
        (text.replace("outer:345", "outer:9999999999999999999"), "invalid sample in line"),
    ] {
        show("broken", &broken).refuses(says);
    }
}
