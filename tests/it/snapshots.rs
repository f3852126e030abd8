//! What people look at, held: the table, the Markdown and the structure of every picture of one fixed report.
//!
//! A change that is meant: `INSTA_UPDATE=always cargo test --test it`, and look at the difference.

use std::path::Path;
use std::process::Command;

const REPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/report.json");

fn report(args: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_osjitter")).arg("report").arg(REPORT).args(args).output().expect("it runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_table() {
    insta::assert_snapshot!(report(&[]));
}

#[test]
fn the_markdown() {
    insta::assert_snapshot!(report(&["--format", "markdown"]));
}

#[test]
fn the_pictures() {
    let home = tempfile::tempdir().unwrap();
    report(&["--format", "svg", "--out", home.path().to_str().unwrap()]);
    let mut files: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let all: Vec<String> = files.iter().map(|file| structure(file)).collect();
    insta::assert_snapshot!(all.join("\n"));
}

/// An SVG without its coordinates: what is drawn, in which colour, in which order, and every word of it. Equal
/// neighbours stand in one line with their number.
fn structure(file: &Path) -> String {
    let svg = std::fs::read_to_string(file).unwrap();
    let mut lines: Vec<(String, usize)> = Vec::new();
    for part in svg.split('<').skip(1).filter(|part| !part.starts_with('/')) {
        let (tag, text) = part.split_once('>').unwrap();
        let name = tag.split([' ', '/']).next().unwrap();
        let colours = ["fill", "stroke"].map(|key| {
            let value = tag.split_once(&format!(" {key}=\"")).and_then(|(_, rest)| rest.split('"').next());
            value.filter(|v| *v != "none").map_or(String::new(), |v| format!(" {key} {v}"))
        });
        let text = text.trim();
        let says = if text.is_empty() || name == "style" { String::new() } else { format!(": {text}") };
        let line = format!("{name}{}{says}", colours.concat());
        match lines.last_mut() {
            Some((last, n)) if *last == line => *n += 1,
            _ => lines.push((line, 1)),
        }
    }
    let body =
        lines.into_iter().map(|(line, n)| if n == 1 { format!("  {line}\n") } else { format!("  {line} ×{n}\n") });
    format!("{}\n{}", file.file_name().unwrap().display(), body.collect::<String>())
}
