//! Tests bins: written from a report, read, merged over hosts and shown; and invalid files.

use std::path::{Path, PathBuf};

use files::file::File as _;
use files::report::{Report, Status};
use serde_json::Value;

use crate::fixtures::{fixture, recorded_json, recorded_report};
use crate::osjitter::{Osjitter, Ran, names_in};

/// Writes the fixture as bins of a host, in a new directory.
fn write_bins(host: &str, out: &str) -> Ran {
    let bins = Osjitter::new([Path::new("report"), &fixture("report.json")])
        .args(["--format", "bins", "--host", host]);
    bins.args(["--label", "rack=r7", "--label", "zone=a"]).out(out).run().exits(0)
}

fn report(paths: &[&Path], more: &[&str]) -> Ran {
    Osjitter::new(["report"]).args(paths).args(more).run()
}

fn as_json(paths: &[&Path]) -> Value {
    serde_json::from_str(&report(paths, &["--format", "json"]).exits(0).stdout).unwrap()
}

fn assert_rejected(paths: &[&Path], says: &[&str]) {
    for command in ["report", "merge"] {
        let mut ran = Osjitter::new([command]).args(paths).run();
        for word in says {
            ran = ran.refuses(word);
        }
        assert_eq!(ran.stderr.lines().count(), 1, "one sentence: {}", ran.stderr);
    }
}

#[test]
fn merged_bins_keep_counts_and_percentiles() {
    let expected = recorded_json();
    // Hosts in different formats, a third in a subdirectory.
    let (one, other, third) = (
        write_bins("a", "one.bins.csv"),
        write_bins("b", "b.bins.csv.gz"),
        write_bins("c", "c.bins.csv"),
    );
    let below = one.path("2026-11-22");
    std::fs::create_dir(&below).unwrap();
    for name in ["b.bins.csv.gz", "b.intervals.csv.gz"] {
        std::fs::rename(other.path(name), one.path(name)).unwrap();
    }
    for name in ["c.bins.csv", "c.intervals.csv"] {
        std::fs::rename(third.path(name), below.join(name)).unwrap();
    }
    // Files with other names are ignored.
    std::fs::write(one.path("notes.csv"), "a,b\n").unwrap();
    std::fs::write(one.path(".tmp"), "half").unwrap();
    let merged =
        Osjitter::new([Path::new("merge"), one.directory()]).out("all.bins.csv").run().exits(0);
    let merged_report = as_json(&[&merged.path("all.bins.csv")]);
    let directory_report = as_json(&[one.directory()]);
    assert_eq!(merged_report["subjects"], directory_report["subjects"]);
    assert_eq!(merged_report["started_utc"], "2026-11-21T08:44:54.000000Z");
    for subject in merged_report["subjects"].as_array().unwrap() {
        let same = |s: &&Value| s["id"] == subject["id"];
        let exact =
            expected["subjects"].as_array().unwrap().iter().find(same).expect("the same names");
        let (summary, exact) = (&subject["summary"], &exact["summary"]);
        for count in ["ticks", "delivered", "coalesced", "skipped", "missed", "early"] {
            assert_eq!(
                summary[count].as_u64().unwrap(),
                3 * exact[count].as_u64().unwrap(),
                "{count}"
            );
        }
        assert_eq!(summary["lateness_ns"]["max"], exact["lateness_ns"]["max"]);
        for percentile in ["p50", "p90", "p99"] {
            let [found, exact] =
                [summary, exact].map(|s| s["lateness_ns"][percentile].as_f64().unwrap());
            assert!(exact <= found, "{percentile}: {exact} as {found}");
            assert!(found <= exact * (1.0 + 1.0 / 128.0), "{percentile}: {exact} as {found}");
        }
    }
    let text = merged.file("all.bins.csv");
    assert!(
        text.lines().skip(1).all(|line| line.starts_with(',') && line.contains(",rack=r7;zone=a,")),
        "{text}"
    );
    let table = report(&[one.directory()], &[]).exits(0).stdout.replace('\n', " ");
    assert!(table.contains("9 intervals of 3 hosts"), "{table}");
    assert!(table.contains("at most 0.78 % above"), "{table}");
}

