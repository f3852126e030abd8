//! Tests that texts from files and programs cannot control the terminal that shows them.

use serde_json::{Value, json};

use crate::fixtures::{fixture, fixture_text};
use crate::osjitter::{Osjitter, Ran};
use crate::workspace::root;

/// Characters that control a terminal: two escape characters, a bell, and a change of the writing
/// direction.
const CONTROL_CHARACTERS: &str = "\u{1b}c\u{9b}2J\u{7}\u{202e}";
/// The safe form of [`CONTROL_CHARACTERS`].
const ESCAPED_CHARACTERS: &str = "\u{fffd}c\u{fffd}2J\u{fffd}\u{fffd}";

/// Returns a numbered text with control characters. Its last character is a carriage return, which
/// wrapping removes as white space.
fn evil_text(n: usize) -> String {
    format!("evil{n}{CONTROL_CHARACTERS}\r")
}

/// Formats a file of osjitter, whose schema comes first.
fn text(mut json: Value) -> String {
    let schema = json.as_object_mut().and_then(|json| json.remove("schema"));
    let text = json.to_string();
    schema.map_or(text.clone(), |schema| format!("{{\"schema\":{schema},{}", &text[1..]))
}

fn read(file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(root().join(file)).unwrap()).unwrap()
}

/// Replaces the text at each of these places by an evil text, and all equal texts with it.
fn with_evil_texts(mut json: Value, places: &[&str]) -> Value {
    fn put(json: &mut Value, old: &str, new: &str) {
        match json {
            Value::String(text) if text == old => *text = new.to_owned(),
            Value::Array(items) => items.iter_mut().for_each(|item| put(item, old, new)),
            Value::Object(fields) => {
                fields
                    .iter_mut()
                    .filter(|(key, _)| *key != "bench")
                    .for_each(|(_, field)| put(field, old, new));
            }
            _ => {}
        }
    }
    for (n, place) in places.iter().enumerate() {
        match json.pointer(place).unwrap_or_else(|| panic!("nothing at {place}")).clone() {
            Value::String(old) => put(&mut json, &old, &evil_text(n)),
            Value::Null => *json.pointer_mut(place).unwrap() = evil_text(n).into(),
            other => panic!("{place} is {other}"),
        }
    }
    json
}

/// Checks that the output contains the texts of these numbers, and no control characters.
#[track_caller]
fn assert_safe_output(ran: &Ran, texts: impl IntoIterator<Item = usize>) {
    let is_control = |c: char| {
        c != '\n'
            && (c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    assert!(!ran.stdout.contains(is_control), "{:?}", ran.stdout);
    assert!(!ran.stderr.contains(is_control), "{:?}", ran.stderr);
    for n in texts {
        let text = format!("evil{n}{ESCAPED_CHARACTERS}");
        assert!(
            ran.stdout.contains(&text) || ran.stderr.contains(&text),
            "no {text} in: {}\n{}",
            ran.stdout,
            ran.stderr
        );
    }
}

/// Creates a command that is too wide for any text to be wrapped.
fn wide_command(args: &[&str]) -> Osjitter {
    Osjitter::new(args).env("COLUMNS", "1000")
}

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).into_os_string().into_string().unwrap()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Checks that the table of a file shows the texts at these places, and that its Markdown, if
    /// there is any, also shows those that the table omits.
    fn assert_file_is_safe(&self, json: Value, in_both: &[&str], in_markdown: Option<&[&str]>) {
        let places = [in_both, in_markdown.unwrap_or_default()].concat();
        let file = self.write("evil.json", text(with_evil_texts(json, &places)));
        assert_safe_output(&wide_command(&["report", &file]).run().exits(0), 0..in_both.len());
        let shown_again = wide_command(&["report", &file, "--format", "json"]).run().exits(0);
        assert_safe_output(&shown_again, []);
        if in_markdown.is_some() {
            assert_safe_output(
                &wide_command(&["report", &file, "--format", "markdown"]).run().exits(0),
                0..places.len(),
            );
        }
    }
}

const NONE: Option<&[&str]> = Some(&[]);

fn warning() -> Value {
    json!([{"code": "a-code", "message": "a-message", "hint": "a-hint"}])
}

