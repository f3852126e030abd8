//! Tests invalid input: it is rejected with its location and the reason, exit code 2 and bounded
//! memory.
#![cfg(unix)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::fixtures::fixture;
use crate::osjitter::{Osjitter, Ran};

/// Runs the command line with an address space of 700 MiB: several times its normal need, and a
/// fraction of what the input demands. Not every system has this limit.
const LIMITED: &str = r#"ulimit -v 716800 2>/dev/null; exec "$0" "$@""#;

/// Returns `osjitter report` with limited memory.
fn report(file: &Path) -> Osjitter {
    Osjitter::new([Path::new("report"), file]).in_shell(LIMITED)
}

/// Returns a command line with limited CPU time and memory.
fn bounded<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Osjitter {
    Osjitter::new(args).in_shell(&format!("ulimit -t 20; {LIMITED}"))
}

/// Checks that a command is refused with one sentence that contains these words.
#[track_caller]
fn assert_refused(mut ran: Ran, says: &[&str]) {
    for word in says {
        ran = ran.refuses(word);
    }
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}

#[track_caller]
fn assert_rejected(file: &Path, says: &[&str]) {
    assert_refused(report(file).run(), says);
}

pub fn write_file(home: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let file = home.join(name);
    std::fs::write(&file, bytes).unwrap();
    file
}

/// Returns a report with these rounds.
fn report_json(rounds: &str) -> String {
    let d = "{\"min\":0,\"mean\":0,\"p50\":0,\"p90\":0,\"p99\":0,\"p99_9\":null,\"p99_99\":null,\"max\":0,\"ci95\":{}}";
    let summary = format!(
        "{{\"ticks\":9,\"delivered\":9,\"coalesced\":0,\"skipped\":0,\"missed\":0,\"early\":0,\"no_park\":null,\
         \"drift_ppb\":null,\"elapsed_ns\":0,\"ideal_ns\":0,\"cpu_ns_per_tick\":null,\"wakeups_per_tick\":null,\
         \"lateness_ns\":{d},\"jitter_consecutive_ns\":null,\"jitter_spread_ns\":null,\"until_unpark_ns\":null,\
         \"after_unpark_ns\":null}}"
    );
    let host = "\"os\":\"linux\",\"arch\":\"x86_64\",\"kernel\":null,\"preempt\":null,\"cpu_model\":null,\
                \"cpus_online\":null,\"affinity\":null,\"clock_source\":null,\"timer_slack_ns\":null,\"governor\":null,\
                \"idle_driver\":null,\"virtualisation\":null,\"quota_cpus\":null,\"sched\":null,\"versions\":{}";
    format!(
        "{{\"schema\":\"osjitter.report/1\",\"tool\":{{\"name\":\"osjitter\",\"version\":\"0\",\"commit\":null}},\
         \"started_utc\":\"2026-11-21T08:00:00Z\",\"duration_ns\":1,\"partial\":false,\"plan\":{{\"seed\":1,\
         \"samples\":true,\"cpu\":null,\"sched\":null,\"mlock\":false,\"timer_slack_ns\":null,\"scenarios\":[]}},\
         \"host\":{{{host}}},\"clock\":{{\"source\":\"c\",\"rate_hz\":1e9,\"rate_known_by\":\"u\",\"error_bound_ns\":1,\
         \"why_not_counter\":null}},\"changes\":[],\"warnings\":[],\"subjects\":[{{\"id\":\"spin@1ms\",\"name\":\"spin\",\
         \"period_ns\":1000000,\"runtime\":null,\"backend\":null,\"status\":{{\"state\":\"measured\"}},\
         \"summary\":{summary},\"histogram\":null,\"rounds\":[{rounds}]}}]}}"
    )
}

fn round_json(lateness: &str) -> String {
    format!(
        "{{\"index\":0,\"slot\":0,\"start_ns\":0,\"phase_ns\":0,\"cpu_ns\":null,\"steal_ns\":null,\"run_queue_ns\":null,\
         \"switches_voluntary\":null,\"switches_involuntary\":null,\"summary\":null,\"first_tick\":0,\
         \"lateness_ns\":{lateness}}}"
    )
}