#[test]
fn outlier_host_is_named() {
    let (one, other) = (write_bins("a", "a.bins.csv"), write_bins("b", "b.bins.csv"));
    let third = write_bins("c", "c.bins.csv");
    // Each value of the third host is doubled by doubling its bins.
    let text = third.file("c.bins.csv");
    let doubled = text.lines().map(|line| {
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        if let Ok(lower) = cells[10].parse::<i64>() {
            let upper = cells[11].parse::<i64>().unwrap();
            (cells[10], cells[11]) = ((lower * 2).to_string(), (upper * 2 + 1).to_string());
        }
        cells.join(",") + "\n"
    });
    std::fs::write(third.path("c.bins.csv"), doubled.collect::<String>()).unwrap();
    let files = [one.path("a.bins.csv"), other.path("b.bins.csv"), third.path("c.bins.csv")];
    let ran = Osjitter::new(["merge"]).args(&files).run().exits(0);
    let named: Vec<&str> =
        ran.stderr.lines().filter(|line| line.contains("outlier: c: ")).collect();
    assert_eq!((named.len(), ran.stderr.lines().count()), (3, 3), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("host,subject,period_ns,"));
}

#[test]
fn incomplete_pairs_are_reported() {
    let pair = write_bins("a", "a.bins.csv");
    let words = |paths: &[&Path]| report(paths, &[]).exits(0).stdout.replace('\n', " ");
    assert!(!words(&[pair.directory()]).contains("without a row"));
    let intervals = std::fs::read(pair.path("a.intervals.csv")).unwrap();
    std::fs::remove_file(pair.path("a.intervals.csv")).unwrap();
    let alone = words(&[&pair.path("a.bins.csv")]);
    assert!(alone.contains("3 intervals without a row"), "{alone}");
    assert!(alone.contains("skipped ticks are not known"), "{alone}");
    // The other half: the intervals have ticks, but there are no bins.
    std::fs::write(pair.path("a.intervals.csv"), intervals).unwrap();
    std::fs::remove_file(pair.path("a.bins.csv")).unwrap();
    assert_rejected(&[&pair.path("a.intervals.csv")], &["nothing to show", ".intervals"]);
    let other = write_bins("b", "b.bins.csv");
    let both = words(&[pair.directory(), other.directory()]);
    assert!(both.contains("3 intervals of 1 host"), "{both}");
    assert!(both.contains("3 intervals left out"), "{both}");
}

#[test]
fn sums_state_missing_bins() {
    let (cut, whole) = (write_bins("a", "a.bins.csv"), write_bins("b", "b.bins.csv"));
    std::fs::remove_file(cut.path("a.bins.csv")).unwrap();
    let merge = |inputs: &[&Path], more: &[&str]| Osjitter::new(["merge"]).args(inputs).args(more);
    let directories = [cut.directory(), whole.directory()];
    let merged = merge(&directories, &[]).out("sum.bins.csv").run().exits(0);
    assert!(merged.stderr.contains("3 intervals left out"), "{}", merged.stderr);
    // The sum of a sum states it as well.
    let sum = merged.path("sum.bins.csv");
    let again = merge(&[&sum], &[]).out("again.bins.csv").run().exits(0);
    let expected = as_json(&[whole.directory()]);
    for file in [sum, again.path("again.bins.csv")] {
        let read = as_json(&[&file]);
        assert_eq!(read["subjects"], expected["subjects"]);
        assert!(read["warnings"].to_string().contains("3 intervals left out"), "{read}");
        let gate = Osjitter::new(["gate", "--limit", "p99=1s", "--subject", "nanosleep"]);
        gate.args([Path::new("--report"), &file]).out("gate").run().refuses("3 intervals left out");
    }
    // Standard output has no second file that could state it.
    merge(&directories, &[]).run().refuses("no bins; only an .intervals file");
    let forced = merge(&directories, &["--force"]).run().exits(0);
    assert!(forced.stderr.contains("3 intervals left out"), "{}", forced.stderr);
}