/// Returns a report that contains every optional part.
fn report() -> Value {
    let mut json = read("tests/fixtures/report.json");
    json["warnings"] = warning();
    json["loads"] = json!([{"load": "a-load", "cpu_ns": 1, "active_ns": 1}]);
    json["subjects"][0]["load"] = "a-load".into();
    json["plan"]["scenarios"][0]["command"] = json!(["a-program", "a-word"]);
    let failed = &mut json["subjects"][1];
    failed["status"] = json!({"state": "failed", "reason": "a-reason"});
    (failed["summary"], failed["histogram"], failed["rounds"]) =
        (Value::Null, Value::Null, json!([]));
    json
}

const REPORT_TEXTS: [&str; 9] = [
    "/subjects/0/name", "/subjects/0/runtime", "/subjects/0/load", "/subjects/1/status/reason",
    "/plan/scenarios/0/command/0", "/plan/scenarios/0/command/1", "/warnings/0/code",
    "/warnings/0/message", "/warnings/0/hint",
];
const ORIGIN_TEXTS: [&str; 5] =
    ["/started_utc", "/host/cpu_model", "/host/kernel", "/tool/name", "/tool/version"];

#[test]
fn report_output_is_safe() {
    let home = Home::new();
    home.assert_file_is_safe(report(), &REPORT_TEXTS, Some(&ORIGIN_TEXTS));
    let places = [&REPORT_TEXTS[..], &ORIGIN_TEXTS[..3]].concat();
    let file = home.write("evil.json", text(with_evil_texts(report(), &places)));
    // Several reports are shown below their origins.
    assert_safe_output(&wide_command(&["report", &file, &file]).run().exits(0), 0..places.len());
    assert_safe_output(
        &wide_command(&["report", &file, "--histogram", "--quiet"]).run().exits(0),
        [0],
    );

    let mut why = read("fuzz/corpus/report/why.json");
    let subject_why = &mut why["subjects"][0]["why"];
    (subject_why["tier"], subject_why["missing"]["tier"]) = ("b1".into(), "b2".into());
    subject_why["behind"] = json!([{"comm": "a-thread", "ns": 700_000_000}]);
    subject_why["longest"][0]["behind"] = json!([{"comm": "another", "ns": 12_000_000}]);
    let places = [("missing/reason"), ("behind/0/comm"), ("longest/0/behind/0/comm")];
    let places = places.map(|place| format!("/subjects/0/why/{place}"));
    home.assert_file_is_safe(why.clone(), &places.each_ref().map(String::as_str), NONE);
    // A trace contains names of threads.
    why["trace"] = json!({
        "command": ["a-program"], "process": 7, "thread": "a-thread", "window_ns": 9, "cpu_ns": 1, "apart": false, "records": 1,
        "bytes": 1, "lost": 0, "unrecorded": 0, "undated": 0, "unseen": 0, "dropped": 0,
    });
    home.assert_file_is_safe(why, &["/subjects/0/name", "/trace/thread"], NONE);
}

#[test]
fn verdict_output_is_safe() {
    let home = Home::new();
    let mut sides = read("tests/fixtures/verdict.json");
    sides["warnings"] = warning();
    let comparison = "/comparisons/0";
    let places =
        ["a", "b", "metrics/0/name", "metrics/1/name"].map(|place| format!("{comparison}/{place}"));
    let places = places
        .iter()
        .map(String::as_str)
        .chain(["/failure", "/warnings/0/message", "/warnings/0/hint"]);
    home.assert_file_is_safe(sides, &places.collect::<Vec<_>>(), NONE);
    let limits = ["/limits/0/subject", "/limits/0/path", "/limits/0/unit"];
    home.assert_file_is_safe(read("fuzz/corpus/verdict/limits.json"), &limits, NONE);
    // A file of any name can be judged by limits.
    let file = home.write("evil.json", text(with_evil_texts(report(), &["/subjects/2/id"])));
    let gate = ["gate", "--report", &file, "--subject", &evil_text(0), "--limit", "p50=1s"];
    assert_safe_output(
        &wide_command(&gate)
            .out(if cfg!(unix) { "evil1\u{1b}c\u{9b}2J\u{7}\u{202e}" } else { "" })
            .run()
            .exits(0),
        [0],
    );
}

/// Returns a subject that is late by 20 us, and a control.
fn script() -> Value {
    json!({"scripted": {"lateness_ns": [20_000, 21_000]}, "nanosleep": {"lateness_ns": [10_000]}})
}

