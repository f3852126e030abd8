//! Tests of colours, details and the page on the terminal of a user.

use std::path::Path;

use crate::osjitter::Osjitter;
#[cfg(unix)]
use crate::process_control::poll_until;
#[cfg(unix)]
use crate::test_programs::write_executable;

const REPORT: &str = "results/2026-11-27-epyc-kvm-2cpu/report.json.gz";

fn report(args: &[&str]) -> Osjitter {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    Osjitter::new(["report", REPORT]).args(args).directory(directory)
}

/// Removes the escape sequences of colours.
fn without_colors(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split("\x1b[");
    plain += parts.next().unwrap_or_default();
    for part in parts {
        plain += part.split_once('m').expect("the end of a sequence").1;
    }
    plain
}

#[test]
fn tables_have_colors_on_request() {
    let plain = report(&["--color", "never"]).run().exits(0).stdout;
    let colored = report(&["--color", "always"]).run().exits(0).stdout;
    assert!(!plain.contains('\x1b') && colored.contains("\x1b[32m*"), "{colored:?}");
    assert_eq!(without_colors(&colored), plain);
    // A file has none.
    let written = report(&["--color", "always"]).out("table.txt").run().exits(0);
    assert_eq!(written.file("table.txt"), plain);
    let markdown = report(&["--color", "always", "--format", "markdown"]).run().exits(0).stdout;
    assert!(!markdown.contains('\x1b'), "{markdown:?}");
}

#[test]
fn verbose_names_files() {
    assert_eq!(report(&[]).run().exits(0).stderr, "");
    let ran = report(&["-v", "--format", "csv"]).out("rows.csv").run().exits(0);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines[0].starts_with(&format!("read {REPORT}: ")), "{lines:?}");
    assert!(lines[1].starts_with("wrote ") && lines[1].ends_with("rows.csv"), "{lines:?}");
    assert!(lines[2].starts_with("took "), "{lines:?}");
}

/// Writes a browser that writes the output of a command to a file, after the run may have ended.
#[cfg(unix)]
fn write_browser(browser: &Path, command: &str, file: &Path) {
    let file = file.display();
    let script = format!("#!/bin/sh\n({command}) >'{file}.new' && mv '{file}.new' '{file}'\n");
    write_executable(browser, script);
}

#[cfg(unix)]
fn wait_for_file(file: &Path) -> String {
    poll_until(|| std::fs::read_to_string(file).ok())
}

#[cfg(unix)]
#[test]
fn page_is_opened_in_browser() {
    let home = tempfile::tempdir().unwrap();
    let (browser, opened) = (home.path().join("browser"), home.path().join("opened"));
    write_browser(&browser, "echo \"$@\"", &opened);
    let run = |browser: &Path| {
        Osjitter::new(["run", "--subject", "nanosleep", "--ticks", "20", "--open"])
            .env("BROWSER", browser)
            .out("run")
            .run()
            .exits(0)
    };
    let ran = run(&browser);
    let page = ran.path("run/report.html").canonicalize().unwrap();
    assert_eq!(wait_for_file(&opened), format!("{}\n", page.display()));
    // The result is there, so a missing browser is no error.
    let ran = run(&home.path().join("missing"));
    assert!(ran.stderr.contains("warning: cannot open "), "{}", ran.stderr);
}

/// The browser outlives the run, so that it must not keep the settings of the measuring thread.
#[cfg(target_os = "linux")]
#[test]
fn browser_does_not_inherit_settings() {
    const READ: &str = "cat /proc/self/timerslack_ns; grep Cpus_allowed_list /proc/self/status";
    let home = tempfile::tempdir().unwrap();
    let (browser, found) = (home.path().join("browser"), home.path().join("found"));
    write_browser(&browser, READ, &found);
    let cpu = engine::machine::os::affinity().expect("CPUs")[0].to_string();
    let settings = ["--timer-slack", "777us", "--cpu", &cpu];
    Osjitter::new(["run", "--subject", "nanosleep", "--ticks", "20", "--open"])
        .args(settings)
        .env("BROWSER", &browser)
        .out("run")
        .run()
        .exits(0);
    let own = std::process::Command::new("sh").args(["-c", READ]).output().unwrap();
    assert_eq!(wait_for_file(&found), String::from_utf8(own.stdout).unwrap());
}
