//! What a file or a program says cannot command the terminal that shows it, on whatever way it
//! comes there.

use std::path::Path;

use serde_json::{Value, json};

use crate::osjitter::{Osjitter, Ran};

/// What terminals obey: two ways to begin a sequence, a bell, a turn of the direction of writing.
const OBEYED: &str = "\u{1b}c\u{9b}2J\u{7}\u{202e}";
/// The same as it may be shown.
const SHOWN: &str = "\u{fffd}c\u{fffd}2J\u{fffd}\u{fffd}";

/// A text that is told from others of its kind. Its last character returns to the start of a line:
/// where lines are made anew that is a blank like others, and gone.
fn evil(n: usize) -> String {
    format!("evil{n}{OBEYED}\r")
}

fn root(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// As a file of ours is: its schema stands first.
fn text(mut json: Value) -> String {
    let schema = json.as_object_mut().and_then(|json| json.remove("schema"));
    let text = json.to_string();
    schema.map_or(text.clone(), |schema| format!("{{\"schema\":{schema},{}", &text[1..]))
}

fn read(file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(root(file)).unwrap()).unwrap()
}

/// Puts an evil text wherever the text at each of these places stands, or where nothing stands.
fn spoilt(mut json: Value, places: &[&str]) -> Value {
    fn put(json: &mut Value, old: &str, new: &str) {
        match json {
            Value::String(text) if text == old => *text = new.to_owned(),
            Value::Array(all) => all.iter_mut().for_each(|one| put(one, old, new)),
            Value::Object(all) => {
                all.iter_mut()
                    .filter(|(key, _)| *key != "bench")
                    .for_each(|(_, one)| put(one, old, new));
            }
            _ => {}
        }
    }
    for (n, place) in places.iter().enumerate() {
        match json.pointer(place).unwrap_or_else(|| panic!("nothing at {place}")).clone() {
            Value::String(old) => put(&mut json, &old, &evil(n)),
            Value::Null => *json.pointer_mut(place).unwrap() = evil(n).into(),
            other => panic!("{place} is {other}"),
        }
    }
    json
}

