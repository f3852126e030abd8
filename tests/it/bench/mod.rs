//! `osjitter bench` from outside.

mod clock;
mod dispatch;
mod timeout;

use std::process::Command;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What `osjitter report` makes of the file of a bench.
fn again(file: &std::path::Path, more: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_osjitter")).arg("report").arg(file).args(more).output().expect("it runs");
    assert!(output.status.success(), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every picture beside the file is made again, to the byte.
fn same_pictures(file: &std::path::Path) {
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