#[cfg(unix)]
#[test]
fn baseline_and_program_verdicts_are_safe() {
    let home = Home::new();
    let (stored, out) = (home.path(&evil_text(0)), home.path("out"));
    let rounds = ["--period", "2ms", "--round-ticks", "12", "--warmup", "3", "--max-pairs", "24"];
    let add =
        [&["gate", "baseline", "add", &stored, "--subject", "scripted"], &rounds[..]].concat();
    assert_safe_output(&wide_command(&add).script(&script()).run().exits(0), [0]);
    let again = |file: &str, texts: &[usize]| {
        for format in ["table", "markdown"] {
            assert_safe_output(
                &wide_command(&["report", file, "--format", format]).run().exits(0),
                texts.iter().copied(),
            );
        }
    };
    let against = ["gate", "--baseline", &stored, "--max-pairs", "24", "--out", &out];
    assert_safe_output(&wide_command(&against).script(&script()).run().exits(0), [0]);
    again(&home.path("out/verdict.json"), &[0]);
    // An error message contains texts of the file.
    let mut foreign: Value =
        serde_json::from_str(&std::fs::read_to_string(&stored).unwrap()).unwrap();
    foreign["environment"]["kernel"] = evil_text(1).into();
    std::fs::write(&stored, text(foreign)).unwrap();
    assert_safe_output(&wide_command(&against).script(&script()).run().exits(2), [0, 1]);
    assert_safe_output(
        &wide_command(&against).args(["--force"]).script(&script()).run().exits(0),
        [0, 1],
    );
    again(&home.path("out/verdict.json"), &[0, 1]);

    let names = ["--base-name", &evil_text(2), "--candidate-name", &evil_text(3)];
    let runs = [
        "gate", "--base-cmd", "true", "--candidate-cmd", "true", "--metric", "wall",
        "--min-run-time", "0us",
    ];
    let wall = ["--tolerance", "wall=9000%", "--max-pairs", "24", "--force", "--out", &out];
    assert_safe_output(&wide_command(&[&runs[..], &wall, &names].concat()).run().exits(0), [2, 3]);
    again(&home.path("out/verdict.json"), &[2, 3]);
}

#[test]
fn comparison_output_is_safe() {
    let home = Home::new();
    let mut json = read("fuzz/corpus/comparison/paired.json");
    json["warnings"] = warning();
    json["b"]["file"] = "another-file".into();
    let subject = "/subjects/0";
    let places =
        ["/a/file", "/b/file", "/warnings/0/message", "/warnings/0/hint"].map(str::to_owned);
    let ids = ["a/id", "b/id"].map(|place| format!("{subject}/{place}"));
    let places: Vec<&str> = places.iter().chain(&ids).map(String::as_str).collect();
    home.assert_file_is_safe(json, &places, Some(&["/a/started_utc", "/warnings/0/code"]));
    // A comparison of reports also writes to stderr.
    let places = ["/subjects/0/id", "/host/kernel"];
    let a = home.write("evil.json", text(with_evil_texts(report(), &places)));
    let mut other = report();
    other["started_utc"] = "2026-11-22T08:44:54Z".into();
    let b = home.write("plain.json", text(other));
    let [from, to] = [format!("{a}#{}", evil_text(0)), format!("{b}#os-interval")];
    let refused = wide_command(&["compare", &from, &to]).run().exits(2);
    assert_safe_output(&refused, [1]);
    for format in ["table", "markdown"] {
        let forced =
            wide_command(&["compare", "--force", &from, &to, "--format", format]).run().exits(0);
        assert!(
            forced
                .stderr
                .contains(&format!("FORCED: not comparable: kernel: evil1{ESCAPED_CHARACTERS}")),
            "{}",
            forced.stderr
        );
        assert_safe_output(&forced, [0, 1]);
    }
}

#[test]
fn calibration_output_is_safe() {
    let home = Home::new();
    for (file, places) in [
        (
            "tests/fixtures/calibration.json",
            &["/subject", "/metrics/0/name", "/metrics/1/name"][..],
        ),
        ("fuzz/corpus/calibration/runs.json", &["/program", "/metrics/0/name", "/metrics/0/unit"]),
    ] {
        let mut json = read(file);
        json["warnings"] = warning();
        home.assert_file_is_safe(
            json,
            &[places, &["/failure", "/warnings/0/message", "/warnings/0/hint"]].concat(),
            None,
        );
    }
}