#[test]
fn twins_with_two_endings_are_refused() {
    let (plain, packed) = (write_bins("a", "a.bins.csv"), write_bins("a", "a.bins.csv.gz"));
    for name in ["a.bins.csv.gz", "a.intervals.csv.gz"] {
        std::fs::rename(packed.path(name), plain.path(name)).unwrap();
    }
    let files = [plain.path("a.bins.csv"), plain.path("a.bins.csv.gz")];
    assert_rejected(&[plain.directory()], &["give each interval once"]);
    assert_rejected(&[&files[0], &files[1]], &["give each interval once"]);
    // One of them has its own intervals, whatever is next to it.
    std::fs::remove_file(plain.path("a.intervals.csv.gz")).unwrap();
    let warnings = |file: &Path| as_json(&[file])["warnings"].to_string();
    assert!(!warnings(&files[0]).contains("import-bins-alone"));
    assert!(warnings(&files[1]).contains("import-bins-alone"));
    // The two that remain are a pair.
    std::fs::remove_file(&files[0]).unwrap();
    assert!(!warnings(&files[1]).contains("import-bins-alone"));
    assert!(!warnings(&plain.path("a.intervals.csv")).contains("import-bins-alone"));
    assert!(!warnings(plain.directory()).contains("import-bins-alone"));
}

#[test]
fn sums_never_replace_their_inputs() {
    let bins = write_bins("a", "a.bins.csv");
    std::fs::create_dir(bins.path("day")).unwrap();
    for name in ["a.bins.csv", "a.intervals.csv"] {
        std::fs::rename(bins.path(name), bins.path("day").join(name)).unwrap();
    }
    let intervals = bins.path("day/a.intervals.csv");
    let before = std::fs::read(&intervals).unwrap();
    let commands = [&["merge"][..], &["report", "--format", "bins"]];
    for input in [bins.directory(), &intervals] {
        for command in commands {
            let to = ["--force", "--out"];
            let ran = Osjitter::new(command).args([input]).args(to);
            ran.args([bins.path("day/a.bins.csv")]).run().refuses("it is an input");
        }
    }
    for place in ["sum.bins.csv", "day/sum.bins.csv.gz"] {
        for command in commands {
            let ran = Osjitter::new(command).args([bins.directory()]).args(["--out"]);
            ran.args([bins.path(place)]).run().refuses("its directory is an input");
            assert!(!bins.path(place).exists());
        }
    }
    assert_eq!(std::fs::read(&intervals).unwrap(), before);
    // A sum of named files can be next to them.
    let named =
        [Path::new("merge"), &intervals, Path::new("--out"), &bins.path("day/sum.bins.csv")];
    Osjitter::new(named).run().exits(0);
}

#[test]
fn bins_of_equal_reports_are_refused() {
    let twice = [Path::new("report"), &fixture("report.json"), &fixture("report.json")];
    let refused = Osjitter::new(twice)
        .args(["--format", "bins"])
        .out("x.bins.csv")
        .run()
        .refuses("give each run once");
    assert!(!refused.path("x.bins.csv").exists());
}

#[test]
fn part_and_sum_are_refused() {
    let run = || {
        let run = ["run", "--subject", "nanosleep", "--period", "1ms", "--ticks", "20"];
        Osjitter::new(run).out("").run().exits(0)
    };
    let runs = [run(), run()];
    let parts = runs.each_ref().map(|ran| ran.path("report.json"));
    let merge = Osjitter::new(["merge"]).args(&parts).out("sum.json").run().exits(0);
    let both = Osjitter::new([Path::new("report"), &parts[0], &merge.path("sum.json")]);
    both.args(["--format", "bins"]).run().refuses("give each run once");
    // The bins of the sum have the start and the run of the first part, and another length.
    let home = tempfile::tempdir().unwrap();
    let bins = [&parts[0], &merge.path("sum.json")].map(|report| {
        let directory = home.path().join(report.file_stem().unwrap());
        std::fs::create_dir(&directory).unwrap();
        let out = directory.join("a.bins.csv");
        let convert = Osjitter::new([Path::new("report"), report]).args(["--format", "bins"]);
        convert.args([Path::new("--out"), &out]).run().exits(0);
        out
    });
    assert_rejected(&bins.each_ref().map(PathBuf::as_path), &["give each interval once"]);
}

/// The end of the last number could be missing.
#[test]
fn open_last_lines_are_refused() {
    let pair = write_bins("a", "a.bins.csv");
    for name in ["a.bins.csv", "a.intervals.csv"] {
        let home = tempfile::tempdir().unwrap();
        let cut = home.path().join(name);
        std::fs::write(&cut, pair.file(name).trim_end()).unwrap();
        assert_rejected(&[&cut], &["the last line has no line break"]);
    }
}

