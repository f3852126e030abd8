//! Tests of outputs that cannot be written: an existing file is never left half overwritten.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixtures::fixture;
use crate::hostile::write_file;
use crate::osjitter::Osjitter;
#[cfg(target_os = "linux")]
use crate::osjitter::Ran;

/// Returns the paths in a directory, with the content of files.
fn listing(directory: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut entries: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(&path).ok()))
        .collect();
    entries.sort();
    entries
}

/// Script of the subject that some commands measure.
const SCRIPT: &str = r#"{"scripted": {"lateness_ns": [150000], "cpu_ns_per_tick": 10000}}"#;

#[test]
fn dash_means_standard_output() {
    let home = tempfile::tempdir().unwrap();
    let file = fixture("cyclictest.json");
    let show = |format: &str, more: &[&str]| {
        let command = Osjitter::new(["report", "--format", format]).args([&file]).args(more);
        command.directory(home.path()).run()
    };
    assert_eq!(show("csv", &["--out", "-"]).exits(0).stdout, show("csv", &[]).exits(0).stdout);
    show("svg", &["--out", "-"]).exits(2);
    let plan = |args: &[&str]| Osjitter::new(args).directory(home.path()).run();
    assert_eq!(plan(&["new-plan", "-"]).exits(0).stdout, plan(&["new-plan"]).exits(0).stdout);
    assert_eq!(listing(home.path()), []);
}

#[test]
fn dash_is_no_file_or_directory() {
    let home = tempfile::tempdir().unwrap();
    for args in [
        &["run", "--out", "-"][..],
        &["bench", "clock", "--out", "-"],
        &["calibrate", "--out", "-"],
        &["calibrate", "--metric", "wall", "--out", "-", "--command", "true"],
        &["gate", "baseline", "add", "-"],
        &["gate", "--baseline", "-"],
        &["monitor", "--log", "-"],
    ] {
        Osjitter::new(args).directory(home.path()).run().refuses(" -: expected a ");
    }
    assert_eq!(listing(home.path()), []);
}

#[test]
fn output_is_written_atomically() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let file = write_file(&out, "page.html", "the page of before");
    let occupied = out.join("directory.html");
    std::fs::create_dir(&occupied).unwrap();
    write_file(&occupied, "kept", "kept");
    let before = listing(&out);
    let to = |out: &Path, limit: &str| {
        let page = Osjitter::new(["report", "--format", "html", "--force", "--out"]);
        let page = page.args([out, &fixture("cyclictest.json")]);
        page.in_shell(&format!(r#"{limit}; exec "$0" "$@""#)).run()
    };
    // A full disk: a file may grow to 512 bytes. The signal that comes with the error is handled.
    let full = to(&file, "ulimit -f 1").exits(4);
    assert!(full.stderr.contains("File too large"), "{}", full.stderr);
    assert_eq!(listing(&out), before, "nothing half written, nothing left behind");
    // A target that cannot be replaced by renaming.
    to(&occupied, ":").exits(4);
    assert_eq!(
        (listing(&out), std::fs::read(occupied.join("kept")).unwrap()),
        (before, b"kept".to_vec())
    );
    let absent = to(&home.path().join("absent/page.html"), ":").exits(4);
    assert!(!absent.stderr.contains(" at path "), "only the given path is named");
    assert!(!home.path().join("absent").exists());

    to(&file, ":").exits(0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("</html>"));
}

#[test]
fn links_permissions_and_pipes_are_respected() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    let home = tempfile::tempdir().unwrap();
    let csv = |out: &Path| {
        let rows = Osjitter::new(["report", "--format", "csv", "--out"]);
        rows.args([out, &fixture("cyclictest.json")]).run().exits(0);
    };
    let file = write_file(home.path(), "private.csv", "");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let link = home.path().join("link.csv");
    symlink(&file, &link).unwrap();
    csv(&link);
    assert!(link.symlink_metadata().unwrap().is_symlink(), "a link stays a link");
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 3);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let fresh = home.path().join("fresh.csv");
    csv(&fresh);
    assert_eq!(fresh.metadata().unwrap().permissions().mode() & 0o777, 0o644);

    let pipe = home.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader =
        Command::new("cat").arg(&pipe).stdout(std::process::Stdio::piped()).spawn().unwrap();
    csv(&pipe);
    let read = String::from_utf8(reader.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(read.lines().count(), 3, "a pipe is written to");
    assert!(pipe.metadata().unwrap().file_type().is_fifo(), "a pipe is not replaced");
}