/// Returns well-formed reports that fail the checks, each with the expected error.
pub fn contradictions() -> [(String, &'static str); 9] {
    let without_samples = |lateness_ns: [i64; 9]| {
        let stored = serde_json::to_string(&files::histogram::pack(lateness_ns)).unwrap();
        report_json("").replace("\"histogram\":null", &format!("\"histogram\":{stored}"))
    };
    let round = round_json("[1,2,3,4,5,6,7,8,9]");
    let whole = report_json(&round);
    let subject = whole.split_once("\"subjects\":[").unwrap().1.strip_suffix("]}").unwrap();
    [
        (whole.replace(subject, &format!("{subject},{subject}")), "subjects[1].id"),
        (whole.replace("\"delivered\":9", "\"delivered\":8"), "subjects[0].summary"),
        (
            whole.replace("\"period_ns\":1000000", &format!("\"period_ns\":{}", u64::MAX)),
            "subjects[0].period_ns",
        ),
        // The same round twice.
        (
            report_json(&format!("{round},{round}")),
            "subjects[0].rounds: they hold 18 ticks, and 9 came",
        ),
        (report_json(&round_json("[1,2,3]")), "subjects[0].rounds: they hold 3 ticks, and 9 came"),
        (
            without_samples([1, 2, 3, 4, 5, 6, 7, 8, 2_000_000]),
            "subjects[0].summary.missed: fewer than the 1 of its rounds and its histogram",
        ),
        (without_samples([7; 9]), "subjects[0].summary.lateness_ns.max: 0, and its rounds"),
        (
            report_json(&round_json("[1,2,3,4,5,6,7,8,1000000]")),
            "subjects[0].summary.missed: 0, and 1 came a period late and 0 were skipped",
        ),
        (
            whole.replace("\"ticks\":9", "\"ticks\":12").replace("\"skipped\":0", "\"skipped\":3"),
            "subjects[0].summary.missed: 0, and 0 came a period late and 3 were skipped",
        ),
    ]
}

#[test]
fn malformed_files_are_rejected_with_location() {
    let home = tempfile::tempdir().unwrap();
    let whole = report_json(&round_json("[1,2,3,4,5,6,7,8,9]"));
    let good = write_file(home.path(), "good.json", &whole);
    let shown = report(&good).run().exits(0).stdout;
    let newer = whole.replacen("report/1", "report/2", 1);
    let unknown = whole.replacen("\"partial\"", "\"new_in_2\":1,\"partial\"", 1);
    let cases: [(&str, &[u8], &[&str]); 12] = [
        ("cut.json", &whole.as_bytes()[..whole.len() - 9], &["EOF while parsing", "line 1 column"]),
        (
            "newer.json",
            newer.as_bytes(),
            &["\"osjitter.report/2\" is not known", "newer osjitter", "osjitter.report/1"],
        ),
        ("field.json", unknown.as_bytes(), &["unknown field `new_in_2`", "line 1 column"]),
        ("text.json", b"hello", &["unknown format", "begins with \"hello\""]),
        ("other.json", b"{\"results\": []}", &["no \"schema\" key", "cyclictest"]),
        ("utf16.json", b"\xff\xfe{\0}\0", &["UTF-16"]),
        ("bytes.json", b"{\"schema\":\n \"\xc3\x28\"}", &["not text", "line 2 column 3"]),
        ("nan.json", b"{\"schema\": NaN}", &["line 1 column"]),
        ("empty.json", b"", &["unknown format", "the file is empty"]),
        ("log.hlog", b"#[StartTime: 5.0 (x)]\n1.0,2.0,x\n", &["HdrHistogram log", "line 2"]),
        ("none.hlog", b"#[StartTime: 5.0 (x)]\n", &["no interval found"]),
        (
            "base64.hlog",
            b"#[StartTime: 5.0 (x)]\n0.0,1.0,1.0,%%%\n",
            &["line 2 (untagged)", "base64"],
        ),
    ];
    for (name, bytes, says) in cases {
        let file = write_file(home.path(), name, bytes);
        let says: Vec<&str> = says.iter().copied().chain([name]).collect();
        assert_rejected(&file, &says);
    }
    assert_rejected(home.path(), &["neither report.json nor *.bins.csv"]);
    std::fs::write(home.path().join("report.json"), newer).unwrap();
    assert_rejected(home.path(), &["report.json: ", "newer osjitter"]);
    std::fs::copy(&good, home.path().join("report.json")).unwrap();
    assert_eq!(report(home.path()).run().stdout, shown, "a directory means the report in it");
    // A byte order mark is no reason to refuse.
    let marked = write_file(home.path(), "marked.json", format!("\u{feff}{whole}"));
    report(&marked).run().exits(0);
}

#[test]
fn excessive_memory_demands_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let deep = format!("{{\"schema\": {}", "[".repeat(1_000_000));
    assert_rejected(&write_file(home.path(), "deep.json", deep), &["line 1 column"]);

    let huge = home.path().join("huge.json");
    std::fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    assert_rejected(&huge, &["1048576 MiB large", "MiB are read"]);

    // The size of a device is not known in advance.
    assert_rejected(Path::new("/dev/zero"), &["/dev/zero: "]);

    // Plans have the same limit.
    Osjitter::new(["run", "--plan", "/dev/zero"]).in_shell(LIMITED).run().exits(2);

    // Four million ticks in a file of eight megabytes, more than the round claims. The error is
    // found after reading them.
    let zeros = format!("[{}0]", "0,".repeat(4_000_000));
    let file = write_file(
        home.path(),
        "zeros.json",
        report_json(&round_json(&zeros).replace("\"phase_ns\":0", "\"phase_ns\":-1")),
    );
    assert_rejected(&file, &["subjects[0].rounds[0].phase_ns", "line 1 column"]);

    // The header of a histogram claims four gigabytes.
    let mut header = 0x1c84_9313_u32.to_be_bytes().to_vec();
    header.extend(u32::MAX.to_be_bytes());
    header.extend([0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1]);
    header.extend([0; 48]);
    use base64::Engine as _;
    let forged = base64::prelude::BASE64_STANDARD.encode(header);
    assert_rejected(
        &write_file(home.path(), "forged.hlog", format!("0.0,1.0,1.0,{forged}\n")),
        &["line 1", "ends early"],
    );
    let stored = format!(
        "\"histogram\":{{\"count\":9,\"encoding\":\"hdr-v2-base64\",\"data\":\"{forged}\"}}"
    );
    let nine = round_json("[1,1,1,1,1,1,1,1,1]");
    let text = report_json(&nine).replace("\"histogram\":null", &stored);
    assert_rejected(
        &write_file(home.path(), "forged.json", text),
        &["subjects[0].histogram: histogram data ends early"],
    );

    let threads: Vec<String> = (0..20_000)
        .map(|i| format!("\"{i}\":{{\"cycles\":0,\"min\":0,\"max\":0,\"avg\":0}}"))
        .collect();
    let text = format!("{{\"cmdline:\": \"cyclictest\", \"thread\": {{{}}}}}", threads.join(","));
    assert_rejected(&write_file(home.path(), "threads.json", text), &["thread: 20000 entries"]);

    let bins: Vec<String> = (0..2_000_000).map(|i| format!("\"{i}\":1")).collect();
    let text = format!(
        "{{\"cmdline:\": \"cyclictest\", \"thread\": {{\"0\": {{\"histogram\": {{{}}}}}}}}}",
        bins.join(",")
    );
    assert_rejected(
        &write_file(home.path(), "bins.json", text),
        &["thread.0.histogram", "bins", "line 1 column"],
    );
}

