//! `osjitter bench` from outside.

mod clock;
mod dispatch;
mod timeout;

use std::path::Path;

use serde_json::Value;

use crate::osjitter::Osjitter;
use crate::schema;

/// What `osjitter report` makes of the file of a bench.
fn again(file: &Path, more: &[&str]) -> String {
    Osjitter::new(["report"]).args([file]).args(more).run().exits(0).stdout
}

/// Every picture beside the file is made again, to the byte.
fn same_pictures(file: &Path) {
    let directory = file.parent().unwrap();
    let new = directory.join("again");
    again(file, &["--format", "svg", "--out", new.to_str().unwrap()]);
    let mut pictures = 0;
    for entry in std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()) {
        if entry.extension().is_some_and(|e| e == "svg") {
            let made = std::fs::read(new.join(entry.file_name().unwrap())).unwrap();
            assert_eq!(made, std::fs::read(&entry).unwrap(), "{}", entry.display());
            pictures += 1;
        }
    }
    assert!(pictures > 0 && std::fs::read_dir(&new).unwrap().count() == pictures);
}

/// The report in a file, which is as its published schema says.
fn valid(json: &str) -> Value {
    let report: Value = serde_json::from_str(json).unwrap();
    schema::valid(json, &format!("bench.1.{}", text(&report["bench"])))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Each line of arguments exits 2, says why, and prints nothing else.
fn refused(command: &str, lines: &[(&[&str], &str)]) {
    for (args, says) in lines {
        let ran = Osjitter::new(["bench", command]).args(*args).run().exits(2);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(says), "{args:?}: {}", ran.stderr);
    }
}