#[test]
fn bench_output_is_safe() {
    let home = Home::new();
    home.assert_file_is_safe(
        read("tests/fixtures/clock.json"),
        &["/costs/0/clock", "/clock/cross_thread_order"],
        NONE,
    );
    home.assert_file_is_safe(
        read("tests/fixtures/clock.json"),
        &["/order/0/clock", "/clock/why_not_counter"],
        NONE,
    );
    for (file, places) in [
        (
            "timeout",
            &[
                "/host/clock_source", "/host/versions/tokio", "/clocks/0/name", "/clocks/0/source",
                "/workloads/0/name", "/workloads/0/runtime", "/workloads/0/results/0/variant",
                "/workloads/0/results/0/clock",
            ][..],
        ),
        (
            "dispatch",
            &[
                "/tool/version",
                "/host/cpu_model",
                "/host/versions/tokio",
                "/clock/source",
                "/operations/0/name",
                "/operations/0/about",
                "/operations/0/results/0/runtime",
            ],
        ),
    ] {
        let mut json = read(&format!("fuzz/corpus/bench/{file}.json"));
        json["warnings"] = warning();
        let warnings = ["/warnings/0/message", "/warnings/0/hint"];
        home.assert_file_is_safe(json, &[places, &warnings].concat(), Some(&["/warnings/0/code"]));
    }
}

#[test]
fn search_and_checkup_output_is_safe() {
    let home = Home::new();
    let mut found = read("fuzz/corpus/find/find.json");
    found["warnings"] = warning();
    found["load"] = json!({"load": "a-load", "cpu_ns": 1, "active_ns": 1});
    let warnings = ["/warnings/0/code", "/warnings/0/message", "/warnings/0/hint"];
    let texts = ["/load/load", "/goals/0/name", "/tickers/0/subject"];
    home.assert_file_is_safe(found.clone(), &[&texts[..], &warnings].concat(), NONE);
    home.assert_file_is_safe(found, &["/tickers/0/failure"], NONE);

    let checkup = read("fuzz/corpus/checkup/doctor-quota.json");
    let proof = ["/proof/subjects/0/subject", "/proof/subjects/0/rows/0/setting"];
    let items = ["name", "value", "why", "change"].map(|key| format!("/items/0/{key}"));
    let items = items.each_ref().map(String::as_str);
    home.assert_file_is_safe(checkup.clone(), &[&proof[..], &items].concat(), NONE);
    let mut alone = checkup;
    alone["proof"] = Value::Null;
    alone["items"][0]["value"] = Value::Null;
    let tools = ["name", "obstacles/0", "adds", "command"].map(|key| format!("/tools/0/{key}"));
    let tools = tools.each_ref().map(String::as_str);
    home.assert_file_is_safe(alone, &[&tools[..], &["/items/0/not_readable"]].concat(), NONE);
}

#[cfg(unix)]
#[test]
fn history_output_is_safe() {
    let home = Home::new();
    let run = format!("results/{}", evil_text(1));
    std::fs::create_dir_all(home.path(&run)).unwrap();
    // The name is also in the column of the lowest p99.
    let mut json = read("tests/fixtures/report.json");
    for (subject, p99_ns) in [(0, 10_000), (1, 90_000)] {
        let summary = &mut json["subjects"][subject]["summary"];
        summary["missed"] = 0.into();
        let lateness = &mut summary["lateness_ns"];
        lateness["p99"] = p99_ns.into();
        lateness["ci95"]["p99"] = json!([p99_ns - 1_000, p99_ns + 1_000]);
    }
    let json = with_evil_texts(json, &["/subjects/0/name"]);
    home.write(&format!("{run}/report.json"), text(json));
    home.write("results/none.json", "[]");
    assert_safe_output(&wide_command(&["history", &home.path("results")]).run().exits(0), [0, 1]);
}

