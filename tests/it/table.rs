//! Tests the terminal table and histogram at every width, for every subject and the largest
//! possible numbers.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::fixtures::{fixture, recorded_json};
use crate::osjitter::Osjitter;

/// An hour in nanoseconds: the longest period, and the largest lateness of a tick that is not
/// missed.
const HOUR_NS: i64 = 3_600_000_000_000;

fn report_at(file: &Path, columns: &str) -> String {
    Osjitter::new([Path::new("report"), file]).env("COLUMNS", columns).run().exits(0).stdout
}

fn report_text(file: &Path) -> String {
    Osjitter::new([Path::new("report"), file]).run().exits(0).stdout
}

fn names() -> Vec<String> {
    let listed: Vec<Value> =
        serde_json::from_str(&Osjitter::new(["list", "--format", "json"]).run().exits(0).stdout)
            .unwrap();
    listed.iter().map(|s| s["name"].as_str().unwrap().to_owned()).collect()
}

/// Writes a real report whose subjects are replaced by one of each name with these numbers.
fn report(
    home: &Path,
    ids: impl Fn(&str) -> (String, u64, Option<&'static str>),
    numbers: &[(&str, Value)],
) -> PathBuf {
    let run = Osjitter::new(["run", "--quiet", "--subject", "spin", "--ticks", "30"])
        .out("")
        .run()
        .exits(0);
    let mut report = run.json("report.json");
    // The state of the machine is not in the table.
    report["fitness"] = Value::Null;
    let mut template = report["subjects"][0].clone();
    template["rounds"] = json!([]);
    template["histogram"] = Value::Null;
    template["summary"]["lateness_ns"]["ci95"] = json!({});
    for (name, value) in numbers {
        let summary = &mut template["summary"];
        let is_lateness = summary["lateness_ns"].get(name).is_some();
        let target =
            if is_lateness { &mut summary["lateness_ns"][*name] } else { &mut summary[*name] };
        *target = value.clone();
    }
    let subjects = names().into_iter().map(|name| {
        let (id, instances, runtime) = ids(&name);
        let mut subject = template.clone();
        subject["id"] = id.into();
        subject["name"] = name.into();
        subject["instances"] = instances.into();
        subject["runtime"] = runtime.into();
        subject
    });
    report["subjects"] = subjects.collect();
    let file = home.join("report.json");
    std::fs::write(&file, report.to_string()).unwrap();
    file
}

fn widest(text: &str) -> usize {
    text.lines().map(|l| l.chars().count()).max().unwrap_or(0)
}

/// Returns the table with its title and notes, without the summary in words.
fn figures(text: &str) -> &str {
    let is_table = |part: &&str| part.starts_with("Lateness and");
    text.split("\n\n").find(is_table).expect("a table")
}

#[test]
fn usual_numbers_fit_80_columns() {
    let home = tempfile::tempdir().unwrap();
    let numbers = [
        ("min", json!(50)),
        ("mean", json!(1_250_000)),
        ("p50", json!(1_250_000)),
        ("p90", json!(2_250_000)),
        ("p99", json!(12_250_000)),
        ("p99_9", json!(112_250_000)),
        ("p99_99", json!(212_250_000)),
        ("max", json!(312_250_000)),
        ("ticks", json!(30_000)),
        ("delivered", json!(30_000)),
        ("missed", json!(10_000)),
        ("cpu_ns_per_tick", json!(512_345.6)),
    ];
    let file = report(
        home.path(),
        |name| (format!("{name}@500us/current-thread"), 1, Some("current-thread")),
        &numbers,
    );
    let text = report_text(&file);
    assert!(widest(&text) <= 80, "{text}");
    for name in names() {
        let line = figures(&text)
            .lines()
            .find(|l| l.split_whitespace().next() == Some(&name))
            .expect("a line of its own");
        let figures = line.split_once(' ').unwrap().1.replace('*', "");
        let figures: Vec<&str> =
            figures.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(figures, ["1.25 ms", "12.3 ms", "112 ms", "312 ms", "33.3 %", "512 us"]);
    }
    // A wider terminal shows more percentiles.
    assert!(report_at(&file, "100").contains("2.25 ms") && !text.contains("2.25 ms"));
    // A narrower one names the columns that it leaves out.
    let narrow = report_at(&file, "60");
    let table = figures(&narrow);
    assert!(widest(table) <= 60, "{narrow}");
    let others = "a title, a heading and the columns";
    assert_eq!(table.lines().count(), names().len() + 3, "{others}: {narrow}");
    assert!(table.contains("left out to fit the width: p90; p99.9; max"), "{narrow}");
    assert!(
        text.contains(
            "left out to fit the width: p90
"
        ),
        "{text}"
    );
}

/// Writes a report whose percentiles are unreliable from one of them up.
fn write_distrusted(file: &Path, from: &str) {
    let mut report = recorded_json();
    report["fitness"] = json!({
        "verdict": "noisy", "distrust_from": from, "reasons": [],
        "facts": { "spin_core": 0.9, "spin_gaps": null, "spin_longest_gap_ns": null, "waited": null,
            "preempted_per_s": null, "stolen": null, "throttled": null, "suspended_ns": null,
            "uneven_rounds": null },
    });
    std::fs::write(file, report.to_string()).unwrap();
}

#[test]
fn distrusted_percentiles_are_marked() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("report.json");
    for (from, marked) in [("p99", 3), ("p50", 5)] {
        write_distrusted(&file, from);
        let show = |format: &str| {
            let args = [Path::new("report"), &file, Path::new("--format"), Path::new(format)];
            Osjitter::new(args).without_width().run().exits(0).stdout
        };
        let table = show("table");
        let heading = table.lines().find(|line| line.starts_with("subject")).unwrap();
        assert_eq!(heading.matches('?').count(), marked, "{table}");
        assert!(table.contains(&format!("? unreliable: from {from} up")), "{table}");
        let markdown = show("markdown");
        let heading = markdown.lines().find(|line| line.starts_with("| subject")).unwrap();
        assert_eq!(heading.matches('?').count(), marked, "{markdown}");
        // The page has a column for p99.99 as well.
        let html = show("html");
        let heading = html.lines().find(|line| line.starts_with("<thead>")).unwrap();
        let marked_headings = heading.matches("distrusted\"").count();
        assert_eq!(marked_headings, marked + 1, "{from}");
        // The subjects share a histogram, in which each has its own zone.
        assert!(html.contains("Pale: unreliable"), "{from}");
        // Without a trusted percentile there is no ranking.
        for text in [&table, &markdown, &html] {
            assert_eq!(text.contains("Not ranked"), from == "p50", "{from}: {text}");
        }
        assert!(!(from == "p50" && table.contains('*')), "{table}");
        // The mean and the counts of missed ticks rest on the same percentiles.
        let numbers = show_columns(&file, "mean,missed");
        let heading = numbers.lines().find(|line| line.starts_with("subject")).unwrap();
        assert!(heading.contains("mean?"), "{numbers}");
        let missed = |name: &str| {
            let mut rows = numbers.lines().skip_while(|line| !line.starts_with("subject"));
            let row = rows.find(|line| line.starts_with(name)).unwrap();
            row.ends_with('?')
        };
        // The other subject missed every second tick.
        assert!(missed("os-interval") && missed("tokio") == (from == "p50"), "{numbers}");
        let csv = show("csv");
        let drift = csv.lines().filter(|line| line.contains("drift_ppb elapsed_ns")).count();
        assert_eq!(drift, 3, "{csv}");
    }
}