#[test]
fn results_are_replaced_only_by_force() {
    let home = tempfile::tempdir().unwrap();
    let script = write_file(home.path(), "script.json", SCRIPT);
    let bench = "bench clock --threads 1 --order-reads 1000 --drift 1ms";
    let calibrate =
        "calibrate --subject scripted --max-time 2s --period 1ms --round-ticks 20 --warmup 3";
    let fixture = "tests/fixtures/report.json";
    let report = format!("report {fixture}");
    let log = home.path().join("log.bins.csv");
    Osjitter::new(["report", fixture, "--format", "bins", "--out"]).args([&log]).run().exits(0);
    let log = log.display();
    for (command, out) in [
        ("run --subject spin --ticks 20", "run"),
        ("gate --limit p50=1s --subject spin --ticks 20", "gate"),
        (&format!("gate --limit p50=1s --subject nanosleep --report {fixture}"), "gated"),
        ("find --subject scripted --goal cpu=10%", "find"),
        (bench, "clock"),
        ("doctor --format json", "doctor.json"),
        (calibrate, "calibration.json"),
        (&format!("merge {log}"), "merged.bins.csv"),
        (&format!("compare {fixture}#os-interval {fixture}#tokio-interval-skip"), "compared.txt"),
        (&report, "report.txt"),
        (&format!("{report} --format svg"), "pictures"),
        (&format!("{report} --format bins"), "host.bins.csv"),
        (&format!("{report} --format html"), "page.html"),
        (&format!("{report} --format csv --samples"), "samples.csv"),
    ] {
        let place = home.path().join("place");
        std::fs::create_dir(&place).unwrap();
        let run = |more: &[&str]| {
            let to = [Path::new("--out"), &place.join(out)];
            let osjitter = Osjitter::new(command.split(' ')).args(more).args(to);
            osjitter.env("OSJITTER_SCRIPT", &script).run()
        };
        let files = || {
            let inside = place.join(out);
            if inside.is_dir() { listing(&inside) } else { listing(&place) }
        };
        let first = run(&[]);
        assert_eq!(first.code, 0, "{command}: {}", first.stderr);
        let written = files();
        assert!(!written.is_empty(), "{command}");
        let refused = run(&[]).refuses("--force");
        assert_eq!(refused.stderr.lines().count(), 1, "{command}: {}", refused.stderr);
        assert_eq!(files(), written, "{command}");
        let forced = run(&["--force"]);
        assert_eq!(forced.code, 0, "{command}: {}", forced.stderr);
        std::fs::remove_dir_all(&place).unwrap();
    }
}

#[test]
fn forced_results_keep_foreign_files() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str], out: &Path| {
        let to = [Path::new("--force"), Path::new("--out"), out];
        Osjitter::new(args).args(to).run().exits(0);
    };
    let foreign = ["time-table.svg", "histogram-of-my-own.svg", "card.svg", "timers.csv"];
    let out = home.path().join("run");
    run(&["run", "--subject", "spin", "--ticks", "20", "--svg"], &out);
    foreign.iter().for_each(|name| std::fs::write(out.join(name), "mine").unwrap());
    let histogram = out.join("histogram-spin_500us.svg");
    assert!(histogram.exists());
    run(&["run", "--subject", "spin", "--ticks", "20"], &out);
    for name in foreign {
        assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), "mine", "{name}");
    }
    assert!(!histogram.exists(), "the second run did not draw it");

    // The pictures of two reports are not mixed.
    let pictures = home.path().join("pictures");
    std::fs::create_dir(&pictures).unwrap();
    std::fs::write(pictures.join("time-table.svg"), "mine").unwrap();
    let report = out.join("report.json");
    let picture_of_other = |name: &&String| name.contains("nanosleep");
    run(&["report", "tests/fixtures/report.json", "--format", "svg"], &pictures);
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&pictures).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert!(names().iter().any(|name| picture_of_other(&name)), "{:?}", names());
    run(&["report", report.to_str().unwrap(), "--format", "svg"], &pictures);
    assert!(!names().iter().any(|name| picture_of_other(&name)), "{:?}", names());
    assert_eq!(std::fs::read_to_string(pictures.join("time-table.svg")).unwrap(), "mine");
}