#[test]
fn large_counts_need_no_extra_memory() {
    let home = tempfile::tempdir().unwrap();
    // One value per microsecond of the longest possible run.
    let many = 1_000_000_000_000_000_u64;
    let text = format!(
        "{{\"file_version\": 1, \"cmdline:\": \"cyclictest -i 1 -h 9\", \"thread\": {{\"0\": {{\"histogram\": {{\"5\": {many}}}, \
         \"cycles\": {many}, \"min\": 5, \"max\": 5, \"avg\": 5.0}}}}}}"
    );
    let file = write_file(home.path(), "many.json", text);
    for format in ["table", "html", "svg", "csv", "hgrm", "hlog", "cyclictest-json", "openmetrics"]
    {
        let out = home.path().join(format);
        report(&file).args(["--format", format, "--out"]).args([&out]).run().exits(0);
    }
    assert!(std::fs::read_to_string(home.path().join("hgrm")).unwrap().contains(&many.to_string()));
}

#[test]
fn any_file_name_is_accepted() {
    let home = tempfile::tempdir().unwrap();
    for name in
        [&b"with a space.json"[..], b"-dash.json", b"not utf-8 \xff\xfe.json", b"new\nline.json"]
    {
        let file = home.path().join(OsStr::from_bytes(name));
        std::fs::copy(fixture("cyclictest.json"), &file).unwrap();
        let out = home.path().join(OsStr::from_bytes(&[name, b".csv"].concat()));
        report(&file).args(["--format", "csv", "--out"]).args([&out]).run().exits(0);
        assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 3);
    }
}