#[test]
fn conversions_refuse_missing_values() {
    let (cut, whole) = (write_bins("a", "a.bins.csv"), write_bins("b", "b.bins.csv"));
    std::fs::remove_file(cut.path("a.bins.csv")).unwrap();
    let convert = |directories: &[&Path], format: &str| {
        let command = Osjitter::new(["report"]).args(directories).args(["--format", format]);
        match format {
            "hgrm" => command.args(["--subject", "nanosleep"]),
            _ => command,
        }
    };
    let both = [cut.directory(), whole.directory()];
    for format in ["bins", "hgrm", "hlog", "cyclictest-json"] {
        convert(&[whole.directory()], format).run().exits(0);
        let says = format!("{format} cannot state it");
        let refused = convert(&both, format).out("converted.bins.csv").run().refuses(&says);
        assert!(refused.stderr.contains("3 intervals left out"), "{}", refused.stderr);
        assert!(!refused.path("converted.bins.csv").exists());
        let forced = convert(&both, format).args(["--force"]).run().exits(0);
        assert!(forced.stderr.contains("3 intervals left out"), "{}", forced.stderr);
    }
    // These are for people and trackers.
    for format in ["table", "csv", "openmetrics"] {
        convert(&both, format).run().exits(0);
    }
}

#[test]
fn conversions_refuse_cut_runs() {
    let home = tempfile::tempdir().unwrap();
    let whole = recorded_report();
    let file = home.path().join("report.json");
    let convert = |report: &Report, flags: &[&str]| {
        std::fs::write(&file, report.to_json()).unwrap();
        Osjitter::new([Path::new("report"), &file]).args(["--format", "bins"]).args(flags).run()
    };
    let failed = Status::Failed { reason: "it exploded".to_owned() };
    let mut without = whole.clone();
    without.subjects[1].status = failed.clone();
    (without.subjects[1].summary, without.subjects[1].histogram) = (None, None);
    without.subjects[1].rounds.clear();
    assert!(convert(&without, &[]).exits(0).stderr.contains("is left out: it exploded"));
    let mut cut = whole.clone();
    cut.subjects[1].status = failed.clone();
    convert(&cut, &[]).refuses("failed after its first rounds: it exploded. bins cannot state it");
    convert(&cut, &["--force"]).exits(0);
    let mut interrupted = whole.clone();
    interrupted.partial = true;
    convert(&interrupted, &[]).refuses("interrupted: the values");
    let mut empty = recorded_report();
    for subject in &mut empty.subjects {
        (subject.status, subject.summary, subject.histogram) = (failed.clone(), None, None);
        subject.rounds.clear();
    }
    for format in ["bmf", "gab", "bins", "hlog"] {
        std::fs::write(&file, interrupted.to_json()).unwrap();
        let convert = || Osjitter::new([Path::new("report"), &file]).args(["--format", format]);
        convert().run().refuses("interrupted: the values");
        std::fs::write(&file, empty.to_json()).unwrap();
        convert().args(["--force"]).run().refuses("nothing was measured");
    }
}

#[test]
fn merge_notes_missing_rows() {
    let pair = write_bins("a", "a.bins.csv");
    std::fs::remove_file(pair.path("a.intervals.csv")).unwrap();
    let merged =
        Osjitter::new([Path::new("merge"), pair.directory()]).out("sum.bins.csv").run().exits(0);
    assert!(merged.stderr.contains("3 intervals without a row"), "{}", merged.stderr);
    let table = report(&[&merged.path("sum.bins.csv")], &[]).exits(0).stdout.replace('\n', " ");
    assert!(table.contains("3 intervals without a row"), "{table}");
}

