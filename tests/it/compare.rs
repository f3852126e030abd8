//! Tests of `osjitter compare`: pairing, rejected sides, and agreement of the formats.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use files::compare::{Comparison, Method};
use files::file::File as _;
use serde_json::Value;

use crate::fixtures::recorded_json;
use crate::osjitter::{Osjitter, Ran};
use crate::schema;

const OS_INTERVAL: &str = "os-interval@1ms/current-thread";
const NANOSLEEP: &str = "nanosleep@1ms";

/// A directory with a stored run in `one`, and a copy in `two` that looks like another run. Its
/// rounds and numbers do not depend on the machine.
struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { directory: tempfile::tempdir().unwrap() };
        home.copy_changed("one", |_| {});
        home.copy_changed("two", |report| report["started_utc"] = "2000-01-01T00:00:00Z".into());
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes the run under a name with a change. It has a subject and its control.
    fn copy_changed(&self, name: &str, change: impl Fn(&mut Value)) {
        let mut report = recorded_json();
        for list in ["/subjects", "/plan/scenarios"] {
            let list = report.pointer_mut(list).and_then(Value::as_array_mut).unwrap();
            list.retain(|entry| [OS_INTERVAL, NANOSLEEP].contains(&entry["id"].as_str().unwrap()));
        }
        change(&mut report);
        std::fs::create_dir_all(self.path(name)).unwrap();
        std::fs::write(self.path(name).join("report.json"), report.to_string()).unwrap();
    }

    /// Compares in the directory, so that the sides have short names.
    fn compare(&self, args: &[&str]) -> Ran {
        Osjitter::new(["compare"]).args(args).directory(self.directory.path()).run()
    }

    fn output(&self, args: &[&str]) -> String {
        self.compare(args).exits(0).stdout
    }

    fn comparison(&self, a: &str, b: &str) -> Comparison {
        Comparison::from_json(&self.output(&[a, b, "--format", "json"])).unwrap()
    }
}

#[test]
fn formats_agree() {
    let home = Home::new();
    let sides = [&format!("one#{NANOSLEEP}")[..], "one/report.json#os-interval"];
    let json = home.output(&[&sides[..], &["--format", "json"]].concat());
    schema::valid(&json, "comparison.1");
    let comparison = Comparison::from_json(&json).unwrap();
    let compared = &comparison.subjects[0];
    assert_eq!((compared.a.id.as_str(), compared.b.id.as_str()), (NANOSLEEP, OS_INTERVAL));
    assert_eq!(
        (compared.method, compared.a.rounds, compared.b.rounds),
        (Method::PairedByRound, 12, 12)
    );
    let p50 = &compared.percentiles[0];
    let [low, high] = p50.all.ratio_ci95.expect("enough rounds");
    assert!(p50.name == "p50" && low <= p50.all.ratio && p50.all.ratio <= high, "{p50:?}");

    let table = home.output(&sides);
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.contains("paired by round") && table.contains(OS_INTERVAL), "{table}");
    let place = |start: &str| table.lines().position(|line| line.starts_with(start)).unwrap();
    let row = table.lines().find(|line| line.starts_with("p50 ")).unwrap();
    assert!(place("p50") < place("p50 "), "the answer comes first: {table}");
    assert!(row.ends_with(&format!("  {}", p50.all.rounds_a)), "{table}");

    let markdown = home.output(&[&sides[..], &["--format", "markdown"]].concat());
    assert!(markdown.contains("| p50 |"), "{markdown}");

    let svg = home.output(&[&sides[..], &["--format", "svg"]].concat());
    let file = home.path("comparison.json");
    std::fs::write(&file, home.output(&[&sides[..], &["--format", "json"]].concat())).unwrap();
    let drawn = home.path("shift.svg");
    let again = ["report", "comparison.json", "--format", "svg", "--out", "shift.svg"];
    Osjitter::new(again).directory(home.directory.path()).run().exits(0);
    assert_eq!(std::fs::read_to_string(drawn).unwrap(), svg, "one picture is a file");
    assert!(svg.starts_with("<svg") && svg.contains("<polygon"), "a band");

    let file = home.path("out.json");
    let quiet =
        home.output(&[&sides[..], &["--format", "json", "--out", file.to_str().unwrap()]].concat());
    assert!(quiet.is_empty());
    assert_eq!(std::fs::read_to_string(file).unwrap(), json, "equal data give equal comparisons");
}