/// Returns a log with one interval of many values, in a few hundred bytes.
fn log_text(values: u64, unit_ns: u64) -> String {
    use base64::Engine as _;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    for step in 1..=20 {
        histogram.record_n(step * unit_ns, values / 20).unwrap();
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
    format!("0.0,1.0,1.0,{}\n", base64::prelude::BASE64_STANDARD.encode(bytes))
}

#[test]
fn pictures_of_huge_counts_terminate() {
    let home = tempfile::tempdir().unwrap();
    let a = write_file(home.path(), "a.hlog", log_text(1 << 53, 1_000));
    let b = write_file(
        home.path(),
        "b.hlog",
        format!("#[StartTime: 5.000 (another)]\n{}", log_text(1 << 53, 1_100)),
    );
    let out = home.path().join("out");
    let compared = || bounded(["compare", "--force"]).args([&a, &b]);
    compared().args(["--format", "svg", "--out"]).args([&out]).run().exits(0);
    // A comparison file with values that no comparison writes.
    let text = compared().args(["--format", "json"]).run().stdout;
    let mut comparison: serde_json::Value = serde_json::from_str(&text).unwrap();
    let points = comparison["subjects"][0]["quantiles"]["points"].as_array_mut().unwrap();
    for (point, (quantile, ratio)) in
        points.iter_mut().zip([(1.0, 1e300), (2.0, -1.0), (-1e300, 0.0), (1e300, 1e-300)])
    {
        point["quantile"] = quantile.into();
        point["ratio"] = ratio.into();
    }
    let file = write_file(home.path(), "comparison.json", comparison.to_string());
    let again = home.path().join("again");
    bounded(["report", "--format", "svg", "--out"]).args([&again, &file]).run().exits(0);
}

#[test]
fn texts_are_read_in_linear_time() {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("comments", "# nothing\n".repeat(100_000) + &log_text(1_000, 1_000)),
        // A script that prints a map every second.
        ("prints", "@usecs:\n[1]          7 |@@@@|\n\n".repeat(4_000)),
    ] {
        let file = write_file(home.path(), name, text);
        bounded(["report", "--format", "json"]).args([file]).run().exits(0);
    }
}