#[test]
fn invalid_bins_are_rejected_by_line() {
    let pair = write_bins("a", "a.bins.csv");
    let good = pair.file("a.bins.csv");
    let with = |name: &str, text: &str| {
        let path = pair.path(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let bad = |text: &str, says: &[&str]| {
        assert_rejected(&[&with("bad.bins.csv", text)], &[&["bad.bins.csv"], says].concat())
    };
    bad("", &["heading"]);
    bad(&good.replacen(",1,hdr2", ",2,hdr2", 1), &["line 2", "a newer osjitter wrote it"]);
    bad(good.lines().next().unwrap(), &["no interval"]);
    let counts = good.replacen(",1\n", ",2\n", 1);
    assert_rejected(
        &[&with("a.bins.csv", &counts)],
        &["a.bins.csv", "its bins hold", "ticks came"],
    );
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3];
    std::fs::write(pair.path("cut.bins.csv.gz"), gzip).unwrap();
    assert_rejected(&[&pair.path("cut.bins.csv.gz")], &["cut.bins.csv.gz", "damaged gzip"]);
    assert_rejected(&[&bomb(pair.directory())], &["bomb.bins.csv.gz", "100 times its size"]);
    std::fs::write(pair.path("binary.bins.csv"), [0xff, 0x00, 0x80]).unwrap();
    assert_rejected(&[&pair.path("binary.bins.csv")], &["binary.bins.csv", "not text"]);
}

#[test]
fn damaged_pairs_hide_no_directory() {
    let good = write_bins("a", "a.bins.csv");
    let expected = as_json(&[good.directory()]);
    let damaged = good.file("a.bins.csv").replacen("21760", "21761", 1);
    std::fs::write(good.path("damaged.bins.csv"), &damaged).unwrap();
    let read = as_json(&[good.directory()]);
    assert_eq!(read["subjects"], expected["subjects"]);
    assert!(read["warnings"].to_string().contains("damaged.bins.csv"), "{}", read["warnings"]);
    let merge = |more: &[&str]| {
        Osjitter::new(["merge"]).args(more).args([good.directory()]).out("sum.bins.csv").run()
    };
    merge(&[]).refuses("1 damaged or missing file").refuses("--force");
    let merged = merge(&["--force"]).exits(0);
    assert!(merged.stderr.contains("1 damaged or missing file"), "{}", merged.stderr);
    assert_eq!(as_json(&[&merged.path("sum.bins.csv")])["subjects"], expected["subjects"]);
    // A file that is named is an error, and so is a directory without any other.
    assert_rejected(&[&good.path("damaged.bins.csv")], &["damaged.bins.csv", "ends of a bin"]);
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("damaged.bins.csv"), &damaged).unwrap();
    assert_rejected(&[home.path()], &["nothing to show", "damaged.bins.csv"]);
}

/// Writes a file of blank lines that is unpacked to 800 times its size.
fn bomb(directory: &Path) -> PathBuf {
    let path = directory.join("bomb.bins.csv.gz");
    let script = format!("yes '' | head -c 100M | gzip > '{}'", path.display());
    assert!(std::process::Command::new("sh").args(["-c", &script]).status().unwrap().success());
    path
}

#[cfg(unix)]
#[test]
fn linked_directories_are_read_once() {
    use std::os::unix::fs::symlink;
    let (one, other) = (write_bins("a", "a.bins.csv"), write_bins("b", "b.bins.csv"));
    let both = as_json(&[one.directory(), other.directory()]);
    symlink(other.directory(), one.path("linked")).unwrap();
    symlink(other.directory(), one.path("linked again")).unwrap();
    symlink(one.directory(), other.path("cycle")).unwrap();
    symlink(one.path("a.bins.csv"), other.path("latest.bins.csv")).unwrap();
    let linked = as_json(&[one.directory()]);
    assert_eq!(linked["subjects"], both["subjects"]);
    assert_eq!(linked["warnings"], both["warnings"]);
    let merge = |paths: &[&Path]| Osjitter::new(["merge"]).args(paths).run().exits(0).stdout;
    assert_eq!(merge(&[one.directory()]), merge(&[one.directory(), other.directory()]));
    symlink("gone", one.path("broken")).unwrap();
    let warnings = as_json(&[one.directory()])["warnings"].to_string();
    assert!(warnings.contains("import-bins-damaged") && warnings.contains("broken"), "{warnings}");
}

#[test]
fn invalid_directories_are_rejected() {
    let empty = tempfile::tempdir().unwrap();
    assert_rejected(&[empty.path()], &["neither report.json nor *.bins.csv"]);
    std::fs::write(empty.path().join("foreign.csv"), "a,b\n1,2\n").unwrap();
    assert_rejected(&[empty.path()], &["neither report.json nor *.bins.csv"]);
    let (one, other) = (write_bins("a", "a.bins.csv"), write_bins("a", "b.bins.csv"));
    assert_rejected(
        &[one.directory(), other.directory()],
        &[".bins.csv: ", "give each interval once"],
    );
    assert_rejected(
        &[one.directory(), &fixture("report.json")],
        &["report.json is not a file of bins", "--format bins"],
    );
    // A file under two names is read once.
    let twice = [one.path("a.bins.csv"), one.path("a.intervals.csv")];
    assert_eq!(as_json(&[&twice[0], &twice[1]]), as_json(&[one.directory()]));
}