#[test]
fn runs_are_compared_by_id() {
    let home = Home::new();
    let comparison = home.comparison("one", "two/report.json");
    let ids: Vec<&str> = comparison.subjects.iter().map(|s| s.a.id.as_str()).collect();
    assert_eq!(ids, [OS_INTERVAL, NANOSLEEP]);
    assert!(comparison.subjects.iter().all(|s| s.method == Method::TwoRuns && s.a.id == s.b.id));
    let [subject, control] = &comparison.subjects[..] else { panic!() };
    assert!(subject.percentiles[0].beside_control.is_some());
    assert!(control.percentiles[0].beside_control.is_none());
    // Both sides have the same rounds, so nothing differs.
    assert_eq!(
        (subject.percentiles[0].all.ratio, subject.percentiles[0].all.difference_ns),
        (1.0, 0)
    );
    assert!(home.output(&["one", "two"]).contains("no difference shown"));
    assert_eq!(comparison.warnings[0].code, "two-runs");

    let named = home.comparison("one#os-interval", "two");
    assert_eq!(named.subjects[0].b.id, OS_INTERVAL, "the subject with the same id");
    home.copy_changed("three", |report| {
        report["started_utc"] = "2001-01-01T00:00:00Z".into();
        report["subjects"].as_array_mut().unwrap().truncate(1);
        report["subjects"][0]["id"] = "mine".into();
    });
    let named = home.comparison("one#nanosleep", "three");
    assert_eq!(named.subjects[0].b.id, "mine", "the only subject");
}

/// Replaces a subject by one that failed before its first round.
fn fail_subject(subject: &mut Value) {
    subject["status"] = serde_json::json!({"state": "failed", "reason": "it rained"});
    subject["summary"] = Value::Null;
    subject["histogram"] = Value::Null;
    subject["rounds"] = Value::Array(vec![]);
}

/// Returns the message of the only warning with a code.
fn warning(comparison: &Comparison, code: &str) -> String {
    let mut found = comparison.warnings.iter().filter(|warning| warning.code == code);
    let message = found.next().map(|warning| warning.message.clone());
    assert!(found.next().is_none(), "{:?}", comparison.warnings);
    message.unwrap_or_default()
}

#[test]
fn early_sides_are_stated() {
    let home = Home::new();
    home.copy_changed("early", |report| {
        report["started_utc"] = "2000-01-01T00:00:00Z".into();
        let summary = &mut report["subjects"][0]["summary"];
        summary["early"] = summary["ticks"].clone();
    });
    for (a, b, side) in [("one", "early", "B"), ("early", "one", "A")] {
        let expected = format!(
            "Early ticks lower the percentiles of a side: 100 % of {OS_INTERVAL} in {side}."
        );
        assert_eq!(warning(&home.comparison(a, b), "early-ticks"), expected);
    }
    assert_eq!(warning(&home.comparison("one", "two"), "early-ticks"), "");
}