#[test]
fn files_named_gz_are_compressed() {
    let fixture = "tests/fixtures/report.json";
    let report = Osjitter::new(["report", fixture, "--format", "csv"]).out("x.csv.gz").run();
    let report = report.exits(0);
    let csv = cli::file_io::read_text(&report.path("x.csv.gz")).unwrap();
    assert!(std::fs::read(report.path("x.csv.gz")).unwrap().starts_with(&[0x1f, 0x8b]));
    assert_eq!(csv, Osjitter::new(["report", fixture, "--format", "csv"]).run().stdout);
    let sides = ["#os-interval", "#nanosleep"].map(|id| format!("{fixture}{id}"));
    let compare = Osjitter::new(["compare", "--force", "--format", "json"]).args(&sides);
    let compared = compare.out("x.json.gz").run().exits(0);
    assert!(std::fs::read(compared.path("x.json.gz")).unwrap().starts_with(&[0x1f, 0x8b]));
    Osjitter::new([Path::new("report"), &compared.path("x.json.gz")]).run().exits(0);
}

/// Runs a command line whose streams a shell redirects.
#[cfg(target_os = "linux")]
fn run_redirected(osjitter: Osjitter, redirect: &str) -> Ran {
    osjitter.in_shell(&format!(r#""$0" "$@" {redirect}"#)).run()
}

#[cfg(target_os = "linux")]
#[test]
fn full_stdout_fails_closed_does_not() {
    let page = || Osjitter::new(["report", "--format", "html"]).args([fixture("cyclictest.json")]);
    let full = run_redirected(page(), ">/dev/full").exits(4);
    assert!(full.stderr.contains("No space left"), "{}", full.stderr);
    let closed = run_redirected(page(), "2>&1 | true");
    assert!(closed.stdout.is_empty() && closed.stderr.is_empty());
}

#[cfg(unix)]
#[test]
fn closed_stdout_keeps_the_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let reported = "gate --report tests/fixtures/report.json --subject nanosleep";
    let measured = "gate --subject nanosleep --period 1ms --ticks 50 --round-ticks 25";
    for (line, code) in [
        (format!("{reported} --limit p50=1s"), 0),
        (format!("{reported} --limit p50=0ns"), 1),
        (format!("{measured} --limit p50=1us --on-inconclusive fail"), 3),
        ("run --subject nanosleep --ticks 20 --break 1ns".to_owned(), 1),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_osjitter"))
            .args(line.split(' '))
            .arg("--out")
            .arg(home.path().join("out"))
            .arg("--force")
            .stdout(writer)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
    }
}

/// The cheapest form of each command, and the file that it writes.
#[cfg(target_os = "linux")]
const CHEAP_COMMANDS: [(&str, &str); 5] = [
    ("run --subject spin --ticks 20", "report.json"),
    ("gate --report tests/fixtures/report.json --subject nanosleep --limit p50=1s", "verdict.json"),
    ("bench clock --threads 1 --order-reads 1000 --drift 1ms", "clock.json"),
    ("find --subject scripted --goal cpu=10%", "find.json"),
    (
        "compare --force tests/fixtures/report.json#os-interval tests/fixtures/report.json#nanosleep",
        "",
    ),
];

/// Returns one of these commands, which writes to `home`.
#[cfg(target_os = "linux")]
fn cheap_command(command: &str, home: &Path) -> Osjitter {
    let script = write_file(home, "script.json", SCRIPT);
    let osjitter = Osjitter::new(command.split(' ')).env("OSJITTER_SCRIPT", script);
    match command.starts_with("compare") {
        true => osjitter,
        false => osjitter.args([Path::new("--out"), &home.join("out")]),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_stderr_is_ignored() {
    for (command, file) in CHEAP_COMMANDS {
        for redirect in ["2>/dev/full", "2>&-", "2>&1 >/dev/null | true"] {
            let home = tempfile::tempdir().unwrap();
            let ran = run_redirected(cheap_command(command, home.path()), redirect);
            assert_eq!(ran.code, 0, "{command} {redirect}");
            assert!(redirect.contains('|') || !ran.stdout.is_empty(), "{command} {redirect}");
            assert!(
                file.is_empty() || home.path().join("out").join(file).is_file(),
                "{command} {redirect}"
            );
        }
    }
    // Errors are not affected.
    for redirect in ["2>/dev/full", "2>&-"] {
        run_redirected(Osjitter::new(["report", "no-such-file.json"]), redirect).exits(2);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_stdout_keeps_the_file() {
    for (command, file) in CHEAP_COMMANDS {
        for redirect in [">/dev/full", ">/dev/full 2>&1"] {
            let home = tempfile::tempdir().unwrap();
            let ran = run_redirected(cheap_command(command, home.path()), redirect);
            let (code, stderr) = (ran.code, ran.stderr);
            assert_eq!(code, 4, "{command} {redirect}: {stderr}");
            let says = "error: cannot write to standard output: No space left on device";
            assert!(redirect.contains("2>") || stderr.contains(says), "{command}: {stderr}");
            assert!(
                file.is_empty() || home.path().join("out").join(file).is_file(),
                "{command} {redirect}"
            );
        }
        // A stdout that is closed from the start is ignored.
        let home = tempfile::tempdir().unwrap();
        let ran = run_redirected(cheap_command(command, home.path()), ">&-");
        assert_eq!(ran.code, 0, "{command}: {}", ran.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_help_is_an_error() {
    for words in ["--help", "-h", "--version", "run --help", "help gate", "bench clock -h"] {
        let home = tempfile::tempdir().unwrap();
        let help = || Osjitter::new(words.split(' ')).directory(home.path());
        let full = run_redirected(help(), ">/dev/full");
        let is_error = full.stderr.contains("error: cannot write to standard output");
        assert!(full.code == 4 && is_error, "{words}: {}", full.stderr);
        assert_eq!(run_redirected(help(), ">&-").code, 0, "{words}");
    }
}

#[test]
fn input_is_never_the_output() {
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    std::fs::create_dir(&run).unwrap();
    let copy = |name: &str| {
        let path = run.join(name);
        std::fs::copy("tests/fixtures/report.json", &path).unwrap();
        path
    };
    let (report, other) = (copy("report.json"), copy("other.json"));
    let before = listing(&run);
    let [run, report, other] = [&run, &report, &other].map(|path| path.to_str().unwrap());
    let sides = ["#os-interval", "#nanosleep"].map(|id| format!("{report}{id}"));
    for (args, out) in [
        (vec!["report", report], report),
        (vec!["report", run, "--format", "csv"], report),
        (vec!["report", other, report], report),
        (vec!["compare", &sides[0], &sides[1]], report),
        (vec!["merge", report, other], other),
        (vec!["doctor", "--import", report], report),
        (vec!["gate", "--subject", "nanosleep", "--limit", "p50=1s", "--report", report], run),
        (vec!["gate", "--subject", "nanosleep", "--limit", "p50=1s", "--report", run], run),
    ] {
        let refused =
            Osjitter::new(&args).args(["--force"]).out(out).run().refuses("it is an input");
        assert_eq!(refused.stderr.lines().count(), 1, "{args:?}: {}", refused.stderr);
        assert_eq!(listing(Path::new(run)), before, "{args:?}");
    }
    // Standard input is a file, whose path is known on Linux.
    #[cfg(target_os = "linux")]
    for (args, out) in [
        (vec!["report", "-", "--format", "csv"], report),
        (vec!["compare", "-", other], report),
        (vec!["merge", "-", other], report),
        (vec!["doctor", "--import", "-"], report),
        (vec!["gate", "--subject", "nanosleep", "--limit", "p50=1s", "--report", "-"], run),
    ] {
        let command = Osjitter::new(&args).args(["--force"]).out(out).input(Path::new(report));
        command.run().refuses("the file of standard input: it is an input");
        assert_eq!(listing(Path::new(run)), before, "{args:?}");
    }
}

#[cfg(unix)]
#[test]
fn failed_command_leaves_no_directory() {
    let home = tempfile::tempdir().unwrap();
    for out in [&[][..], &["--out", "a/b/c"]] {
        let gate = ["gate", "--metric", "wall", "--base-cmd", "true", "--candidate-cmd", "true"];
        let command = Osjitter::new(gate).args(["--min-run-time", "10s"]).args(out);
        command.directory(home.path()).run().exits(2);
        assert_eq!(listing(home.path()), [], "{out:?}");
    }
}

#[test]
fn long_paths_are_refused_at_once() {
    let home = tempfile::tempdir().unwrap();
    let long = home.path().join("d".repeat(300));
    for command in [
        "run --subject spin --ticks 200",
        "doctor --prove",
        "gate --a nanosleep --b spin",
        "find --period 1ms --subject nanosleep",
        "calibrate",
        "bench clock",
    ] {
        let to = [Path::new("--out"), &long];
        let ran = Osjitter::new(command.split(' ')).args(to).run();
        assert_eq!(ran.code, 2, "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains("nothing was run"), "{command}: {}", ran.stderr);
    }
    assert_eq!(listing(home.path()), []);
}

#[test]
fn full_disk_still_shows_the_result() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    let run = Osjitter::new(["run", "--subject", "spin", "--ticks", "200", "--out"]).args([out]);
    let ran = run.in_shell(r#"ulimit -f 1; exec "$0" "$@""#).run().exits(4);
    let is_explained = ran.stderr.contains("cannot write to") && ran.stderr.contains("out: ");
    assert!(is_explained, "{}", ran.stderr);
    assert!(ran.stdout.contains("spin"), "the table is there");
    assert_eq!(listing(home.path()), [], "nothing half written, nothing left behind");
}

#[test]
fn output_directory_appears_atomically() {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir().unwrap();
    let run = |out: &Path| {
        let run = ["run", "--quiet", "--subject", "spin", "--ticks", "20", "--force", "--out"];
        Osjitter::new(run).args([out]).run()
    };
    let elsewhere = write_file(home.path(), "elsewhere", "mine");
    let [fifo, link] = ["fifo", "link"].map(|name| home.path().join(name));
    [&fifo, &link].into_iter().for_each(|directory| std::fs::create_dir(directory).unwrap());
    assert!(Command::new("mkfifo").arg(fifo.join("report.json")).status().unwrap().success());
    symlink(&elsewhere, link.join("report.json")).unwrap();
    for out in [&fifo, &link] {
        run(out).refuses("is a link, or not a regular file");
    }
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "mine");
    let fresh = home.path().join("a/b");
    run(&fresh).exits(0);
    let files =
        |directory: &Path| listing(directory).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(
        files(&home.path().join("a")),
        std::slice::from_ref(&fresh),
        "no temporary directory remains"
    );
    // A second run into the same directory keeps other files.
    write_file(&fresh, "notes.txt", "mine");
    let before = files(&fresh);
    run(&fresh).exits(0);
    assert_eq!(files(&fresh), before);
}

/// With so few descriptors, neither another place nor another process is a remedy.
#[cfg(target_os = "linux")]
#[test]
fn scarce_descriptors_need_a_limit() {
    const OUT: [&str; 2] = ["--out", "out"];
    let commands: [(&[&str], &[&str]); 8] = [
        (&["run", "-q", "--subject", "spin", "--ticks", "20", "--period", "1ms"], &OUT),
        (&["find", "-q", "--subject", "spin", "--goal", "p50=1h", "--max-time", "1s"], &OUT),
        (&["gate", "-q", "--a", "spin", "--b", "spin", "--max-pairs", "24"], &OUT),
        (&["gate", "baseline", "add", "-q", "--subject", "spin"], &["out"]),
        (&["bench", "clock", "-q", "--threads", "1", "--order-reads", "9", "--drift", "1ms"], &OUT),
        (&["new-plan"], &["out"]),
        (&["monitor", "-q", "--budget", "400%", "--duration", "1s"], &["--log", "out"]),
        (&["trace", "-q", "--pid", "1", "--duration", "1s"], &OUT),
    ];
    for (command, out) in commands {
        let home = tempfile::tempdir().unwrap();
        let osjitter = Osjitter::new(command).args(out).directory(home.path());
        let osjitter = osjitter.env("TICKMETER_DIR", home.path());
        let ran = osjitter.in_shell(r#"ulimit -n 5; exec "$0" "$@""#).run();
        let (code, stderr) = (ran.code, ran.stderr);
        if stderr.contains("Too many open files") {
            assert_eq!(code, 4, "{command:?}: {stderr}");
            assert!(stderr.contains("ulimit -n 1024"), "{command:?}: {stderr}");
        }
        assert!(stderr.is_empty() || stderr.contains("Too many"), "{command:?}: {stderr}");
    }
}