#[test]
fn flags_of_bins_are_checked() {
    let with = |more: &[&str]| report(&[&fixture("report.json")], more);
    for (more, says) in [
        (&["--host", "x"][..], "goes with --format bins"),
        (&["--format", "bins", "--label", "rack"], "key=value"),
        (&["--format", "bins", "--label", "7=x"], "invalid label key"),
        (&["--format", "bins", "--digits", "4"], "4 is not in 2..=3"),
        (&["--format", "bins", "--out", "x.csv"], "NAME.bins.csv"),
    ] {
        with(more).refuses(says);
    }
    let fine =
        with(&["--format", "bins", "--digits", "3", "--host", "a,b\"c", "--label", "rack==x"])
            .exits(0)
            .stdout;
    let row = fine.lines().nth(1).unwrap();
    assert!(row.starts_with("a_b_c,os-interval,"), "{row}");
    assert!(row.contains(",rack=_x,"), "{row}");
    assert!(row.contains(",1,hdr3,"), "{row}");
}

#[test]
fn too_many_subjects_can_be_merged() {
    let home = tempfile::tempdir().unwrap();
    let bins = |name: &str, rows: &mut dyn Iterator<Item = String>| {
        let heading = "host,subject,period_ns,runtime,labels,start,duration_ns,run_id,schema_version,binning,lower_ns,upper_ns,count";
        let text = rows.fold(format!("{heading}\n"), |text, row| {
            text + &row + ",1,hdr2,1,1,9000000000000000\n"
        });
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let subjects = bins("subjects.bins.csv", &mut (0..9_000).map(|n| format!("a,s{n},0,,,,,x")));
    report(&[&subjects], &[]).refuses("9000 entries, expected at most 8192");
    let merged = Osjitter::new([Path::new("merge"), &subjects]).run().exits(0).stdout;
    assert_eq!(merged.lines().count(), 9_001);
    let hosts = bins("hosts.bins.csv", &mut (0..11_000).map(|n| format!("h{n},s,0,,,,,x")));
    assert_rejected(&[&hosts], &["more than 9007199254740992 ticks together"]);
}

#[test]
fn subjects_are_distinguished_by_id() {
    let threads = fixture("rtla-timerlat.txt");
    let figures = |report: &Value| -> Vec<(u64, i64)> {
        let summaries =
            report["subjects"].as_array().unwrap().iter().map(|subject| &subject["summary"]);
        let counts = summaries.filter(|s| !s.is_null());
        let mut figures: Vec<_> = counts
            .map(|s| (s["delivered"].as_u64().unwrap(), s["lateness_ns"]["max"].as_i64().unwrap()))
            .collect();
        figures.sort_unstable();
        figures
    };
    let written = Osjitter::new([Path::new("report"), &threads])
        .args(["--format", "bins"])
        .out("t.bins.csv")
        .run();
    let read = as_json(&[&written.exits(0).path("t.bins.csv")]);
    assert_eq!(figures(&read), figures(&as_json(&[&threads])));
    assert!(read["subjects"].as_array().unwrap().len() > 2, "{read}");
}

#[test]
fn several_outputs_are_written_atomically() {
    let home = tempfile::tempdir().unwrap();
    let (bins, intervals) = (home.path().join("x.bins.csv"), home.path().join("x.intervals.csv"));
    std::fs::create_dir(&bins).unwrap();
    std::fs::write(&intervals, "of an earlier run").unwrap();
    let ran = report(
        &[&fixture("report.json")],
        &["--format", "bins", "--force", "--out", bins.to_str().unwrap()],
    );
    assert!(ran.code != 0 && ran.stderr.contains("x.bins.csv"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(&intervals).unwrap(), "of an earlier run");

    let pictures = |directory: &Path| {
        report(
            &[&fixture("report.json")],
            &["--format", "svg", "--out", directory.to_str().unwrap()],
        )
    };
    let (whole, hindered) = (home.path().join("whole"), home.path().join("hindered"));
    pictures(&whole).exits(0);
    let last = names_in(&whole).pop().unwrap();
    std::fs::create_dir_all(hindered.join(&last)).unwrap();
    assert!(pictures(&hindered).code != 0);
    assert_eq!(names_in(&hindered), [last], "none of the others, and nothing under way");
}