#[test]
fn omissions_of_both_sides_are_stated() {
    let home = Home::new();
    home.copy_changed("failed", |report| {
        report["started_utc"] = "2000-01-01T00:00:00Z".into();
        fail_subject(&mut report["subjects"][0]);
        report["subjects"][1]["excluded"] =
            serde_json::json!([{"index": 99, "slot": 0, "start_ns": 0, "changes": []}]);
        report["warnings"] = serde_json::json!([
            {"code": "import-bins-cut", "message": "3 intervals left out", "hint": "look for them"},
            {"code": "quota", "message": "a quota", "hint": "remove it"},
        ]);
    });
    home.copy_changed("other", |report| {
        report["started_utc"] = "2001-01-01T00:00:00Z".into();
        report["subjects"][0]["id"] = "mine".into();
    });

    let comparison = home.comparison("one", "failed");
    assert_eq!(comparison.subjects.len(), 1);
    let left_out = format!("{OS_INTERVAL} left out, not measured in B: it rained.");
    assert_eq!(warning(&comparison, "subjects-failed"), left_out);
    let excluded = format!("from outside: 1 round of {NANOSLEEP} in B.");
    let changed = warning(&comparison, "settings-changed");
    assert!(changed.ends_with(&excluded), "{changed}");
    assert_eq!(warning(&comparison, "import-bins-cut"), "B: 3 intervals left out.");
    assert_eq!(warning(&comparison, "subjects-on-one-side"), "");
    assert_eq!(warning(&comparison, "quota"), "");
    let swapped = home.comparison("failed", "one");
    assert_eq!(warning(&swapped, "subjects-failed"), left_out.replace("in B", "in A"));
    let table = home.output(&["one", "failed"]).replace('\n', " ");
    assert!(table.contains("it rained"), "{table}");
    let picture = home.compare(&["one", "failed", "--format", "svg"]).exits(0);
    assert!(picture.stderr.contains("it rained"), "{}", picture.stderr);

    let comparison = home.comparison("one", "other");
    let expected = format!("Only A has {OS_INTERVAL}; only B has mine.");
    assert_eq!(warning(&comparison, "subjects-on-one-side"), expected);
    assert_eq!(warning(&comparison, "subjects-failed"), "");
    home.copy_changed("only-failed", |report| {
        report["started_utc"] = "2002-01-01T00:00:00Z".into();
        fail_subject(&mut report["subjects"][0]);
        report["subjects"].as_array_mut().unwrap().truncate(1);
    });
    home.compare(&["one", "only-failed"])
        .refuses(&format!("no measured subjects ({OS_INTERVAL}: it rained)"));
    // Subjects that the user did not select are no omission.
    let selected = home.comparison("one#nanosleep", "failed");
    assert_eq!(warning(&selected, "subjects-failed"), "");
    assert!(!warning(&selected, "settings-changed").is_empty());
}

/// Runs the command that a comparison of several subjects suggests for the details of one.
#[test]
fn suggested_command_runs() {
    let home = Home::new();
    home.copy_changed("it's other", move_to_another_machine);
    let table = home.output(&["one", "it's other", "--force"]);
    let command = table.lines().find_map(|line| line.split_once("> osjitter compare "));
    let words = shlex::split(command.expect("a command").1).unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let details = home.output(&words);
    assert!(details.contains("\nCompared two runs"), "{details}");
}

fn move_to_another_machine(report: &mut Value) {
    report["started_utc"] = "2000-01-01T00:00:00Z".into();
    report["host"]["cpu_model"] = "Abacus".into();
    report["host"]["kernel"] = "0.1".into();
    report["host"]["clock_source"] = "sundial".into();
    report["host"]["cpus_online"] = 3.into();
}

#[test]
fn different_conditions_are_rejected() {
    let home = Home::new();
    home.copy_changed("elsewhere", move_to_another_machine);
    home.copy_changed("slower", |report| {
        report["started_utc"] = "2000-01-01T00:00:00Z".into();
        for list in ["subjects", "scenarios"] {
            let subjects = if list == "subjects" {
                &mut report["subjects"]
            } else {
                &mut report["plan"]["scenarios"]
            };
            subjects
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .for_each(|s| s["period_ns"] = 999_000.into());
        }
    });
    let says = home.compare(&["one", "elsewhere"]).exits(2).stderr;
    for part in [
        "CPU model:", "against Abacus", "kernel:", "against 0.1", "clock source:", "CPUs online:",
        "against 3", "--force",
    ] {
        assert!(says.contains(part), "{part}: {says}");
    }
    home.compare(&["one", "slower"]).refuses("1ms against 999us");
}

#[test]
fn forced_comparison_is_marked() {
    let home = Home::new();
    home.copy_changed("elsewhere", move_to_another_machine);
    for format in ["table", "markdown", "svg"] {
        let ran = home.compare(&["one", "elsewhere", "--force", "--format", format]).exits(0);
        assert!(ran.stdout.contains("FORCED") && ran.stderr.contains("FORCED"), "{format}");
    }
    let json = home.output(&["one", "elsewhere", "--force", "--format", "json"]);
    let fields: Vec<String> =
        Comparison::from_json(&json).unwrap().forced.into_iter().map(|d| d.field).collect();
    assert_eq!(fields, ["CPU model", "CPUs online", "kernel", "clock source"]);
}