/// Less of another tool's file is shown. Its lines cannot contain carriage returns.
#[test]
fn imported_file_output_is_safe() {
    let home = Home::new();
    for (name, places) in [
        ("cyclictest.json", &["/rt_test_version:", "/sysinfo/release"][..]),
        ("oslat.json", &["/rt_test_version:", "/sysinfo/release"]),
        ("jitterdebugger.json", &["/sysinfo/release"]),
    ] {
        let mut json: Value = serde_json::from_str(&fixture_text(name)).unwrap();
        if let Some(Value::String(command)) = json.get_mut("cmdline:") {
            command.push_str(&evil_text(9));
        }
        home.assert_file_is_safe(json, &[], Some(places));
    }
    let line = |n| evil_text(n).trim_end().to_owned();
    for (name, from, to) in [
        ("python.hlog", "Tag=B,", format!("Tag={},", line(0))),
        ("hwlatdetect.txt", "CPU list:          None", format!("CPU list:          {}", line(0))),
        (
            "rtla-timerlat.txt",
            "# Duration:   0 00:00:12",
            format!("# Duration:   0 00:00:12 {}", line(0)),
        ),
    ] {
        let whole = fixture_text(name);
        let spoilt = whole.replacen(from, &to, 1);
        assert_ne!(spoilt, whole, "{name}");
        let file = home.write(name, spoilt);
        for format in ["table", "markdown"] {
            let ran = wide_command(&["report", &file, "--format", format]).run().exits(0);
            assert_safe_output(&ran, if name == "python.hlog" { vec![0] } else { Vec::new() });
        }
        if name != "python.hlog" {
            assert_safe_output(&wide_command(&["doctor", "--import", &file]).run().exits(0), []);
        }
    }
}

/// Cells of bins are cleaned when they are read.
#[test]
fn bins_output_is_safe() {
    let home = Home::new();
    let file = home.path("logs.bins.csv");
    let report = fixture("report.json");
    let made = [
        "report",
        report.to_str().unwrap(),
        "--format",
        "bins",
        "--host",
        &evil_text(5),
        "--label",
    ];
    assert_safe_output(
        &wide_command(&made)
            .args([format!("x={}", evil_text(6)), "--out".to_owned(), file.clone()])
            .run()
            .exits(0),
        [],
    );
    for name in ["logs.bins.csv", "logs.intervals.csv"] {
        let text = std::fs::read_to_string(home.path(name)).unwrap();
        home.write(name, text.replace(",os-interval,", &format!(",\"{}\",", evil_text(0))));
    }
    for format in ["table", "markdown"] {
        let ran = wide_command(&["report", &file, "--format", format]).run().exits(0);
        assert_safe_output(&ran, []);
        let [cleaned, escaped] = ["evil0_c_2J_\u{fffd}_", "evil0\\_c\\_2J\\_\u{fffd}\\_"];
        assert!(ran.stdout.contains(cleaned) || ran.stdout.contains(escaped), "{}", ran.stdout);
    }
}

/// The error output of programs is shown without a file.
#[cfg(unix)]
#[test]
fn program_error_output_is_safe() {
    let home = Home::new();
    let print_command = |text: &str| format!("printf '{}'", text.replace('\u{1b}', "\\033"));
    for (name, script) in [
        ("dies", format!("{} >&2; exit 7", print_command(&evil_text(0)))),
        ("garbage", format!("{} >\"$OSJITTER_OUT\"", print_command(&evil_text(0)))),
    ] {
        let shown = if name == "dies" { vec![0] } else { Vec::new() };
        let command = format!("sh {}", home.write(&format!("{name}-always"), script.clone()));
        let ran = wide_command(&["run", "--command", &command]).run().exits(2);
        assert_safe_output(&ran, shown.clone());
        // The run of a single tick, which comes before the others, follows the contract.
        let first = "osjitter.series/1 period_ns=500000\\n5\\n";
        let script = format!(
            "if [ \"$OSJITTER_TICKS\" = 1 ]; then printf '{first}' >\"$OSJITTER_OUT\"; exit 0; fi\n{script}"
        );
        let command = format!("sh {}", home.write(name, script));
        let out = home.path(&format!("out-{name}"));
        let run =
            ["run", "--command", &command, "--subject", "spin", "--ticks", "40", "--out", &out];
        let ran = wide_command(&run).run().exits(4);
        assert!(ran.stdout.contains("not measured: "), "{}", ran.stdout);
        assert_safe_output(&ran, shown.clone());
        let gate = [
            &["gate", "--base-cmd", &command, "--candidate-cmd", &command][..],
            &["--force", "--out", &out],
        ]
        .concat();
        for format in ["table", "markdown"] {
            let ran = wide_command(&gate).args(["--format", format]).run().exits(4);
            assert!(ran.stdout.contains("ended early"), "{}", ran.stdout);
            assert_safe_output(&ran, shown.clone());
        }
    }
}