fn show_columns(file: &Path, columns: &str) -> String {
    let args = [Path::new("report"), file, Path::new("--columns"), Path::new(columns)];
    Osjitter::new(args).without_width().run().exits(0).stdout
}

#[test]
fn trusted_columns_stay_in_narrow_terminals() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("report.json");
    write_distrusted(&file, "p99");
    for (columns, dropped) in [("76", "max?"), ("66", "p99.9?; max?"), ("58", "p99?; p99.9?; max?")]
    {
        let text = report_at(&file, columns);
        let table = figures(&text).to_owned();
        let heading = table.lines().find(|line| line.trim_start().starts_with("subject")).unwrap();
        assert!(heading.contains("p50") && heading.contains("p90"), "{columns}: {table}");
        let note = format!("left out to fit the width: {dropped}");
        assert!(table.lines().any(|line| line.ends_with(&note)), "{columns}: {table}");
    }
}

#[test]
fn options_select_columns_and_order() {
    let file = fixture("report.json");
    let table = |args: &[&str]| {
        let args = [Path::new("report"), &file, Path::new("--quiet")]
            .into_iter()
            .chain(args.iter().map(Path::new));
        Osjitter::new(args).run().exits(0).stdout
    };
    let plain = table(&[]);
    assert!(!plain.contains("\n\n"), "the table alone: {plain}");
    let few = table(&["--percentiles", "p90,p50", "--columns", "ticks,percentiles,core"]);
    let heading: Vec<&str> =
        few.lines().nth(1).unwrap().split("  ").map(str::trim).filter(|h| !h.is_empty()).collect();
    assert_eq!(heading, ["subject", "ticks", "p90", "p50", "of a core"]);
    assert!(
        table(&["--percentiles", "p50", "--columns", "max"])
            .lines()
            .nth(1)
            .unwrap()
            .contains("p50")
    );
    let first = |args: &[&str]| {
        table(args).lines().nth(2).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(first(&["--sort", "name"]), "nanosleep");
    assert_eq!(first(&["--sort", "missed"]), "os-interval");
    assert_eq!(
        [first(&["--sort", "lateness"]), first(&["--sort", "cpu"])],
        ["os-interval", "nanosleep"]
    );
    let wide =
        Osjitter::new([Path::new("report"), &file]).env("COLUMNS", "200").run().exits(0).stdout;
    assert!(wide.contains("[95 % interval]"), "{wide}");
    Osjitter::new([Path::new("report"), &file])
        .args(["--percentiles", "p95"])
        .run()
        .refuses("p50, p90, p99");
}

#[test]
fn every_width_shows_all_figures() {
    let home = tempfile::tempdir().unwrap();
    let numbers = [
        ("min", json!(1)),
        ("mean", json!(1)),
        ("p50", json!(1)),
        ("p90", json!(HOUR_NS - 2)),
        ("p99", json!(HOUR_NS - 1)),
        ("p99_9", json!(HOUR_NS)),
        ("p99_99", json!(HOUR_NS)),
        ("max", json!(HOUR_NS + 1)),
        ("ticks", json!(1_000_000)),
        ("delivered", json!(1_000_000)),
        ("missed", json!(999_999)),
        ("cpu_ns_per_tick", json!(3_600_000_000_000.0_f64)),
    ];
    let runtime = |name: &str| {
        // No two subjects share a runtime that the title could name.
        let runtime =
            if name.len().is_multiple_of(2) { "multi-thread:1024" } else { "current-thread" };
        (format!("{name}*1000@500us/{runtime}"), 1_000, Some(runtime))
    };
    let file = report(home.path(), runtime, &numbers);
    let figures_shown = [("1 ns", 1), ("3600 s", 4), (">99.99 %", 1)];
    for columns in [200, 80, 60, 40, 24] {
        let text = report_at(&file, &columns.to_string());
        let table = figures(&text);
        assert!(widest(table) <= columns, "{columns}:\n{table}");
        for (figure, times) in figures_shown {
            // p90 is shown if it fits.
            let more = usize::from(figure == "3600 s" && table.contains("p90"));
            let found = table.matches(&format!(" {figure}")).count();
            assert_eq!(found, names().len() * (times + more), "{columns}: {figure} in\n{table}");
        }
        let compact: String = table.split_whitespace().collect();
        for name in names() {
            assert!(compact.contains(&name), "{columns}: {name}");
        }
        if columns >= 60 {
            assert!(widest(&text) <= columns, "{columns}:\n{text}");
        }
    }
    let pipe = Osjitter::new([Path::new("report"), &file]).without_width().run().exits(0).stdout;
    assert!(widest(figures(&pipe)) > 80 && !pipe.contains("left out"), "{pipe}");
    for no_width in ["0", "wide", ""] {
        assert_eq!(report_at(&file, no_width), pipe, "{no_width:?}");
    }
}

#[test]
fn histogram_counts_every_tick() {
    let args = [
        "run", "--quiet", "--histogram", "--subject", "os-interval", "--subject", "nanosleep",
        "--ticks", "300",
    ];
    let run = Osjitter::new(args).env("COLUMNS", "72").out("").run().exits(0);
    let again = Osjitter::new([Path::new("report"), run.directory()])
        .args(["--histogram", "--quiet"])
        .env("COLUMNS", "72");
    let again = again.run().exits(0).stdout;
    assert_eq!(run.stdout, again, "the report holds all of it");
    assert!(!again.contains(" % of one core"), "quiet is the table, and what was asked for");
    assert!(widest(&again) <= 72, "{again}");
    let report = run.json("report.json");
    for subject in report["subjects"].as_array().unwrap() {
        let heading = format!("{}: 300 ticks", subject["name"].as_str().unwrap());
        let part = again.split(&heading).nth(1).expect("its part").split("\n\n").next().unwrap();
        let (percentiles, histogram) = part.split_once("from").expect("two pictures");
        let bars: Vec<usize> =
            percentiles.lines().map(|l| l.matches('\u{2588}').count()).filter(|&n| n > 0).collect();
        assert_eq!(bars.len(), 4, "min, p50, p90 and max; 300 ticks carry no p99: {part}");
        assert!(bars.is_sorted(), "{part}");
        // The count is the last number of a line, after a time and its unit.
        let counts: Vec<(u64, usize)> = histogram
            .lines()
            .skip(1)
            .map(|l| {
                let words: Vec<&str> = l.trim_end_matches('\u{2588}').split_whitespace().collect();
                (words.last().unwrap().parse().unwrap(), l.matches('\u{2588}').count())
            })
            .collect();
        assert_eq!(counts.iter().map(|c| c.0).sum::<u64>(), 300, "{part}");
        assert!(
            counts.iter().all(|&(n, cells)| (n == 0) == (cells == 0)),
            "a single tick is seen: {part}"
        );
    }
}
