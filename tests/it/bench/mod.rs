//! `osjitter bench`: reports, formats and errors.

mod clock;
mod dispatch;
mod timeout;

use std::path::Path;

use serde_json::Value;

use crate::osjitter::Osjitter;
use crate::schema;

/// Returns the output of `osjitter report` for the file of a bench.
fn show(file: &Path, args: &[&str]) -> String {
    Osjitter::new(["report"]).args([file]).args(args).run().exits(0).stdout
}

/// Checks that `osjitter report` draws every picture next to the file again, byte for byte.
#[track_caller]
fn assert_same_pictures(file: &Path) {
    let directory = file.parent().unwrap();
    let single = file.with_extension("svg");
    if single.exists() {
        assert_eq!(show(file, &["--format", "svg"]), std::fs::read_to_string(single).unwrap());
        return;
    }
    let new = directory.join("redrawn");
    show(file, &["--format", "svg", "--out", new.to_str().unwrap()]);
    let mut pictures = 0;
    for entry in std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()) {
        if entry.extension().is_some_and(|e| e == "svg") {
            let redrawn = std::fs::read(new.join(entry.file_name().unwrap())).unwrap();
            assert_eq!(redrawn, std::fs::read(&entry).unwrap(), "{}", entry.display());
            pictures += 1;
        }
    }
    assert!(pictures > 0 && std::fs::read_dir(&new).unwrap().count() == pictures);
}

/// Parses a report and validates it against its published schema.
fn parse_valid(json: &str) -> Value {
    let report: Value = serde_json::from_str(json).unwrap();
    schema::valid(json, &format!("bench.1.{}", text(&report["bench"])))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Checks that each line of arguments exits with 2 and its message on stderr, and prints nothing to
/// stdout.
#[track_caller]
fn assert_usage_errors(command: &str, lines: &[(&[&str], &str)]) {
    for (args, message) in lines {
        Osjitter::new(["bench", command]).args(*args).run().refuses(message);
    }
}