#[test]
fn oversized_plans_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let run = |text: &str| {
        let file = write_file(home.path(), "plan.toml", text);
        bounded(["run", "--print-plan", "--plan"]).args([file]).run()
    };
    let periods = |n: u64| {
        let periods: Vec<String> = (0..n).map(|i| format!("\"{}ns\"", 1_000 + i)).collect();
        format!("[defaults]\nsubject = \"spin\"\nperiod = [{}]\n", periods.join(","))
    };
    run(&periods(8_192)).exits(0);
    for (text, says) in [
        (periods(8_193), "8193 scenarios; a plan has at most 8192"),
        (format!("# {}", "x".repeat(2 << 20)), "2049 KiB of TOML; a plan has at most 1024 KiB"),
        (format!("schema = \"{}\"", "x".repeat(900 << 10)), "characters) ..."),
    ] {
        let stderr = run(&text).exits(2).stderr;
        assert!(stderr.contains(says) && stderr.len() < 3_000, "{says}: {stderr}");
    }
}

#[test]
fn hostile_settings_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let assert_rejected = |file: &Path| {
        let ran = bounded(["run", "--print-plan", "--config"]).args([file]).run().exits(2);
        assert!(ran.stderr.len() < 3_000 && ran.stdout.is_empty(), "{}", file.display());
    };
    for (name, bytes) in [
        ("binary.toml", vec![0xff; 4_096]),
        ("deep.toml", format!("[run]\nperiod = {}", "[".repeat(60_000)).into_bytes()),
        ("keys.toml", "[run.".repeat(10_000).into_bytes()),
        ("sections.toml", "[run]\n".repeat(9_000).into_bytes()),
        ("value.toml", format!("[run]\nperiod = \"{}\"", "x".repeat(60_000)).into_bytes()),
        ("type.toml", b"[run]\nperiod = 1979-05-27T07:32:00Z\n".to_vec()),
    ] {
        assert_rejected(&write_file(home.path(), name, bytes));
    }
    let huge = home.path().join("huge.toml");
    std::fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    for file in [&huge, Path::new("/dev/zero"), home.path(), Path::new("/dev/null/x")] {
        assert_rejected(file);
    }
}

#[test]
fn hostile_bins_are_rejected() {
    const HEADING: &str = "host,subject,period_ns,runtime,labels,start,duration_ns,run_id,schema_version,binning,lower_ns,upper_ns,count\n";
    let home = tempfile::tempdir().unwrap();
    let row = |count: &str, upper: &str| {
        format!("a,spin,1000000,,,2026-11-21T08:00:00.000000Z,1,a,1,hdr2,21760,{upper},{count}\n")
    };
    for (name, text) in [
        ("heading.bins.csv", "host,subject\n".to_owned()),
        ("cut.bins.csv", format!("{HEADING}a,spin,1000")),
        ("count.bins.csv", HEADING.to_owned() + &row("18446744073709551616", "21887")),
        ("negative.bins.csv", HEADING.to_owned() + &row("-1", "21887")),
        ("upper.bins.csv", HEADING.to_owned() + &row("1", "99999999999999999999")),
        ("wide.bins.csv", HEADING.to_owned() + &"a,".repeat(1_000_000) + "\n"),
        ("quote.bins.csv", format!("{HEADING}\"{}", "x".repeat(1 << 20))),
    ] {
        assert_rejected(&write_file(home.path(), name, text), &[name]);
    }
}

/// A plan from a report passes the same checks as any report.
#[test]
fn contradictory_report_is_not_a_plan() {
    let home = tempfile::tempdir().unwrap();
    for (report, says) in contradictions() {
        let file = write_file(home.path(), "report.json", report);
        let ran = bounded(["run", "--plan"]).args([&file]).run();
        let message = format!("error: {}: not a valid osjitter.report/1: {says}", file.display());
        assert!(ran.stderr.starts_with(&message), "{message}: {}", ran.stderr);
        assert_refused(ran, &[says]);
    }
}