#[test]
fn bad_input_is_rejected() {
    let home = Home::new();
    let text = std::fs::read_to_string(home.path("one/report.json")).unwrap();
    std::fs::write(home.path("half.json"), &text[..text.len() / 2]).unwrap();
    std::fs::write(home.path("other.json"), r#"{"schema": "osjitter.report/99"}"#).unwrap();
    home.copy_changed("strangers", |report| {
        report["started_utc"] = "2000-01-01T00:00:00Z".into();
        report["subjects"][0]["id"] = "x@500us".into();
        report["subjects"][1]["id"] = "y@500us".into();
    });
    home.copy_changed("failed", |report| {
        report["started_utc"] = "2000-01-01T00:00:00Z".into();
        report["subjects"][0]["status"] =
            serde_json::json!({"state": "failed", "reason": "it rained"});
        report["subjects"][0]["summary"] = Value::Null;
    });
    for (args, says) in [
        (&["one"][..], "<B>"),
        (&["one", "nowhere"], "cannot read nowhere"),
        (&["one", "nowhere#x"], "cannot read nowhere"),
        (&["one", "half.json"], "cut off"),
        (&["one", "other.json"], "osjitter.report/99"),
        (&["one", "one"], NANOSLEEP),
        (&["one#nanosleep", "one"], "of one run"),
        (&["one#nanosleep", "one#nanosleep"], "of one run"),
        (&["one#no-such", "two"], OS_INTERVAL),
        (&["one", "strangers"], "x@500us, y@500us"),
        (&["one#nanosleep", "strangers"], "x@500us, y@500us"),
        (&["one#nanosleep", "failed#os-interval"], "it rained"),
        (&["one", "two", "--format", "gif"], "gif"),
    ] {
        home.compare(args).refuses(says);
    }
    let unwritten = home.compare(&["one", "two", "--out", "no/such/place"]).exits(4);
    let says = "error: cannot write no/such/place: No such file or directory (os error 2); choose another place";
    assert!(unwritten.stderr.starts_with(says), "the message names the path: {}", unwritten.stderr);
}

/// Writes a copy of a compressed report that looks like a later run, in which every tick was later.
fn write_later_run(report: &Path, copy: &Path) {
    let mut text = String::new();
    let file = std::fs::File::open(report).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut report: Value = serde_json::from_str(&text).unwrap();
    report["started_utc"] = "2030-01-01T00:00:00Z".into();
    let forget_misses = |summary: &mut Value| {
        if let Some(missed) = summary.get_mut("missed") {
            *missed = Value::Null;
        }
    };
    for subject in report["subjects"].as_array_mut().unwrap() {
        forget_misses(&mut subject["summary"]);
        for round in subject["rounds"].as_array_mut().unwrap() {
            forget_misses(&mut round["summary"]);
            for tick in round["lateness_ns"].as_array_mut().unwrap() {
                *tick = (tick.as_i64().unwrap() * 2).into();
            }
        }
    }
    std::fs::write(copy, report.to_string()).unwrap();
}

#[test]
fn many_figures_mention_chance() {
    let home = tempfile::tempdir().unwrap();
    let report = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("results/2026-11-27-epyc-kvm-2cpu/report.json.gz");
    let later = home.path().join("later.json");
    write_later_run(&report, &later);
    let compare = |id: &str| {
        let sides = [&report, &later].map(|side| format!("{}{id}", side.display()));
        Osjitter::new(["compare"]).args(sides).run().exits(0).stdout
    };
    let whole = compare("");
    assert!(whole.contains(" figures differ significantly; about one in"), "{whole}");
    assert!(whole.find("B is later for ") < whole.find("subject, B - A"), "{whole}");
    let few = compare("#nanosleep@500us");
    assert!(!few.contains("by chance"), "{few}");
}