/// Shows these texts, by their numbers, and nothing that a terminal obeys.
#[track_caller]
fn shows(ran: &Ran, texts: impl IntoIterator<Item = usize>) {
    let obeyed = |c: char| {
        c != '\n'
            && (c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    assert!(!ran.stdout.contains(obeyed), "{:?}", ran.stdout);
    assert!(!ran.stderr.contains(obeyed), "{:?}", ran.stderr);
    for n in texts {
        let text = format!("evil{n}{SHOWN}");
        assert!(
            ran.stdout.contains(&text) || ran.stderr.contains(&text),
            "no {text} in: {}\n{}",
            ran.stdout,
            ran.stderr
        );
    }
}

/// No word is broken, so that it can be found.
fn wide(args: &[&str]) -> Osjitter {
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

    fn written(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The table of a file shows the texts at these places; Markdown, where there is that, those
    /// too that the table leaves out.
    fn tells(&self, json: Value, in_both: &[&str], in_markdown: Option<&[&str]>) {
        let places = [in_both, in_markdown.unwrap_or_default()].concat();
        let file = self.written("evil.json", text(spoilt(json, &places)));
        shows(&wide(&["report", &file]).run().exits(0), 0..in_both.len());
        if in_markdown.is_some() {
            shows(
                &wide(&["report", &file, "--format", "markdown"]).run().exits(0),
                0..places.len(),
            );
        }
    }
}

const NONE: Option<&[&str]> = Some(&[]);

fn warning() -> Value {
    json!([{"code": "a-code", "message": "a-message", "hint": "a-hint"}])
}

/// A report with all that may be in one.
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

const IN_A_REPORT: [&str; 9] = [
    "/subjects/0/name",
    "/subjects/0/runtime",
    "/subjects/0/load",
    "/subjects/1/status/reason",
    "/plan/scenarios/0/command/0",
    "/plan/scenarios/0/command/1",
    "/warnings/0/code",
    "/warnings/0/message",
    "/warnings/0/hint",
];
const OF_ITS_ORIGIN: [&str; 5] =
    ["/started_utc", "/host/cpu_model", "/host/kernel", "/tool/name", "/tool/version"];

#[test]
fn a_report_commands_no_terminal() {
    let home = Home::new();
    home.tells(report(), &IN_A_REPORT, Some(&OF_ITS_ORIGIN));
    let places = [&IN_A_REPORT[..], &OF_ITS_ORIGIN[..3]].concat();
    let file = home.written("evil.json", text(spoilt(report(), &places)));
    // Several stand below their origins.
    shows(&wide(&["report", &file, &file]).run().exits(0), 0..places.len());
    shows(&wide(&["report", &file, "--histogram", "--quiet"]).run().exits(0), [0]);

    let mut why = read("fuzz/corpus/report/why.json");
    let of = &mut why["subjects"][0]["why"];
    (of["tier"], of["missing"]["tier"]) = ("b1".into(), "b2".into());
    of["behind"] = json!([{"comm": "a-thread", "ns": 700_000_000}]);
    of["longest"][0]["behind"] = json!([{"comm": "another", "ns": 12_000_000}]);
    let places = [("missing/reason"), ("behind/0/comm"), ("longest/0/behind/0/comm")];
    let places = places.map(|place| format!("/subjects/0/why/{place}"));
    home.tells(why.clone(), &places.each_ref().map(String::as_str), NONE);
    // Of a trace they are the names of threads.
    why["trace"] = json!({
        "command": ["a-program"], "process": 7, "thread": "a-thread", "window_ns": 9, "cpu_ns": 1, "apart": false, "records": 1,
        "bytes": 1, "lost": 0, "unrecorded": 0, "undated": 0, "unseen": 0, "dropped": 0,
    });
    home.tells(why, &["/subjects/0/name", "/trace/thread"], NONE);
}

#[test]
fn a_verdict_commands_no_terminal() {
    let home = Home::new();
    let mut sides = read("tests/fixtures/verdict.json");
    sides["warnings"] = warning();
    let of = "/comparisons/0";
    let places =
        ["a", "b", "metrics/0/name", "metrics/1/name"].map(|place| format!("{of}/{place}"));
    let places = places.iter().map(String::as_str).chain([
        "/failure",
        "/warnings/0/message",
        "/warnings/0/hint",
    ]);
    home.tells(sides, &places.collect::<Vec<_>>(), NONE);
    let limits = ["/limits/0/subject", "/limits/0/path", "/limits/0/unit"];
    home.tells(read("fuzz/corpus/verdict/limits.json"), &limits, NONE);
    // A report is judged by its limits, and a file may be called anything.
    let file = home.written("evil.json", text(spoilt(report(), &["/subjects/2/id"])));
    let gate = ["gate", "--report", &file, "--subject", &evil(0), "--max", "p50=1s"];
    shows(
        &wide(&gate)
            .out(if cfg!(unix) { "evil1\u{1b}c\u{9b}2J\u{7}\u{202e}" } else { "" })
            .run()
            .exits(0),
        [0],
    );
}

/// A subject that is late by 20 us, beside a control.
fn script() -> Value {
    json!({"scripted": {"lateness_ns": [20_000, 21_000]}, "nanosleep": {"lateness_ns": [10_000]}})
}

#[cfg(unix)]
#[test]
fn nor_does_one_of_stored_sessions_or_of_whole_runs() {
    let home = Home::new();
    let (stored, out) = (home.path(&evil(0)), home.path("out"));
    let rounds = ["--period", "2ms", "--round-ticks", "12", "--warmup", "3", "--max-pairs", "24"];
    let add =
        [&["gate", "baseline", "add", &stored, "--subject", "scripted"], &rounds[..]].concat();
    shows(&wide(&add).script(&script()).run().exits(0), [0]);
    let again = |file: &str, texts: &[usize]| {
        for format in ["table", "markdown"] {
            shows(
                &wide(&["report", file, "--format", format]).run().exits(0),
                texts.iter().copied(),
            );
        }
    };
    let against = ["gate", "--baseline", &stored, "--max-pairs", "24", "--out", &out];
    shows(&wide(&against).script(&script()).run().exits(0), [0]);
    again(&home.path("out/verdict.json"), &[0]);
    // What is wrong with one is said with what is in it.
    let mut foreign: Value =
        serde_json::from_str(&std::fs::read_to_string(&stored).unwrap()).unwrap();
    foreign["environment"]["kernel"] = evil(1).into();
    std::fs::write(&stored, text(foreign)).unwrap();
    shows(&wide(&against).script(&script()).run().exits(2), [0, 1]);
    shows(&wide(&against).args(["--force"]).script(&script()).run().exits(0), [0, 1]);
    again(&home.path("out/verdict.json"), &[0, 1]);

    let names = ["--baseline-name", &evil(2), "--candidate-name", &evil(3)];
    let runs = [
        "gate",
        "--baseline-cmd",
        "true",
        "--candidate-cmd",
        "true",
        "--metric",
        "wall",
        "--min-run-time",
        "0us",
    ];
    let wall = ["--tolerance", "wall=9000%", "--max-pairs", "24", "--out", &out];
    shows(&wide(&[&runs[..], &wall, &names].concat()).run().exits(0), [2, 3]);
    again(&home.path("out/verdict.json"), &[2, 3]);
}

#[test]
fn a_comparison_commands_no_terminal() {
    let home = Home::new();
    let mut json = read("fuzz/corpus/comparison/paired.json");
    json["warnings"] = warning();
    json["b"]["file"] = "another-file".into();
    let of = "/subjects/0";
    let places =
        ["/a/file", "/b/file", "/warnings/0/message", "/warnings/0/hint"].map(str::to_owned);
    let ids = ["a/id", "b/id"].map(|place| format!("{of}/{place}"));
    let places: Vec<&str> = places.iter().chain(&ids).map(String::as_str).collect();
    home.tells(json, &places, Some(&["/a/started_utc", "/warnings/0/code"]));
    // Made of reports, and said on stderr, too.
    let places = ["/subjects/0/id", "/host/kernel"];
    let a = home.written("evil.json", text(spoilt(report(), &places)));
    let mut other = report();
    other["started_utc"] = "2026-11-22T08:44:54Z".into();
    let b = home.written("plain.json", text(other));
    let [from, to] = [format!("{a}#{}", evil(0)), format!("{b}#os-interval")];
    let refused = wide(&["compare", &from, &to]).run().exits(2);
    shows(&refused, [1]);
    for format in ["table", "markdown"] {
        let forced = wide(&["compare", "--force", &from, &to, "--format", format]).run().exits(0);
        assert!(
            forced.stderr.contains(&format!("FORCED: not comparable: kernel: evil1{SHOWN}")),
            "{}",
            forced.stderr
        );
        shows(&forced, [0, 1]);
    }
}

#[test]
fn a_calibration_commands_no_terminal() {
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
        home.tells(
            json,
            &[places, &["/failure", "/warnings/0/message", "/warnings/0/hint"]].concat(),
            None,
        );
    }
}

#[test]
fn a_bench_commands_no_terminal() {
    let home = Home::new();
    home.tells(
        read("tests/fixtures/clock.json"),
        &["/costs/0/clock", "/clock/cross_thread_order"],
        NONE,
    );
    home.tells(
        read("tests/fixtures/clock.json"),
        &["/order/0/clock", "/clock/why_not_counter"],
        NONE,
    );
    for (file, places) in [
        (
            "timeout",
            &[
                "/host/clock_source",
                "/host/versions/tokio",
                "/clocks/0/name",
                "/clocks/0/source",
                "/workloads/0/name",
                "/workloads/0/runtime",
                "/workloads/0/results/0/variant",
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
        home.tells(json, &[places, &warnings].concat(), Some(&["/warnings/0/code"]));
    }
}

#[test]
fn what_was_found_and_a_checkup_command_no_terminal() {
    let home = Home::new();
    let mut found = read("fuzz/corpus/find/find.json");
    found["warnings"] = warning();
    found["load"] = json!({"load": "a-load", "cpu_ns": 1, "active_ns": 1});
    let warnings = ["/warnings/0/code", "/warnings/0/message", "/warnings/0/hint"];
    let of = ["/load/load", "/goals/0/name", "/tickers/0/subject"];
    home.tells(found.clone(), &[&of[..], &warnings].concat(), NONE);
    home.tells(found, &["/tickers/0/failure"], NONE);

    let checkup = read("fuzz/corpus/checkup/doctor-quota.json");
    let proof = ["/proof/subjects/0/subject", "/proof/subjects/0/rows/0/setting"];
    let of = ["name", "value", "why", "change"].map(|key| format!("/items/0/{key}"));
    let items = of.each_ref().map(String::as_str);
    home.tells(checkup.clone(), &[&proof[..], &items].concat(), NONE);
    let mut alone = checkup;
    alone["proof"] = Value::Null;
    alone["items"][0]["value"] = Value::Null;
    let of = ["name", "obstacles/0", "adds", "command"].map(|key| format!("/tools/0/{key}"));
    let tools = of.each_ref().map(String::as_str);
    home.tells(alone, &[&tools[..], &["/items/0/not_readable"]].concat(), NONE);
}

#[cfg(unix)]
#[test]
fn a_list_of_runs_commands_no_terminal() {
    let home = Home::new();
    let run = format!("results/{}", evil(1));
    std::fs::create_dir_all(home.path(&run)).unwrap();
    home.written(&format!("{run}/report.json"), text(spoilt(report(), &["/subjects/0/name"])));
    home.written("results/none.json", "[]");
    shows(&wide(&["history", &home.path("results")]).run().exits(0), [0, 1]);
}

/// Of another tool's file less is shown, and none of it is obeyed; a line of text has no return in
/// it.
#[test]
fn a_file_of_another_tool_commands_no_terminal() {
    let home = Home::new();
    let fixture = |name: &str| std::fs::read_to_string(root("tests/fixtures").join(name)).unwrap();
    for (name, places) in [
        ("cyclictest.json", &["/rt_test_version:", "/sysinfo/release"][..]),
        ("oslat.json", &["/rt_test_version:", "/sysinfo/release"]),
        ("jitterdebugger.json", &["/sysinfo/release"]),
    ] {
        let mut json: Value = serde_json::from_str(&fixture(name)).unwrap();
        if let Some(Value::String(command)) = json.get_mut("cmdline:") {
            command.push_str(&evil(9));
        }
        home.tells(json, &[], Some(places));
    }
    let line = |n| evil(n).trim_end().to_owned();
    for (name, from, to) in [
        ("python.hlog", "Tag=B,", format!("Tag={},", line(0))),
        ("hwlatdetect.txt", "CPU list:          None", format!("CPU list:          {}", line(0))),
        (
            "rtla-timerlat.txt",
            "# Duration:   0 00:00:12",
            format!("# Duration:   0 00:00:12 {}", line(0)),
        ),
    ] {
        let whole = fixture(name);
        let spoilt = whole.replacen(from, &to, 1);
        assert_ne!(spoilt, whole, "{name}");
        let file = home.written(name, spoilt);
        for format in ["table", "markdown"] {
            let ran = wide(&["report", &file, "--format", format]).run().exits(0);
            shows(&ran, if name == "python.hlog" { vec![0] } else { Vec::new() });
        }
        if name != "python.hlog" {
            shows(&wide(&["doctor", "--import", &file]).run().exits(0), []);
        }
    }
}

/// A cell of bins is cleaned when it is read.
#[test]
fn bins_command_no_terminal() {
    let home = Home::new();
    let file = home.path("logs.bins.csv");
    let fixture = root("tests/fixtures/report.json");
    let made =
        ["report", fixture.to_str().unwrap(), "--format", "bins", "--host", &evil(5), "--label"];
    shows(
        &wide(&made)
            .args([format!("x={}", evil(6)), "--out".to_owned(), file.clone()])
            .run()
            .exits(0),
        [],
    );
    for name in ["logs.bins.csv", "logs.intervals.csv"] {
        let text = std::fs::read_to_string(home.path(name)).unwrap();
        home.written(name, text.replace(",os-interval,", &format!(",\"{}\",", evil(0))));
    }
    for format in ["table", "markdown"] {
        let ran = wide(&["report", &file, "--format", format]).run().exits(0);
        shows(&ran, []);
        let [cleaned, escaped] = ["evil0_c_2J_\u{fffd}_", "evil0\\_c\\_2J\\_\u{fffd}\\_"];
        assert!(ran.stdout.contains(cleaned) || ran.stdout.contains(escaped), "{}", ran.stdout);
    }
}

/// What programs say comes without a file.
#[cfg(unix)]
#[test]
fn a_program_commands_no_terminal() {
    let home = Home::new();
    let says = |text: &str| format!("printf '{}'", text.replace('\u{1b}', "\\033"));
    for (name, script) in [
        ("dies", format!("{} >&2; exit 7", says(&evil(0)))),
        ("garbage", format!("{} >\"$OSJITTER_OUT\"", says(&evil(0)))),
    ] {
        let command = format!("sh {}", home.written(name, script));
        let out = home.path(&format!("out-{name}"));
        let run =
            ["run", "--command", &command, "--subject", "spin", "--ticks", "20", "--out", &out];
        let ran = wide(&run).run().exits(4);
        assert!(ran.stdout.contains("not measured: "), "{}", ran.stdout);
        shows(&ran, if name == "dies" { vec![0] } else { Vec::new() });
        let gate = ["gate", "--baseline-cmd", &command, "--candidate-cmd", &command, "--out", &out];
        for format in ["table", "markdown"] {
            let ran = wide(&gate).args(["--format", format]).run().exits(4);
            assert!(ran.stdout.contains("could not go on"), "{}", ran.stdout);
            shows(&ran, if name == "dies" { vec![0] } else { Vec::new() });
        }
    }
}