#[test]
fn sums_beyond_u64_are_handled() {
    let home = tempfile::tempdir().unwrap();
    let report_at = |phase: u64| {
        let summary = report_json("")
            .split_once("\"summary\":")
            .unwrap()
            .1
            .split_once(",\"histogram\"")
            .unwrap()
            .0
            .to_owned();
        let most = summary.replace(
            "\"ticks\":9,\"delivered\":9,\"coalesced\":0,\"skipped\":0,\"missed\":0",
            &format!(
                "\"ticks\":{0},\"delivered\":9,\"coalesced\":0,\"skipped\":{1},\"missed\":{1}",
                1_u64 << 53,
                (1_u64 << 53) - 9
            ),
        );
        let round = round_json("[0,0,0,0,0,0,0,0,0]")
            .replace("\"summary\":null", &format!("\"summary\":{most}"))
            .replace("\"phase_ns\":0", &format!("\"phase_ns\":{phase}"));
        let numbered = |n: u64| round.replace("\"index\":0", &format!("\"index\":{n}"));
        let rounds: Vec<String> = (0..2_050).map(numbered).collect();
        let report =
            report_json(&rounds.join(",")).replace("\"cpus_online\":null", "\"cpus_online\":2");
        let report =
            report.replace("\"ticks\":9,\"delivered\":9", "\"ticks\":18450,\"delivered\":18450");
        // The longest run with the shortest period.
        report.replace("\"period_ns\":1000000", "\"period_ns\":1")
    };
    let without_samples = report_at(1).replace("[0,0,0,0,0,0,0,0,0]", "[]");
    let file = write_file(home.path(), "without.json", without_samples);
    bounded(["report"]).args([&file]).run().refuses("summary.missed: fewer than");
    let files = [1, 2].map(|n| write_file(home.path(), &format!("{n}.json"), report_at(n)));
    bounded(["report"]).args(&files[..1]).run().exits(0);
    // The merged report would be too large to read.
    bounded(["merge"]).args(&files).run().refuses("more than a report can hold");
}

#[test]
fn messages_contain_no_control_characters() {
    let home = tempfile::tempdir().unwrap();
    let name = "\u{1b}[2Jevil\n::error::x";
    let report: &[&str] = &["report"];
    for (command, file, text) in [
        (report, "key.json", "{\"schema\":\"osjitter.report/1\",\"\\u001b[2J\\n::error::x\":1}"),
        (
            report,
            "bench.json",
            "{\"schema\":\"osjitter.bench/1\",\"bench\":\"\\u001b[2J\\n::error::x\"}",
        ),
        (report, "heading.bins.csv", "host,\u{1b}[2J,\u{9b}x\na,b,c\n"),
        (report, name, "{}"),
        (&["run", "--plan"], "plan.toml", "\"\\u001b[2J\\n::error::x\" = 1\n"),
        (&["run", "--config"], "section.toml", "[\"\\u001b[2J\\n::error::x\"]\n"),
        (&["run", "--config"], "key.toml", "[run]\n\"\\u001b[2J\\n::error::x\" = 1\n"),
        (&["run", "--config"], "value.toml", "[run]\nperiod = \"\\u001b[2J\\n::error::x\"\n"),
    ] {
        let file = write_file(home.path(), file, text);
        let stderr = bounded(command).args([file]).run().exits(2).stderr;
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(!stderr.trim_end().contains(char::is_control), "{stderr:?}");
    }
}

#[test]
fn pictures_escape_names() {
    let home = tempfile::tempdir().unwrap();
    let text = report_json(&round_json("[1,2,3,4,5,6,7,8,9]"))
        .replace("spin@1ms", "\\u001b\\u0001<x>\\uffff&");
    let out = home.path().join("out");
    let file = write_file(home.path(), "control.json", text);
    report(&file).args(["--format", "svg", "--out"]).args([&out]).run().exits(0);
    let mut pictures = 0;
    for entry in std::fs::read_dir(&out).unwrap() {
        let svg = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!svg.contains(|c: char| c.is_control() && c != '\n' || c == '\u{ffff}'));
        assert!(!svg.contains("<x>"));
        pictures += 1;
    }
    assert!(pictures > 1);
}
